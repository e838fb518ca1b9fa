//! The echo service: answers the authenticated sender's keyed datagrams with at most as many bytes as it got, at a bounded rate.
//!
//! Version 1 has requests and replies of 48 bytes. Requests of version 2 have any length, to find the path MTU; who asks chooses
//! between a reply of 48 bytes and one of equal length.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlead_protocol::limits::{ECHO_KEY_BYTES, PATHS};
use socket2::{Domain, Protocol, Socket, Type};

use crate::threads::lock;

/// Bytes of a request and of a reply of version 1, and the fewest of version 2.
pub(crate) const DATAGRAM_BYTES: usize = 48;
/// Most bytes of a datagram: the length of an IPv4 packet with its header has 16 bits.
pub(crate) const LONGEST_BYTES: usize = 65_507;
const TAGGED_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"FLE1";
const VERSION: u8 = 1;
/// With a length in bytes 6 and 7, and zeros after the tag up to it.
const SIZED_VERSION: u8 = 2;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
/// A request of version 2 whose reply is as long.
const EQUAL_REQUEST: u8 = 3;
const EQUAL_REPLY: u8 = 4;
/// Most replies in a second.
const RATE: f64 = 200.0;
const POLL: Duration = Duration::from_millis(100);

/// The reply to a datagram, if it is a valid request; never longer than that.
pub(crate) fn reply(request: &[u8], key: &[u8; 32]) -> Option<Vec<u8>> {
    let (head, tag) = request.get(..DATAGRAM_BYTES)?.split_at(TAGGED_BYTES);
    let length = u16::from_be_bytes([head[6], head[7]]);
    let (kind, bytes) = match (head[4], head[5], length) {
        (VERSION, REQUEST, 0) if request.len() == DATAGRAM_BYTES => (REPLY, DATAGRAM_BYTES),
        (SIZED_VERSION, REQUEST, length) if usize::from(length) == request.len() => (REPLY, DATAGRAM_BYTES),
        (SIZED_VERSION, EQUAL_REQUEST, length) if usize::from(length) == request.len() => (EQUAL_REPLY, request.len()),
        _ => return None,
    };
    if head[..4] != MAGIC || !same(&tag_of(head, key), tag) {
        return None;
    }
    let mut answer = vec![0; bytes];
    answer[..TAGGED_BYTES].copy_from_slice(head);
    answer[5] = kind;
    sign(&mut answer, key);
    Some(answer)
}

/// A request of version 2 in a datagram of `bytes`, from `DATAGRAM_BYTES` to `LONGEST_BYTES`; with `equal` the reply is as long.
pub(crate) fn sized_request(sequence: u64, bytes: usize, equal: bool, key: &[u8; 32]) -> Vec<u8> {
    let bytes = bytes.clamp(DATAGRAM_BYTES, LONGEST_BYTES);
    let mut request = vec![0; bytes];
    request[..4].copy_from_slice(&MAGIC);
    request[4] = SIZED_VERSION;
    request[5] = if equal { EQUAL_REQUEST } else { REQUEST };
    request[6..8].copy_from_slice(&(bytes as u16).to_be_bytes());
    request[8..16].copy_from_slice(&sequence.to_be_bytes());
    sign(&mut request, key);
    request
}

/// The sequence of a valid reply of version 2.
pub(crate) fn sized_reply(reply: &[u8], key: &[u8; 32]) -> Option<u64> {
    let (head, tag) = reply.get(..DATAGRAM_BYTES)?.split_at(TAGGED_BYTES);
    let length = usize::from(u16::from_be_bytes([head[6], head[7]]));
    let fits = match head[5] {
        REPLY => reply.len() == DATAGRAM_BYTES,
        EQUAL_REPLY => reply.len() == length,
        _ => false,
    };
    if !fits || head[..4] != MAGIC || head[4] != SIZED_VERSION || !same(&tag_of(head, key), tag) {
        return None;
    }
    Some(u64::from_be_bytes(head[8..16].try_into().ok()?))
}

