//! Two network namespaces joined by a virtual cable, for tests that cut it, by two routers, or by the WAN emulator.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

use super::skip;

/// The receiver's and the sender's namespace; gone when dropped.
pub(crate) struct Namespaces {
    pub(crate) receiver: String,
    pub(crate) sender: String,
    /// From the sender to the receiver; none where a cable joins them.
    routers: Vec<String>,
    /// Cables between the two ends.
    pub(crate) wires: usize,
    emulator: Option<Emulator>,
}

/// The receiver's address.
pub(crate) const ADDRESS: &str = "198.18.77.1";
const SENDER_ADDRESS: &str = "198.18.77.2";

/// Of `make rust`, from the package's folder, in which tests run: that of another checkout would stay in a build that both share.
const EMULATOR: &str = "../../build/bin/fairlead-wan";

/// The receiver's address on a wire.
pub(crate) fn address(wire: usize) -> String {
    format!("198.18.{}.1", 77 + wire)
}

impl Namespaces {
    /// Joined by one cable. Nothing where they cannot be made (needs root) and the skip is expected.
    pub(crate) fn new() -> Option<Self> {
        Self::joined_by(1)
    }

    /// Joined by so many cables, each between two interfaces `wireN`. Nothing as with `new`.
    pub(crate) fn joined_by(wires: usize) -> Option<Self> {
        let mut made = Self::alone()?;
        made.wires = wires;
        for wire in 0..wires {
            let (name, own) = (format!("wire{wire}"), format!("{}/24", address(wire)));
            let other = format!("198.18.{}.2/24", 77 + wire);
            made.cable([&made.receiver, &name, &own], [&made.sender, &name, &other], 1500);
        }
        made.await_up();
        Some(made)
    }

    /// Joined by a path with these options of the WAN emulator. Nothing as with `new`, or where the emulator is missing.
    pub(crate) fn over(path: &[&str]) -> Option<Self> {
        if let Some(missing) = [EMULATOR, "/dev/net/tun"].into_iter().find(|file| !Path::new(file).exists()) {
            skip(&format!("an emulated path needs {missing} (`make rust` builds the emulator)"));
            return None;
        }
        let mut made = Self::alone()?;
        let ends = [(&made.receiver, ADDRESS, SENDER_ADDRESS), (&made.sender, SENDER_ADDRESS, ADDRESS)];
        for (name, own, other) in ends {
            assert!(ip(&["-n", name, "tuntap", "add", "wire0", "mode", "tun"]));
            assert!(ip(&["-n", name, "addr", "add", own, "peer", other, "dev", "wire0"]));
            // By default a burst is dropped before the emulator sees it.
            assert!(ip(&["-n", name, "link", "set", "wire0", "mtu", "1500", "txqueuelen", "10000", "up"]));
        }
        made.emulator = Some(Emulator::join(&made.sender, &made.receiver, path));
        made.await_states(&["up", "unknown"]);
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
        made.await_up();
        Some(made)
    }

    /// Joined by a cable, and beside it by a router that each end's main routing table does not know. With `rules` each end has a rule by
    /// which packets from the address of its `wire1` go by a table that does. Nothing as with `new`.
    pub(crate) fn with_a_router_beside(rules: bool) -> Option<Self> {
        let mut made = Self::alone()?;
        let router = format!("{}a", made.sender.trim_end_matches('s'));
        assert!(ip(&["netns", "add", &router]));
        assert!(ip(&["netns", "exec", &router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]));
        made.routers.push(router);
        made.wires = 2;
        let (sender, receiver, router) = (&*made.sender, &*made.receiver, &*made.routers[0]);
        made.cable([receiver, "wire0", &format!("{ADDRESS}/24")], [sender, "wire0", "198.18.77.2/24"], 1500);
        made.cable([sender, "wire1", "198.18.79.2/24"], [router, "left", "198.18.79.254/24"], 1500);
        made.cable([router, "right", "198.18.78.254/24"], [receiver, "wire1", &format!("{}/24", address(1))], 1500);
        let ends = [
            (sender, "198.18.79.2", "198.18.78.0/24", "198.18.79.254"),
            (receiver, "198.18.78.1", "198.18.79.0/24", "198.18.78.254"),
        ];
        for (end, own, network, gateway) in if rules { &ends[..] } else { &[] } {
            assert!(ip(&["-n", end, "route", "add", network, "via", gateway, "dev", "wire1", "table", "101"]));
            assert!(ip(&["-n", end, "rule", "add", "from", own, "table", "101"]));
        }
        made.await_up();
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
        let made = Self { receiver, sender, routers: Vec::new(), wires: 1, emulator: None };
        assert!(ip(&["netns", "add", &made.sender]));
        for name in [&made.receiver, &made.sender] {
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
        }
        Some(made)
    }

    /// Waits until both ends of each wire are up: the kernel notices at its leisure that a cable has both its ends up.
    fn await_up(&self) {
        self.await_states(&["up"]);
    }

