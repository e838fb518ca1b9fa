//! The largest packet that gets through to the peer whole, and back, by echo datagrams that nobody may fragment.
//!
//! Each round ends with a short datagram: when that is answered and a long one sent before it is not, the long one was lost for its
//! length or by chance, whatever the round-trip time is and however busy the hosts are. Chance is excluded by repetition.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::net::echo::{derive_key, sized_reply, sized_request, DATAGRAM_BYTES, LONGEST_BYTES};
use crate::net::tcp::Binding;
use fairlead_protocol::limits::ECHO_KEY_BYTES;

/// Rounds in which a length must go unanswered. Where a tenth of all packets is lost, there and back, that happens by chance once in
/// some thousand times, and before a path counts as too small its full length has to fail twice.
const LOSSES: usize = 5;
/// What every path carries (RFC 791, section 3.1): where even that goes unanswered, lengths are not what is wrong.
const LEAST_MTU_BYTES: u32 = 576;
/// Rounds without any answer after which the echo service counts as unreachable.
const SILENCES: usize = 4;
/// Lengths that are tried at once.
const CANDIDATES: u32 = 8;
/// Least wait for an answer, and for long ones after the short one. After each silence it is twice as long: hosts that are busy, or a
/// process that is held up, answer late.
const PATIENCE: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(20);
/// Answers that are read after the time for them, because they came while this process was held up.
const OVERDUE: usize = 64;

/// A packet: its length in bytes with IP and UDP headers, and whether the answer is as long.
pub(super) type Probe = (u32, bool);

/// What was found, in bytes of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathMtu {
    /// Packets of the wanted length get through both ways.
    Whole,
    /// The longest that get through to the peer are shorter.
    There(u32),
    /// Those to the peer get through; the longest that get back are shorter.
    Back(u32),
    /// The echo service does not answer, so that nothing can be said.
    Silent,
}

/// Measures with `round`, which sends the packets and returns those that were answered, or nothing if not even a short one was.
/// `shortest` is the length of that.
pub(super) fn measure(
    wanted: u32,
    shortest: u32,
    round: &mut impl FnMut(&[Probe]) -> Option<BTreeSet<Probe>>,
) -> PathMtu {
    let Some(whole) = answered(&[(wanted, true), (wanted, false)], round) else { return PathMtu::Silent };
    if whole.contains(&(wanted, true)) {
        return PathMtu::Whole;
    }
    let back = whole.contains(&(wanted, false));
    let Some(longest) = longest(wanted, shortest, back, round) else { return PathMtu::Silent };
    // By now the path may have answered late, or the losses were chance after all.
    match answered(&[(wanted, back)], round) {
        None => PathMtu::Silent,
        Some(arrived) if arrived.is_empty() && longest < LEAST_MTU_BYTES => PathMtu::Silent,
        Some(arrived) if arrived.is_empty() && back => PathMtu::Back(longest),
        Some(arrived) if arrived.is_empty() => PathMtu::There(longest),
        Some(_) => PathMtu::Whole,
    }
}

/// The longest below `wanted` that is answered; nothing if the service fell silent.
fn longest(
    wanted: u32,
    shortest: u32,
    equal: bool,
    round: &mut impl FnMut(&[Probe]) -> Option<BTreeSet<Probe>>,
) -> Option<u32> {
    let (mut low, mut high) = (shortest, wanted);
    while high - low > 1 {
        let step = (high - low).div_ceil(CANDIDATES + 1);
        let candidates: Vec<Probe> =
            (1..).map(|n| low + n * step).take_while(|length| *length < high).map(|length| (length, equal)).collect();
        let arrived = answered(&candidates, round)?;
        low = arrived.last().map_or(low, |(length, _)| *length);
        high = candidates.iter().map(|(length, _)| *length).find(|length| *length > low).unwrap_or(high);
    }
    Some(low)
}

/// Those of the packets that are answered in one of several rounds; nothing if the service is silent.
fn answered(probes: &[Probe], round: &mut impl FnMut(&[Probe]) -> Option<BTreeSet<Probe>>) -> Option<BTreeSet<Probe>> {
    let (mut arrived, mut losses, mut silences) = (BTreeSet::new(), 0, 0);
    while losses < LOSSES {
        let open: Vec<Probe> = probes.iter().filter(|probe| !arrived.contains(*probe)).copied().collect();
        if open.is_empty() {
            break;
        }
        match round(&open) {
            Some(more) => {
                arrived.extend(more);
                losses += 1;
            }
            None if silences + 1 == SILENCES => return None,
            None => silences += 1,
        }
    }
    Some(arrived)
}

/// Sends echo datagrams over the path that the data will take.
pub(super) struct EchoProber {
    socket: UdpSocket,
    key: [u8; 32],
    header_bytes: u32,
    ipv6: bool,
    rtt: Duration,
    sequence: u64,
    silences: u32,
}

impl EchoProber {
    /// `rtt` is the path's, as far as it is known.
    pub(super) fn new(
        peer: SocketAddr,
        binding: &Binding,
        echo_key: &[u8; ECHO_KEY_BYTES],
        rtt: Duration,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        if let Some(interface) = &binding.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(address) = binding.address {
            socket.bind(&SocketAddr::new(address, 0).into())?;
        }
        socket.connect(&peer.into())?;
        let ipv6 = peer.is_ipv6();
        fairlead_sys::probe_path_mtu(&socket, ipv6)?;
        let header_bytes = if ipv6 { 48 } else { 28 };
        Ok(Self { socket: socket.into(), key: derive_key(echo_key), header_bytes, ipv6, rtt, sequence: 0, silences: 0 })
    }

    /// Length of the shortest packet.
    pub(super) fn shortest(&self) -> u32 {
        self.header_bytes + DATAGRAM_BYTES as u32
    }

