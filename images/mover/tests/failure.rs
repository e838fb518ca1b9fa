//! Transfers that must not succeed: each has its reason, at both ends, and leaves the destination's names alone.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use support::namespaces::Namespaces;
use support::pages::{hold_while, HOLD};
use support::{control, get, http, inventory, moved, noise, set_cap, skip, stop_one, Bench, Mover};

/// A file large enough that a capped transfer is still under way when something happens to it.
fn slow_source(bench: &Bench) {
    bench.write("slow", &noise(20 << 20, 9));
}

const SLOW: [&str; 2] = ["--bandwidth", "20M"];

#[test]
fn an_unusable_source_is_found_before_any_connection() {
    type Prepare = fn(&Bench);
    let cases: [(&str, Prepare, i32); 4] = [
        ("SourceMissing", |bench| std::fs::remove_dir(bench.source()).unwrap(), 3),
        ("SourceEmpty", |_| {}, 3),
        (
            "SourceNotDirectory",
            |bench| {
                std::fs::remove_dir(bench.source()).unwrap();
                std::fs::write(bench.source(), "file").unwrap();
            },
            3,
        ),
        (
            "NameNotAllowed",
            |bench| {
                drop(std::os::unix::net::UnixListener::bind(bench.source().join("a-socket")).unwrap());
            },
            3,
        ),
    ];
    for (reason, prepare, code) in cases {
        let bench = Bench::new();
        prepare(&bench);
        // Nobody listens there: a connection would be tried for longer than anything is waited for here.
        let sender = bench.sender(1, &["--peer-timeout", "3600"]).end();
        assert_eq!((sender.code(), sender.reason()), (Some(code), reason), "{sender:?}");
    }
}

#[test]
fn an_unknown_congestion_control_is_refused_with_the_remedy() {
    let bench = Bench::new();
    bench.write("file", b"x");
    let sender = bench.sender(1, &["--congestion-control", "nonsense"]).end();
    assert_eq!((sender.code(), sender.reason()), (Some(3), "CongestionControlUnavailable"));
    assert!(sender.message().contains("net.ipv4.tcp_available_congestion_control"));
}

#[test]
fn an_unknown_interface_is_named() {
    let bench = Bench::new();
    bench.write("file", b"x");
    let sender = bench.sender(1, &["--interface", "none0"]).end();
    assert_eq!((sender.code(), sender.reason()), (Some(3), "InterfaceNotFound"));
}

#[test]
fn an_absent_peer_is_unreachable_at_either_end() {
    let bench = Bench::new();
    bench.write("file", b"x");
    let sender = bench.sender(1, &["--peer-timeout", "1"]);
    let (receiver, _) = bench.receiver(&["--peer-timeout", "1"]);
    for end in [sender.end(), receiver.end()] {
        assert_eq!((end.code(), end.reason()), (Some(1), "PeerUnreachable"), "{end:?}");
    }
}

#[test]
fn credentials_of_another_job_are_rejected_and_cost_the_receiver_nothing() {
    let bench = Bench::new();
    bench.write("file", b"x");
    bench.make_credentials("foreign");
    let (receiver, port) = bench.receiver(&[]);
    let stranger = bench.sender_with(port, "foreign/sender", &[]).end();
    assert_eq!((stranger.code(), stranger.reason()), (Some(1), "PeerRejected"), "{stranger:?}");
    assert_eq!(bench.sender(port, &[]).end().reason(), "Verified");
    assert_eq!(receiver.end().reason(), "Verified");
}

