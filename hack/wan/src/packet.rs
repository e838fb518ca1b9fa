//! What the path looks at in a packet: its flow, whether it is UDP, whether it is a bare TCP acknowledgement.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::device::PacketLayer;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const TCP_FLAG_ACK: u8 = 0x10;
const TCP_OPTION_END: u8 = 0;
const TCP_OPTION_PADDING: u8 = 1;
const TCP_OPTION_SACK: u8 = 5;

/// The 5-tuple of a flow, one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub source: IpAddr,
    /// Who receives.
    pub destination: IpAddr,
    /// The number of the protocol inside IP.
    pub protocol: u8,
    /// Ports of source and destination; 0 where the protocol has none, or a fragment does not show them.
    pub ports: (u16, u16),
}

/// What is known of a packet; by default nothing, as of ARP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketFacts {
    /// Its flow, if it is an IP packet.
    pub flow: Option<FlowKey>,
    /// The acknowledgement number of a TCP segment that says nothing else: no payload, no flag but ACK, no SACK block.
    pub bare_ack: Option<u32>,
}

impl PacketFacts {
    /// Reads the headers of `packet`, which begins as `layer` says.
    pub fn of(layer: PacketLayer, packet: &[u8]) -> Self {
        let ip = match layer {
            PacketLayer::Ip => Some(packet),
            PacketLayer::Ethernet => packet.split_at_checked(layer.header_bytes()).and_then(|(header, ip)| {
                (header.ends_with(&ETHERTYPE_IPV4) || header.ends_with(&ETHERTYPE_IPV6)).then_some(ip)
            }),
        };
        ip.and_then(ip_facts).unwrap_or_default()
    }

    /// Whether it is a UDP datagram, or a fragment of one.
    pub fn is_udp(&self) -> bool {
        self.flow.is_some_and(|flow| flow.protocol == UDP)
    }
}

/// A packet's addresses and what IP carries.
struct IpContent<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    is_fragment: bool,
    segment: &'a [u8],
}

fn ip_facts(packet: &[u8]) -> Option<PacketFacts> {
    let carried = match packet.first()? >> 4 {
        4 => ipv4(packet)?,
        6 => ipv6(packet)?,
        _ => return None,
    };
    let whole = !carried.is_fragment;
    let ports = match carried.protocol {
        TCP | UDP if whole => Some((be16(carried.segment, 0)?, be16(carried.segment, 2)?)),
        _ => None,
    };
    let flow = FlowKey {
        source: carried.source,
        destination: carried.destination,
        protocol: carried.protocol,
        ports: ports.unwrap_or_default(),
    };
    let bare_ack = if carried.protocol == TCP && whole { bare_ack(carried.segment) } else { None };
    Some(PacketFacts { flow: Some(flow), bare_ack })
}

fn ipv4(packet: &[u8]) -> Option<IpContent<'_>> {
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let end = usize::from(be16(packet, 2)?);
    let address = |at: usize| packet.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    Some(IpContent {
        source: Ipv4Addr::from(address(12)?).into(),
        destination: Ipv4Addr::from(address(16)?).into(),
        protocol: *packet.get(9)?,
        // More fragments, or an offset.
        is_fragment: be16(packet, 6)? & 0x3fff != 0,
        segment: packet.get(header_bytes..end)?,
    })
}

fn ipv6(packet: &[u8]) -> Option<IpContent<'_>> {
    const FRAGMENT: u8 = 44;
    const OPTIONS_AND_ROUTING: [u8; 3] = [0, 43, 60];
    let address = |at: usize| packet.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let (source, destination) = (Ipv6Addr::from(address(8)?).into(), Ipv6Addr::from(address(24)?).into());
    let mut rest = packet.get(40..40 + usize::from(be16(packet, 4)?))?;
    let (mut protocol, mut is_fragment) = (*packet.get(6)?, false);
    loop {
        let header_bytes = match protocol {
            FRAGMENT => {
                is_fragment |= be16(rest, 2)? & 0xfff9 != 0;
                8
            }
            other if OPTIONS_AND_ROUTING.contains(&other) => (usize::from(*rest.get(1)?) + 1) * 8,
            _ => break,
        };
        protocol = *rest.first()?;
        rest = rest.get(header_bytes..)?;
    }
    Some(IpContent { source, destination, protocol, is_fragment, segment: rest })
}

fn bare_ack(segment: &[u8]) -> Option<u32> {
    let header_bytes = usize::from(segment.get(12)? >> 4) * 4;
    let acknowledges_alone = *segment.get(13)? == TCP_FLAG_ACK && segment.len() == header_bytes;
    if !acknowledges_alone || has_sack_blocks(segment.get(20..)?) {
        return None;
    }
    Some(u32::from_be_bytes(segment.get(8..12)?.try_into().ok()?))
}

/// Options that cannot be read count as blocks: a packet that is not understood is left alone.
fn has_sack_blocks(mut options: &[u8]) -> bool {
    while let Some(kind) = options.first() {
        let option_bytes = match *kind {
            TCP_OPTION_END => return false,
            TCP_OPTION_SACK => return true,
            TCP_OPTION_PADDING => 1,
            _ => options.get(1).copied().unwrap_or_default().into(),
        };
        match options.get(option_bytes..) {
            Some(rest) if option_bytes > 0 => options = rest,
            _ => return true,
        }
    }
    false
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
