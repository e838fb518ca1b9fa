//! Which interface carries the data.

use std::net::{IpAddr, Ipv4Addr};

use fairlead_protocol::{Fault, Reason};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// An interface with what the choice depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) up: bool,
    /// Whether something is at the other end of its link.
    pub(crate) carrier: bool,
    /// Loopback, bridge, or an end of the pod network.
    pub(crate) internal: bool,
    pub(crate) speed_mbps: u64,
    pub(crate) mtu: u64,
}

/// The interfaces of this network namespace.
pub(crate) fn list() -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for item in getifaddrs().into_iter().flatten() {
        let at = match interfaces.iter().position(|known| known.name == item.interface_name) {
            Some(at) => at,
            None => {
                interfaces.push(describe(item.interface_name.clone(), item.flags));
                interfaces.len() - 1
            }
        };
        let address = item.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        });
        interfaces[at].addresses.extend(address);
    }
    interfaces
}

fn describe(name: String, flags: InterfaceFlags) -> Interface {
    let folder = format!("/sys/class/net/{name}");
    let number = |file: &str| {
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        text.trim().parse::<i64>().map_or(0, |value| value.max(0) as u64)
    };
    let is = |file: &str| std::path::Path::new(&format!("{folder}/{file}")).exists();
    let pod_network = ["veth", "cni", "cali", "flannel", "lxc", "cilium", "docker", "kube"];
    let internal = flags.contains(InterfaceFlags::IFF_LOOPBACK)
        || is("bridge")
        || pod_network.iter().any(|prefix| name.starts_with(prefix));
    Interface {
        up: flags.contains(InterfaceFlags::IFF_UP),
        carrier: flags.contains(InterfaceFlags::IFF_RUNNING),
        internal,
        speed_mbps: number("speed"),
        mtu: number("mtu"),
        addresses: Vec::new(),
        name,
    }
}

/// What an interface has carried since it came up, everybody's traffic included, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The kernel's counters of an interface; none where it has none or is gone.
pub(crate) fn carried(name: &str) -> Option<Carried> {
    let counter = |file: &str| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/statistics/{file}")).ok()?;
        text.trim().parse().ok()
    };
    Some(Carried { sent: counter("tx_bytes")?, received: counter("rx_bytes")? })
}

/// Whether an interface has its carrier; false too while it is taken down. Nothing where the kernel does not say.
pub(crate) fn has_carrier(name: &str) -> Option<bool> {
    match std::fs::read_to_string(format!("/sys/class/net/{name}/carrier")) {
        Ok(text) => Some(text.trim() != "0"),
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Some(false),
        Err(_) => None,
    }
}

/// The speed of an interface in bits per second, if it has one.
pub(crate) fn speed_bps(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    text.trim().parse::<u64>().ok().filter(|speed| *speed > 0).map(|megabits| megabits * 1_000_000)
}

/// The interface that holds an address.
pub(crate) fn holding(interfaces: &[Interface], address: IpAddr) -> Option<String> {
    interfaces.iter().find(|interface| interface.addresses.contains(&address)).map(|interface| interface.name.clone())
}

/// Whether the address can be reached from beyond the link.
fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast()),
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast()),
    }
}

