//! What is checked before any byte of data: every failure is provoked, has its reason and leaves nothing behind.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use fairlead_protocol::Reason;
use serde_json::Value;
use support::namespaces::Namespaces;
use support::{inventory, noise, Bench, End};

/// How one end ended that was to fail; nothing where the machine cannot provoke that and the skip is expected.
type Provoke = fn(&mut Bench) -> Option<End>;

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn sender(bench: &Bench, extra: &[&str]) -> Option<End> {
    Some(bench.sender(1, extra).end())
}

fn receiver(bench: &Bench, extra: &[&str]) -> Option<End> {
    Some(bench.receiver_of(1, extra, &[]).map(drop).unwrap_err())
}

/// Both ends with `--check`: the receiver's end, and the sender's.
fn checked(bench: &Bench, to_receive: &[&str], to_send: &[&str]) -> (End, End) {
    bench.transfer(&[&["--check"], to_receive].concat(), &[&["--check"], to_send].concat())
}

fn in_namespaces(bench: &mut Bench, made: Option<Namespaces>) -> Option<()> {
    bench.namespaces = Some(made?);
    Some(())
}

/// Each reason of a failed check, and how it comes about.
const PROVOKED: [(&str, Provoke); 20] = [
    ("SourceMissing", |bench| {
        std::fs::remove_dir_all(bench.source()).unwrap();
        sender(bench, &[])
    }),
    ("SourceNotDirectory", |bench| {
        std::fs::remove_dir_all(bench.source()).unwrap();
        std::fs::write(bench.source(), "file").unwrap();
        sender(bench, &[])
    }),
    ("SourceEmpty", |bench| {
        std::fs::remove_file(bench.source().join("file")).unwrap();
        sender(bench, &[])
    }),
    ("SourceUnreadable", |bench| {
        bench.unprivileged = true;
        chmod(&bench.source().join("file"), 0);
        Some(checked(bench, &[], &[]).1)
    }),
    ("NameNotAllowed", |bench| {
        drop(std::os::unix::net::UnixListener::bind(bench.source().join("a-socket")).unwrap());
        sender(bench, &[])
    }),
    ("CongestionControlUnavailable", |bench| sender(bench, &["--congestion-control", "nonsense"])),
    ("InterfaceNotFound", |bench| sender(bench, &["--interface", "none0"])),
    ("InterfaceDown", |bench| {
        in_namespaces(bench, Namespaces::new())?;
        bench.namespaces.as_ref().unwrap().pull(true);
        sender(bench, &["--interface", "wire0"])
    }),
    ("RouteMissing", |bench| {
        in_namespaces(bench, Namespaces::new())?;
        sender(bench, &["--interface", "lo"])
    }),
    ("AddressInUse", |bench| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let arguments = ["receive", "--destination", "null", "--address", "127.0.0.1", "--port", &port];
        Some(bench.end_of(&arguments, "tls/receiver"))
    }),
    ("DestinationExists", |bench| {
        std::fs::create_dir(bench.destination()).unwrap();
        std::fs::write(bench.destination().join("file"), "mine").unwrap();
        Some(checked(bench, &[], &[]).0)
    }),
    ("DestinationFull", |bench| {
        if !bench.mount_small_destination(1) {
            return None;
        }
        let (receiver, _) = checked(bench, &[], &[]);
        bench.unmount_destination();
        Some(receiver)
    }),
    ("DestinationUnwritable", |bench| {
        bench.unprivileged = true;
        std::fs::create_dir(bench.destination()).unwrap();
        chmod(&bench.destination(), 0o555);
        receiver(bench, &[])
    }),
    ("CredentialsInvalid", |bench| {
        bench.make_dated_credentials("expired", -48, 24);
        Some(bench.sender_with(1, "expired/sender", &[]).end())
    }),
    ("ClocksDiffer", |bench| {
        bench.make_dated_credentials("future", 2, 24);
        Some(bench.sender_with(1, "future/sender", &[]).end())
    }),
    ("PeerUnreachable", |bench| sender(bench, &["--peer-timeout", "1"])),
    ("PeerRejected", |bench| {
        // Nobody may take a check for a transfer.
        let (waiting, port) = bench.receiver(&[]);
        let refused = bench.sender(port, &["--check"]).end();
        waiting.signal("TERM");
        waiting.end();
        Some(refused)
    }),
    ("PathMtuTooSmall", |bench| {
        in_namespaces(bench, Namespaces::routed(1400))?;
        bench.namespaces.as_ref().unwrap().drop_icmp();
        let (receiver, sender) = bench.transfer(&[], &[]);
        assert_eq!(receiver.reason(), "PeerFailed", "{receiver:?}");
        assert!(receiver.message().contains("PathMtuTooSmall"), "{receiver:?}");
        Some(sender)
    }),
    ("EchoUnreachable", |bench| {
        in_namespaces(bench, Namespaces::new())?;
        bench.namespaces.as_ref().unwrap().drop_udp();
        let (_, sender) = bench.transfer(&[], &[]);
        Some(sender)
    }),
    ("ProtocolUnavailable", |bench| {
        in_namespaces(bench, Namespaces::new())?;
        bench.namespaces.as_ref().unwrap().drop_udp();
        let quic = ["--protocol", "QUIC"];
        let (_, sender) = bench.transfer(&quic, &quic);
        Some(sender)
    }),
];

