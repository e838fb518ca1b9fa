//! What is read in a packet's headers.

use fairlead_wan::device::PacketLayer;
use fairlead_wan::packet::PacketFacts;
use proptest::prelude::*;

const ACK: u8 = 0x10;
const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
const SACK: [u8; 12] = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];

fn tcp(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0x30, 0x39];
    segment.extend([(((20 + options.len()) / 4) as u8) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(options);
    segment.extend(payload);
    segment
}

fn udp() -> Vec<u8> {
    vec![0x13, 0x88, 0, 80, 0, 9, 0, 0, 42]
}

fn ipv4(protocol: u8, fragment: u16, segment: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + segment.len() as u16).to_be_bytes();
    let [fragment_high, fragment_low] = fragment.to_be_bytes();
    let mut packet = vec![0x45, 0, high, low, 0, 0, fragment_high, fragment_low, 64, protocol, 0, 0];
    packet.extend([198, 18, 0, 1, 198, 18, 0, 2]);
    packet.extend(segment);
    packet
}

fn ipv6(next: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, high, low, next, 64];
    packet.extend([0xfd; 16]);
    packet.extend([0xfe; 16]);
    packet.extend(content);
    packet
}

fn facts(packet: &[u8]) -> PacketFacts {
    PacketFacts::of(PacketLayer::Ip, packet)
}

#[test]
fn a_flow_is_addresses_protocol_and_ports() {
    for (packet, source, protocol, ports) in [
        (ipv4(6, 0, &tcp(ACK, &[], &[])), "198.18.0.1", 6, (5000, 80)),
        (ipv4(17, 0x4000, &udp()), "198.18.0.1", 17, (5000, 80)),
        (ipv4(1, 0, &[8, 0, 0, 0]), "198.18.0.1", 1, (0, 0)),
        (ipv6(6, &tcp(ACK, &[], &[])), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd", 6, (5000, 80)),
        (ipv6(17, &udp()), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd", 17, (5000, 80)),
        // Destination options of eight bytes before UDP.
        (
            ipv6(60, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp()].concat()),
            "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd",
            17,
            (5000, 80),
        ),
    ] {
        let flow = facts(&packet).flow.expect("it is IP");
        assert_eq!((flow.source.to_string().as_str(), flow.protocol, flow.ports), (source, protocol, ports));
        assert_ne!(flow.destination, flow.source);
    }
}

#[test]
fn fragments_of_udp_are_udp_without_ports() {
    let fragments =
        [ipv4(17, 0x2000, &udp()), ipv4(17, 0x0010, &[1, 2, 3]), ipv6(44, &[17, 0, 0, 9, 0, 0, 0, 1, 7, 7])];
    for packet in fragments {
        assert!(facts(&packet).is_udp());
        assert_eq!(facts(&packet).flow.map(|flow| flow.ports), Some((0, 0)));
    }
    assert!(!facts(&ipv4(6, 0, &tcp(ACK, &[], &[]))).is_udp());
}

#[test]
fn a_bare_acknowledgement_says_nothing_else() {
    let (fin, syn, reset, push, echo) = (ACK | 1, ACK | 2, ACK | 4, ACK | 8, ACK | 0x40);
    for (segment, expected) in [
        (tcp(ACK, &[], &[]), Some(12_345)),
        (tcp(ACK, &TIMESTAMPS, &[]), Some(12_345)),
        (tcp(ACK, &SACK, &[]), None),
        (tcp(ACK, &[254, 0, 0, 0], &[]), None),
        (tcp(ACK, &[], b"x"), None),
        (tcp(fin, &[], &[]), None),
        (tcp(syn, &[], &[]), None),
        (tcp(reset, &[], &[]), None),
        (tcp(push, &[], &[]), None),
        (tcp(echo, &[], &[]), None),
    ] {
        assert_eq!(facts(&ipv4(6, 0, &segment)).bare_ack, expected, "{segment:?}");
        assert_eq!(facts(&ipv6(6, &segment)).bare_ack, expected, "{segment:?}");
    }
    assert_eq!(facts(&ipv4(6, 0x2000, &tcp(ACK, &[], &[]))).bare_ack, None, "a fragment");
    assert_eq!(facts(&ipv4(17, 0, &tcp(ACK, &[], &[]))).bare_ack, None, "not TCP");
}

#[test]
fn padding_behind_a_short_packet_is_no_payload() {
    let mut packet = ipv4(6, 0, &tcp(ACK, &[], &[]));
    packet.extend([0; 6]);
    assert_eq!(facts(&packet).bare_ack, Some(12_345));
}

#[test]
fn an_ethernet_frame_is_read_by_its_type() {
    let ip = ipv4(17, 0, &udp());
    let frame = |ethertype: [u8; 2]| [&[2; 12][..], &ethertype, &ip].concat();
    assert!(PacketFacts::of(PacketLayer::Ethernet, &frame([0x08, 0x00])).is_udp());
    assert_eq!(PacketFacts::of(PacketLayer::Ethernet, &frame([0x08, 0x06])), PacketFacts::default());
    assert_eq!(PacketFacts::of(PacketLayer::Ethernet, &[0; 5]), PacketFacts::default());
}

proptest! {
    #[test]
    fn no_packet_is_too_strange_to_be_read(mut packet in prop::collection::vec(any::<u8>(), 0..120), version in 0u8..16) {
        if let Some(first) = packet.first_mut() {
            *first = version << 4 | (*first & 0x0f);
        }
        let _facts = facts(&packet);
        let _facts = PacketFacts::of(PacketLayer::Ethernet, &packet);
    }

    #[test]
    fn nor_is_a_real_one_that_was_cut_short(length in 0usize..80, ipv in any::<bool>()) {
        let whole = if ipv { ipv4(6, 0, &tcp(ACK, &SACK, b"x")) } else { ipv6(44, &[6, 0, 0, 0, 0, 0, 0, 1, 60, 0]) };
        let _facts = facts(&whole[..length.min(whole.len())]);
    }
}
