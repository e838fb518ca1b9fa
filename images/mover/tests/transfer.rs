//! Whole transfers of the real binary: what arrives, and what becomes of what was there.
#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{inventory, noise, run, Bench};

fn varied_tree(bench: &Bench) {
    for file in 0..300 {
        bench.write(&format!("many/{}/{file}", file % 7), &noise(file * 37, file as u64));
    }
    bench.write("large", &noise((5 << 20) + 17, 1));
    bench.write("block", &noise(1 << 20, 2));
    bench.write("zero", b"");
    let root = bench.source();
    std::fs::create_dir_all(root.join("empty/inside")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("../../outside", root.join("many/relative")).unwrap();
    for name in [&b"new\nline"[..], b"\xff\xfe not text", b"quote\"'", b"-dash", &[b'n'; 255]] {
        std::fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    std::fs::set_permissions(root.join("large"), PermissionsExt::from_mode(0o4750)).unwrap();
    std::fs::set_permissions(root.join("many/3"), PermissionsExt::from_mode(0o555)).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(981_173_106, 123_456_789);
    std::fs::File::open(root.join("many/5")).unwrap().set_modified(old).unwrap();
    std::fs::File::open(root.join("block")).unwrap().set_modified(old).unwrap();
}

#[test]
fn a_tree_arrives_with_names_links_modes_and_times() {
    let bench = Bench::new();
    varied_tree(&bench);
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    assert_eq!(
        std::fs::metadata(bench.destination().join("large")).unwrap().mode() & 0o7777,
        0o750,
        "set-id is masked"
    );
    std::fs::set_permissions(bench.source().join("large"), PermissionsExt::from_mode(0o750)).unwrap();
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    assert_eq!(receiver.verdict["root_digest"], sender.verdict["root_digest"]);
    assert_eq!(receiver.verdict["verified"], serde_json::json!(["Wire", "Block"]));
    assert_eq!(receiver.verdict["files_total"], receiver.verdict["files_transferred"]);
    assert_eq!(receiver.verdict["bytes_total"], receiver.verdict["bytes_transferred"]);
    assert_eq!(sender.verdict["files_transferred"], receiver.verdict["files_transferred"]);
    assert!(!bench.partial().exists());
}

#[test]
fn nothing_but_content_is_kept_when_told_so() {
    let bench = Bench::new();
    bench.write("old", b"content");
    let file = std::fs::File::open(bench.source().join("old")).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(981_173_106);
    file.set_modified(old).unwrap();
    file.set_permissions(PermissionsExt::from_mode(0o400)).unwrap();
    let (receiver, _) = bench.transfer(&["--preserve=None"], &[]);
    assert_eq!(receiver.code(), Some(0), "{receiver:?}");
    let arrived = std::fs::metadata(bench.destination().join("old")).unwrap();
    assert_ne!(arrived.mode() & 0o777, 0o400);
    assert_ne!(arrived.modified().unwrap(), old);
}

#[test]
fn directories_and_empty_files_alone_are_a_transfer() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.source().join("a/b")).unwrap();
    bench.write("a/zero", b"");
    let (receiver, sender) = bench.transfer(&[], &["--streams", "1"]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn many_streams_carry_one_file() {
    let bench = Bench::new();
    bench.write("file", &noise(70 << 20, 3));
    let (receiver, sender) = bench.transfer(&[], &["--streams", "64"]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn patterns_choose_what_is_sent() {
    let bench = Bench::new();
    bench.write("a/keep.txt", b"1");
    bench.write("a/leave.log", b"2");
    bench.write("skip/keep.txt", b"3");
    let (receiver, _) = bench.transfer(&[], &["--include", "*.txt", "--exclude", "skip"]);
    assert_eq!(receiver.reason(), "Verified", "{receiver:?}");
    assert!(bench.destination().join("a/keep.txt").exists());
    assert!(!bench.destination().join("a/leave.log").exists());
    assert!(!bench.destination().join("skip").exists());
}

fn existing(bench: &Bench, name: &str, content: &[u8]) {
    let path = bench.destination().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn the_policy_never_touches_nothing_that_exists() {
    let bench = Bench::new();
    bench.write("d/new", b"new");
    bench.write("d/old", b"from the source");
    existing(&bench, "d/old", b"from before");
    existing(&bench, "d/other", b"unrelated");
    let before = inventory(&bench.destination());
    let (receiver, sender) = bench.transfer(&["--overwrite", "Never"], &[]);
    assert_eq!((receiver.code(), receiver.reason()), (Some(3), "DestinationExists"));
    assert!(receiver.message().contains("d/old"));
    assert_eq!((sender.code(), sender.reason()), (Some(3), "PeerFailed"));
    assert!(sender.message().contains("DestinationExists"));
    assert_eq!(inventory(&bench.destination()), before);
}

#[test]
fn the_policy_never_allows_directories_that_exist() {
    let bench = Bench::new();
    bench.write("d/new", b"new");
    existing(&bench, "d/other", b"unrelated");
    let (receiver, _) = bench.transfer(&["--overwrite", "Never"], &[]);
    assert_eq!(receiver.reason(), "Verified", "{receiver:?}");
    assert!(bench.destination().join("d/other").exists());
}

#[test]
fn the_policy_if_different_sends_only_what_differs() {
    let bench = Bench::new();
    let large = noise((3 << 20) + 5, 4);
    bench.write("same", &large);
    bench.write("differs", b"12345");
    bench.write("longer", b"123456");
    bench.write("new", b"1");
    existing(&bench, "same", &large);
    existing(&bench, "differs", b"54321");
    existing(&bench, "longer", b"1");
    let inode = || std::fs::metadata(bench.destination().join("same")).unwrap().ino();
    let before = inode();
    let (receiver, sender) = bench.transfer(&["--overwrite", "IfDifferent"], &[]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    for end in [&receiver, &sender] {
        assert_eq!(end.verdict["files_skipped"], 1);
        assert_eq!(end.verdict["bytes_skipped"], large.len());
        assert_eq!(end.verdict["files_transferred"], 3);
    }
    assert_eq!(inode(), before, "an identical file is not replaced");
    assert_eq!(
        inventory(&bench.source()),
        inventory(&bench.destination()),
        "and its mode and time are brought in line"
    );
}

/// As after `ascp`, `rsync` or `cp`: most is there, some damaged or cut short, and what was left over has no part in it.
#[test]
fn what_another_program_brought_is_checked_and_the_rest_of_it_sent() {
    let bench = Bench::new();
    varied_tree(&bench);
    std::fs::set_permissions(bench.source().join("large"), PermissionsExt::from_mode(0o640)).unwrap();
    let copied = Command::new("cp").arg("-r").arg(bench.source()).arg(bench.destination()).status().unwrap();
    assert!(copied.success());
    let there = |name: &str| bench.destination().join(name);
    let mut damaged = std::fs::read(there("large")).unwrap();
    damaged[4 << 20] ^= 1;
    std::fs::write(there("large"), &damaged).unwrap();
    std::fs::write(there("block"), noise(1 << 19, 2)).unwrap();
    std::fs::remove_file(there("many/1/1")).unwrap();
    std::fs::write(there("large.aspx"), b"left over").unwrap();

    let (receiver, sender) = bench.transfer(&["--overwrite", "IfDifferent"], &[]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    let sent = ["large", "block", "many/1/1"].map(|name| std::fs::metadata(bench.source().join(name)).unwrap().len());
    for end in [&receiver, &sender] {
        assert_eq!(end.verdict["bytes_transferred"], sent.iter().sum::<u64>(), "{end:?}");
    }
    assert_eq!(std::fs::read(there("large.aspx")).unwrap(), b"left over");
    std::fs::remove_file(there("large.aspx")).unwrap();
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// Whether a file system that gives out blocks late has given them to this file; nothing if it cannot be asked.
fn has_blocks(file: &Path) -> Option<bool> {
    let asked = Command::new("filefrag").arg("-v").arg(file).output().expect("filefrag of e2fsprogs");
    asked.status.success().then(|| !String::from_utf8_lossy(&asked.stdout).contains("delalloc"))
}

#[test]
fn identical_files_that_somebody_else_wrote_are_on_the_disk_too() {
    for files in [1, 130] {
        // Whatever else syncs this file system may have been sooner.
        let tries = (0..20).map(|_| with_identical_files(files));
        let mut shown = tries.map(|(bench, last)| (has_blocks(&last), bench, last));
        let (shown, bench, last) = shown.find(|(shown, ..)| *shown != Some(true)).expect("files that nobody synced");
        if shown.is_none() {
            support::skip("the file system of the test does not show which files are on the disk");
            return;
        }
        let (receiver, _) = bench.transfer(&["--overwrite", "IfDifferent"], &[]);
        assert_eq!(
            (receiver.reason(), &receiver.verdict["files_skipped"]),
            ("Verified", &files.into()),
            "{receiver:?}"
        );
        assert_eq!(has_blocks(&last), Some(true), "{files} files");
    }
}

/// A bench with the same files at both ends, and the last one of the destination.
fn with_identical_files(files: usize) -> (Bench, PathBuf) {
    let bench = Bench::new();
    let name = |file: usize| format!("d/{file}");
    for file in 0..files {
        let content = noise(10_000, file as u64);
        bench.write(&name(file), &content);
        existing(&bench, &name(file), &content);
    }
    let last = bench.destination().join(name(files - 1));
    (bench, last)
}

#[test]
fn the_policy_always_replaces_files_and_links() {
    let bench = Bench::new();
    bench.write("file", b"new");
    symlink("new", bench.source().join("link")).unwrap();
    existing(&bench, "file", b"old");
    symlink("old", bench.destination().join("link")).unwrap();
    let (receiver, _) = bench.transfer(&["--overwrite", "Always"], &[]);
    assert_eq!(receiver.reason(), "Verified", "{receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn a_directory_in_the_way_is_named_under_every_policy() {
    for policy in ["Never", "IfDifferent", "Always"] {
        let bench = Bench::new();
        bench.write("x", b"file");
        existing(&bench, "x/inside", b"kept");
        let (receiver, _) = bench.transfer(&["--overwrite", policy], &[]);
        assert_eq!((receiver.code(), receiver.reason()), (Some(3), "DestinationExists"), "{policy}");
        assert!(receiver.message().contains("\"x\""));
        assert!(bench.destination().join("x/inside").exists());
    }
}

#[test]
fn a_link_in_the_destination_is_not_followed() {
    let bench = Bench::new();
    bench.write("d/file", b"hostile");
    std::fs::create_dir_all(bench.path("outside")).unwrap();
    std::fs::create_dir_all(bench.destination()).unwrap();
    symlink(bench.path("outside"), bench.destination().join("d")).unwrap();
    let (receiver, _) = bench.transfer(&["--overwrite", "Always"], &[]);
    assert_eq!(receiver.reason(), "DestinationExists", "{receiver:?}");
    assert!(inventory(&bench.path("outside")).is_empty());
}

#[test]
fn clean_removes_the_partial_files_of_its_job_alone() {
    let bench = Bench::new();
    existing(&bench, ".fairlead-local/0/1", b"partial");
    existing(&bench, ".fairlead-other/0/1", b"partial");
    existing(&bench, "final", b"kept");
    let destination = bench.destination().display().to_string();
    for _ in 0..2 {
        assert_eq!(run(&["clean", "--destination", &destination, "--job", "local"]).code(), Some(0));
    }
    assert!(!bench.partial().exists());
    assert!(bench.destination().join(".fairlead-other/0/1").exists());
    assert!(bench.destination().join("final").exists());
}

#[test]
fn a_leftover_of_the_same_job_gives_way_and_of_others_stays() {
    let bench = Bench::new();
    bench.write("file", b"x");
    existing(&bench, ".fairlead-local/0/0", b"longer than the file");
    existing(&bench, ".fairlead-other/0/0", b"partial");
    let (receiver, _) = bench.transfer(&[], &[]);
    assert_eq!(receiver.reason(), "Verified", "{receiver:?}");
    assert!(!bench.partial().exists());
    assert!(bench.destination().join(".fairlead-other/0/0").exists());
}

/// Large enough to be written past the page cache, with a tail that is not.
#[test]
fn a_large_file_with_an_odd_tail_arrives_whole() {
    let bench = Bench::new();
    bench.write("large", &noise((64 << 20) + 4097, 3));
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}
