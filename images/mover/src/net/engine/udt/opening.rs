//! How a connection is opened: the terms of UDT's handshake, sealed, in datagrams as long as those that will carry the data. So a size
//! that does not get through is found before anything depends on it.

use std::net::IpAddr;

use fairlead_protocol::sealed::{OPENING_SEAL_BYTES, SEAL_BYTES};
use fairlead_udt::packet::{
    Handshake, HandshakeRequest, Packet, PacketKind, SocketType, HANDSHAKE_BYTES, HEADER_BYTES, IP_UDP_BYTES, VERSION,
};
use fairlead_udt::Established;

/// Packets of an Ethernet, of a tunnel in one, and what every path of IPv6 carries.
const PACKET_BYTES: [u32; 3] = [1500, 1420, 1280];
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;
const UDP_BYTES: u32 = IP_UDP_BYTES - IPV4_BYTES;

/// What one end says to open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpeningTerms {
    pub(super) id: u32,
    pub(super) first_sequence: u32,
    pub(super) datagram_bytes: u32,
    pub(super) window_packets: u32,
}

/// Lengths of datagrams to a peer, the longest first.
pub(super) fn datagram_sizes(peer: IpAddr) -> [u32; PACKET_BYTES.len()] {
    let ip_bytes = if peer.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
    PACKET_BYTES.map(|bytes| bytes - ip_bytes - UDP_BYTES)
}

impl OpeningTerms {
    /// Bytes of a packet in a datagram that are not payload, beside UDT's header.
    pub(super) const RESERVED_BYTES: usize = SEAL_BYTES;

    /// As bytes that make a datagram of the length it is about.
    pub(super) fn encode(&self, peer: IpAddr) -> Vec<u8> {
        let handshake = Handshake {
            version: VERSION,
            socket_type: Some(SocketType::Stream),
            first_sequence: self.first_sequence,
            packet_bytes: self.datagram_bytes + IP_UDP_BYTES,
            window_packets: self.window_packets,
            request: HandshakeRequest::Agree,
            socket_id: self.id,
            cookie: 0,
            peer,
        };
        let mut bytes = Vec::new();
        Packet { kind: PacketKind::Handshake(handshake), time_us: 0, destination: 0 }.encode(&mut bytes);
        let padded = (self.datagram_bytes as usize).saturating_sub(OPENING_SEAL_BYTES);
        bytes.resize(padded.max(HEADER_BYTES + HANDSHAKE_BYTES), 0);
        bytes
    }

    /// Nothing if it is none, or of another version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let Ok(Packet { kind: PacketKind::Handshake(handshake), .. }) = Packet::decode(bytes) else { return None };
        let datagram_bytes = handshake.packet_bytes.checked_sub(IP_UDP_BYTES)?;
        let sensible = PACKET_BYTES.iter().any(|most| datagram_bytes < *most) && datagram_bytes >= 1000;
        (handshake.version == VERSION && handshake.socket_type == Some(SocketType::Stream) && sensible).then_some(
            Self {
                id: handshake.socket_id,
                first_sequence: handshake.first_sequence,
                datagram_bytes,
                window_packets: handshake.window_packets,
            },
        )
    }

    /// What the connection is at the end that says this, when the other one said `theirs`.
    pub(super) fn with(&self, theirs: &Self) -> Established {
        Established {
            own_id: self.id,
            peer_id: theirs.id,
            own_first: self.first_sequence,
            peer_first: theirs.first_sequence,
            packet_bytes: self.datagram_bytes.min(theirs.datagram_bytes) + IP_UDP_BYTES,
            window_packets: theirs.window_packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_fill_a_datagram_and_are_read_again() {
        for peer in ["198.18.0.1", "2001:db8::1"] {
            let peer = peer.parse().unwrap();
            for datagram_bytes in datagram_sizes(peer) {
                let terms = OpeningTerms { id: 5, first_sequence: 6, datagram_bytes, window_packets: 7 };
                let bytes = terms.encode(peer);
                assert_eq!(bytes.len() + OPENING_SEAL_BYTES, datagram_bytes as usize);
                assert_eq!(OpeningTerms::decode(&bytes), Some(terms));
                assert_eq!(OpeningTerms::decode(&bytes[..50]), None);
            }
        }
    }
}