    /// Waits until both ends of each wire are in one of these states.
    fn await_states(&self, states: &[&str]) {
        let is_there =
            |end: &str, wire: usize| self.read(end, wire, "operstate").is_ok_and(|state| states.contains(&&*state));
        while !(0..self.wires).all(|wire| is_there(&self.receiver, wire) && is_there(&self.sender, wire)) {
            std::thread::sleep(Duration::from_millis(20));
        }
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

    /// From now on the link between the routers takes no packet of more than `mtu` bytes to the receiver.
    pub(crate) fn narrow(&self, mtu: u32) {
        assert!(ip(&["-n", &self.routers[0], "link", "set", "right", "mtu", &mtu.to_string()]));
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
        // The kernel notices a lost carrier some time later.
        let shown = || Command::new("ip").args(["-n", &self.sender, "link", "show", "wire0"]).output().unwrap().stdout;
        let deadline = Instant::now() + super::PATIENCE;
        while !administratively && !String::from_utf8_lossy(&shown()).contains("NO-CARRIER") {
            assert!(Instant::now() < deadline, "the carrier stays");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// From now on everything that comes to the receiver is lost.
    pub(crate) fn cut(&self) -> bool {
        let rule = "table inet cut { chain input { type filter hook input priority 0; policy drop; }; }";
        let status = Command::new("ip").args(["netns", "exec", &self.receiver, "nft", rule]).status();
        status.is_ok_and(|status| status.success())
    }

    /// From now on one of `every` long TCP segments, as they come to the receiver, is lost.
    pub(crate) fn drop_data(&self, every: u32) {
        let rule = format!("ip length > 1000 numgen inc mod {every} 0 counter drop;");
        assert!(self.nft(&format!("table ip lossy {{ chain input {{ type filter hook input priority 0; {rule} }}; }}")));
    }

    /// Bytes of IP packets that `drop_data` has dropped.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        let list = ["netns", "exec", &self.receiver, "nft", "list", "table", "ip", "lossy"];
        let listed = String::from_utf8(Command::new("ip").args(list).output().unwrap().stdout).unwrap();
        let (_, behind) = listed.split_once(" bytes ").unwrap();
        behind.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Bytes that the sender's interface of a wire has sent.
    pub(crate) fn sent(&self, wire: usize) -> u64 {
        self.read(&self.sender, wire, "statistics/tx_bytes").unwrap().parse().unwrap()
    }

    /// One HTTP request from within an end's network; status and body.
    pub(crate) fn get(&self, end: &str, address: &str, path: &str) -> (u16, String) {
        within(end, || super::get(address, path))
    }

    /// Has the kernel choose the receiver's ports from these.
    pub(crate) fn choose_ports_from(&self, ports: std::ops::Range<u16>) {
        let range = format!("echo {} {} > /proc/sys/net/ipv4/ip_local_port_range", ports.start, ports.end - 1);
        assert!(ip(&["netns", "exec", &self.receiver, "sh", "-c", &range]));
    }

    /// A socket of the receiver's namespace that has a port for UDP.
    pub(crate) fn udp_socket(&self, port: u16) -> UdpSocket {
        within(&self.receiver, || UdpSocket::bind((ADDRESS, port)).unwrap())
    }

    /// From now on everything that comes to the receiver over one wire is lost, until `mend`.
    pub(crate) fn cut_wire(&self, wire: usize) {
        let chain = format!("type filter hook input priority 0; iifname wire{wire} drop;");
        assert!(self.nft(&format!("table inet cut{wire} {{ chain input {{ {chain} }}; }}")));
    }

    /// From now on datagrams of more than `bytes` do not get to the receiver over one wire.
    pub(crate) fn shorten(&self, wire: usize, bytes: u32) {
        let chain =
            format!("type filter hook input priority 0; iifname wire{wire} meta l4proto udp ip length > {bytes} drop;");
        assert!(self.nft(&format!("table inet short {{ chain input {{ {chain} }}; }}")));
    }

    pub(crate) fn mend(&self, wire: usize) {
        assert!(self.nft(&format!("delete table inet cut{wire}")));
    }

    fn nft(&self, rules: &str) -> bool {
        let status = Command::new("ip").args(["netns", "exec", &self.receiver, "nft", rules]).status();
        status.is_ok_and(|status| status.success())
    }

    /// What the kernel says of an end of a wire.
    fn read(&self, end: &str, wire: usize, file: &str) -> std::io::Result<String> {
        let file = format!("/sys/class/net/wire{wire}/{file}");
        let output = Command::new("ip").args(["netns", "exec", end, "cat", &file]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Takes the receiver's end of a wire down: the sender's loses its carrier.
    pub(crate) fn unplug(&self, wire: usize) {
        assert!(ip(&["-n", &self.receiver, "link", "set", &format!("wire{wire}"), "down"]));
    }

    /// Bytes that came to the receiver over each wire.
    pub(crate) fn arrived(&self) -> Vec<u64> {
        let bytes = |wire| self.read(&self.receiver, wire, "statistics/rx_bytes").unwrap().parse().unwrap();
        (0..self.wires).map(bytes).collect()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // It would keep them alive.
        self.emulator = None;
        for router in &self.routers {
            ip(&["netns", "del", router]);
        }
        ip(&["netns", "del", &self.sender]);
        ip(&["netns", "del", &self.receiver]);
    }
}

/// A running `fairlead-wan`; ended when dropped.
struct Emulator {
    process: Child,
    /// Of its control socket.
    _folder: tempfile::TempDir,
}

impl Emulator {
    /// Joins the device `wire0` of two namespaces; packets flow.
    fn join(one: &str, other: &str, path: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(EMULATOR);
        command.args(["run", "--a", &format!("{one}:wire0"), "--b", &format!("{other}:wire0")]).args(path);
        command.arg("--control").arg(folder.path().join("control"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, _folder: folder }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `work` gives in a namespace, on a thread of its own.
fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let network = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
    let inside = || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
