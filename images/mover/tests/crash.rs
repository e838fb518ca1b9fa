//! Kills the receiver before every single change it makes to the file system: the next attempt always succeeds.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use support::{inventory, noise, Bench, End};

const STREAMS: u64 = 1;
const BLOCK: u64 = 1 << 20;
/// More points than a transfer of the tree has.
const MOST_POINTS: u32 = 1000;

fn tree(bench: &Bench) {
    bench.write("d/large", &noise((2 << 20) + 5, 1));
    bench.write("d/small", b"small");
    bench.write("zero", b"");
    // A mode that keeps even the owner from writing, unless that is root.
    std::fs::set_permissions(bench.source().join("d/small"), PermissionsExt::from_mode(0o444)).unwrap();
    std::os::unix::fs::symlink("d/large", bench.source().join("link")).unwrap();
}

/// A file that is replaced and one that is new, in a directory that keeps even its owner from changing names.
fn read_only_tree(bench: &mut Bench) {
    bench.write("r/changed", b"new");
    bench.write("r/new", b"new");
    std::fs::create_dir_all(bench.destination().join("r")).unwrap();
    std::fs::write(bench.destination().join("r/changed"), "old").unwrap();
    for side in [bench.source(), bench.destination()] {
        std::fs::set_permissions(side.join("r"), PermissionsExt::from_mode(0o555)).unwrap();
    }
    bench.unprivileged = true;
}

/// Whether the receiver was killed on the way, and said before that it had succeeded.
fn killed_at(bench: &Bench, point: u32, extra: &[&str]) -> (bool, bool) {
    let kill = [("FAIRLEAD_FAULT_KILL_AT", point.to_string())];
    let env: Vec<(&str, &str)> = kill.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let end = match bench.receiver_of(1, extra, &env) {
        Ok((receiver, port)) => {
            bench.sender_of(1, port, &["--streams", "1"]).end();
            receiver.end()
        }
        Err(end) => end,
    };
    let killed = end.status.signal() == Some(9);
    assert!(killed || end.reason() == "Verified", "point {point}: {end:?}");
    (killed, end.reason() == "Verified")
}

fn assert_finished(bench: &Bench, point: u32, receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{point}: {receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()), "point {point}");
    let resent = receiver.verdict["bytes_resent"].as_u64().unwrap();
    assert!(resent <= STREAMS * BLOCK, "point {point}: {receiver:?}");
}

/// A verdict of success stands, whatever happens after; what may be left then is for `clean`.
fn assert_clean(bench: &Bench, point: u32) {
    let destination = bench.destination().display().to_string();
    assert!(support::run(&["clean", "--destination", &destination, "--job", "local"]).success());
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()), "point {point}");
}

fn every_point(fill: fn(&mut Bench), extra: &[&str], points: impl Iterator<Item = u32>) -> u32 {
    for point in points {
        let mut bench = Bench::new();
        fill(&mut bench);
        let (killed, succeeded) = killed_at(&bench, point, extra);
        if !killed {
            return point;
        }
        if succeeded {
            assert_clean(&bench, point);
            continue;
        }
        let (receiver, sender) = bench.attempt(2, extra, &[]);
        assert_finished(&bench, point, &receiver, &sender);
    }
    MOST_POINTS
}

#[test]
fn a_receiver_killed_before_any_change_is_resumed() {
    let points = every_point(|bench| tree(bench), &[], 1..MOST_POINTS);
    eprintln!("killed at each of {} points", points - 1);
    assert!((30..MOST_POINTS).contains(&points), "{points}");
}

#[test]
fn a_receiver_killed_while_it_replaces_names_in_a_read_only_directory_is_resumed() {
    // What comes before the publication is the same as above.
    let points = every_point(read_only_tree, &["--overwrite", "IfDifferent"], 14..MOST_POINTS);
    assert!((20..MOST_POINTS).contains(&points), "{points}");
}

#[test]
fn a_receiver_killed_in_two_attempts_in_a_row_is_resumed() {
    for point in (20..).step_by(7) {
        let bench = Bench::new();
        tree(&bench);
        let (killed, succeeded) = killed_at(&bench, point, &["--verify", "ReadBack"]);
        if !killed || succeeded {
            return;
        }
        let second = (point / 2).to_string();
        let kill = [("FAIRLEAD_FAULT_KILL_AT", second.as_str())];
        if let Ok((receiver, port)) = bench.receiver_of(2, &[], &kill) {
            bench.sender_of(2, port, &[]).end();
            if receiver.end().reason() == "Verified" {
                assert_clean(&bench, point);
                continue;
            }
        }
        let (receiver, sender) = bench.attempt(3, &[], &[]);
        assert_finished(&bench, point, &receiver, &sender);
    }
}
