//! A transfer over two paths at once, and what becomes of it when one of them dies.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::namespaces::{self, Namespaces};
use support::pages::HOLD;
use support::{control, http, inventory, moved, noise, set_cap, Bench, End, Mover, PATIENCE};

/// Slow enough for the transfer to outlast what is done to it.
const SLOW: [&str; 4] = ["--bandwidth", "60M", "--streams", "2"];

/// Both ends, joined by two wires, with so many MiB to move.
fn two_paths(mib: usize, seed: u64) -> Option<Bench> {
    let mut bench = Bench::new();
    bench.namespaces = Some(Namespaces::joined_by(2)?);
    bench.write("file", &noise(mib << 20, seed));
    Some(bench)
}

fn wires(bench: &Bench) -> &Namespaces {
    bench.namespaces.as_ref().unwrap()
}

fn ends(bench: &Bench, receiver: Mover, sender: Mover) -> (End, End) {
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    (sender, receiver)
}

/// Reads the control socket until a path is as it should be.
fn await_path(bench: &Bench, path: usize, is: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, text) = http(control(&bench.path("control")), "GET", "/v1/stats", "");
        let stats: Value = serde_json::from_str(&text).unwrap();
        if stats["paths"].get(path).is_some_and(&is) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{stats}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A sender with a control socket and a cap that holds the transfer back until the file is emptied, however busy the machine is.
fn held_back(bench: &Bench, port: u16, more: &[&str]) -> (Mover, PathBuf) {
    let (socket, (cap, file)) = (bench.path("control").display().to_string(), bench.cap("2M"));
    let extra = ["--streams", "2", "--control-socket", &socket, "--bandwidth-file", &file];
    (bench.sender(port, &[&extra[..], more].concat()), cap)
}

fn carries(path: &Value) -> bool {
    path["up"] == true && path["streams"] == 2
}

