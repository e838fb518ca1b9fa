//! Packets on the wire: a data packet, or one of the control packets (draft, section 3). All numbers are big-endian.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::sequence::SEQUENCES;

/// Bytes of every packet's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the headers of IPv4 and UDP, which the size of a packet in a handshake includes.
pub const IP_UDP_BYTES: u32 = 28;
/// The version that this is.
pub const VERSION: u32 = 4;
/// Bytes of a handshake behind its header.
pub const HANDSHAKE_BYTES: usize = 48;

const CONTROL: u32 = 1 << 31;
/// A range in a list of losses begins with its first number and this bit.
const RANGE: u32 = 1 << 31;
/// A message of one packet, as each is in a stream.
const SOLE: u32 = 0b11 << 30;
const MESSAGES: u32 = (1 << 29) - 1;
/// Behind the header of control packets without content: libudt sends it and asks for it.
const PAD_BYTES: usize = 4;

/// What of a socket is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketType {
    /// Bytes in order.
    Stream,
    /// Messages.
    Datagram,
}

/// What a handshake is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRequest {
    /// The first request of a client, and the answer that gives it its cookie.
    Ask,
    /// The request with the cookie, and the answer by which the connection is made.
    Agree,
    /// The connection is refused.
    Refuse,
    /// What is not known here.
    Other(i32),
}

/// What both ends agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Of the protocol.
    pub version: u32,
    /// Nothing if it is not known.
    pub socket_type: Option<SocketType>,
    /// Of the first packet.
    pub first_sequence: u32,
    /// Largest packet with the headers of IP and UDP.
    pub packet_bytes: u32,
    /// Packets that may be under way.
    pub window_packets: u32,
    /// What it is for.
    pub request: HandshakeRequest,
    /// The socket that sent it.
    pub socket_id: u32,
    /// Shows that the client is where it says.
    pub cookie: u32,
    /// The address it is sent to.
    pub peer: IpAddr,
}

/// An acknowledgement: everything before `sequence` has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Of the acknowledgement; 0 for a light one, which is not acknowledged itself.
    pub number: u32,
    /// The first packet that has not come.
    pub sequence: u32,
    /// Round-trip time with its variation and the free buffer; a light acknowledgement has none.
    pub path: Option<AckPath>,
    /// Measured rates; not in every acknowledgement.
    pub rates: Option<AckRates>,
}

/// What the receiver knows of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckPath {
    /// Microseconds.
    pub rtt_us: u32,
    /// Microseconds.
    pub rtt_variation_us: u32,
    /// Packets that the receiver has room for.
    pub free_packets: u32,
}

/// What the receiver measured, in packets per second; 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRates {
    /// At which packets come.
    pub arrival_packets_per_second: u32,
    /// Which the link could carry.
    pub capacity_packets_per_second: u32,
}

/// What a packet is, beside its time and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketKind<'a> {
    /// Bytes of the stream.
    Data {
        /// Of this packet.
        sequence: u32,
        /// Bytes.
        payload: &'a [u8],
    },
    /// Begins a connection.
    Handshake(Handshake),
    /// Says that its sender is there.
    KeepAlive,
    /// Acknowledges packets.
    Ack(Ack),
    /// Acknowledges the acknowledgement of this number.
    Ack2(u32),
    /// Names lost packets.
    Nak(Losses<'a>),
    /// Ends the connection.
    Shutdown,
    /// A control packet that has no meaning here.
    Other(u16),
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is.
    pub kind: PacketKind<'a>,
    /// Microseconds since its sender's connection began.
    pub time_us: u32,
    /// The socket it is for.
    pub destination: u32,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer bytes than its kind has.
    #[error("a packet of UDT is cut short")]
    Short,
}

/// A list of lost packets as it is on the wire: a number, or the first number of a range and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses<'a>(&'a [u8]);

impl<'a> Losses<'a> {
    /// The ranges, first and last number. One that is cut short or nonsense is left out.
    pub fn ranges(self) -> impl Iterator<Item = RangeInclusive<u32>> + 'a {
        let mut words =
            self.0.chunks_exact(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        std::iter::from_fn(move || loop {
            let word = words.next()?;
            if word & RANGE == 0 {
                return Some(word..=word);
            }
            let (first, last) = (word & !RANGE, words.next()?);
            if last & RANGE == 0 {
                return Some(first..=last);
            }
        })
    }

    /// Writes ranges as far as they fit into `most` bytes; returns how many did.
    pub fn write(ranges: impl Iterator<Item = RangeInclusive<u32>>, most: usize, bytes: &mut Vec<u8>) -> usize {
        let (end, mut written) = (bytes.len() + most, 0);
        for range in ranges {
            let (first, last) = (*range.start(), *range.end());
            let needed = if first == last { 4 } else { 8 };
            if bytes.len() + needed > end {
                break;
            }
            if first == last {
                bytes.extend(first.to_be_bytes());
            } else {
                bytes.extend((first | RANGE).to_be_bytes());
                bytes.extend(last.to_be_bytes());
            }
            written += 1;
        }
        written
    }
}

