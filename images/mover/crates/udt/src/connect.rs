//! Handshakes in the clear, of a client and of a server (draft, section 5).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::packet::{Handshake, HandshakeRequest, Packet, PacketKind, SocketType, HEADER_BYTES, IP_UDP_BYTES, VERSION};

/// Time between two requests of a client.
const REPEAT: Duration = Duration::from_millis(250);
/// How long a cookie holds, and the one before.
const COOKIE: Duration = Duration::from_secs(60);
/// Answers that are remembered for clients that did not get them.
const ANSWERS: usize = 64;
/// Smallest packet that is agreed on.
const LEAST_PACKET_BYTES: u32 = IP_UDP_BYTES + HEADER_BYTES as u32 + 256;
/// Largest packet of IP.
const MOST_PACKET_BYTES: u32 = 65_535;
/// Bytes of the header of control packets before a handshake.
const TIME_US: u32 = 0;

/// What a handshake agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// The socket at this end.
    pub own_id: u32,
    /// The socket at the other end.
    pub peer_id: u32,
    /// Sequence number of the first packet from here.
    pub own_first: u32,
    /// Sequence number of the first packet from there.
    pub peer_first: u32,
    /// Largest packet with the headers of IPv4 and UDP.
    pub packet_bytes: u32,
    /// Packets that the other end has room for.
    pub window_packets: u32,
}

/// Why no connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other end does not want it.
    #[error("the other end refused the connection")]
    Refused,
    /// It speaks another version.
    #[error("the other end speaks another version of UDT")]
    Version,
    /// It asks for what cannot be.
    #[error("the other end asks for packets that are too small or too large")]
    PacketSize,
}

/// A client that makes a connection.
#[derive(Clone, Debug)]
pub struct Connector {
    request: Handshake,
    next: Duration,
}

impl Connector {
    /// Asks for a connection of these terms. `socket_id` and `first_sequence` should be random.
    pub fn new(socket_id: u32, first_sequence: u32, packet_bytes: u32, window_packets: u32, peer: IpAddr) -> Self {
        let request = Handshake {
            version: VERSION,
            socket_type: Some(SocketType::Stream),
            first_sequence: first_sequence & (crate::SEQUENCES - 1),
            packet_bytes,
            window_packets,
            request: HandshakeRequest::Ask,
            socket_id,
            cookie: 0,
            peer,
        };
        Self { request, next: Duration::ZERO }
    }

    /// Appends a request if one is due.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + REPEAT;
        Packet { kind: PacketKind::Handshake(self.request), time_us: TIME_US, destination: 0 }.encode(out);
        true
    }

    /// When the next request is due.
    pub fn timeout(&self) -> Duration {
        self.next
    }

    /// Takes an answer in. What is no answer changes nothing.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<Option<Established>, HandshakeError> {
        let Ok(Packet { kind: PacketKind::Handshake(answer), destination, .. }) = Packet::decode(bytes) else {
            return Ok(None);
        };
        if destination != self.request.socket_id {
            return Ok(None);
        }
        match answer.request {
            HandshakeRequest::Ask => {
                (self.request.request, self.request.cookie) = (HandshakeRequest::Agree, answer.cookie);
                self.next = Duration::ZERO;
                Ok(None)
            }
            HandshakeRequest::Agree => {
                if answer.version != VERSION {
                    return Err(HandshakeError::Version);
                }
                Ok(Some(Established {
                    own_id: self.request.socket_id,
                    peer_id: answer.socket_id,
                    own_first: self.request.first_sequence,
                    peer_first: answer.first_sequence,
                    packet_bytes: agreed_size(answer.packet_bytes, self.request.packet_bytes)?,
                    window_packets: answer.window_packets,
                }))
            }
            HandshakeRequest::Refuse => Err(HandshakeError::Refused),
            HandshakeRequest::Other(_) => Ok(None),
        }
    }
}

/// What a listener does about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerAnswer {
    /// Send this back.
    Send(Vec<u8>),
    /// A connection is made; send this back.
    Accept(Established, Vec<u8>),
}

/// A server that takes connections. It keeps nothing of a client before that has shown that it is where it says.
#[derive(Clone, Debug)]
pub struct Listener {
    secret: u64,
    packet_bytes: u32,
    window_packets: u32,
    answers: VecDeque<(SocketAddr, u32, Vec<u8>)>,
}

impl Listener {
    /// Takes connections of these terms. `secret` must be random.
    pub fn new(secret: u64, packet_bytes: u32, window_packets: u32) -> Self {
        Self { secret, packet_bytes, window_packets, answers: VecDeque::new() }
    }

