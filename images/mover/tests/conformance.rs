//! What every engine must pass, each case with each engine. A new engine is a line in the table at the end. Needs the feature
//! `fault-injection`.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::namespaces::Namespaces;
use support::pages::{assert_conventional, await_page, carried, is_publishing, kill, value, HOLD, PATIENT};
use support::{control, end_beside_frozen, http, inventory, moved, noise, unless_starved, Bench, End, Mover};

/// How both movers are told to use an engine.
struct EngineUnderTest {
    arguments: &'static [&'static str],
    /// The sender's congestion control, if it is not the usual one.
    control: Option<&'static str>,
    /// Congestion controls to begin with and to switch to.
    switches: [&'static str; 5],
}

const SWITCHES: [&str; 5] = ["reno", "cubic", "reno", "ledbat++", "cubic"];
const POLICIES: [&str; 5] = ["udt", "fixed", "reported", "blast", "udt"];

const BLOCK: u64 = 1 << 20;
const QUIET: &str = r#"{"quiet_for_ms":15000}"#;

impl EngineUnderTest {
    fn with<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        self.arguments.iter().copied().chain(more.iter().copied()).collect()
    }

    fn sending<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let own = self.control.filter(|_| !more.contains(&"--congestion-control"));
        [self.with(more), own.map_or(Vec::new(), |name| vec!["--congestion-control", name])].concat()
    }

    fn receiver(&self, bench: &Bench, more: &[&str]) -> (Mover, u16) {
        bench.receiver(&self.with(more))
    }

    fn sender(&self, bench: &Bench, port: u16, more: &[&str]) -> Mover {
        bench.sender(port, &self.sending(more))
    }
}