/// Those that end no transfer, and whose warning they are.
const WARN: [(&str, &str); 2] = [("EchoUnreachable", "Echo"), ("ProtocolUnavailable", "Protocol")];

/// What a failure must tell, beside its reason.
const TOLD: [(&str, &str); 8] = [
    ("InterfaceDown", "ip link set wire0 up"),
    ("RouteMissing", "there is no route to 198.18.77.1 through the interface lo"),
    ("PathMtuTooSmall", "more than 1400 bytes"),
    ("DestinationUnwritable", "mode 0555"),
    ("CredentialsInvalid", "was valid until"),
    ("ClocksDiffer", "is valid from"),
    ("PeerRejected", "the sender has --check, this receiver no --check"),
    ("SourceUnreadable", "file"),
];

/// Reasons that come later than any check, or that are none.
const NO_CHECKS: [&str; 13] = [
    "Verified",
    "Cleaned",
    "PreflightPassed",
    "SourceChanged",
    "PeerLost",
    "PeerFailed",
    "ChecksumMismatch",
    "Stalled",
    "Superseded",
    "ResendBudgetExceeded",
    "StoppedBySignal",
    "ProtocolError",
    "InternalError",
];

#[test]
fn every_reason_of_a_check_is_provoked() {
    // Refusing a name, serde lists all there are.
    let refusal = serde_json::from_str::<Reason>("\"?\"").unwrap_err().to_string();
    let all: BTreeSet<&str> = refusal.split('`').skip(3).step_by(2).collect();
    let known: BTreeSet<&str> = PROVOKED.iter().map(|(reason, _)| *reason).chain(NO_CHECKS).collect();
    assert_eq!(all.difference(&known).collect::<Vec<_>>(), [&""; 0], "neither provoked nor listed as no check");
    let page = std::fs::read_to_string("../../docs/how-to/preflight.md").unwrap();
    for (reason, _) in PROVOKED {
        assert!(page.contains(&format!("\n### {reason}\n")), "docs/how-to/preflight.md has nothing about {reason}");
    }
}

/// Provokes a part of the reasons, so that the test harness runs several at a time.
fn provoke(part: usize) {
    for (reason, provoke) in PROVOKED.iter().skip(part).step_by(PARTS) {
        let mut bench = Bench::new();
        bench.write("file", &noise(2 << 20, 1));
        let Some(end) = provoke(&mut bench) else { continue };
        if let Some((_, check)) = WARN.iter().find(|(warns, _)| warns == reason) {
            assert_eq!(end.reason(), "Verified", "{end:?}");
            assert_eq!(warning(&end, check)["reason"], *reason);
            continue;
        }
        assert_eq!((end.reason(), end.verdict["bytes_transferred"].as_u64()), (*reason, Some(0)), "{end:?}");
        let failed = checks(&end).into_iter().filter(|(_, result)| *result == "Failed").count();
        assert_eq!(failed, 1, "{end:?}");
        for (_, told) in TOLD.iter().filter(|(of, _)| of == reason) {
            assert!(end.message().contains(told), "{end:?}");
        }
        assert!(!bench.destination().join(".fairlead-local").exists(), "{reason} leaves a partial directory");
    }
}

const PARTS: usize = 4;

#[test]
fn a_check_that_fails_has_its_reason_part_1() {
    provoke(0);
}

#[test]
fn a_check_that_fails_has_its_reason_part_2() {
    provoke(1);
}

#[test]
fn a_check_that_fails_has_its_reason_part_3() {
    provoke(2);
}

#[test]
fn a_check_that_fails_has_its_reason_part_4() {
    provoke(3);
}

fn checks(end: &End) -> Vec<(&str, &str)> {
    let checks = end.verdict["checks"].as_array().unwrap();
    checks.iter().map(|check| (check["check"].as_str().unwrap(), check["result"].as_str().unwrap())).collect()
}

fn warning<'a>(end: &'a End, name: &str) -> &'a Value {
    let checks = end.verdict["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == name && check["result"] == "Warning");
    found.unwrap_or_else(|| panic!("{end:?}"))
}

#[test]
fn a_path_whose_routers_say_how_small_it_is_carries_a_transfer_with_a_warning() {
    let mut bench = Bench::new();
    let Some(()) = in_namespaces(&mut bench, Namespaces::routed(1400)) else { return };
    bench.write("file", &noise(4 << 20, 1));
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    let warning = warning(&sender, "PathMtu");
    assert_eq!(warning["reason"], "PathMtuTooSmall");
    assert!(warning["message"].as_str().unwrap().contains("more than 1400 bytes"), "{warning}");
}