#[test]
fn a_sender_whose_greeting_broke_is_welcome_when_it_comes_again() {
    let bench = Bench::new();
    bench.write("file", b"x");
    let (receiver, port) = bench.receiver_of(1, &[], &[("FAIRLEAD_FAULT_BREAK", "WELCOME")]).unwrap();
    let (sender, receiver) = (bench.sender(port, &[]).end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
}

#[test]
fn credentials_of_the_wrong_role_or_absent_are_invalid() {
    let bench = Bench::new();
    bench.write("file", b"x");
    for folder in ["tls/receiver", "nowhere"] {
        let sender = bench.sender_with(1, folder, &[]).end();
        assert_eq!((sender.code(), sender.reason()), (Some(3), "CredentialsInvalid"), "{sender:?}");
    }
}

#[test]
fn strangers_do_not_disturb_a_transfer() {
    let bench = Bench::new();
    bench.write("file", &noise(4 << 20, 5));
    let (receiver, port) = bench.receiver(&[]);
    let mut strangers = Vec::new();
    for number in 0..300 {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        if number % 2 == 0 {
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
        }
        strangers.push(stranger);
    }
    let sender = bench.sender(port, &[]).end();
    assert_eq!(sender.reason(), "Verified", "{sender:?}");
    assert_eq!(receiver.end().reason(), "Verified");
}

/// A receiver that ends by itself: its exit code and the end of its output.
fn refused(bench: &Bench, port: &str) -> (Option<i32>, String) {
    let log = bench.path("refused.json");
    let status = support::run(&[
        "receive",
        "--destination",
        &bench.destination().display().to_string(),
        "--port",
        port,
        "--address",
        "127.0.0.1",
        "--tls-dir",
        &bench.path("tls/receiver").display().to_string(),
        "--termination-log",
        &log.display().to_string(),
    ]);
    (status.code(), std::fs::read_to_string(log).unwrap())
}

#[test]
fn a_port_in_use_is_named() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, word) = refused(&bench, &taken.local_addr().unwrap().port().to_string());
    assert_eq!(code, Some(1));
    assert!(word.contains("AddressInUse"));
}

#[test]
fn a_port_in_use_for_udp_alone_is_named() {
    let bench = Bench::new();
    let told = || {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let place = taken.local_addr().unwrap();
        let (code, word) = refused(&bench, &place.port().to_string());
        assert!(code == Some(1) && word.contains("AddressInUse"), "{word}");
        word.contains(&format!("for UDP {place} is in use"))
    };
    // Of those that the kernel chooses, another test may have one for TCP.
    assert!((0..5).any(|_| told()));
}

#[test]
fn a_port_of_the_kernels_choice_is_free_for_udp_too() {
    let Some(namespaces) = Namespaces::new() else { return };
    let ports = 40_000..40_008;
    namespaces.choose_ports_from(ports.clone());
    let free = ports.end - 1;
    let _taken: Vec<UdpSocket> = (ports.start..free).map(|port| namespaces.udp_socket(port)).collect();
    let mut bench = Bench::new();
    bench.namespaces = Some(namespaces);
    let (receiver, port) = bench.receiver(&[]);
    assert_eq!(port, free);
    receiver.signal("TERM");
    receiver.end();
}

#[test]
fn a_destination_that_cannot_be_a_directory_is_refused() {
    let bench = Bench::new();
    std::fs::write(bench.destination(), "file").unwrap();
    let (code, word) = refused(&bench, "0");
    assert_eq!(code, Some(3));
    assert!(word.contains("DestinationExists"));
}

#[test]
fn a_killed_receiver_is_a_lost_peer() {
    let bench = Bench::new();
    slow_source(&bench);
    let (receiver, port) = bench.receiver_of(1, &[], &HOLD).unwrap();
    let mut sender = bench.sender(port, &SLOW);
    sender.await_progress(moved);
    receiver.signal("KILL");
    let sender = sender.end();
    assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerLost"), "{sender:?}");
    receiver.end();
    assert!(!bench.destination().join("slow").exists());
}

#[test]
fn a_killed_sender_leaves_the_destination_untouched() {
    let bench = Bench::new();
    slow_source(&bench);
    let (mut receiver, port) = bench.receiver_of(1, &[], &HOLD).unwrap();
    let sender = bench.sender(port, &SLOW);
    receiver.await_progress(moved);
    sender.signal("KILL");
    let receiver = receiver.end();
    assert_eq!((receiver.code(), receiver.reason()), (Some(1), "PeerLost"), "{receiver:?}");
    sender.end();
    assert!(!bench.destination().join("slow").exists());
    assert!(bench.partial().exists(), "partial files are kept for a later attempt");
}