/// Whether the address is one of IPv6 for the link alone: nothing can listen there by the address only, and nobody be told to dial it.
fn needs_scope(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn best_address(interface: &Interface) -> Option<IpAddr> {
    let global = || interface.addresses.iter().filter(|address| is_global(address));
    global().find(|address| address.is_ipv4()).or_else(|| global().next()).copied()
}

/// Chooses interface and address for the receiver. `node_address` is the kubelet's.
pub(crate) fn choose(
    interfaces: &[Interface],
    wanted: Option<&str>,
    address: Option<IpAddr>,
    node_address: Option<IpAddr>,
) -> Result<(Option<String>, IpAddr), Fault> {
    let names = || interfaces.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, address) {
        (None, None) => Ok((None, IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        (None, Some(address)) => Ok((holding(interfaces, address), address)),
        (Some("auto"), Some(address)) => Ok((holding(interfaces, address), address)),
        (Some("auto"), None) => automatic(interfaces, node_address).ok_or_else(|| {
            let text =
                format!("no interface is up with an address that others can reach (there are {}); name one", names());
            Fault::new(Reason::InterfaceNotFound, text)
        }),
        (Some(name), address) => {
            let found = interfaces.iter().find(|interface| interface.name == name);
            let missing = || format!("the interface {name} does not exist; choose one of {}", names());
            let interface = found.ok_or_else(|| Fault::new(Reason::InterfaceNotFound, missing()))?;
            let own = address.filter(|address| interface.addresses.contains(address));
            let chosen =
                if address.is_some() { own } else { best_address(interface).or(interface.addresses.first().copied()) };
            let lacking = || format!("the interface {name} does not have the address asked for, or none at all");
            let chosen = chosen.ok_or_else(|| Fault::new(Reason::InterfaceNotFound, lacking()))?;
            if needs_scope(&chosen) {
                let text = format!("{chosen} of the interface {name} means nothing on another host: give it a global address, or choose another interface (there are {})", names());
                return Err(Fault::new(Reason::InterfaceNotFound, text));
            }
            Ok((Some(name.to_owned()), chosen))
        }
    }
}

/// Chooses as `choose` for each interface named; the i-th address is of the i-th interface. Without names, or with `auto`, one.
pub(crate) fn choose_all(
    interfaces: &[Interface],
    wanted: &[String],
    addresses: &[IpAddr],
    node_address: Option<IpAddr>,
) -> Result<Vec<(Option<String>, IpAddr)>, Fault> {
    let places = wanted.len().max(addresses.len()).max(1);
    let at = |place: usize| (wanted.get(place).map(String::as_str), addresses.get(place).copied());
    (0..places)
        .map(|place| {
            let (name, address) = at(place);
            choose(interfaces, name, address, node_address)
        })
        .collect()
}

fn automatic(interfaces: &[Interface], node_address: Option<IpAddr>) -> Option<(Option<String>, IpAddr)> {
    let mut usable: Vec<(&Interface, IpAddr)> = interfaces
        .iter()
        .filter(|interface| interface.up && interface.carrier && !interface.internal)
        .filter_map(|interface| best_address(interface).map(|address| (interface, address)))
        .collect();
    let holds_node = |interface: &Interface| node_address.is_some_and(|node| interface.addresses.contains(&node));
    usable.sort_by_key(|(interface, _)| {
        let descending = std::cmp::Reverse((interface.speed_mbps, interface.mtu));
        (holds_node(interface), descending, interface.name.clone())
    });
    usable.first().map(|(interface, address)| (Some(interface.name.clone()), *address))
}

/// Checks that the sender's interface exists.
pub(crate) fn check(interfaces: &[Interface], name: &str) -> Result<(), Fault> {
    choose(interfaces, Some(name), None, None).map(|_| ())
}

/// Checks that an interface can carry anything; one that does not exist is `choose`'s to report.
pub(crate) fn check_up(interfaces: &[Interface], name: &str) -> Result<(), Fault> {
    let Some(interface) = interfaces.iter().find(|interface| interface.name == name) else { return Ok(()) };
    let why = match (interface.up, interface.carrier) {
        (true, true) => return Ok(()),
        (false, _) => format!("is down: bring it up with `ip link set {name} up`"),
        (true, false) => "has no carrier: check its cable, its switch port, or the device beneath it".to_owned(),
    };
    Err(Fault::new(Reason::InterfaceDown, format!("the interface {name} {why}, or choose another interface")))
}

/// The fault of a lost peer; that of the interface with this own address, where it cannot carry anything.
pub(crate) fn explained(fault: Fault, interfaces: &[Interface], own: IpAddr) -> Fault {
    if fault.reason != Reason::PeerLost {
        return fault;
    }
    match holding(interfaces, own).map(|name| check_up(interfaces, &name)) {
        Some(Err(down)) => Fault::new(down.reason, format!("{}; {}", down.message, fault.message)),
        _ => fault,
    }
}

/// Checks that this host has the sender's address.
pub(crate) fn check_address(interfaces: &[Interface], address: IpAddr) -> Result<(), Fault> {
    // To bind is the only exact question: a prefix may be local as a whole.
    if std::net::UdpSocket::bind((address, 0)).is_ok() {
        return Ok(());
    }
    let all = interfaces.iter().flat_map(|interface| &interface.addresses).map(ToString::to_string);
    let text = format!(
        "{address} is no address of this host; choose one of {} for --address",
        all.collect::<Vec<_>>().join(", ")
    );
    Err(Fault::new(Reason::InterfaceNotFound, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str, speed_mbps: u64, mtu: u64) -> Interface {
        let addresses = vec![address.parse().unwrap()];
        Interface { name: name.into(), addresses, up: true, carrier: true, internal: false, speed_mbps, mtu }
    }

    #[test]
    fn an_interface_says_what_it_has_carried_and_one_that_is_not_there_nothing() {
        assert!(carried("lo").is_some());
        assert_eq!(carried("not-there"), None);
    }

    #[test]
    fn a_peer_that_is_lost_with_the_own_interface_is_that_interfaces_fault() {
        let up = interface("data0", "198.18.0.1", 10_000, 1500);
        let unplugged = Interface { carrier: false, name: "data1".into(), ..interface("", "198.18.1.1", 0, 1500) };
        let all = [up, unplugged];
        let after = |reason, own: &str| explained(Fault::new(reason, "silent"), &all, own.parse().unwrap());
        let found = after(Reason::PeerLost, "198.18.1.1");
        assert_eq!((found.reason, found.retry), (Reason::InterfaceDown, true));
        assert!(found.message.starts_with("the interface data1 has no carrier") && found.message.ends_with("; silent"));
        for (reason, own) in
            [(Reason::PeerLost, "198.18.0.1"), (Reason::PeerLost, "198.18.2.1"), (Reason::Stalled, "198.18.1.1")]
        {
            assert_eq!(after(reason, own), Fault::new(reason, "silent"));
        }
    }

    #[test]
    fn an_interface_that_is_down_or_has_no_carrier_is_named_with_the_remedy() {
        let up = interface("data0", "198.18.0.1", 10_000, 1500);
        let down = Interface { up: false, carrier: false, name: "data1".into(), ..up.clone() };
        let unplugged = Interface { carrier: false, name: "data2".into(), ..up.clone() };
        let all = [up, down, unplugged];
        assert_eq!(check_up(&all, "data0"), Ok(()));
        assert_eq!(check_up(&all, "data9"), Ok(()));
        for (name, remedy) in [("data1", "ip link set data1 up"), ("data2", "cable")] {
            let fault = check_up(&all, name).unwrap_err();
            assert_eq!((fault.reason, fault.retry), (Reason::InterfaceDown, true));
            assert!(fault.message.contains(remedy) && fault.message.contains(name), "{fault}");
        }
    }

    #[test]
    fn the_automatic_choice_follows_the_rule() {
        let node: IpAddr = "192.0.2.1".parse().unwrap();
        let management = interface("eth0", "192.0.2.1", 100_000, 9000);
        let data = interface("data0", "198.18.0.1", 10_000, 1500);
        let faster = interface("data1", "198.18.1.1", 25_000, 1500);
        let larger = interface("data2", "198.18.2.1", 10_000, 9000);
        let down = Interface { up: false, ..interface("x", "198.18.3.1", 400_000, 9000) };
        let bridge = Interface { internal: true, ..interface("cni0", "198.18.4.1", 400_000, 9000) };
        let local = interface("y", "fe80::1", 400_000, 9000);
        let chosen = |list: &[&Interface]| {
            let list: Vec<Interface> = list.iter().map(|i| (*i).clone()).collect();
            choose(&list, Some("auto"), None, Some(node)).map(|(name, _)| name.unwrap()).map_err(|fault| fault.reason)
        };
        assert_eq!(chosen(&[&management, &data]), Ok("data0".into()));
        assert_eq!(chosen(&[&management, &data, &faster]), Ok("data1".into()));
        assert_eq!(chosen(&[&data, &larger]), Ok("data2".into()));
        assert_eq!(chosen(&[&management, &down, &bridge, &local]), Ok("eth0".into()));
        assert_eq!(chosen(&[&down, &bridge, &local]), Err(Reason::InterfaceNotFound));
    }

    #[test]
    fn several_interfaces_have_an_address_each_and_none_is_left_out() {
        let interfaces = [interface("data0", "198.18.0.1", 1, 1), interface("data1", "198.18.1.1", 1, 1)];
        let chosen = |names: &[&str], addresses: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let chosen = choose_all(&interfaces, &names, &addresses, None).map_err(|fault| fault.message)?;
            Ok(chosen.into_iter().map(|(name, address)| format!("{} {address}", name.unwrap())).collect::<Vec<_>>())
        };
        let both = vec!["data1 198.18.1.1".to_owned(), "data0 198.18.0.1".to_owned()];
        assert_eq!(chosen(&["data1", "data0"], &[]), Ok(both.clone()));
        assert_eq!(chosen(&["data1", "data0"], &["198.18.1.1", "198.18.0.1"]), Ok(both.clone()));
        assert_eq!(chosen(&[], &["198.18.1.1", "198.18.0.1"]), Ok(both));
        assert_eq!(chosen(&["auto"], &[]), Ok(vec!["data0 198.18.0.1".to_owned()]));
        let missing: Result<_, String> = chosen(&["data0", "data7"], &[]);
        assert!(missing.unwrap_err().contains("data7"));
    }

    #[test]
    fn an_interface_says_whether_it_has_a_carrier() {
        assert_eq!(has_carrier("lo"), Some(true));
        assert_eq!(has_carrier("not-there"), None);
    }

    #[test]
    fn a_missing_interface_is_named_with_those_that_exist() {
        let fault = check(&[interface("data0", "198.18.0.1", 1, 1)], "data9").unwrap_err();
        assert_eq!(fault.reason, Reason::InterfaceNotFound);
        assert!(fault.message.contains("data9") && fault.message.contains("data0"));
    }

    #[test]
    fn an_interface_with_an_address_for_the_link_alone_is_refused_by_that_address() {
        let interfaces = [interface("data0", "fe80::1", 1, 1), interface("data1", "198.18.0.1", 1, 1)];
        for address in [None, Some("fe80::1".parse().unwrap())] {
            let fault = choose(&interfaces, Some("data0"), address, None).unwrap_err();
            assert_eq!(fault.reason, Reason::InterfaceNotFound);
            assert!(fault.message.contains("fe80::1") && fault.message.contains("data1"), "{}", fault.message);
        }
        let loopback = interface("lo", "127.0.0.1", 1, 1);
        assert!(choose(&[loopback], Some("lo"), None, None).is_ok(), "both ends may be on one host");
    }

    #[test]
    fn a_foreign_address_is_named_with_those_that_exist() {
        let interfaces = [interface("data0", "198.18.0.1", 1, 1)];
        assert_eq!(check_address(&interfaces, "127.0.0.9".parse().unwrap()), Ok(()));
        let fault = check_address(&interfaces, "203.0.113.9".parse().unwrap()).unwrap_err();
        assert_eq!(fault.reason, Reason::InterfaceNotFound);
        assert!(fault.message.contains("203.0.113.9") && fault.message.contains("198.18.0.1"));
    }
}
