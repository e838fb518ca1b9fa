//! The engines over UDP beside what every engine must do: what becomes of a transfer whose path lets no UDP through, and of ends that
//! disagree.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use support::namespaces::Namespaces;
use support::{control, http, inventory, moved, noise, set_cap, Bench, End};

const QUIC: [&str; 2] = ["--protocol", "QUIC"];
const UDT: [&str; 2] = ["--protocol", "UDT"];

fn assert_went_over_tcp(bench: &Bench, receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    let checks = sender.verdict["checks"].as_array().unwrap().iter();
    let told: Vec<_> = checks.filter(|check| check["check"] == "Protocol").collect();
    let [protocol] = told[..] else { panic!("once, and not {told:?}") };
    assert_eq!((&protocol["result"], &protocol["reason"]), (&"Warning".into(), &"ProtocolUnavailable".into()));
}

#[test]
fn where_udp_is_blocked_the_data_go_over_tcp_with_a_warning() {
    for protocol in [QUIC, UDT] {
        let mut bench = Bench::new();
        let Some(namespaces) = Namespaces::new() else { return };
        namespaces.drop_udp();
        bench.namespaces = Some(namespaces);
        bench.write("file", &noise(8 << 20, 1));
        let (receiver, sender) = bench.transfer(&protocol, &protocol);
        assert_went_over_tcp(&bench, &receiver, &sender);
    }
}

#[test]
fn where_udp_is_blocked_in_mid_transfer_the_rest_goes_over_tcp_with_a_warning() {
    for protocol in [QUIC, UDT] {
        let mut bench = Bench::new();
        let Some(namespaces) = Namespaces::new() else { return };
        bench.namespaces = Some(namespaces);
        bench.write("file", &noise(64 << 20, 2));
        let (cap, file) = bench.cap("16M");
        let (receiver, port) = bench.receiver(&protocol);
        let mut sender = bench.sender(port, &[protocol.as_slice(), &["--bandwidth-file", &file]].concat());
        let kept = sender.await_progress(|progress| progress["bytes_transferred"].as_u64() > Some(12 << 20));
        bench.namespaces.as_ref().unwrap().drop_udp();
        set_cap(&cap, "");
        let (sender, receiver) = (sender.end(), receiver.end());
        assert_went_over_tcp(&bench, &receiver, &sender);
        // What was in the ledger is not sent again.
        let again = receiver.verdict["bytes_resent"].as_u64().unwrap();
        assert!(again < kept["bytes_transferred"].as_u64().unwrap(), "{again} of {kept}");
    }
}

#[test]
fn where_udp_is_blocked_a_transfer_that_gives_way_does_so_over_tcp_or_ends_with_the_remedy() {
    let mut bench = Bench::new();
    let Some(namespaces) = Namespaces::new() else { return };
    namespaces.drop_udp();
    bench.namespaces = Some(namespaces);
    bench.write("file", &noise(8 << 20, 1));
    let gives_way = [QUIC.as_slice(), &["--congestion-control", "ledbat++", "--streams", "1"]].concat();
    let (receiver, sender) = bench.transfer(&QUIC, &gives_way);
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    if offered.split_whitespace().any(|name| name == "lp") {
        return assert_went_over_tcp(&bench, &receiver, &sender);
    }
    assert_eq!((sender.code(), sender.reason()), (Some(1), "ProtocolUnavailable"), "{sender:?}");
    for part in ["let UDP through", "does not offer the congestion control lp"] {
        assert!(sender.message().contains(part), "{sender:?}");
    }
    assert_ne!(receiver.reason(), "Verified");
}

#[test]
fn a_path_that_drops_long_packets_without_a_word_is_named_before_the_data() {
    for protocol in [QUIC, UDT] {
        let mut bench = Bench::new();
        let Some(namespaces) = Namespaces::routed(1400) else { return };
        namespaces.drop_icmp();
        bench.namespaces = Some(namespaces);
        bench.write("file", &noise(8 << 20, 5));
        let (receiver, sender) = bench.transfer(&protocol, &protocol);
        assert_eq!(sender.reason(), "PathMtuTooSmall", "{sender:?}");
        assert!(sender.message().contains("more than 1400 bytes"), "{sender:?}");
        assert!(receiver.message().contains("PathMtuTooSmall"), "{receiver:?}");
        assert!(!bench.destination().join("file").exists());
    }
}

