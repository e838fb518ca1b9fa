//! A thread of the mover that panics among the data ends the attempt in order, and the next one has the right tree. Needs the feature
//! `fault-injection`.
#![allow(clippy::unwrap_used)]

mod support;

use support::{inventory, noise, Bench};

/// Neither end is given up on for being silent or still, in the time that anything is waited for here.
const LASTING: [&str; 4] = ["--stall-timeout", "3600", "--peer-timeout", "3600"];

/// One end panics at the place, as `panic_point` has it.
fn panic_at(protocol: &str, role: &str, place: &str) {
    let bench = Bench::new();
    bench.write("file", &noise(24 << 20, 1));
    let own = ["--protocol", protocol];
    let fault = [("FAIRLEAD_FAULT_PANIC", place), ("RUST_BACKTRACE", "1")];
    let (at_receiver, at_sender) = if role == "receiver" { (&fault[..], &[][..]) } else { (&[][..], &fault[..]) };
    let (receiver, port) = bench.receiver_of(1, &[&own[..], &LASTING].concat(), at_receiver).unwrap();
    let slow = ["--bandwidth", "80M", "--streams", "2"];
    let sender = bench.sender_under(1, port, &[&own[..], &LASTING, &slow].concat(), at_sender);
    let (sender, receiver) = (sender.end(), receiver.end());
    let (failed, other) = if role == "receiver" { (receiver, sender) } else { (sender, receiver) };
    let case = format!("{protocol}, {role}, {place}: {failed:?} {other:?}");
    assert_eq!((failed.code(), failed.reason()), (Some(1), "InternalError"), "{case}");
    assert!(failed.message().starts_with("a defect of the mover") && failed.message().contains("on purpose"), "{case}");
    // It is told, or sees the connection end with the process.
    let told = other.reason() == "PeerFailed" && other.message().contains("InternalError");
    assert!(other.code() == Some(1) && (told || other.reason() == "PeerLost"), "{case}");
    assert!(!bench.destination().join("file").exists(), "{case}");
    let said = std::fs::read_to_string(bench.said(role)).unwrap();
    assert!(said.contains("please report it"), "{case}: {said}");
    for raw in ["panicked at", "backtrace", "aborting"] {
        assert!(!said.contains(raw), "{case}: {said}");
    }
    let (receiver, sender) = bench.attempt(2, &own, &own);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{case}: {receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()), "{case}");
}

#[test]
fn a_stream_of_tcp_that_panics_ends_the_attempt_in_order() {
    panic_at("TCP", "sender", "SEND:5");
    panic_at("TCP", "receiver", "RECEIVE:5");
}

/// As both engines over UDP: in a stream, and in what carries its datagrams, which of QUIC are quinn's tasks and leave its locks poisoned.
fn panic_in_a_stream_and_under_it(protocol: &str) {
    panic_at(protocol, "sender", "SEND:5");
    panic_at(protocol, "receiver", "RECEIVE:5");
    panic_at(protocol, "sender", "DATAGRAMS:100");
    panic_at(protocol, "receiver", "DATAGRAMS:100");
}

#[test]
fn quic_that_panics_in_a_stream_or_under_it_ends_the_attempt_in_order() {
    panic_in_a_stream_and_under_it("QUIC");
}

#[test]
fn udt_that_panics_in_a_stream_or_under_it_ends_the_attempt_in_order() {
    panic_in_a_stream_and_under_it("UDT");
}