    /// Length of the longest packet.
    pub(super) fn longest(&self) -> u32 {
        self.header_bytes + LONGEST_BYTES as u32
    }

    /// The path MTU that a router has told the kernel, or the interface's.
    pub(super) fn known_path_mtu(&self) -> Option<u32> {
        fairlead_sys::known_path_mtu(&self.socket, self.ipv6).ok()
    }

    /// Sends the packets and then a short one, and returns which were answered.
    pub(super) fn round(&mut self, probes: &[Probe]) -> Option<BTreeSet<Probe>> {
        let first = self.sequence;
        let short = first + probes.len() as u64;
        for (length, equal) in probes.iter().copied().chain([(self.shortest(), false)]) {
            let bytes = length.saturating_sub(self.header_bytes) as usize;
            let request = sized_request(self.sequence, bytes, equal, &self.key);
            self.sequence += 1;
            // What a router says of an earlier packet is an error of the next call, whichever that is.
            if self.socket.send(&request).is_err() {
                let _ = self.socket.send(&request);
            }
        }
        let mut arrived = BTreeSet::new();
        let (mut is_short_back, mut overdue) = (false, 0);
        let mut deadline = Instant::now() + PATIENCE.max(8 * self.rtt) * 2u32.pow(self.silences);
        let mut buffer = vec![0; LONGEST_BYTES];
        while !(is_short_back && arrived.len() == probes.len()) {
            let left = deadline.saturating_duration_since(Instant::now());
            overdue += usize::from(left.is_zero());
            if overdue > OVERDUE || self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).is_err() {
                break;
            }
            let bytes = match self.socket.recv(&mut buffer) {
                Ok(bytes) => bytes,
                Err(_) if left.is_zero() => break,
                Err(_) => continue,
            };
            let Some(sequence) = sized_reply(&buffer[..bytes], &self.key) else { continue };
            if sequence == short {
                is_short_back = true;
                deadline = deadline.min(Instant::now() + GRACE.max(self.rtt / 2));
            } else if let Some(probe) = sequence.checked_sub(first).and_then(|at| probes.get(at as usize)) {
                arrived.insert(*probe);
            }
        }
        let answered = is_short_back || !arrived.is_empty();
        self.silences = if answered { 0 } else { (self.silences + 1).min(SILENCES as u32) };
        answered.then_some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::echo::reply;

    /// A path that lets packets of these lengths through there and back, and loses so many per cent in either direction.
    fn path(there: u32, back: u32, lost_percent: u64, seed: u64) -> impl FnMut(&[Probe]) -> Option<BTreeSet<Probe>> {
        let mut state = seed;
        move |probes| {
            let mut passes = |length: u32, most: u32| {
                // SplitMix64.
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                length <= most && (mixed ^ (mixed >> 31)) % 100 >= lost_percent
            };
            let answered = |(length, equal): &Probe| passes(*length, there) && (!equal || passes(*length, back));
            Some(probes.iter().copied().filter(answered).collect())
        }
    }

    #[test]
    fn the_longest_packet_of_each_direction_is_found_to_the_byte() {
        for (wanted, there, back, found) in [
            (1500, 1500, 1500, PathMtu::Whole),
            (1500, 9000, 9000, PathMtu::Whole),
            (1500, 1400, 1500, PathMtu::There(1400)),
            (1500, 1499, 1499, PathMtu::There(1499)),
            (9000, 1500, 1500, PathMtu::There(1500)),
            (9000, 9000, 1500, PathMtu::Back(1500)),
            (9000, 8999, 8999, PathMtu::There(8999)),
            (65_535, 577, 577, PathMtu::There(577)),
            (1500, 76, 76, PathMtu::Silent),
            (77, 76, 76, PathMtu::Silent),
        ] {
            assert_eq!(measure(wanted, 76, &mut path(there, back, 0, 1)), found, "{wanted} over {there}/{back}");
        }
    }

    #[test]
    fn losses_are_not_taken_for_a_small_path() {
        for seed in 0..500 {
            assert_eq!(measure(9000, 76, &mut path(9000, 9000, 10, seed)), PathMtu::Whole, "seed {seed}");
            let found = measure(9000, 76, &mut path(1500, 1500, 5, seed));
            assert_eq!(found, PathMtu::There(1500), "seed {seed}");
        }
    }

    #[test]
    fn a_service_that_is_silent_is_given_more_time_and_is_heard_when_it_answers() {
        let service = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (peer, key) = (service.local_addr().unwrap(), [7; ECHO_KEY_BYTES]);
        let mut prober = EchoProber::new(peer, &Binding::default(), &key, Duration::ZERO).unwrap();
        for patience in [PATIENCE, 2 * PATIENCE] {
            let began = Instant::now();
            assert_eq!(prober.round(&[]), None);
            assert!(began.elapsed() >= patience);
        }
        std::thread::spawn(move || {
            let mut buffer = [0; LONGEST_BYTES];
            loop {
                let (bytes, sender) = service.recv_from(&mut buffer).unwrap();
                let answer = reply(&buffer[..bytes], &derive_key(&key)).unwrap();
                service.send_to(&answer, sender).unwrap();
            }
        });
        while prober.round(&[]) != Some(BTreeSet::new()) {}
        assert_eq!(prober.silences, 0);
    }

    #[test]
    fn without_answers_nothing_is_said() {
        assert_eq!(measure(1500, 76, &mut |_: &[Probe]| None), PathMtu::Silent);
        let mut rounds = 0;
        let mut falls_silent = |_: &[Probe]| {
            rounds += 1;
            (rounds <= LOSSES).then(BTreeSet::new)
        };
        assert_eq!(measure(1500, 76, &mut falls_silent), PathMtu::Silent);
    }
}