impl SocketType {
    fn on_wire(kind: Option<Self>) -> u32 {
        match kind {
            Some(Self::Stream) => 1,
            Some(Self::Datagram) => 2,
            None => 0,
        }
    }

    fn of(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::Stream),
            2 => Some(Self::Datagram),
            _ => None,
        }
    }
}

impl HandshakeRequest {
    const REFUSE: i32 = 1002;

    fn on_wire(self) -> i32 {
        match self {
            Self::Ask => 1,
            Self::Agree => -1,
            Self::Refuse => Self::REFUSE,
            Self::Other(number) => number,
        }
    }

    fn of(number: i32) -> Self {
        match number {
            1 => Self::Ask,
            -1 => Self::Agree,
            Self::REFUSE => Self::Refuse,
            other => Self::Other(other),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, PacketError> {
    let part = bytes.get(4 * at..4 * at + 4).ok_or(PacketError::Short)?;
    Ok(u32::from_be_bytes([part[0], part[1], part[2], part[3]]))
}

impl Handshake {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let words = [
            self.version,
            SocketType::on_wire(self.socket_type),
            self.first_sequence,
            self.packet_bytes,
            self.window_packets,
            self.request.on_wire() as u32,
            self.socket_id,
            self.cookie,
        ];
        words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        // libudt has the address in words of a little-endian machine.
        let mut address = [0; 16];
        match self.peer {
            IpAddr::V4(peer) => address[..4].copy_from_slice(&peer.octets()),
            IpAddr::V6(peer) => address = peer.octets(),
        }
        address.chunks_exact(4).for_each(|word| bytes.extend(word.iter().rev()));
    }

    fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let bytes = bytes.get(..HANDSHAKE_BYTES).ok_or(PacketError::Short)?;
        let mut address = [0; 16];
        address.copy_from_slice(&bytes[32..]);
        address.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        let peer = if address[4..].iter().all(|byte| *byte == 0) {
            IpAddr::from([address[0], address[1], address[2], address[3]])
        } else {
            IpAddr::from(address)
        };
        Ok(Self {
            version: word(bytes, 0)?,
            socket_type: SocketType::of(word(bytes, 1)?),
            first_sequence: word(bytes, 2)? & (SEQUENCES - 1),
            packet_bytes: word(bytes, 3)?,
            window_packets: word(bytes, 4)?,
            request: HandshakeRequest::of(word(bytes, 5)? as i32),
            socket_id: word(bytes, 6)?,
            cookie: word(bytes, 7)?,
            peer,
        })
    }
}

impl Ack {
    fn decode(number: u32, bytes: &[u8]) -> Result<Self, PacketError> {
        let sequence = word(bytes, 0)? & (SEQUENCES - 1);
        let at = |place| word(bytes, place);
        let path = match (at(1), at(2), at(3)) {
            (Ok(rtt_us), Ok(rtt_variation_us), Ok(free_packets)) => {
                Some(AckPath { rtt_us, rtt_variation_us, free_packets })
            }
            _ => None,
        };
        let rates = match (at(4), at(5)) {
            (Ok(arrival_packets_per_second), Ok(capacity_packets_per_second)) => {
                Some(AckRates { arrival_packets_per_second, capacity_packets_per_second })
            }
            _ => None,
        };
        Ok(Self { number, sequence, path, rates })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut put = |word: u32| bytes.extend(word.to_be_bytes());
        put(self.sequence);
        let Some(path) = self.path else { return };
        [path.rtt_us, path.rtt_variation_us, path.free_packets].into_iter().for_each(&mut put);
        let Some(rates) = self.rates else { return };
        [rates.arrival_packets_per_second, rates.capacity_packets_per_second].into_iter().for_each(put);
    }
}

impl<'a> Packet<'a> {
    /// Reads a packet; bytes behind what its kind has are left aside.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let [first, second, time_us, destination] =
            [word(bytes, 0)?, word(bytes, 1)?, word(bytes, 2)?, word(bytes, 3)?];
        let body = &bytes[HEADER_BYTES..];
        let kind = if first & CONTROL == 0 {
            PacketKind::Data { sequence: first, payload: body }
        } else {
            match (first & !CONTROL) >> 16 {
                0 => PacketKind::Handshake(Handshake::decode(body)?),
                1 => PacketKind::KeepAlive,
                2 => PacketKind::Ack(Ack::decode(second, body)?),
                3 => PacketKind::Nak(Losses(body)),
                5 => PacketKind::Shutdown,
                6 => PacketKind::Ack2(second),
                other => PacketKind::Other(other as u16),
            }
        };
        Ok(Self { kind, time_us, destination })
    }

