//! What becomes of names that exist at the destination, and of a publication that fails half-way.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::pages::hold_while;
use support::{inventory, moved, noise, set_cap, Bench, End};

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_modified(path: &Path, time: SystemTime) {
    File::open(path).unwrap().set_modified(time).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

/// Source and destination of a tree whose directories cannot be written, of which a file, a link and a name below have changed.
fn read_only_trees() -> Bench {
    let mut bench = Bench::new();
    bench.unprivileged = true;
    bench.write("r/same", b"same");
    bench.write("r/changed", b"new content");
    bench.write("r/deep/added", b"x");
    symlink("elsewhere", bench.source().join("r/link")).unwrap();
    std::fs::create_dir_all(bench.destination().join("r/deep")).unwrap();
    std::fs::write(bench.destination().join("r/same"), "same").unwrap();
    std::fs::write(bench.destination().join("r/changed"), "old").unwrap();
    symlink("somewhere", bench.destination().join("r/link")).unwrap();
    bench
}

fn assert_verified(receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
}

#[test]
fn what_changed_inside_a_read_only_directory_is_replaced_and_its_mode_is_kept() {
    let bench = read_only_trees();
    for side in [bench.source(), bench.destination()] {
        chmod(&side.join("r/deep"), 0o500);
        chmod(&side.join("r"), 0o555);
    }
    let (receiver, sender) = bench.transfer(&["--overwrite", "IfDifferent"], &[]);
    assert_verified(&receiver, &sender);
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    assert_eq!((mode(&bench.destination().join("r")), mode(&bench.destination().join("r/deep"))), (0o555, 0o500));
}

#[test]
fn a_read_only_directory_has_its_own_mode_again_where_no_modes_are_kept() {
    let bench = read_only_trees();
    chmod(&bench.destination().join("r"), 0o510);
    let (receiver, sender) = bench.transfer(&["--overwrite", "Always", "--preserve", "ModificationTime"], &[]);
    assert_verified(&receiver, &sender);
    assert_eq!(std::fs::read(bench.destination().join("r/changed")).unwrap(), b"new content");
    assert_eq!(mode(&bench.destination().join("r")), 0o510);
}

#[test]
fn a_directory_that_was_there_keeps_its_mode_where_no_modes_are_kept_and_a_new_one_has_the_usual_one() {
    for preserve in ["None", "ModificationTime"] {
        let bench = Bench::new();
        bench.write("private/file", b"x");
        bench.write("shared/file", b"x");
        bench.write("new/file", b"x");
        for (name, mode) in [("private", 0o700), ("shared", 0o2770)] {
            std::fs::create_dir_all(bench.destination().join(name)).unwrap();
            chmod(&bench.destination().join(name), mode);
        }
        let (receiver, sender) = bench.transfer(&["--preserve", preserve], &[]);
        assert_verified(&receiver, &sender);
        let modes = ["private", "shared", "new"].map(|name| format!("{:o}", mode(&bench.destination().join(name))));
        assert_eq!(modes, ["700", "2770", "755"], "{preserve}");
    }
}

#[test]
fn a_directory_s_setgid_and_sticky_bits_are_the_destination_s() {
    let bench = Bench::new();
    bench.write("shared/new/file", b"x");
    bench.write("sticky/file", b"x");
    for (name, mode) in [("shared", 0o2775), ("sticky", 0o1777)] {
        std::fs::create_dir_all(bench.destination().join(name)).unwrap();
        chmod(&bench.destination().join(name), mode);
        chmod(&bench.source().join(name), 0o750);
    }
    chmod(&bench.source().join("shared/new"), 0o755);
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_verified(&receiver, &sender);
    let modes = ["shared", "shared/new", "sticky"].map(|name| format!("{:o}", mode(&bench.destination().join(name))));
    assert_eq!(modes, ["2750", "2755", "1750"]);
}

#[test]
fn the_destination_directory_itself_has_the_source_s_time_and_keeps_its_own_where_times_are_not_kept() {
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for (preserve, kept) in [("Mode,ModificationTime", true), ("Mode", false)] {
        let bench = Bench::new();
        bench.write("a/file", b"x");
        set_modified(&bench.source(), time);
        let (receiver, sender) = bench.transfer(&["--preserve", preserve], &[]);
        assert_verified(&receiver, &sender);
        assert_eq!(modified(&bench.destination()) == time, kept, "{preserve}");
    }
}

/// Its size and modification time are as before when it is changed.
#[test]
fn an_identical_file_that_is_changed_during_the_transfer_is_named_and_the_next_attempt_compares_it_again() {
    let bench = Bench::new();
    bench.write("same", b"same");
    bench.write("new", b"x");
    std::fs::create_dir(bench.destination()).unwrap();
    bench.copy_to_destination("same");
    let (held, same) = (bench.path("held"), bench.destination().join("same"));
    let env = hold_while(held.to_str().unwrap());
    let (mut receiver, port) = bench.receiver_of(1, &["--overwrite", "IfDifferent"], &env).unwrap();
    let sender = bench.sender(port, &[]);
    receiver.await_progress(|progress| progress["stage"] == "Publishing");
    let time = modified(&same);
    std::fs::write(&same, "mine").unwrap();
    File::options().write(true).open(&same).unwrap().set_modified(time).unwrap();
    std::fs::remove_file(&held).unwrap();
    sender.end();
    let receiver = receiver.end();
    assert_eq!((receiver.code(), receiver.reason()), (Some(1), "DestinationExists"), "{receiver:?}");
    assert_eq!(receiver.verdict["retry"], true, "{receiver:?}");
    assert!(receiver.message().starts_with("\"same\" was changed"), "{receiver:?}");
    assert_eq!(std::fs::read(&same).unwrap(), b"mine");
    assert!(!bench.destination().join("new").exists());

    let (receiver, sender) = bench.attempt(2, &["--overwrite", "IfDifferent"], &[]);
    assert_verified(&receiver, &sender);
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// A transfer during which a directory comes to the place of its last file, so that the publication fails there.
fn obstructed(overwrite: &str, prepare: impl Fn(&Bench)) -> (Bench, Vec<String>, End) {
    let mut bench = Bench::new();
    bench.unprivileged = true;
    bench.write("a/new", &noise(8 << 20, 1));
    bench.write("a/replaced", b"new");
    bench.write("b/deep/new", b"x");
    symlink("new", bench.source().join("c")).unwrap();
    bench.write("z", b"x");
    std::fs::create_dir(bench.destination()).unwrap();
    prepare(&bench);
    let (mut receiver, port) = bench.receiver(&["--overwrite", overwrite]);
    let (cap, file) = bench.cap("1M");
    let sender = bench.sender(port, &["--bandwidth-file", &file, "--streams", "1"]);
    receiver.await_progress(moved);
    std::fs::create_dir(bench.destination().join("z")).unwrap();
    let before = published(&bench);
    set_cap(&cap, "");
    sender.end();
    let end = receiver.end();
    assert_eq!((end.code(), end.reason()), (Some(3), "DestinationExists"), "{end:?}");
    assert!(end.message().contains("\"z\""), "{end:?}");
    (bench, before, end)
}

/// Everything at the destination but the partial files and the times of directories, in which names came and went.
fn published(bench: &Bench) -> Vec<String> {
    let names = inventory(&bench.destination()).into_iter().filter(|line| !line.contains(".fairlead-"));
    names.map(|line| line.strip_suffix(" directory").map_or(line.clone(), without_time)).collect()
}

fn without_time(line: &str) -> String {
    line.rsplit_once(' ').map_or(line, |(rest, _)| rest).to_owned()
}

#[test]
fn a_publication_that_fails_half_way_leaves_every_name_as_it_was() {
    let (bench, before, end) = obstructed("Never", |_| {});
    assert!(
        end.message().contains("the 7 names that were in place already are again what they were before"),
        "{end:?}"
    );
    assert_eq!(published(&bench), before);

    let (bench, before, end) = obstructed("Always", |bench| {
        std::fs::create_dir(bench.destination().join("a")).unwrap();
        std::fs::write(bench.destination().join("a/replaced"), "old").unwrap();
        chmod(&bench.destination().join("a"), 0o555);
        symlink("old", bench.destination().join("c")).unwrap();
    });
    assert!(
        end.message().contains("the 6 names that were in place already are again what they were before"),
        "{end:?}"
    );
    assert_eq!(published(&bench), before);
    assert_eq!(std::fs::read(bench.destination().join("a/replaced")).unwrap(), b"old");

    // Once nothing is in the way, another attempt of the job puts in place what is there already.
    std::fs::remove_dir(bench.destination().join("z")).unwrap();
    let (receiver, sender) = bench.attempt(2, &["--overwrite", "Always"], &[]);
    assert_verified(&receiver, &sender);
    assert_eq!(sender.verdict["bytes_resumed"], sender.verdict["bytes_total"], "{sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}