    /// Takes a packet for socket 0 in. `socket_id` is for the connection that may come of it.
    pub fn handle(&mut self, now: Duration, from: SocketAddr, bytes: &[u8], socket_id: u32) -> Option<ListenerAnswer> {
        let Ok(Packet { kind: PacketKind::Handshake(request), .. }) = Packet::decode(bytes) else { return None };
        let answer = |handshake: Handshake| {
            let mut bytes = Vec::new();
            let destination = request.socket_id;
            Packet { kind: PacketKind::Handshake(handshake), time_us: TIME_US, destination }.encode(&mut bytes);
            bytes
        };
        let period = now.as_secs() / COOKIE.as_secs();
        match request.request {
            HandshakeRequest::Ask => {
                Some(ListenerAnswer::Send(answer(Handshake { cookie: self.cookie(from, period), ..request })))
            }
            HandshakeRequest::Agree => {
                let periods = [period, period.wrapping_sub(1)];
                if periods.into_iter().all(|period| self.cookie(from, period) != request.cookie) {
                    return None;
                }
                let same = |(other, id, _): &&(SocketAddr, u32, Vec<u8>)| *other == from && *id == request.socket_id;
                if let Some((_, _, made)) = self.answers.iter().find(same) {
                    return Some(ListenerAnswer::Send(made.clone()));
                }
                let size = agreed_size(request.packet_bytes, self.packet_bytes);
                let fits = request.version == VERSION && request.socket_type == Some(SocketType::Stream);
                let (true, Ok(packet_bytes)) = (fits, size) else {
                    let refusal = Handshake { version: VERSION, request: HandshakeRequest::Refuse, ..request };
                    return Some(ListenerAnswer::Send(answer(refusal)));
                };
                // Both directions begin with the client's number, as libudt has it.
                let first = request.first_sequence;
                let own = Handshake {
                    packet_bytes,
                    window_packets: self.window_packets,
                    socket_id,
                    peer: from.ip(),
                    ..request
                };
                let made = answer(own);
                if self.answers.len() == ANSWERS {
                    self.answers.pop_front();
                }
                self.answers.push_back((from, request.socket_id, made.clone()));
                let agreed = Established {
                    own_id: socket_id,
                    peer_id: request.socket_id,
                    own_first: first,
                    peer_first: first,
                    packet_bytes,
                    window_packets: request.window_packets,
                };
                Some(ListenerAnswer::Accept(agreed, made))
            }
            HandshakeRequest::Refuse | HandshakeRequest::Other(_) => None,
        }
    }

    fn cookie(&self, from: SocketAddr, period: u64) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.secret, from, period).hash(&mut hasher);
        hasher.finish() as u32
    }
}

fn agreed_size(theirs: u32, ours: u32) -> Result<u32, HandshakeError> {
    let size = theirs.min(ours);
    if (LEAST_PACKET_BYTES..=MOST_PACKET_BYTES).contains(&size) {
        Ok(size)
    } else {
        Err(HandshakeError::PacketSize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_secs(100);

    fn here() -> SocketAddr {
        "127.0.0.1:7000".parse().unwrap()
    }

    fn ask(connector: &mut Connector, now: Duration) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(connector.poll_transmit(now, &mut bytes));
        bytes
    }

    #[test]
    fn a_client_gets_its_cookie_and_then_its_connection() {
        let mut connector = Connector::new(7, 5, 1500, 25_600, here().ip());
        let mut listener = Listener::new(3, 1400, 8192);
        let first = ask(&mut connector, NOW);
        assert!(!connector.poll_transmit(NOW, &mut Vec::new()), "not at once again");
        let Some(ListenerAnswer::Send(cookie)) = listener.handle(NOW, here(), &first, 9) else { panic!() };
        assert_eq!(connector.handle(&cookie), Ok(None));
        let second = ask(&mut connector, NOW);
        let Some(ListenerAnswer::Accept(at_server, made)) = listener.handle(NOW, here(), &second, 9) else { panic!() };
        let at_client = connector.handle(&made).unwrap().unwrap();
        assert_eq!((at_server.own_id, at_server.peer_id, at_server.packet_bytes), (9, 7, 1400));
        assert_eq!((at_client.own_id, at_client.peer_id, at_client.packet_bytes), (7, 9, 1400));
        assert_eq!((at_client.own_first, at_client.peer_first), (at_server.peer_first, at_server.own_first));
        assert_eq!((at_client.window_packets, at_server.window_packets), (8192, 25_600));
        let again = listener.handle(NOW, here(), &second, 10);
        assert_eq!(again, Some(ListenerAnswer::Send(made)), "the answer was lost");
    }

    #[test]
    fn nobody_is_let_in_with_another_cookie_or_an_old_one_or_for_messages() {
        let mut connector = Connector::new(7, 5, 1500, 25_600, here().ip());
        let mut listener = Listener::new(3, 1400, 8192);
        let first = ask(&mut connector, NOW);
        let Some(ListenerAnswer::Send(cookie)) = listener.handle(NOW, here(), &first, 9) else { panic!() };
        connector.handle(&cookie).unwrap();
        let second = ask(&mut connector, NOW);
        let elsewhere = "127.0.0.2:7000".parse().unwrap();
        assert_eq!(listener.handle(NOW, elsewhere, &second, 9), None);
        assert_eq!(listener.handle(NOW + COOKIE * 2, here(), &second, 9), None);
        let mut messages = second;
        messages[HEADER_BYTES + 7] = 2;
        let Some(ListenerAnswer::Send(refusal)) = listener.handle(NOW, here(), &messages, 9) else { panic!() };
        assert_eq!(connector.handle(&refusal), Err(HandshakeError::Refused));
    }

    proptest! {
        #[test]
        fn strange_bytes_make_no_connection(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), begins_right: bool) {
            if begins_right && bytes.len() > 4 {
                bytes[..4].copy_from_slice(&[0x80, 0, 0, 0]);
            }
            let mut connector = Connector::new(7, 5, 1500, 25_600, here().ip());
            prop_assert!(!matches!(connector.handle(&bytes), Ok(Some(_))));
            let made = Listener::new(3, 1400, 8192).handle(NOW, here(), &bytes, 9);
            prop_assert!(!matches!(made, Some(ListenerAnswer::Accept(..))));
        }
    }
}