#[test]
fn what_is_verified_is_published_without_the_sender() {
    type Stop = fn(&Mover);
    let ways: [(&str, Stop); 2] =
        [("lost", |sender| sender.signal("KILL")), ("failed", |sender| sender.signal("TERM"))];
    for (way, stop) in ways {
        let bench = Bench::new();
        bench.write("a/file", b"new");
        std::fs::create_dir_all(bench.destination().join("a")).unwrap();
        std::fs::write(bench.destination().join("a/file"), "old").unwrap();
        let held = bench.path("held");
        let env = hold_while(held.to_str().unwrap());
        let (mut receiver, port) = bench.receiver_of(1, &["--overwrite", "Always"], &env).unwrap();
        let sender = bench.sender(port, &[]);
        receiver.await_progress(|progress| progress["stage"] == "Publishing");
        stop(&sender);
        sender.end();
        bench.await_said("receiver", "is published all the same");
        std::fs::remove_file(&held).unwrap();
        let receiver = receiver.end();
        assert_eq!((receiver.code(), receiver.reason()), (Some(0), "Verified"), "{way}: {receiver:?}");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()), "{way}");
    }
}

#[test]
fn a_signal_stops_either_end_in_time_and_the_other_knows_why() {
    for stopped_role in ["sender", "receiver"] {
        let (bench, stopped, other) = stop_one(|bench| {
            slow_source(bench);
            // Neither is given up on for being silent, in the time that anything is waited for here: it must have been told.
            let lasting = ["--peer-timeout", "3600", "--stall-timeout", "3600"];
            let (receiver, port) = bench.receiver_of(1, &lasting, &HOLD).unwrap();
            let mut sender = bench.sender(port, &[&SLOW[..], &lasting].concat());
            sender.await_progress(moved);
            if stopped_role == "sender" {
                (sender, receiver)
            } else {
                (receiver, sender)
            }
        });
        assert_eq!((stopped.code(), stopped.reason()), (Some(143), "StoppedBySignal"), "{stopped:?}");
        assert_eq!(stopped.verdict["verdict"], "Stopped");
        assert_eq!((other.code(), other.reason()), (Some(1), "PeerFailed"), "{other:?}");
        assert!(other.message().contains("StoppedBySignal"));
        assert!(!bench.destination().join("slow").exists());
    }
}

/// A library that aborts a process which has it clean up at its end, as AWS-LC does when another thread is in a handshake then.
/// Nothing where there is no compiler.
fn library_that_aborts_at_exit(folder: &Path) -> Option<String> {
    let (source, library) = (folder.join("aborts.cpp"), folder.join("aborts.so").display().to_string());
    std::fs::write(
        &source,
        "#include <cstdlib>\n__attribute__((destructor)) static void at_exit() { std::abort(); }\n",
    )
    .unwrap();
    match Command::new("g++").args(["-shared", "-fPIC", "-o", &library]).arg(source).status() {
        Ok(status) => assert!(status.success(), "the library does not compile"),
        Err(error) => {
            skip(&format!("there is no g++ here to compile a library ({error})"));
            return None;
        }
    }
    Some(library)
}

#[test]
fn an_end_that_has_its_verdict_ends_by_it_whatever_a_library_does_at_exit() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library_that_aborts_at_exit(folder.path()) else { return };
    let preload = ("LD_PRELOAD", &*library);
    for (reason, code, code_of_sender) in [("Verified", 0, 0), ("StoppedBySignal", 143, 1)] {
        let bench = Bench::new();
        bench.write("file", b"x");
        // One that is stopped is held, so that it does not end by itself in time.
        let held = if code == 0 { &[][..] } else { &HOLD[..] };
        let (mut receiver, port) = bench.receiver_of(1, &[], &[&[preload], held].concat()).unwrap();
        let sender = bench.sender_under(1, port, &[], &[preload]);
        if code != 0 {
            receiver.await_progress(|progress| progress["stage"] == "Publishing");
            receiver.signal("TERM");
        }
        let (receiver, sender) = (receiver.end(), sender.end());
        assert_eq!((receiver.code(), receiver.reason()), (Some(code), reason), "{receiver:?}");
        assert_eq!(sender.code(), Some(code_of_sender), "{sender:?}");
    }
}

