//! Transfers without progress end with the cause, and those that crawl on purpose do not.
#![allow(clippy::unwrap_used)]

mod support;

use support::namespaces::Namespaces;
use support::pages::HOLD;
use support::{await_path, end_beside_frozen, inventory, moved, noise, stop_one, unless_starved, Bench};

const QUICK: [&str; 2] = ["--stall-timeout", "10"];

#[test]
fn a_disk_that_does_not_return_is_named_at_both_ends() {
    unless_starved(|bench| {
        bench.write("file", &noise(8 << 20, 1));
        let (receiver, port) = bench.receiver_of(1, &QUICK, &[("FAIRLEAD_FAULT_HANG", "WRITE")]).unwrap();
        let sender = bench.sender(port, &QUICK);
        let (sender, receiver) = (sender.end(), receiver.end());
        for end in [&sender, &receiver] {
            assert_eq!(end.code(), Some(1), "{end:?}");
            assert!(["Stalled", "PeerFailed"].contains(&end.reason()), "{end:?}");
            assert!(end.message().contains("disk slow") && end.message().contains("receiver's"), "{end:?}");
        }
        assert!(!bench.destination().join("file").exists());
    });
}

/// Before any data, one operation may take ten times as long: 50 s here.
#[test]
fn a_file_system_that_hangs_before_the_data_is_not_waited_for_for_ever() {
    let cases = [
        ("LIST", "sender"),
        ("HASH", "sender"),
        ("SURVEY", "receiver"),
        ("COMPARE", "receiver"),
        ("RESERVE", "receiver"),
    ];
    let hang = |operation: &str, role: &str, bench: &Bench| {
        // One to compare, and one to send.
        bench.write("a", b"same");
        bench.write("b", b"x");
        std::fs::create_dir(bench.destination()).unwrap();
        std::fs::write(bench.destination().join("a"), "same").unwrap();
        let (hung, quick) = ([("FAIRLEAD_FAULT_HANG", operation)], ["--stall-timeout", "5"]);
        let of = |own: &str| if own == role { (&hung[..], &quick[..]) } else { (&[][..], &[][..]) };
        let (env, extra) = of("receiver");
        let (receiver, port) = bench.receiver_of(1, &[&["--overwrite", "IfDifferent"], extra].concat(), env).unwrap();
        let (env, extra) = of("sender");
        let sender = bench.sender_under(1, port, extra, env);
        for (own, end) in [("sender", sender.end()), ("receiver", receiver.end())] {
            let expected = if own == role { "Stalled" } else { "PeerFailed" };
            assert_eq!((end.code(), end.reason()), (Some(1), expected), "{operation}, {own}: {end:?}");
            assert!(
                end.message().contains(&format!("disk slow: an operation on the {role}'s")),
                "{operation}: {end:?}"
            );
        }
    };
    std::thread::scope(|threads| {
        for (operation, role) in cases {
            threads.spawn(move || unless_starved(|bench| hang(operation, role, bench)));
        }
    });
}

#[test]
fn a_receiver_that_prepares_partial_files_still_answers_the_sender() {
    let (_bench, receiver, sender) = stop_one(|bench| {
        bench.write("empty", b"");
        let lasting = ["--peer-timeout", "3600", "--stall-timeout", "3600"];
        let (receiver, port) = bench.receiver_of(1, &lasting, &[("FAIRLEAD_FAULT_HANG", "RESERVE")]).unwrap();
        let sender = bench.sender(port, &lasting);
        await_path(&bench.partial().join("0"));
        (receiver, sender)
    });
    assert_eq!((receiver.code(), receiver.reason()), (Some(143), "StoppedBySignal"), "{receiver:?}");
    // It was told, and has not just lost its connection.
    assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerFailed"), "{sender:?}");
    assert!(sender.message().contains("StoppedBySignal"), "{sender:?}");
}

#[test]
fn a_transfer_whose_interface_loses_its_carrier_ends_with_the_interface_and_the_remedy() {
    let mut bench = Bench::new();
    bench.namespaces = Namespaces::new();
    let Some(namespaces) = &bench.namespaces else { return };
    bench.write("file", &noise(64 << 20, 3));
    let (receiver, port) = bench.receiver(&QUICK);
    let mut sender = bench.sender(port, &["--bandwidth", "20M", "--stall-timeout", "10"]);
    sender.await_progress(moved);
    namespaces.pull(false);
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.code(), sender.reason()), (Some(1), "InterfaceDown"), "{sender:?}");
    assert!(sender.message().starts_with("the interface wire0 has no carrier"), "{sender:?}");
    assert_eq!((receiver.code(), receiver.reason()), (Some(1), "InterfaceDown"), "{receiver:?}");
    assert!(receiver.message().starts_with("the interface wire0 is down"), "{receiver:?}");
}

#[test]
fn a_frozen_peer_is_silent_and_not_a_broken_path() {
    let bench = Bench::new();
    bench.write("file", &noise(40 << 20, 2));
    let (receiver, port) = bench.receiver_of(1, &QUICK, &HOLD).unwrap();
    let sender = bench.sender(port, &["--bandwidth", "40M", "--stall-timeout", "10"]);
    let sender = end_beside_frozen(sender, receiver);
    assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerLost"), "{sender:?}");
    assert!(sender.message().starts_with("peer silent"), "{sender:?}");
}

#[test]
fn a_cut_path_is_named_at_the_sender() {
    let mut bench = Bench::new();
    bench.namespaces = Namespaces::new();
    let Some(namespaces) = &bench.namespaces else { return };
    bench.write("file", &noise(40 << 20, 3));
    let (receiver, port) = bench.receiver_of(1, &QUICK, &HOLD).unwrap();
    let mut sender = bench.sender(port, &["--bandwidth", "40M", "--stall-timeout", "10"]);
    sender.await_progress(moved);
    assert!(namespaces.cut(), "the path is cut with nft");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.code(), sender.reason()), (Some(1), "PeerLost"), "{sender:?}");
    assert!(sender.message().contains("path down"), "{sender:?}");
    assert_eq!((receiver.code(), receiver.reason()), (Some(1), "PeerLost"), "{receiver:?}");
}

/// 1 Mb/s for three times as long as a stall may last: the streams with blocks crawl, those without stand still, and none is taken for dead.
#[test]
fn a_crawl_under_a_small_cap_is_no_stall() {
    unless_starved(|bench| {
        bench.write("file", &noise(4 << 20, 4));
        let (receiver, port) = bench.receiver(&QUICK);
        let sender = bench.sender(port, &["--bandwidth", "1M", "--streams", "32", "--stall-timeout", "10"]);
        let (sender, receiver) = (sender.end(), receiver.end());
        assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
        assert_eq!(receiver.verdict["bytes_resent"], 0, "{receiver:?}");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    });
}