#[test]
fn where_a_router_says_how_small_the_path_is_the_data_go_in_packets_that_fit() {
    for protocol in [QUIC, UDT] {
        let mut bench = Bench::new();
        let Some(namespaces) = Namespaces::routed(1400) else { return };
        bench.namespaces = Some(namespaces);
        bench.write("file", &noise(8 << 20, 6));
        let (receiver, sender) = bench.transfer(&protocol, &protocol);
        assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
        assert_eq!(sender.verdict["protocol"], protocol[1], "{sender:?}");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    }
}

/// How both ends end whose path drops long packets without a word from the middle of the transfer on.
fn narrowed(protocol: [&str; 2], bench: &mut Bench) -> Option<(End, End)> {
    let namespaces = Namespaces::routed(1500)?;
    namespaces.drop_icmp();
    bench.namespaces = Some(namespaces);
    bench.write("file", &noise(48 << 20, 7));
    let (receiver, port) = bench.receiver(&protocol);
    let (cap, file) = bench.cap("8M");
    let mut sender = bench.sender(port, &[&protocol[..], &["--bandwidth-file", &file]].concat());
    sender.await_progress(moved);
    bench.namespaces.as_ref().unwrap().narrow(1400);
    set_cap(&cap, "");
    let sender = sender.end();
    Some((receiver.end(), sender))
}

#[test]
fn where_long_packets_begin_to_vanish_the_data_go_on_in_shorter_ones() {
    for protocol in [QUIC, UDT] {
        let mut bench = Bench::new();
        let Some((receiver, sender)) = narrowed(protocol, &mut bench) else { return };
        assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
        assert!(sender.verdict["retransmitted_bytes"].as_u64() > Some(0), "nothing vanished: {sender:?}");
        assert_eq!(sender.verdict["protocol"], protocol[1], "{sender:?}");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    }
}

#[test]
fn a_packet_of_another_version_of_quic_is_answered_with_the_versions_here_if_its_sender_has_credentials() {
    let bench = Bench::new();
    let (receiver, port) = bench.receiver(&QUIC);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let send = |id: &[u8]| {
        // A long header (RFC 8999, section 5.1) of a version that nobody speaks, and an ID of its own.
        let mut packet = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, id.len() as u8][..], id, &[4, 1, 2, 3, 4]].concat();
        packet.resize(1200, 0);
        socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
    };
    let known = bench.opening_key().connection_id([7; 16]);
    let mut foreign = known;
    foreign[0] ^= 1;
    send(&foreign);
    send(&known);
    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer).unwrap();
    let answer = &answer[..length];
    assert!(answer.windows(known.len()).any(|id| id == known), "strangers get no answer: {answer:?}");
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]), "a version negotiation (RFC 8999, section 6)");
    assert!(answer.windows(4).any(|version| version == [0, 0, 0, 1]), "{answer:?}");
    receiver.signal("TERM");
    receiver.end();
}

#[test]
fn ends_with_different_protocols_are_told_so() {
    for protocol in [QUIC, UDT] {
        let bench = Bench::new();
        bench.write("file", &noise(1 << 20, 3));
        let (receiver, port) = bench.receiver(&[]);
        let sender = bench.sender(port, &protocol).end();
        assert_eq!(sender.reason(), "PeerRejected", "{sender:?}");
        let message = sender.verdict["message"].as_str().unwrap();
        assert!(message.contains(&protocol.join(" ")) && message.contains("TCP"), "{message}");
        receiver.signal("TERM");
        assert_ne!(receiver.end().reason(), "Verified");
    }
}

#[test]
fn a_control_that_gives_way_is_switched_to_and_from_while_data_flow_and_read_back() {
    let bench = Bench::new();
    bench.write("file", &noise(40 << 20, 4));
    let (receiver, port) = bench.receiver(&QUIC);
    let socket = bench.path("control").display().to_string();
    let (cap, file) = bench.cap("8M");
    let more = ["--bandwidth-file", &file, "--streams", "2", "--control-socket", &socket];
    let mut sender = bench.sender(port, &[QUIC.as_slice(), &more].concat());
    sender.await_progress(moved);
    let ask = |method: &str, path: &str, body: &str| {
        let (status, answer) = http(control(socket.as_ref()), method, path, body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    for name in ["ledbat++", "ledbat", "cubic", "ledbat++"] {
        ask("PATCH", "/v1/transport", &format!(r#"{{"congestion_control":"{name}"}}"#));
        let deadline = std::time::Instant::now() + support::PATIENCE;
        loop {
            let stats = ask("GET", "/v1/stats", "");
            let open = stats["streams"].as_array().unwrap();
            if open.len() == 2 && open.iter().all(|stream| stream["congestion_control"] == name) {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{stats}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
}