#[test]
fn a_path_without_a_smaller_link_passes_silently() {
    let mut bench = Bench::new();
    let Some(()) = in_namespaces(&mut bench, Namespaces::routed(1500)) else { return };
    bench.namespaces.as_ref().unwrap().drop_icmp();
    bench.write("file", &noise(1 << 20, 1));
    let (receiver, sender) = bench.transfer(&[], &["--interface", "wire0"]);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    let expected =
        ["Route", "Interface", "CongestionControl", "Source", "Peer", "Clocks", "Echo", "PathMtu", "Listing"];
    assert_eq!(checks(&sender), expected.map(|check| (check, "Passed")));
}

#[test]
fn an_interface_without_a_carrier_is_told_from_one_that_is_down() {
    let mut bench = Bench::new();
    let Some(()) = in_namespaces(&mut bench, Namespaces::new()) else { return };
    bench.namespaces.as_ref().unwrap().pull(false);
    bench.write("file", b"x");
    let end = bench.sender(1, &["--interface", "wire0"]).end();
    assert_eq!((end.code(), end.reason()), (Some(1), "InterfaceDown"), "{end:?}");
    assert!(end.message().contains("has no carrier"), "{end:?}");
}

#[test]
fn everything_that_one_end_lacks_is_told_at_once() {
    let bench = Bench::new();
    let end = bench.sender(1, &["--interface", "none0", "--congestion-control", "nonsense"]).end();
    assert_eq!((end.code(), end.reason()), (Some(3), "InterfaceNotFound"), "{end:?}");
    for reason in ["none0", "also CongestionControlUnavailable: ", "also SourceEmpty: "] {
        assert!(end.message().contains(reason), "{end:?}");
    }
}

#[test]
fn a_check_of_both_ends_moves_and_makes_nothing() {
    let bench = Bench::new();
    bench.write("a/file", &noise(1 << 20, 1));
    let (receiver, sender) = checked(&bench, &["--destination", &bench.path("new/deep").display().to_string()], &[]);
    for end in [&receiver, &sender] {
        assert_eq!((end.code(), end.reason()), (Some(0), "PreflightPassed"), "{end:?}");
        assert_eq!(end.verdict["bytes_transferred"], 0);
    }
    assert!(!bench.path("new").exists());
    let present = |end: &End| checks(end).iter().map(|(check, _)| (*check).to_owned()).collect::<Vec<_>>();
    assert_eq!(present(&receiver), ["Interface", "Destination", "Ports", "Space"]);

    std::fs::create_dir(bench.destination()).unwrap();
    std::fs::write(bench.destination().join("other"), "x").unwrap();
    let before = (inventory(&bench.destination()), std::fs::metadata(bench.destination()).unwrap().modified().unwrap());
    let (receiver, sender) = checked(&bench, &[], &[]);
    assert_eq!((receiver.reason(), sender.reason()), ("PreflightPassed", "PreflightPassed"), "{receiver:?}");
    assert_eq!(present(&receiver), ["Interface", "Destination", "Ports", "Names", "Rights", "Space"]);
    let after: SystemTime = std::fs::metadata(bench.destination()).unwrap().modified().unwrap();
    assert_eq!((inventory(&bench.destination()), after), before);
}

#[test]
fn a_directory_that_may_not_be_written_fails_before_the_data_and_not_when_it_is_published() {
    let mut bench = Bench::new();
    bench.unprivileged = true;
    bench.write("sub/file", &noise(2 << 20, 1));
    std::fs::create_dir_all(bench.destination().join("sub")).unwrap();
    chmod(&bench.destination().join("sub"), 0o555);
    // In a directory of its own the mover would make room for itself.
    std::os::unix::fs::chown(bench.destination().join("sub"), Some(65534), None).unwrap();
    let (receiver, sender) = bench.transfer(&[], &[]);
    chmod(&bench.destination().join("sub"), 0o755);
    assert_eq!((receiver.code(), receiver.reason()), (Some(3), "DestinationUnwritable"), "{receiver:?}");
    assert!(receiver.message().contains("the directory \"sub\""), "{receiver:?}");
    assert_eq!(receiver.verdict["bytes_transferred"], 0);
    assert_eq!(sender.reason(), "PeerFailed");
    assert!(!bench.partial().exists());
}

#[test]
fn a_read_only_mount_is_called_by_its_name() {
    let bench = Bench::new();
    bench.write("file", b"x");
    if !bench.mount_small_destination(1) {
        return;
    }
    let remount = ["-o", "remount,ro"];
    assert!(std::process::Command::new("mount").args(remount).arg(bench.destination()).status().unwrap().success());
    let end = receiver(&bench, &[]).unwrap();
    bench.unmount_destination();
    assert_eq!(end.reason(), "DestinationUnwritable", "{end:?}");
    assert!(end.message().contains("is mounted read-only"), "{end:?}");
}

#[test]
fn the_pages_tell_when_the_checks_have_passed_and_what_they_warn_of() {
    let bench = Bench::new();
    bench.write("file", &noise(8 << 20, 1));
    let (receiver, port) = bench.receiver(&[]);
    let mut sender = bench.sender(port, &["--bandwidth", "8M"]);
    let progress = sender.await_progress(|progress| progress["preflight"].is_object());
    assert_eq!(progress["preflight"], serde_json::json!({"passed": true, "warnings": []}));
    sender.signal("TERM");
    sender.end();
    receiver.end();
}
