//! Two network namespaces joined by a running `fairlead-wan`, gone when dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const DEVICE: &str = "wan0";
static LABS: AtomicU32 = AtomicU32::new(0);

/// Why the tests in namespaces cannot run here, if they cannot.
pub(crate) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("they need root".into());
    }
    if !PathBuf::from("/dev/net/tun").exists() {
        return Some("they need /dev/net/tun".into());
    }
    ["ip", "ping", "iperf3"]
        .into_iter()
        .find(|tool| Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err())
        .map(|tool| format!("they need the command {tool}"))
}

/// Two namespaces with a TUN or TAP device and an address each.
pub(crate) struct Lab {
    namespaces: [String; 2],
    addresses: [String; 2],
    folder: tempfile::TempDir,
    emulator: Option<Child>,
    servers: Vec<Child>,
}

impl Lab {
    /// Makes the namespaces with TUN devices; nothing joins them yet.
    pub(crate) fn new() -> Self {
        Self::with_devices("tun")
    }

    /// Makes the namespaces with TAP devices, for `run --ethernet`.
    pub(crate) fn ethernet() -> Self {
        Self::with_devices("tap")
    }

    fn with_devices(mode: &str) -> Self {
        let number = LABS.fetch_add(1, Ordering::SeqCst);
        let name = |end| format!("fairlead-wan-test-{}-{number}-{end}", std::process::id());
        let lab = Self {
            namespaces: [name("a"), name("b")],
            addresses: [format!("198.18.{number}.1"), format!("198.18.{number}.2")],
            folder: tempfile::tempdir().expect("a folder"),
            emulator: None,
            servers: vec![],
        };
        for end in 0..2 {
            let namespace = &lab.namespaces[end];
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
            ip(&format!("-n {namespace} tuntap add {DEVICE} mode {mode}"));
            ip(&format!("-n {namespace} addr add {} peer {} dev {DEVICE}", lab.addresses[end], lab.addresses[1 - end]));
            ip(&format!("-n {namespace} link set {DEVICE} mtu 1500 txqueuelen 10000 up"));
        }
        lab
    }

    /// Where the control socket is.
    pub(crate) fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// The command that joins the namespaces, with `options` after it.
    pub(crate) fn run_command(&self, control: &Path, options: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlead-wan"));
        command.arg("run").arg("--control").arg(control);
        for (end, option) in ["--a", "--b"].into_iter().enumerate() {
            command.arg(option).arg(format!("{}:{DEVICE}", self.namespaces[end]));
        }
        command.args(options.split_whitespace());
        command
    }

    /// Joins the namespaces and waits until packets flow.
    pub(crate) fn join(&mut self, options: &str) {
        let mut emulator = self.run_command(&self.control(), options).stdout(Stdio::piped()).spawn().expect("starts");
        let output = emulator.stdout.take().expect("a pipe");
        self.emulator = Some(emulator);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("reads");
        assert_eq!(line, "ready\n");
    }

    /// Sends the emulator `signal` and waits for its end.
    pub(crate) fn signal(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let mut emulator = self.emulator.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&emulator);
        rustix::process::kill_process(pid, signal).expect("signals");
        emulator.wait().expect("ends")
    }

    /// Asks the emulator by the command line: `stats`, or `set` with its options.
    pub(crate) fn ask(&self, arguments: &str) -> Output {
        let mut words = arguments.split_whitespace();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlead-wan"));
        command.args(words.next()).arg("--control").arg(self.control()).args(words);
        command.output().expect("asks")
    }

    /// The emulator's counters.
    pub(crate) fn stats(&self) -> Value {
        let output = self.ask("stats");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Runs a command line in namespace A (0) or B (1), with `PEER` standing for the other end's address.
    pub(crate) fn command(&self, end: usize, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespaces[end]]);
        command.args(line.replace("PEER", &self.addresses[1 - end]).split_whitespace());
        command
    }

    /// Round-trip times of `count` pings from A to B, in milliseconds; those that were lost are missing.
    pub(crate) fn ping_ms(&self, count: usize) -> Vec<f64> {
        let output = self.command(0, &format!("ping -n -c {count} -i 0.1 -W 1 PEER")).output().expect("pings");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' ')?.0.parse().ok()).collect()
    }

    /// Starts an iperf3 server in namespace B and waits until it listens.
    pub(crate) fn serve_iperf(&mut self, port: u16) {
        let server = self
            .command(1, &format!("iperf3 -s -p {port} --forceflush"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        self.servers.push(server);
        let output = self.servers.last_mut().and_then(|server| server.stdout.take()).expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("listening"))), "iperf3 does not listen");
        // Its later output must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
    }

    /// What iperf3 from A to B received on average after its warm-up, in bits per second.
    pub(crate) fn iperf_bps(&self, options: &str) -> f64 {
        let output = self.command(0, &format!("iperf3 -J -c PEER {options}")).output().expect("runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("no result: {report:#}"))
    }

    /// UDP at 25 Mb/s from A to B for two seconds; iperf3 has no result where the path loses the one packet that it begins with.
    pub(crate) fn flood_by_iperf(&self) {
        self.command(0, "iperf3 -c PEER -u -b 25M -l 1000 -t 2").output().expect("runs");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.servers.iter_mut().chain(&mut self.emulator) {
            let _already_ended = child.kill();
            let _already_reaped = child.wait();
        }
        for namespace in &self.namespaces {
            let _never_made = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
        }
    }
}

/// Waits until `condition` holds, longer than it takes on a busy machine.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(480);
    while !condition() {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