#[test]
fn both_paths_carry_one_transfer_and_are_reported_and_set_one_by_one() {
    let Some(bench) = two_paths(24, 1) else { return };
    let (receiver, port) = bench.receiver(&[]);
    let (sender, cap) = held_back(&bench, port, &[]);
    await_path(&bench, 0, carries);
    let stats = await_path(&bench, 1, carries);
    for (at, path) in stats["paths"].as_array().unwrap().iter().enumerate() {
        assert_eq!(path["interface"], format!("wire{at}"), "{stats}");
        assert!(path["rtt_seconds"].is_number() && path["congestion_control"].is_string(), "{stats}");
    }
    let patch = |body: &str| http(control(&bench.path("control")), "PATCH", "/v1/transport", body);
    let (status, answer) = patch(r#"{"path":1,"streams":1,"congestion_control":"reno"}"#);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, &answer["streams"], &answer["paths"][0]["streams"]), (200, &1.into(), &2.into()), "{answer}");
    await_path(&bench, 1, |path| path["streams"] == 1 && path["congestion_control"] == "reno");
    assert_eq!(patch(r#"{"streams":33}"#).0, 422, "33 on each of two paths are too many");
    assert_eq!(patch(r#"{"path":2,"streams":1}"#).0, 422, "there is no third path");
    set_cap(&cap, "60M");
    ends(&bench, receiver, sender);
    let arrived = wires(&bench).arrived();
    assert!(arrived.iter().all(|bytes| *bytes > 4 << 20), "{arrived:?}");
}

/// Waits until so much came over a wire from one look to the next that the part of wire 1, beside wire 0, is as it should be.
fn await_ratio(bench: &Bench, expected: std::ops::Range<f64>) {
    let deadline = Instant::now() + PATIENCE;
    let mut before = wires(bench).arrived();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = wires(bench).arrived();
        let [first, second] = [0, 1].map(|wire| now[wire] - before[wire]);
        if first.max(second) < 3 << 20 {
            continue;
        }
        let ratio = second as f64 / first.max(1) as f64;
        if expected.contains(&ratio) {
            return;
        }
        assert!(Instant::now() < deadline, "{first} and {second} bytes, instead of {expected:?}");
        before = now;
    }
}

#[test]
fn each_path_is_held_to_a_cap_of_its_own_which_changes_live_and_is_no_other_path_s() {
    let Some(bench) = two_paths(1, 14) else { return };
    let (receiver, port) = bench.receiver(&["--destination", "null"]);
    let (caps, socket) = (bench.path("caps"), bench.path("control").display().to_string());
    set_cap(&caps, "20M,60M");
    let file = caps.display().to_string();
    let own = ["--source", "zero:1T", "--streams", "2", "--bandwidth", "80M", "--path-bandwidth-file", &file];
    let pages = ["--control-socket", &socket, "--http", "127.0.0.1:0"];
    let mut sender = bench.sender(port, &[&own[..], &pages].concat());
    let page = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    await_path(&bench, 0, carries);
    await_path(&bench, 1, carries);
    await_ratio(&bench, 2.6..3.2);
    let now = || -> Value {
        let (_, text) = wires(&bench).get(&wires(&bench).sender, &page, "/v1/progress");
        serde_json::from_str(&text).unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = now();
        let counted = [0, 1].map(|path| shown["interfaces"][path]["wire_bytes"].as_u64().unwrap());
        // The whole and the paths are read one after the other.
        let adds_up = shown["bandwidth"]["wire_bytes"].as_u64() == Some(counted[0] + counted[1]);
        if adds_up && counted[0] > 1 << 20 && counted[1] > counted[0] * 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{shown}");
        std::thread::sleep(Duration::from_millis(20));
    }
    set_cap(&caps, "60M,20M");
    await_ratio(&bench, 0.3..0.4);
    // Nonsense leaves what was.
    set_cap(&caps, "60M");
    await_ratio(&bench, 0.3..0.4);
    // The first events come before there is a cap.
    let measured = |progress: &Value| progress["bandwidth"]["measured_bps"].as_u64().unwrap_or(0);
    let sent = |progress: &Value| progress["bandwidth"]["wire_bytes"].as_u64().unwrap_or(0);
    wires(&bench).cut_wire(0);
    await_path(&bench, 0, |path| path["up"] == false);
    let when_cut = sent(&now());
    sender.await_progress(|progress| {
        sent(progress) >= when_cut && (15_000_000..20_400_000).contains(&measured(progress))
    });
    for _ in 0..5 {
        let shown = sender.await_event("progress");
        assert!(measured(&shown) < 40_000_000, "the lost path's cap is the other one's: {shown}");
    }
    set_cap(&caps, "");
    sender.await_progress(|progress| measured(progress) > 60_000_000);
    sender.signal("TERM");
    sender.end();
    receiver.end();
}

/// Each path is cut once in every tenth of a transfer, in either mode.
#[test]
fn a_path_that_is_cut_at_a_random_moment_leaves_its_blocks_to_the_other_ten_times_of_ten() {
    let run = |seed: u64| {
        let Some(bench) = two_paths(16, seed) else { return };
        let mode = ["--encryption", if seed % 3 == 0 { "None" } else { "Required" }];
        let (receiver, port) = bench.receiver(&mode);
        let mut sender = bench.sender(port, &[&SLOW[..], &mode].concat());
        sender.await_progress(moved);
        // Any moment will do: nothing waits for it to pass.
        std::thread::sleep(Duration::from_millis(noise(1, seed)[0].into()) * 5);
        wires(&bench).cut_wire(seed as usize % 2);
        ends(&bench, receiver, sender);
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..10).map(|seed| scope.spawn(move || run(seed))).collect();
        runs.into_iter().for_each(|run| run.join().unwrap());
    });
}

#[test]
fn a_path_that_comes_back_carries_again() {
    for wire in [0, 1] {
        let Some(bench) = two_paths(64, 7) else { return };
        let (receiver, port) = bench.receiver(&[]);
        let (mut sender, cap) = held_back(&bench, port, &[]);
        sender.await_progress(moved);
        await_path(&bench, wire, carries);
        wires(&bench).cut_wire(wire);
        await_path(&bench, wire, |path| path["up"] == false && path["streams"] == 0);
        await_path(&bench, 1 - wire, carries);
        wires(&bench).mend(wire);
        await_path(&bench, wire, carries);
        let before = wires(&bench).arrived()[wire];
        set_cap(&cap, "");
        ends(&bench, receiver, sender);
        assert!(wires(&bench).arrived()[wire] > before + (1 << 20), "it carries nothing");
    }
}

#[test]
fn an_interface_that_loses_its_carrier_is_left_at_once() {
    let Some(bench) = two_paths(64, 8) else { return };
    let (receiver, port) = bench.receiver(&[]);
    let (mut sender, cap) = held_back(&bench, port, &["--http", "127.0.0.1:0"]);
    let pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    sender.await_progress(moved);
    let peer =
        || -> Value { serde_json::from_str(&http(control(&bench.path("control")), "GET", "/v1/peer", "").1).unwrap() };
    // On a busy machine the first path may not be the first that could be connected.
    let wire = usize::from(peer()["address"] == "198.18.78.1");
    await_path(&bench, 1 - wire, carries);
    wires(&bench).unplug(wire);
    await_path(&bench, wire, |path| path["up"] == false);
    let deadline = Instant::now() + PATIENCE;
    while peer()["address"] != format!("198.18.{}.1", 78 - wire) {
        assert!(Instant::now() < deadline, "whoever probes is not told of the other path");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(peer()["source_address"], format!("198.18.{}.2", 78 - wire));
    let (_, page) = wires(&bench).get(&wires(&bench).sender, &pages, "/v1/progress");
    let shown: Value = serde_json::from_str(&page).unwrap();
    let [lost, other] = [wire, 1 - wire].map(|at| &shown["interfaces"][at]);
    assert_eq!((&lost["interface"], &lost["up"]), (&format!("wire{wire}").into(), &false.into()), "{shown}");
    assert_eq!(other["up"], true, "{shown}");
    set_cap(&cap, "");
    ends(&bench, receiver, sender);
}

#[test]
fn a_path_on_which_data_would_stall_is_told_by_its_name_whichever_has_the_control_connection() {
    for (wire, named) in [(0, "path 0 from wire0 to 198.18.77.1"), (1, "path 1 from wire1 to 198.18.78.1")] {
        let Some(bench) = two_paths(1, 13) else { return };
        wires(&bench).shorten(wire, 1400);
        let (receiver, port) = bench.receiver(&[]);
        let sender = bench.sender(port, &[]).end();
        assert_eq!(sender.reason(), "PathMtuTooSmall", "{sender:?}");
        let parts = [named, "more than 1400 bytes do not get to"];
        assert!(parts.iter().all(|part| sender.message().contains(part)), "{sender:?}");
        assert!(receiver.end().message().contains(named));
    }
}

#[test]
fn a_path_that_is_dead_from_the_start_is_done_without() {
    for wire in [0, 1] {
        let Some(bench) = two_paths(4, 9) else { return };
        wires(&bench).cut_wire(wire);
        let (receiver, port) = bench.receiver(&[]);
        let sender = bench.sender(port, &[]);
        let (sender, _) = ends(&bench, receiver, sender);
        let checks = sender.verdict["checks"].as_array().unwrap();
        let warned = checks.iter().find(|check| check["reason"] == "PeerUnreachable").unwrap();
        assert_eq!((&warned["check"], &warned["result"]), (&"Peer".into(), &"Warning".into()), "{checks:?}");
        assert!(warned["message"].as_str().unwrap().contains(&format!("path {wire} from wire{wire}")), "{warned}");
    }
}

#[test]
fn an_interface_that_is_down_from_the_start_is_a_warning_where_another_one_works() {
    let Some(bench) = two_paths(4, 12) else { return };
    wires(&bench).pull(true);
    let (receiver, port) = bench.receiver(&[]);
    let sender = bench.sender(port, &[]);
    let (sender, _) = ends(&bench, receiver, sender);
    let checks = sender.verdict["checks"].as_array().unwrap();
    let warned = checks.iter().find(|check| check["reason"] == "InterfaceDown").unwrap();
    assert_eq!((&warned["check"], &warned["result"]), (&"Interface".into(), &"Warning".into()), "{checks:?}");
    assert!(warned["message"].as_str().unwrap().contains("ip link set wire0 up"), "{warned}");
}

/// A transfer of a few MiB whose second path leads over a router, with the sender's checks of its routes.
fn over_a_router(rules: bool) -> Option<(Bench, Vec<Value>)> {
    let mut bench = Bench::new();
    bench.namespaces = Some(Namespaces::with_a_router_beside(rules)?);
    bench.write("file", &noise(16 << 20, 15));
    let (receiver, port) = bench.receiver(&[]);
    let sender = bench.sender(port, &SLOW);
    let (sender, _) = ends(&bench, receiver, sender);
    let checks = sender.verdict["checks"].as_array().unwrap().clone();
    Some((bench, checks.into_iter().filter(|check| check["check"] == "Route").collect()))
}

#[test]
fn a_path_whose_route_only_a_rule_by_source_address_finds_carries() {
    let Some((bench, routes)) = over_a_router(true) else { return };
    assert!(routes.iter().all(|check| check["result"] == "Passed"), "{routes:?}");
    let shown = format!("{} is reached through wire1 by 198.18.79.254", namespaces::address(1));
    assert!(routes.iter().any(|check| check["message"].as_str().unwrap().contains(&shown)), "{routes:?}");
    let arrived = wires(&bench).arrived();
    assert!(arrived.iter().all(|bytes| *bytes > 2 << 20), "{arrived:?}");
}

#[test]
fn a_path_without_a_route_is_told_with_the_rule_that_it_lacks_and_done_without() {
    let Some((bench, routes)) = over_a_router(false) else { return };
    let warned = routes.iter().find(|check| check["reason"] == "RouteMissing").unwrap();
    assert_eq!(warned["result"], "Warning", "{routes:?}");
    assert!(warned["message"].as_str().unwrap().contains("through the interface wire1"), "{warned}");
    let arrived = wires(&bench).arrived();
    assert!(arrived[0] > 16 << 20 && arrived[1] < 1 << 20, "{arrived:?}");
}

#[test]
fn when_every_path_is_cut_the_transfer_ends_with_the_cause() {
    let Some(bench) = two_paths(80, 10) else { return };
    let quick = ["--stall-timeout", "10"];
    let (receiver, port) = bench.receiver_of(1, &quick, &HOLD).unwrap();
    let mut sender = bench.sender(port, &[&SLOW[..], &quick].concat());
    sender.await_progress(moved);
    (0..2).for_each(|wire| wires(&bench).cut_wire(wire));
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerLost"), "{sender:?}");
    assert_eq!((receiver.code(), receiver.reason()), (Some(1), "PeerLost"), "{receiver:?}");
}

#[test]
fn an_end_that_is_killed_is_noticed_by_the_other_as_with_one_path() {
    for dies in ["receiver", "sender"] {
        let Some(bench) = two_paths(80, 11) else { return };
        let (receiver, port) = bench.receiver_of(1, &[], &HOLD).unwrap();
        let mut sender = bench.sender(port, &SLOW);
        sender.await_progress(moved);
        let survivor = if dies == "receiver" {
            receiver.signal("KILL");
            receiver.end();
            sender.end()
        } else {
            sender.signal("KILL");
            sender.end();
            receiver.end()
        };
        assert_eq!((survivor.code(), survivor.reason()), (Some(1), "PeerLost"), "{dies}: {survivor:?}");
    }
}
