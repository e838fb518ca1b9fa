//! What source trees hold besides plain files, and what becomes of it.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::os::unix::fs::{chown, FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use support::{inventory, moved, noise, set_cap, Bench, End};

const BLOCK: u64 = 1 << 20;

fn assert_same(bench: &Bench, receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

fn allocated(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

/// A file with holes of whole blocks, within blocks and at its end.
fn sparse(bench: &Bench, name: &str) -> u64 {
    let file = File::create(bench.source().join(name)).unwrap();
    file.set_len(40 * BLOCK + 4097).unwrap();
    file.write_all_at(&noise(5000, 1), 0).unwrap();
    file.write_all_at(&noise(3 * BLOCK as usize, 2), 7 * BLOCK + 100).unwrap();
    file.write_all_at(&noise(9, 3), 30 * BLOCK - 4).unwrap();
    allocated(&bench.source().join(name))
}

#[test]
fn holes_stay_holes_and_are_not_sent() {
    let bench = Bench::new();
    let taken = sparse(&bench, "sparse");
    File::create(bench.source().join("hole")).unwrap().set_len(300_000).unwrap();
    File::create(bench.source().join("all-hole")).unwrap().set_len(2 * BLOCK).unwrap();
    bench.write("zeros", &vec![0; 2 * BLOCK as usize]);
    if taken > 10 * BLOCK {
        support::skip("the file system of the test has no holes");
        return;
    }
    // The space that is there would not hold the file without its holes.
    let (receiver, sender) = bench.transfer(&[], &["--streams", "2"]);
    assert_same(&bench, &receiver, &sender);
    let arrived = |name: &str| allocated(&bench.destination().join(name));
    assert!(arrived("sparse") <= taken + 64 * 1024, "{} of {taken}", arrived("sparse"));
    assert_eq!((arrived("hole"), arrived("all-hole")), (0, 0));
    assert!(arrived("zeros") >= 2 * BLOCK, "zeros that are no hole stay");
}

#[test]
fn a_file_larger_than_the_space_arrives_if_its_holes_make_up_for_it() {
    let bench = Bench::new();
    sparse(&bench, "sparse");
    if !bench.mount_small_destination(12) {
        return;
    }
    let (receiver, sender) = bench.transfer(&[], &[]);
    let same = inventory(&bench.source()) == inventory(&bench.destination());
    assert!(Command::new("umount").arg(bench.destination()).status().unwrap().success());
    assert_eq!((receiver.reason(), sender.reason(), same), ("Verified", "Verified", true), "{receiver:?} {sender:?}");
}

#[test]
fn a_sparse_file_is_resumed_whatever_was_in_its_holes() {
    let bench = Bench::new();
    sparse(&bench, "a-sparse");
    bench.write("large", &noise(20 << 20, 4));
    let (mut receiver, port) = bench.receiver_of(1, &[], &[]).unwrap();
    let sender = bench.sender_of(1, port, &["--bandwidth", "8M", "--streams", "2"]);
    receiver.await_progress(|progress| progress["bytes_transferred"].as_u64().unwrap_or(0) > 4 * BLOCK);
    receiver.signal("KILL");
    receiver.end();
    sender.end();
    // Garbage in a hole, as a disk may leave it: the next attempt must not take it for zeros.
    let mut spoiled = 0;
    for shard in std::fs::read_dir(bench.partial()).unwrap().flatten().filter(|shard| shard.path().is_dir()) {
        for partial in std::fs::read_dir(shard.path()).unwrap().flatten() {
            let file = File::options().write(true).open(partial.path()).unwrap();
            if file.metadata().unwrap().len() == 40 * BLOCK + 4097 {
                file.write_all_at(b"garbage", 40 * BLOCK + 10).unwrap();
                spoiled += 1;
            }
        }
    }
    assert_eq!(spoiled, 1);
    let (receiver, sender) = bench.attempt(2, &["--verify", "ReadBack"], &[]);
    assert_same(&bench, &receiver, &sender);
}

#[test]
fn each_name_of_a_hard_linked_file_is_a_file_of_its_own() {
    let bench = Bench::new();
    bench.write("one", &noise(70_000, 5));
    bench.write("d/other", b"x");
    std::fs::hard_link(bench.source().join("one"), bench.source().join("d/two")).unwrap();
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_same(&bench, &receiver, &sender);
    assert_eq!(receiver.verdict["files_total"], 3);
    let inode = |name: &str| bench.destination().join(name).metadata().unwrap().ino();
    assert_ne!(inode("one"), inode("d/two"));
}

#[test]
fn a_tree_deeper_than_there_are_descriptors_arrives() {
    let bench = Bench::new();
    let deep = vec!["d"; 1500].join("/");
    bench.write(&format!("{deep}/file"), b"deep");
    bench.write("d/d/between", b"x");
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_same(&bench, &receiver, &sender);
}

#[test]
fn a_directory_of_many_names_arrives() {
    let bench = Bench::new();
    for file in 0..3000 {
        bench.write(&format!("flat/{:x}", file * 7919), &[file as u8; 3]);
    }
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_same(&bench, &receiver, &sender);
}

#[test]
fn a_file_without_permission_is_named() {
    let bench = Bench::new();
    bench.write("d/open", b"x");
    bench.write("d/secret", b"x");
    std::fs::set_permissions(bench.source().join("d/secret"), PermissionsExt::from_mode(0o000)).unwrap();
    if !rustix::process::geteuid().is_root() {
        support::skip("another user can only be taken on by root (needs root)");
        return;
    }
    let nobody = 65534;
    for folder in ["", "tls"] {
        std::fs::set_permissions(bench.path(folder), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let folder = bench.path("tls/sender");
    chown(&folder, Some(nobody), None).unwrap();
    std::fs::read_dir(&folder).unwrap().for_each(|file| chown(file.unwrap().path(), Some(nobody), None).unwrap());
    let program = bench.path("mover");
    std::fs::copy(env!("CARGO_BIN_EXE_fairlead-mover"), &program).unwrap();
    let (receiver, port) = bench.receiver(&[]);
    let output = Command::new(program)
        .args(["send", "--connect", &format!("127.0.0.1:{port}"), "--json", "--peer-timeout", "120", "--source"])
        .arg(bench.source())
        .arg("--tls-dir")
        .arg(folder)
        .args(["--congestion-control", "reno"])
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("SourceUnreadable") && said.contains("d/secret") && said.contains("user 65534"), "{said}");
    let receiver = receiver.end();
    assert_eq!((receiver.code(), receiver.reason()), (Some(3), "PeerFailed"), "{receiver:?}");
    assert!(receiver.message().contains("d/secret"), "{receiver:?}");
}

#[test]
fn a_file_that_vanishes_is_named_and_nothing_is_published() {
    let bench = Bench::new();
    bench.write("a-large", &noise(20 << 20, 9));
    bench.write("z-vanishes", &noise(2 << 20, 10));
    let (receiver, port) = bench.receiver(&[]);
    let (cap, file) = bench.cap("8M");
    let mut sender = bench.sender(port, &["--bandwidth-file", &file, "--streams", "1"]);
    sender.await_progress(moved);
    std::fs::remove_file(bench.source().join("z-vanishes")).unwrap();
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.code(), sender.reason()), (Some(1), "SourceChanged"), "{sender:?}");
    assert!(sender.message().contains("z-vanishes"), "{sender:?}");
    assert!(receiver.message().contains("z-vanishes"), "{receiver:?}");
    assert_eq!(inventory(&bench.destination()).iter().filter(|name| !name.contains(".fairlead-")).count(), 0);
}