fn assert_arrived(bench: &Bench, receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(receiver.verdict["root_digest"], sender.verdict["root_digest"]);
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// A cap that holds the transfer back until the file is emptied, and a control socket.
struct HeldBack {
    cap: PathBuf,
    socket: PathBuf,
}

impl HeldBack {
    fn new(bench: &Bench) -> Self {
        Self { cap: bench.cap("2M").0, socket: bench.path("control") }
    }

    fn set_cap(&self, cap: &str) {
        support::set_cap(&self.cap, cap);
    }

    fn sender(&self, engine: &EngineUnderTest, bench: &Bench, port: u16, more: &[&str]) -> Mover {
        let (cap, socket) = (self.cap.display().to_string(), self.socket.display().to_string());
        let own = ["--bandwidth-file", &cap, "--control-socket", &socket];
        engine.sender(bench, port, &[&own[..], more].concat())
    }

    fn patch(&self, body: &str) {
        let (status, answer) = http(control(&self.socket), "PATCH", "/v1/transport", body);
        assert_eq!(status, 200, "{answer}");
    }

    fn stats(&self) -> Value {
        stats(&self.socket)
    }

    fn await_stats(&self, are: impl Fn(&Value) -> bool) {
        let deadline = std::time::Instant::now() + support::PATIENCE;
        loop {
            let stats = self.stats();
            if are(&stats) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{stats}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn stats(socket: &Path) -> Value {
    serde_json::from_str(&http(control(socket), "GET", "/v1/stats", "").1).unwrap()
}

fn trees_arrive_byte_for_byte(engine: &EngineUnderTest) {
    sends_nothing_twice(engine, a_tree);
}

fn a_tree(engine: &EngineUnderTest, bench: &Bench) -> (End, End) {
    bench.write("d/large", &noise((24 << 20) + 5, 1));
    (0..300).for_each(|file| bench.write(&format!("many/{file}"), &noise(4096, 100 + file)));
    bench.write("zero", b"");
    std::os::unix::fs::symlink("d/large", bench.source().join("link")).unwrap();
    let (receiver, sender) = bench.transfer(&engine.with(&[]), &engine.sending(&["--streams", "8"]));
    (sender, receiver)
}

fn an_attempt_after_a_kill_sends_what_is_missing(engine: &EngineUnderTest) {
    for dies in ["receiver", "sender"] {
        resends_at_most(engine, 2 * BLOCK, |bench| killed_and_resumed(engine, bench, dies));
    }
}

fn killed_and_resumed(engine: &EngineUnderTest, bench: &Bench, dies: &str) -> Tried {
    bench.write("large", &noise(40 << 20, 2));
    // One that does not publish: it may be killed late.
    let (mut receiver, port) = bench.receiver_of(1, &engine.with(&[]), &HOLD).unwrap();
    let slow = engine.sending(&["--bandwidth", "70M", "--streams", "2"]);
    let sender = bench.sender_of(1, port, &slow);
    receiver.await_progress(|progress| progress["bytes_transferred"].as_u64() > Some(8 << 20));
    // Before the kill, which breaks the connections too.
    let broke_before = a_connection_broke(bench);
    (if dies == "receiver" { &receiver } else { &sender }).signal("KILL");
    receiver.end();
    sender.end();
    let (receiver, sender) = bench.attempt(2, &engine.with(&[]), &engine.sending(&[]));
    assert_arrived(bench, &receiver, &sender);
    assert!(receiver.verdict["bytes_resumed"].as_u64() > Some(8 << 20), "{dies}: {receiver:?}");
    Tried { sender, receiver, broke: broke_before || a_connection_broke(bench) }
}

fn a_damaged_block_is_sent_again_and_counted(engine: &EngineUnderTest) {
    let bench = Bench::new();
    bench.write("large", &noise(6 << 20, 8));
    let (receiver, port) = engine.receiver(&bench, &[]);
    let damage = [("FAIRLEAD_FAULT_DAMAGE_PACK", "3")];
    let sender = bench.sender_under(1, port, &engine.sending(&[]), &damage).end();
    let receiver = receiver.end();
    assert_arrived(&bench, &receiver, &sender);
    assert_eq!((&receiver.verdict["blocks_damaged"], &sender.verdict["blocks_damaged"]), (&1.into(), &1.into()));
}

fn a_stall_ends_with_its_cause(engine: &EngineUnderTest) {
    let quick = ["--stall-timeout", "10"];
    unless_starved(|bench| {
        bench.write("file", &noise(8 << 20, 1));
        let hang = [("FAIRLEAD_FAULT_HANG", "WRITE")];
        let (receiver, port) = bench.receiver_of(1, &engine.with(&quick), &hang).unwrap();
        let sender = engine.sender(bench, port, &quick);
        let (sender, receiver) = (sender.end(), receiver.end());
        for end in [&sender, &receiver] {
            assert!(["Stalled", "PeerFailed"].contains(&end.reason()), "{end:?}");
            assert!(end.message().contains("disk slow"), "{end:?}");
        }
    });
    unless_starved(|bench| {
        bench.write("file", &noise(40 << 20, 2));
        let (receiver, port) = bench.receiver_of(1, &engine.with(&quick), &HOLD).unwrap();
        let sender = engine.sender(bench, port, &[&["--bandwidth", "40M"][..], &quick].concat());
        let sender = end_beside_frozen(sender, receiver);
        assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerLost"), "{sender:?}");
    });
}

/// Nonsense and half-right datagrams at the receiver's port, and a sender with another job's credentials, while the transfer runs.
fn strangers_change_nothing(engine: &EngineUnderTest) {
    let bench = Bench::new();
    bench.make_credentials("others");
    bench.write("file", &noise(16 << 20, 3));
    let (receiver, port) = engine.receiver(&bench, &[]);
    let held = HeldBack::new(&bench);
    let mut sender = held.sender(engine, &bench, port, &[]);
    sender.await_progress(moved);
    let stranger = bench.sender_with(port, "others/sender", &engine.sending(&["--source", "zero:1M"])).end();
    assert_eq!((stranger.code(), stranger.reason()), (Some(1), "PeerRejected"), "{stranger:?}");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for seed in 0..2000 {
        let mut datagram = noise(1200, seed);
        // As an Initial packet of QUIC version 1 begins, or one of another version, or the echo's.
        match seed % 4 {
            0 => datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 20]),
            1 => datagram[..6].copy_from_slice(&[0xc3, 0x6b, 0x33, 0x43, 0xcf, 8]),
            2 => datagram[..6].copy_from_slice(b"FLE1\x01\x01"),
            _ => {}
        }
        let _ = socket.send_to(&datagram, ("127.0.0.1", port));
    }
    held.set_cap("");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_arrived(&bench, &receiver, &sender);
    assert_eq!(receiver.verdict["blocks_damaged"], 0, "{receiver:?}");
}

/// How both ends of a case ended, and whether a data connection broke in it.
struct Tried {
    sender: End,
    receiver: End,
    broke: bool,
}

/// Whether a data connection of the sender that began last broke.
fn a_connection_broke(bench: &Bench) -> bool {
    std::fs::read_to_string(bench.said("sender")).unwrap().contains("a data connection broke")
}

/// Carries out a case after which no end counts more than so many bytes as sent again. Over UDP a connection breaks after six seconds of
/// silence, as where a process stands still, and its blocks are sent again: then the case is tried again, three times at most.
fn resends_at_most(engine: &EngineUnderTest, most: u64, case: impl Fn(&Bench) -> Tried) {
    for is_last in [false, false, true] {
        let Tried { sender, receiver, broke } = unless_starved(&case);
        let resent = [&sender, &receiver].map(|end| end.verdict["bytes_resent"].as_u64().unwrap());
        if resent.iter().all(|bytes| *bytes <= most) {
            return;
        }
        let is_over_udp = !engine.arguments.is_empty();
        assert!(is_over_udp && broke && !is_last, "{resent:?} bytes were sent again: {sender:?} {receiver:?}");
    }
}

fn sends_nothing_twice(engine: &EngineUnderTest, case: fn(&EngineUnderTest, &Bench) -> (End, End)) {
    resends_at_most(engine, 0, |bench| {
        let (sender, receiver) = case(engine, bench);
        assert_arrived(bench, &receiver, &sender);
        Tried { sender, receiver, broke: a_connection_broke(bench) }
    });
}

fn streams_come_and_go_and_the_control_is_switched_live(engine: &EngineUnderTest) {
    sends_nothing_twice(engine, switched_live);
}

fn switched_live(engine: &EngineUnderTest, bench: &Bench) -> (End, End) {
    // At these caps they last most of a minute: on a busy machine a stream that goes is seen late.
    bench.write("file", &noise(96 << 20, 1));
    let (receiver, port) = engine.receiver(bench, &[]);
    let held = HeldBack::new(bench);
    let [first, others @ ..] = engine.switches;
    let mut sender = held.sender(engine, bench, port, &["--streams", "1", "--congestion-control", first]);
    sender.await_progress(|progress| progress["streams"] == 1);
    let mut in_force = first;
    for ((streams, rate), name) in [(1, "8M"), (12, "8M"), (3, "20M"), (2, "20M")].into_iter().zip(others) {
        // Root may choose any that the engine has; elsewhere the one that every kernel allows must do.
        let asked = format!(r#"{{"congestion_control":"{name}"}}"#);
        let (status, _) = http(control(&held.socket), "PATCH", "/v1/transport", &asked);
        in_force = if status == 200 { name } else { in_force };
        held.patch(&format!(r#"{{"streams":{streams}}}"#));
        held.set_cap(rate);
        sender.await_progress(|progress| progress["streams"] == streams);
        held.set_cap("8M");
        let deadline = std::time::Instant::now() + support::PATIENCE;
        loop {
            let listed = held.stats();
            let open = listed["streams"].as_array().unwrap();
            if !open.is_empty() && open.iter().all(|stream| stream["congestion_control"] == in_force) {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{listed}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    held.set_cap("");
    (sender.end(), receiver.end())
}

fn a_cap_is_followed_live_and_a_quiet_period_moves_nothing(engine: &EngineUnderTest) {
    sends_nothing_twice(engine, capped_live);
}

fn capped_live(engine: &EngineUnderTest, bench: &Bench) -> (End, End) {
    // At these caps they last a minute: on a busy machine a rate is seen late.
    bench.write("file", &noise(120 << 20, 3));
    let (receiver, port) = engine.receiver(bench, &["--stall-timeout", "10"]);
    let held = HeldBack::new(bench);
    let mut sender = held.sender(engine, bench, port, &["--stall-timeout", "10"]);
    let measured = |progress: &Value| progress["bandwidth"]["measured_bps"].as_u64().unwrap_or(0);
    for (cap, bps) in [("4M", 4_000_000), ("8M", 8_000_000)] {
        held.set_cap(cap);
        let near = bps * 8 / 10..=bps * 102 / 100;
        sender
            .await_progress(|progress| progress["bandwidth"]["asked_bps"] == bps && near.contains(&measured(progress)));
    }
    let rate_bps = |stats: &Value| stats["bandwidth"]["measured_bps"].as_u64().unwrap_or(0);
    held.patch(QUIET);
    held.await_stats(|stats| {
        let is_quiet = stats["quiet_for_ms"].as_u64() > Some(0);
        if !is_quiet {
            held.patch(QUIET);
        }
        is_quiet && rate_bps(stats) < 200_000
    });
    held.await_stats(|stats| rate_bps(stats) > 5_000_000);
    held.set_cap("");
    (sender.end(), receiver.end())
}

fn several_interfaces_carry_and_one_that_dies_is_done_without(engine: &EngineUnderTest) {
    let mut bench = Bench::new();
    let Some(namespaces) = Namespaces::joined_by(2) else { return };
    bench.namespaces = Some(namespaces);
    bench.write("file", &noise(24 << 20, 4));
    let (receiver, port) = engine.receiver(&bench, &[]);
    let held = HeldBack::new(&bench);
    let sender = held.sender(engine, &bench, port, &["--streams", "2"]);
    let await_path = |path: usize, is: &dyn Fn(&Value) -> bool| {
        held.await_stats(|stats| stats["paths"].get(path).is_some_and(is));
    };
    (0..2).for_each(|path| await_path(path, &|path| path["streams"] == 2));
    bench.namespaces.as_ref().unwrap().cut_wire(1);
    await_path(1, &|path| path["up"] == false && path["streams"] == 0);
    held.set_cap("");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_arrived(&bench, &receiver, &sender);
}

fn a_path_that_loses_packets_carries_everything(engine: &EngineUnderTest) {
    let mut bench = Bench::new();
    let Some(namespaces) = Namespaces::new() else { return };
    namespaces.drop_data(100);
    bench.namespaces = Some(namespaces);
    bench.write("file", &noise(24 << 20, 5));
    let (receiver, sender) = bench.transfer(&engine.with(&[]), &engine.sending(&[]));
    assert_arrived(&bench, &receiver, &sender);
}

/// At 100 ms with 0.1 % of the data's packets lost.
fn a_long_path_that_loses_packets_carries_everything(engine: &EngineUnderTest) {
    let mut bench = Bench::new();
    let Some(namespaces) = Namespaces::over(&["--rate", "200M", "--delay", "50ms"]) else { return };
    namespaces.drop_data(1000);
    bench.namespaces = Some(namespaces);
    bench.write("file", &noise(6 << 20, 6));
    let (receiver, sender) = bench.transfer(&engine.with(&[]), &engine.sending(&[]));
    assert_arrived(&bench, &receiver, &sender);
    assert!(bench.namespaces.as_ref().unwrap().dropped_bytes() > 0, "nothing was lost");
}

fn metrics_count_what_was_moved_and_what_the_wire_carried(engine: &EngineUnderTest) {
    let mut bench = Bench::new();
    bench.namespaces = Namespaces::new();
    let Some(namespaces) = &bench.namespaces else { return };
    let length = 16 << 20;
    bench.write("file", &noise(length, 7));
    let (receiver, port, receiver_pages) = bench.served_receiver(1, &engine.with(&PATIENT), &HOLD);
    let extra = [&PATIENT[..], &["--http", "127.0.0.1:0", "--streams", "2"]].concat();
    let mut sender = bench.sender_under(1, port, &engine.sending(&extra), &[]);
    let sender_pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    let moved = await_page(|| namespaces.get(&namespaces.receiver, &receiver_pages, "/metrics").1, is_publishing);
    let sent =
        await_page(|| namespaces.get(&namespaces.sender, &sender_pages, "/metrics").1, |page| carried(page, length));
    for page in [&moved, &sent] {
        assert_conventional(page);
        assert_eq!(value(page, "transferred_bytes_total"), Some(length as f64), "{page}");
    }
    kill(receiver, sender);
}

macro_rules! conformance {
    ($($engine:ident: $arguments:expr, $control:expr, $switches:expr;)*) => { $(
        mod $engine {
            use super::EngineUnderTest;
            const ENGINE: EngineUnderTest =
                EngineUnderTest { arguments: $arguments, control: $control, switches: $switches };
            conformance! { @cases
                trees_arrive_byte_for_byte
                an_attempt_after_a_kill_sends_what_is_missing
                a_damaged_block_is_sent_again_and_counted
                a_stall_ends_with_its_cause
                strangers_change_nothing
                streams_come_and_go_and_the_control_is_switched_live
                a_cap_is_followed_live_and_a_quiet_period_moves_nothing
                several_interfaces_carry_and_one_that_dies_is_done_without
                a_path_that_loses_packets_carries_everything
                a_long_path_that_loses_packets_carries_everything
                metrics_count_what_was_moved_and_what_the_wire_carried
            }
        }
    )* };
    (@cases $($case:ident)*) => { $(
        #[test]
        fn $case() {
            super::$case(&ENGINE);
        }
    )* };
}

conformance! {
    tcp: &[], None, super::SWITCHES;
    quic: &["--protocol", "QUIC"], None, super::SWITCHES;
    quic_that_gives_way: &["--protocol", "QUIC"], Some("ledbat++"), super::SWITCHES;
    udt: &["--protocol", "UDT"], None, super::POLICIES;
    udt_at_a_fixed_rate: &["--protocol", "UDT"], Some("fixed"), super::POLICIES;
    udt_as_reported: &["--protocol", "UDT"], Some("reported"), super::POLICIES;
    udt_in_blasts: &["--protocol", "UDT"], Some("blast"), super::POLICIES;
}