#[test]
fn a_source_that_changes_is_named_and_nothing_is_published() {
    let bench = Bench::new();
    slow_source(&bench);
    let (receiver, port) = bench.receiver(&[]);
    let (cap, file) = bench.cap("2M");
    let mut sender = bench.sender(port, &["--bandwidth-file", &file, "--streams", "1"]);
    sender.await_progress(moved);
    std::fs::OpenOptions::new().append(true).open(bench.source().join("slow")).unwrap().write_all(b"more").unwrap();
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.code(), sender.reason()), (Some(1), "SourceChanged"), "{sender:?}");
    assert!(sender.message().contains("slow"));
    assert_eq!(receiver.reason(), "PeerFailed");
    assert!(receiver.message().contains("SourceChanged"));
    assert!(!bench.destination().join("slow").exists());
}

#[test]
fn a_destination_without_room_is_full_before_data_moves() {
    let bench = Bench::new();
    bench.write("file", &noise(8 << 20, 6));
    if !bench.mount_small_destination(4) {
        return;
    }
    let (receiver, sender) = bench.transfer(&[], &[]);
    let names = inventory(&bench.destination());
    let unmounted = Command::new("umount").arg(bench.destination()).status().unwrap();
    assert!(unmounted.success());
    assert_eq!((receiver.code(), receiver.reason()), (Some(3), "DestinationFull"), "{receiver:?}");
    assert_eq!(receiver.verdict["bytes_transferred"], 0);
    assert!(sender.message().contains("DestinationFull"), "{sender:?}");
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn the_transport_is_awaited_changed_and_reported() {
    let bench = Bench::new();
    bench.write("file", &noise(96 << 20, 7));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    // Holds the transfer back until everything was tried, however busy the machine is.
    let (cap, file) = bench.cap("8M");
    let extra =
        ["--await-transport", "3600", "--control-socket", &path, "--bandwidth-file", &file, "--http", "127.0.0.1:0"];
    let mut sender = bench.sender(port, &extra);
    let pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    sender.await_progress(|progress| progress["stage"] == "AwaitingTransport");
    let (status, peer) = http(control(&socket), "GET", "/v1/peer", "");
    assert_eq!(status, 200);
    assert!(peer.contains(&format!("\"echo_port\":{port}")) && peer.contains("\"address\":\"127.0.0.1\""), "{peer}");
    let patch = |body: &str| http(control(&socket), "PATCH", "/v1/transport", body);
    for (body, field) in [
        (r#"{"streams":65}"#, "streams"),
        (r#"{"congestion_control":"nonsense"}"#, "congestion_control"),
        (r#"{"streams":2,"quiet_for_ms":15001}"#, "quiet_for_ms"),
        ("{", ""),
    ] {
        let (status, answer) = patch(body);
        assert_eq!(status, 422, "{answer}");
        assert!(answer.contains(&format!("\"field\":\"{field}\"")), "{answer}");
    }
    let (_, held) = get(&pages, "/v1/progress");
    assert!(held.contains("\"stage\":\"AwaitingTransport\"") && held.contains("\"bytes_transferred\":0"), "{held}");
    for (streams, control) in [(3, "reno"), (8, "reno"), (2, "reno")] {
        let (status, answer) = patch(&format!(r#"{{"streams":{streams},"congestion_control":"{control}"}}"#));
        assert_eq!(status, 200, "{answer}");
        sender.await_progress(|progress| progress["streams"] == streams);
        let (_, stats) = http(self::control(&socket), "GET", "/v1/stats", "");
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        assert!(
            stats["streams"].as_array().unwrap().iter().all(|stream| stream["congestion_control"] == control),
            "{stats}"
        );
    }
    assert_eq!(get(&pages, "/healthz").0, 200);
    assert!(get(&pages, "/metrics").1.contains("fairlead_mover_streams"));
    let endpoint = get(&pages, "/v1/endpoint").1;
    assert!(endpoint.contains("\"role\":\"sender\""));
    assert!(endpoint.contains("\"cpus\":null"), "a loopback has no NUMA node to pin threads to: {endpoint}");
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}