fn sign(datagram: &mut [u8], key: &[u8; 32]) {
    let tag = tag_of(&datagram[..TAGGED_BYTES], key);
    datagram[TAGGED_BYTES..DATAGRAM_BYTES].copy_from_slice(&tag);
}

/// The key for tags from the job's echo key.
pub(crate) fn derive_key(echo_key: &[u8; ECHO_KEY_BYTES]) -> [u8; 32] {
    blake3::derive_key("fairlead echo v1", echo_key)
}

fn tag_of(head: &[u8], key: &[u8; 32]) -> [u8; 24] {
    let mut tag = [0; 24];
    tag.copy_from_slice(&blake3::keyed_hash(key, head).as_bytes()[..24]);
    tag
}

/// Compares in a time that does not depend on the content.
fn same(left: &[u8; 24], right: &[u8]) -> bool {
    left.iter().zip(right).fold(0, |differences, (l, r)| differences | (l ^ r)) == 0
}

/// Replies that may be sent at a time since the start: a bucket of one second's worth.
pub(crate) struct Allowance {
    tokens: f64,
    at: Duration,
}

impl Allowance {
    pub(crate) fn new() -> Self {
        Self { tokens: RATE, at: Duration::ZERO }
    }

    /// Takes one reply's allowance at `now`.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let earned = now.saturating_sub(self.at).as_secs_f64() * RATE;
        self.tokens = (self.tokens + earned).min(RATE);
        self.at = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

/// A socket for the service, which answers through this interface if one is named.
pub(crate) fn bind_echo(place: SocketAddr, interface: Option<&str>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(place), Type::DGRAM, Some(Protocol::UDP))?;
    interface.map_or(Ok(()), |name| socket.bind_device(Some(name.as_bytes())))?;
    socket.bind(&place.into())?;
    Ok(socket.into())
}

/// The service; silent until a peer is admitted.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    admitted: Arc<Mutex<Admitted>>,
}

/// Whom the service answers.
#[derive(Default)]
struct Admitted {
    peers: Vec<IpAddr>,
    closed: bool,
}

impl Admitted {
    fn has(&self, from: SocketAddr) -> bool {
        self.peers.contains(&from.ip().to_canonical())
    }
}

/// Answers requests; silent until a peer is admitted.
pub(crate) struct Answerer {
    admitted: Arc<Mutex<Admitted>>,
    key: [u8; 32],
    started: Instant,
    allowance: Allowance,
}

impl Answerer {
    /// Whether a datagram begins as a request does.
    pub(crate) fn may_be_asked(datagram: &[u8]) -> bool {
        datagram.starts_with(&MAGIC)
    }

    /// The answer to a datagram, if it is a request of the sender's.
    pub(crate) fn answer(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if !lock(&self.admitted).has(from) {
            return None;
        }
        let answer = reply(datagram, &self.key)?;
        self.allowance.take(self.started.elapsed()).then_some(answer)
    }
}

impl Echo {
    /// What answers on one socket.
    pub(crate) fn answerer(&self, echo_key: &[u8; ECHO_KEY_BYTES]) -> Answerer {
        let (admitted, key) = (Arc::clone(&self.admitted), derive_key(echo_key));
        Answerer { admitted, key, started: Instant::now(), allowance: Allowance::new() }
    }

    /// Answers this address of the authenticated sender as well, at most one for each path.
    pub(crate) fn admit(&self, peer: IpAddr) {
        let mut admitted = lock(&self.admitted);
        let peer = peer.to_canonical();
        if !admitted.closed && admitted.peers.len() < PATHS && !admitted.peers.contains(&peer) {
            admitted.peers.push(peer);
        }
    }

    /// Answers nobody any more.
    pub(crate) fn close(&self) {
        *lock(&self.admitted) = Admitted { peers: Vec::new(), closed: true };
    }

