//! Two network namespaces joined by a virtual cable, for tests that cut it, or by two routers.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::skip;

/// The receiver's and the sender's namespace; gone when dropped.
pub(crate) struct Namespaces {
    pub(crate) receiver: String,
    pub(crate) sender: String,
    /// From the sender to the receiver; none where a cable joins them.
    routers: Vec<String>,
}

/// The receiver's address.
pub(crate) const ADDRESS: &str = "198.18.77.1";

impl Namespaces {
    /// Joined by one cable. Nothing where they cannot be made (needs root) and the skip is expected.
    pub(crate) fn new() -> Option<Self> {
        let made = Self::alone()?;
        made.cable(
            [&made.receiver, "wire0", &format!("{ADDRESS}/24")],
            [&made.sender, "wire0", "198.18.77.2/24"],
            1500,
        );
        Some(made)
    }

    /// Joined by two routers: the ends' cables have an MTU of 1500, the one between the routers has `mtu`. Nothing as with `new`.
    pub(crate) fn routed(mtu: u32) -> Option<Self> {
        let mut made = Self::alone()?;
        for end in ["a", "b"] {
            let router = format!("{}{end}", made.sender.trim_end_matches('s'));
            assert!(ip(&["netns", "add", &router]));
            assert!(ip(&["netns", "exec", &router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]));
            made.routers.push(router);
        }
        let (sender, receiver, a, b) = (&*made.sender, &*made.receiver, &*made.routers[0], &*made.routers[1]);
        made.cable([sender, "wire0", "198.18.78.2/24"], [a, "left", "198.18.78.1/24"], 1500);
        made.cable([a, "right", "198.18.79.1/24"], [b, "left", "198.18.79.2/24"], mtu);
        made.cable([b, "right", "198.18.77.254/24"], [receiver, "wire0", &format!("{ADDRESS}/24")], 1500);
        for (name, network, gateway) in [
            (sender, "198.18.77.0/24", "198.18.78.1"),
            (a, "198.18.77.0/24", "198.18.79.2"),
            (b, "198.18.78.0/24", "198.18.79.1"),
            (receiver, "198.18.78.0/24", "198.18.77.254"),
        ] {
            assert!(ip(&["-n", name, "route", "add", network, "via", gateway]));
        }
        Some(made)
    }

    /// Both ends' namespaces, joined by nothing yet.
    fn alone() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("fl{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (receiver, sender) = (format!("{tag}r"), format!("{tag}s"));
        if !ip(&["netns", "add", &receiver]) {
            skip("network namespaces cannot be made here (needs root and iproute2)");
            return None;
        }
        let made = Self { receiver, sender, routers: Vec::new() };
        assert!(ip(&["netns", "add", &made.sender]));
        for name in [&made.receiver, &made.sender] {
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
        }
        Some(made)
    }

    /// A virtual cable between two ends, each with its namespace, device and address.
    fn cable(&self, left: [&str; 3], right: [&str; 3], mtu: u32) {
        let ([from, device, _], [to, other, _]) = (left, right);
        assert!(ip(&["link", "add", device, "netns", from, "type", "veth", "peer", "name", other, "netns", to]));
        for [name, device, address] in [left, right] {
            assert!(ip(&["-n", name, "addr", "add", address, "dev", device]));
            assert!(ip(&["-n", name, "link", "set", device, "mtu", &mtu.to_string(), "up"]));
        }
    }

    /// From now on the routers say nothing of packets that are too long.
    pub(crate) fn drop_icmp(&self) {
        let rule = "table inet quiet { chain output { type filter hook output priority 0; icmp type destination-unreachable drop; }; }";
        for router in &self.routers {
            assert!(ip(&["netns", "exec", router, "nft", rule]));
        }
    }

    /// From now on the receiver gets no UDP.
    pub(crate) fn drop_udp(&self) {
        let rule = "table inet quiet { chain input { type filter hook input priority 0; meta l4proto udp drop; }; }";
        assert!(ip(&["netns", "exec", &self.receiver, "nft", rule]));
    }

    /// The sender's interface goes down, or loses its carrier as its other end goes down.
    pub(crate) fn pull(&self, administratively: bool) {
        let end = if administratively { &self.sender } else { &self.receiver };
        assert!(ip(&["-n", end, "link", "set", "wire0", "down"]));
    }

    /// From now on everything that comes to the receiver is lost.
    pub(crate) fn cut(&self) -> bool {
        let rule = "table inet cut { chain input { type filter hook input priority 0; policy drop; }; }";
        let status = Command::new("ip").args(["netns", "exec", &self.receiver, "nft", rule]).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for router in &self.routers {
            ip(&["netns", "del", router]);
        }
        ip(&["netns", "del", &self.sender]);
        ip(&["netns", "del", &self.receiver]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
