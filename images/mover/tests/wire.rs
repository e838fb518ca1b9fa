//! Data connections of real processes, with and without encryption: what the network or an attacker does to them costs blocks,
//! never the transfer, and never goes unnoticed.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fairlead_protocol::opening::{Opening, NONCE_BYTES};
use support::proxy::{Mischief, Proxy};
use support::{inventory, noise, set_cap, Bench, End, PATIENCE};

const MODES: [&str; 2] = ["Required", "None"];

/// Transfers through a proxy: receiver, sender, and how many data connections there were.
fn through(bench: &Bench, mode: &str, mischief: Mischief) -> (End, End, usize) {
    let (receiver, port) = bench.receiver(&["--encryption", mode]);
    let proxy = Proxy::start(port, mischief);
    let sender = bench.sender(proxy.port, &["--encryption", mode, "--streams", "1"]).end();
    (receiver.end(), sender, proxy.data_connections())
}

fn verified(receiver: &End, sender: &End, bench: &Bench) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn both_ends_carry_a_tree_without_encryption() {
    let bench = Bench::new();
    bench.write("large", &noise((5 << 20) + 17, 1));
    (0..40).for_each(|file| bench.write(&format!("d/{file}"), &noise(file * 97, file as u64)));
    let (receiver, sender) = bench.transfer(&["--encryption", "None"], &["--encryption", "None"]);
    verified(&receiver, &sender, &bench);
    assert_eq!(receiver.verdict["verified"], serde_json::json!(["Wire", "Block"]));
}

#[test]
fn ends_that_want_different_encryption_say_so_and_part() {
    let bench = Bench::new();
    bench.write("file", b"x");
    for (receiving, sending) in [("Required", "None"), ("None", "Required")] {
        let (receiver, port) = bench.receiver(&["--encryption", receiving, "--peer-timeout", "15"]);
        let sender = bench.sender(port, &["--encryption", sending]).end();
        assert_eq!((sender.code(), sender.reason()), (Some(3), "PeerRejected"), "{sender:?}");
        assert!(sender.message().contains("--encryption"), "{sender:?}");
        let receiver = receiver.end();
        assert_eq!(receiver.reason(), "PeerUnreachable", "{receiver:?}");
        assert!(receiver.message().contains("--encryption"), "{receiver:?}");
    }
}

#[test]
fn a_flipped_bit_is_found_its_blocks_are_resent_and_counted() {
    // Behind the handshake: early, in a payload, and late in the stream; without encryption also in the first head.
    for (mode, offsets) in [("Required", [20_000, 100_000, 700_000]), ("None", [120, 100_000, 700_000])] {
        for offset in offsets {
            let bench = Bench::new();
            bench.write("file", &noise(8 << 20, 2));
            let (receiver, sender, _) = through(&bench, mode, Mischief::Flip(offset));
            verified(&receiver, &sender, &bench);
            let count = |end: &End, what: &str| end.verdict[what].as_u64().unwrap();
            assert!(count(&receiver, "blocks_damaged") >= 1, "{mode} {offset}: {receiver:?}");
            assert!(count(&sender, "bytes_resent") > 0, "{mode} {offset}: {sender:?}");
        }
    }
}

#[test]
fn a_stream_that_is_cut_in_order_is_not_taken_for_ended() {
    for mode in MODES {
        let bench = Bench::new();
        bench.write("file", &noise(8 << 20, 3));
        let (receiver, sender, connections) = through(&bench, mode, Mischief::Cut(300_000));
        verified(&receiver, &sender, &bench);
        assert!(connections >= 2, "{mode}: the stream was dialled again ({connections})");
    }
}

#[test]
fn foreign_bytes_in_a_stream_end_that_connection_alone() {
    let record: &[u8] = &[0x17, 3, 3, 0xff, 0xff];
    for mode in MODES {
        for strange in [&b"FLPK plain text"[..], record] {
            let bench = Bench::new();
            bench.write("file", &noise(6 << 20, 4));
            let (receiver, sender, connections) = through(&bench, mode, Mischief::Insert(200_000, strange));
            verified(&receiver, &sender, &bench);
            assert!(connections >= 2 || mode == "None", "{mode}: {connections}");
        }
    }
}