    /// Starts the thread on the bound socket, until `stop` is set.
    pub(crate) fn start(
        &self,
        socket: UdpSocket,
        echo_key: &[u8; ECHO_KEY_BYTES],
        stop: Arc<AtomicBool>,
    ) -> io::Result<()> {
        socket.set_read_timeout(Some(POLL))?;
        // A reply as long as its request tells something only if it is not sent in fragments.
        fairlead_sys::probe_path_mtu(&socket, socket.local_addr()?.is_ipv6())?;
        let mut answerer = self.answerer(echo_key);
        let serve = move || {
            let mut buffer = vec![0; LONGEST_BYTES];
            while !stop.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answerer.answer(from, &buffer[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        std::thread::Builder::new().name("echo".into()).spawn(serve)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: &[u8; 32]) -> [u8; DATAGRAM_BYTES] {
        let mut bytes = [0; DATAGRAM_BYTES];
        bytes[..6].copy_from_slice(b"FLE1\x01\x01");
        bytes[8..16].copy_from_slice(&7u64.to_be_bytes());
        bytes[16..24].copy_from_slice(&99u64.to_be_bytes());
        let tag = tag_of(&bytes[..24], key);
        bytes[24..].copy_from_slice(&tag);
        bytes
    }

    #[test]
    fn a_reply_repeats_sequence_and_time_under_its_own_tag() {
        let key = derive_key(&[3; 16]);
        let answer = reply(&request(&key), &key).unwrap();
        assert_eq!(answer[..6], *b"FLE1\x01\x02");
        assert_eq!(answer[8..24], request(&key)[8..24]);
        assert_eq!(answer[24..], tag_of(&answer[..24], &key));
    }

    #[test]
    fn a_sized_request_is_answered_by_no_more_bytes_than_it_has() {
        let key = derive_key(&[3; 16]);
        for bytes in [DATAGRAM_BYTES, 1472, LONGEST_BYTES] {
            for (equal, answered) in [(false, DATAGRAM_BYTES), (true, bytes)] {
                let asked = sized_request(7, bytes, equal, &key);
                let answer = reply(&asked, &key).unwrap();
                assert_eq!((asked.len(), answer.len()), (bytes, answered));
                assert_eq!(sized_reply(&answer, &key), Some(7));
                assert_eq!(reply(&asked[..bytes - 1], &key), None, "cut on its way");
                assert_eq!(reply(&answer, &key), None, "a reply is no request");
                assert_eq!(sized_reply(&asked, &key), None, "a request is no reply");
            }
        }
        for at in 0..DATAGRAM_BYTES {
            let mut bad = sized_request(7, 100, true, &key);
            bad[at] ^= 1;
            assert_eq!(reply(&bad, &key), None, "byte {at}");
        }
    }

    #[test]
    fn nothing_but_a_valid_request_is_answered() {
        let key = derive_key(&[3; 16]);
        for at in 0..DATAGRAM_BYTES {
            let mut bad = request(&key);
            bad[at] ^= 1;
            assert_eq!(reply(&bad, &key), None, "byte {at}");
        }
        assert_eq!(reply(&request(&key)[..47], &key), None);
        assert_eq!(reply(&reply(&request(&key), &key).unwrap(), &key), None, "a reply is no request");
    }

    #[test]
    fn the_sender_is_answered_from_each_of_its_addresses_until_the_end_and_nobody_else() {
        let echo = Echo::default();
        let address = |last: u8| IpAddr::from([198, 18, 0, last]);
        let is_answered = |from: IpAddr| lock(&echo.admitted).has(SocketAddr::new(from, 9));
        assert!(!is_answered(address(1)), "before anybody is authenticated");
        (1..=PATHS as u8 + 1).for_each(|last| echo.admit(address(last)));
        assert!(is_answered(address(1)) && is_answered("::ffff:198.18.0.2".parse().unwrap()));
        assert!(!is_answered(address(PATHS as u8 + 1)), "a transfer has no more paths");
        echo.close();
        echo.admit(address(1));
        assert!(!is_answered(address(1)), "a connection that was greeted late opens nothing again");
    }

    #[test]
    fn replies_are_bounded_in_rate() {
        let mut allowance = Allowance::new();
        let within = |allowance: &mut Allowance, from: u64| {
            (from..from + 1000).filter(|ms| allowance.take(Duration::from_millis(*ms))).count()
        };
        assert!(within(&mut allowance, 0) <= 400);
        assert!((199..=201).contains(&within(&mut allowance, 1000)));
    }
}
