//! The kernel's route to the peer: by rtnetlink, since a socket that is bound to an interface takes every address for a neighbour's.

use std::io;
use std::net::IpAddr;

use fairlead_protocol::{Fault, Reason};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_REQUEST};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::net::interface::Interface;

/// Bytes of an answer: one route with its next hops.
const ANSWER_BYTES: usize = 16 << 10;

/// Where packets to an address leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Route {
    interface: Option<u32>,
    gateway: Option<IpAddr>,
}

/// Checks that there is a route to `peer`, through `interface` if one is named. Returns it in words.
///
/// A rule by source address counts as well: connections through an interface have one of its addresses.
pub(crate) fn check(interfaces: &[Interface], interface: Option<&str>, peer: IpAddr) -> Result<String, Fault> {
    let peer = peer.to_canonical();
    let Some(name) = interface else {
        return match lookup(peer, None, None) {
            Err(error) if is_absent(&error) => Err(missing(peer, None, &error, None)),
            Err(error) => Ok(unknown(&error)),
            Ok(route) => Ok(shown(peer, &route, None)),
        };
    };
    let Some(known) = interfaces.iter().find(|known| known.name == name) else {
        return Ok(format!("{name} does not exist"));
    };
    let index = nix::net::if_::if_nametoindex(name).ok();
    let sources = known.addresses.iter().filter(|address| address.is_ipv4() == peer.is_ipv4()).copied().map(Some);
    let mut last = None;
    for source in sources.chain([None]) {
        match lookup(peer, index, source) {
            Ok(route) => return Ok(shown(peer, &route, Some(name))),
            Err(error) if is_absent(&error) => last = Some(error),
            Err(error) => return Ok(unknown(&error)),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::NetworkUnreachable.into());
    let other = lookup(peer, None, None).ok().and_then(|route| name_of(route.interface));
    Err(missing(peer, Some(name), &error, other.as_deref()))
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, InvalidInput, NetworkUnreachable, PermissionDenied};
    // The kinds of routes `unreachable`, `blackhole`, none at all, and `prohibit`.
    matches!(error.kind(), HostUnreachable | InvalidInput | NetworkUnreachable | PermissionDenied)
}

/// A kernel that cannot be asked is no reason to refuse what may work.
fn unknown(error: &io::Error) -> String {
    format!("the kernel does not tell its route: {error}")
}

fn missing(peer: IpAddr, interface: Option<&str>, error: &io::Error, other: Option<&str>) -> Fault {
    let through = interface.map(|name| format!(" through the interface {name}")).unwrap_or_default();
    let leads = other.map(|name| format!("; packets there leave through {name}")).unwrap_or_default();
    let device = interface.map_or(String::new(), |name| format!(" dev {name}"));
    let add = format!("add one, such as `ip route add {peer} via GATEWAY{device}`");
    let choose = if interface.is_some() { ", or choose another interface" } else { "" };
    Fault::new(Reason::RouteMissing, format!("there is no route to {peer}{through} ({error}){leads}: {add}{choose}"))
}

fn shown(peer: IpAddr, route: &Route, interface: Option<&str>) -> String {
    let name = interface.map(str::to_owned).or_else(|| name_of(route.interface));
    let through = name.map(|name| format!(" through {name}")).unwrap_or_default();
    let by = route.gateway.map(|gateway| format!(" by {gateway}")).unwrap_or_default();
    format!("{peer} is reached{through}{by}")
}

fn name_of(index: Option<u32>) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index?).ok()?;
    name.into_string().ok()
}

/// Asks the kernel for the entry of its tables by which packets to `peer` leave. The error is the kernel's.
fn lookup(peer: IpAddr, interface: Option<u32>, source: Option<IpAddr>) -> io::Result<Route> {
    let mut request = RouteMessage::default();
    let prefix_bits = if peer.is_ipv4() { 32 } else { 128 };
    request.header.address_family = if peer.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    request.header.destination_prefix_length = prefix_bits;
    // Without it the kernel answers with a neighbour where no entry leads through the interface.
    request.header.flags = RouteFlags::FibMatch;
    request.attributes.push(RouteAttribute::Destination(address(peer)));
    request.attributes.extend(interface.map(RouteAttribute::Oif));
    if let Some(source) = source {
        request.header.source_prefix_length = prefix_bits;
        request.attributes.push(RouteAttribute::Source(address(source)));
    }
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetRoute(request));
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    socket.recv(&mut answer, 0)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::Error(error) => Err(error.to_io()),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => Ok(read(&route)),
        _ => Err(io::Error::other("an answer that is no route")),
    }
}

fn address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}

fn read(message: &RouteMessage) -> Route {
    let mut route = Route::default();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => route.interface = Some(*index),
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) => route.gateway = Some((*v4).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) => route.gateway = Some((*v6).into()),
            _ => {}
        }
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::interface;

    #[test]
    fn this_host_is_reached_through_its_loopback() {
        for interface in [None, Some("lo")] {
            let found = check(&interface::list(), interface, "127.0.0.1".parse().unwrap()).unwrap();
            assert_eq!(found, "127.0.0.1 is reached through lo");
        }
    }

    #[test]
    fn an_address_that_nothing_leads_to_through_the_interface_is_a_fault_with_the_remedy() {
        let peer = "198.18.99.1".parse().unwrap();
        let fault = check(&interface::list(), Some("lo"), peer).unwrap_err();
        assert_eq!((fault.reason, fault.retry), (Reason::RouteMissing, true));
        for part in ["198.18.99.1 through the interface lo", "ip route add 198.18.99.1 via GATEWAY dev lo"] {
            assert!(fault.message.contains(part), "{fault}");
        }
    }
}