#[test]
fn an_idle_stream_that_ends_is_dialled_again() {
    for mode in MODES {
        for reset in [false, true] {
            let bench = Bench::new();
            // Two packs for four streams: two have nothing to do while the others crawl.
            bench.write("file", &noise(2 << 20, 5));
            let (receiver, port) = bench.receiver(&["--encryption", mode]);
            let proxy = Proxy::start(port, Mischief::Watch);
            let cap = bench.path("bandwidth");
            set_cap(&cap, "400k");
            let cap_file = cap.display().to_string();
            let mut sender =
                bench.sender(proxy.port, &["--encryption", mode, "--streams", "4", "--bandwidth-file", &cap_file]);
            sender.await_progress(|progress| progress["streams"] == 4);
            // Those that sent least are the idle ones.
            let idle = {
                let passages = proxy.passages.lock().unwrap();
                let mut data: Vec<_> = passages.iter().filter(|passage| passage.is_data()).collect();
                data.sort_by_key(|passage| passage.said.lock().unwrap().len());
                if reset {
                    data[0].reset();
                } else {
                    data[0].close();
                }
                data.len()
            };
            let deadline = Instant::now() + PATIENCE;
            while proxy.data_connections() == idle {
                assert!(Instant::now() < deadline, "{mode}: a stream that ended while idle was never dialled again");
                std::thread::sleep(Duration::from_millis(10));
            }
            set_cap(&cap, "");
            let (sender, receiver) = (sender.end(), receiver.end());
            verified(&receiver, &sender, &bench);
        }
    }
}

#[test]
fn a_replayed_greeting_and_a_wrong_key_get_nowhere() {
    let bench = Bench::new();
    bench.write("file", &noise(3 << 20, 6));
    let (receiver, port) = bench.receiver(&["--encryption", "None"]);
    let proxy = Proxy::start(port, Mischief::Watch);
    let (cap, file) = bench.cap("1M");
    let more = ["--encryption", "None", "--streams", "1", "--bandwidth-file", &file];
    let mut sender = bench.sender(proxy.port, &more);
    sender.await_progress(|progress| progress["streams"] == 1);
    let (recorded, said) = {
        let passages = proxy.passages.lock().unwrap();
        let passage = passages.iter().find(|passage| passage.is_data()).unwrap();
        let said = passage.said.lock().unwrap().clone();
        (passage.opening, said)
    };
    // Greeting of 72 bytes, then the proof and the first pack of a genuine stream, all of it recorded from an earlier one.
    let mut replay = TcpStream::connect(("127.0.0.1", port)).unwrap();
    replay.write_all(&recorded).unwrap();
    let _ = replay.write_all(&said);
    let mut answer = Vec::new();
    let _ = replay.read_to_end(&mut answer);
    assert!(answer.is_empty(), "a repeated opening is not even answered");
    // Somebody who has the credentials, and not the secret of the control connection.
    let opening = |nonce| bench.opening_key().seal(Opening::Keyed, [nonce; NONCE_BYTES]);
    let mut replay = TcpStream::connect(("127.0.0.1", port)).unwrap();
    replay.write_all(&opening(1)).unwrap();
    // The receiver hangs up at the proof, which may be before all of this is sent.
    let _ = replay.write_all(&said);
    let mut answer = Vec::new();
    let _ = replay.read_to_end(&mut answer);
    assert!(answer.len() <= 64, "the answer to the greeting and no more: {}", answer.len());
    let mut forged = TcpStream::connect(("127.0.0.1", port)).unwrap();
    forged.write_all(&opening(2)).unwrap();
    let mut greeting = said[..72].to_vec();
    greeting[71] ^= 1;
    forged.write_all(&greeting).unwrap();
    let mut answer = Vec::new();
    let _ = forged.read_to_end(&mut answer);
    assert!(answer.is_empty(), "a wrong key is not even answered");
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    verified(&receiver, &sender, &bench);
    assert_eq!(receiver.verdict["blocks_damaged"], 0);
    assert_eq!(sender.verdict["bytes_resent"], 0);
}