    /// Appends the packet.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let control = |number: u32| CONTROL | number << 16;
        let (first, second) = match &self.kind {
            PacketKind::Data { sequence, .. } => (sequence & !CONTROL, SOLE | (sequence.wrapping_add(1) & MESSAGES)),
            PacketKind::Handshake(_) => (control(0), 0),
            PacketKind::KeepAlive => (control(1), 0),
            PacketKind::Ack(ack) => (control(2), ack.number),
            PacketKind::Nak(_) => (control(3), 0),
            PacketKind::Shutdown => (control(5), 0),
            PacketKind::Ack2(number) => (control(6), *number),
            PacketKind::Other(number) => (control(u32::from(*number) & 0x7fff), 0),
        };
        [first, second, self.time_us, self.destination].iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        match &self.kind {
            PacketKind::Data { payload, .. } => bytes.extend_from_slice(payload),
            PacketKind::Handshake(handshake) => handshake.encode(bytes),
            PacketKind::Ack(ack) => ack.encode(bytes),
            PacketKind::Nak(losses) => bytes.extend_from_slice(losses.0),
            PacketKind::KeepAlive | PacketKind::Shutdown | PacketKind::Ack2(_) | PacketKind::Other(_) => {
                bytes.extend([0; PAD_BYTES])
            }
        }
    }
}

impl<'a> From<&'a [u8]> for Losses<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(kind: PacketKind<'_>) {
        let packet = Packet { kind, time_us: 7, destination: 9 };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        assert_eq!(Packet::decode(&bytes).as_ref(), Ok(&packet));
    }

    #[test]
    fn packets_are_as_the_draft_has_them() {
        let mut bytes = Vec::new();
        Packet { kind: PacketKind::Ack2(5), time_us: 1, destination: 2 }.encode(&mut bytes);
        assert_eq!(bytes, [0x80, 6, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
        bytes.clear();
        Losses::write([3..=3, 5..=9].into_iter(), 100, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 3, 0x80, 0, 0, 5, 0, 0, 0, 9]);
        bytes.clear();
        let data = PacketKind::Data { sequence: 1, payload: b"x" };
        Packet { kind: data, time_us: 0, destination: 0 }.encode(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 1, 0xc0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, b'x']);
    }

    #[test]
    fn every_kind_is_read_as_it_was_written() {
        let path = AckPath { rtt_us: 1, rtt_variation_us: 2, free_packets: 3 };
        let rates = AckRates { arrival_packets_per_second: 4, capacity_packets_per_second: 5 };
        round_trip(PacketKind::Data { sequence: SEQUENCES - 1, payload: &[1, 2, 3] });
        round_trip(PacketKind::Data { sequence: 0, payload: &[] });
        for kind in [PacketKind::KeepAlive, PacketKind::Shutdown, PacketKind::Ack2(u32::MAX), PacketKind::Other(0x7fff)]
        {
            round_trip(kind);
        }
        for (path, rates) in [(None, None), (Some(path), None), (Some(path), Some(rates))] {
            round_trip(PacketKind::Ack(Ack { number: 8, sequence: 6, path, rates }));
        }
        for (request, peer) in [
            (HandshakeRequest::Ask, IpAddr::from([127, 0, 0, 1])),
            (HandshakeRequest::Agree, "2001:db8::1".parse().unwrap()),
            (HandshakeRequest::Refuse, IpAddr::from([198, 18, 0, 1])),
            (HandshakeRequest::Other(0), IpAddr::from([198, 18, 0, 1])),
        ] {
            round_trip(PacketKind::Handshake(Handshake {
                version: VERSION,
                socket_type: Some(SocketType::Stream),
                first_sequence: 77,
                packet_bytes: 1500,
                window_packets: 25_600,
                request,
                socket_id: 12,
                cookie: 13,
                peer,
            }));
        }
    }

    #[test]
    fn a_list_of_losses_that_is_nonsense_names_nothing_else() {
        let mut bytes = Vec::new();
        for word in [RANGE | 5, RANGE | 6, 7, RANGE | 9] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.push(1);
        assert_eq!(Losses(&bytes).ranges().collect::<Vec<_>>(), [7..=7]);
    }

    proptest! {
        #[test]
        fn lists_of_losses_are_read_as_they_were_written(starts in proptest::collection::vec((0..SEQUENCES, 0u32..5), 0..50), most in 0usize..200) {
            let ranges: Vec<_> = starts.into_iter().map(|(first, more)| first..=first.saturating_add(more).min(SEQUENCES - 1)).collect();
            let mut bytes = Vec::new();
            let written = Losses::write(ranges.iter().cloned(), most, &mut bytes);
            prop_assert!(bytes.len() <= most);
            prop_assert_eq!(Losses(&bytes).ranges().collect::<Vec<_>>(), &ranges[..written]);
        }

        #[test]
        fn no_bytes_are_too_strange(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..8, is_control: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if is_control { 0x80 } else { *first };
            }
            if let (true, Some(second)) = (is_control, bytes.get_mut(1)) {
                *second = kind;
            }
            if let Ok(packet) = Packet::decode(&bytes) {
                if let PacketKind::Nak(losses) = packet.kind {
                    losses.ranges().for_each(drop);
                }
                let mut again = Vec::new();
                packet.encode(&mut again);
                prop_assert!(Packet::decode(&again).is_ok());
            }
        }
    }
}