#[test]
fn strangers_at_every_door_disturb_nobody() {
    for mode in MODES {
        let bench = Bench::new();
        bench.write("file", &noise(4 << 20, 7));
        let (receiver, port) = bench.receiver(&["--encryption", mode]);
        let openings: [&[u8]; 6] =
            [b"", b"FL", b"FLMC", b"FLMD\x16\x03\x01\x40\x00", b"FLMKFLMV\x00\x02", b"GET / HTTP/1.1\r\n\r\n"];
        let mut strangers = Vec::new();
        for opening in openings.iter().cycle().take(240) {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _ = stranger.write_all(opening);
            strangers.push(stranger);
        }
        let sender = bench.sender(port, &["--encryption", mode]).end();
        verified(&receiver.end(), &sender, &bench);
    }
}

#[test]
fn a_transfer_from_memory_to_nowhere_measures_the_wire_alone() {
    for mode in MODES {
        let bench = Bench::new();
        let (receiver, sender) = bench.transfer(
            &["--destination", "null", "--encryption", mode],
            &["--source", "zero:70M", "--encryption", mode, "--streams", "3"],
        );
        for end in [&receiver, &sender] {
            assert_eq!((end.code(), end.reason()), (Some(0), "Verified"), "{mode}: {end:?}");
            assert_eq!(end.verdict["verified"], serde_json::json!(["Wire"]), "{mode}: {end:?}");
            assert_eq!(end.verdict["bytes_transferred"], 70_000_000);
            assert!(end.verdict["root_digest"].is_null(), "nothing is stored that it would be of");
        }
        assert!(!bench.destination().exists());
        assert!(!std::path::Path::new("null").exists());
    }
}

#[test]
fn zeros_can_be_stored_and_a_tree_can_be_thrown_away() {
    let bench = Bench::new();
    let (receiver, sender) = bench.transfer(&[], &["--source", "zero:3M"]);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(std::fs::read(bench.destination().join("zero")).unwrap(), vec![0; 3_000_000]);
    assert_eq!(receiver.verdict["verified"], serde_json::json!(["Wire", "Block"]));
    let bench = Bench::new();
    bench.write("file", &noise((2 << 20) + 5, 8));
    bench.write("empty", b"");
    let (receiver, sender) = bench.transfer(&["--destination", "null"], &[]);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(receiver.verdict["root_digest"], sender.verdict["root_digest"]);
    assert_eq!(receiver.verdict["verified"], serde_json::json!(["Wire", "Block"]));
    assert!(!bench.destination().exists());
}

#[test]
fn damage_is_found_where_nothing_is_stored() {
    for mode in MODES {
        let bench = Bench::new();
        let (receiver, port) = bench.receiver(&["--destination", "null", "--encryption", mode]);
        let proxy = Proxy::start(port, Mischief::Flip(500_000));
        let sender = bench.sender(proxy.port, &["--source", "zero:20M", "--encryption", mode, "--streams", "1"]).end();
        let receiver = receiver.end();
        assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
        assert!(receiver.verdict["blocks_damaged"].as_u64().unwrap() >= 1, "{mode}: {receiver:?}");
        assert_eq!(receiver.verdict["bytes_transferred"], 20_000_000);
    }
}

#[test]
fn what_makes_no_sense_together_is_refused_before_anything_happens() {
    let nothing = ["--tls-dir", "/nonexistent", "--json"];
    let cases: [&[&str]; 3] = [
        &["receive", "--port", "0", "--destination", "null", "--verify", "ReadBack"],
        &["send", "--connect", "127.0.0.1:1", "--source", "zero:1G", "--exclude", "x"],
        &["send", "--connect", "127.0.0.1:1", "--source", "zero:lots"],
    ];
    for case in cases {
        let all = [case, &nothing].concat();
        assert_eq!(support::run(&all).code(), Some(2), "{case:?}");
    }
}

#[test]
fn streams_leave_from_the_address_that_was_asked_for() {
    let bench = Bench::new();
    bench.write("file", &noise(1 << 20, 9));
    let (receiver, port) = bench.receiver(&["--socket-buffer", "300k"]);
    let mut sender = bench.sender(port, &["--address", "127.0.0.9", "--socket-buffer", "300k"]);
    let connected = sender.await_event("connected");
    assert!(connected["local"].as_str().unwrap().starts_with("127.0.0.9:"), "{connected}");
    let sender = sender.end();
    verified(&receiver.end(), &sender, &bench);
    let refused = bench.sender(1, &["--address", "203.0.113.9"]).end();
    assert_eq!((refused.code(), refused.reason()), (Some(3), "InterfaceNotFound"), "{refused:?}");
}
