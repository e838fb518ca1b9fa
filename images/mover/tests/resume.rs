//! What a later attempt makes of what an earlier one left.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use fairlead_protocol::digest::block_length;
use fairlead_protocol::index::BlockIndex;
use fairlead_protocol::ledger::{header, LedgerContents, Record, Replay};
use support::pages::{await_page, HOLD, PATIENT};
use support::{inventory, noise, Bench, End, Mover};

const BLOCK: u64 = 1 << 20;
/// Slow enough that a transfer is still under way some seconds after the sight of progress that it is to be interrupted at.
const SLOW: [&str; 4] = ["--bandwidth", "70M", "--streams", "2"];

fn tree(bench: &Bench) {
    bench.write("large", &noise((40 << 20) + 5, 1));
    for file in 0..200 {
        bench.write(&format!("many/{file}"), &noise(4096, 100 + file));
    }
    bench.write("zero", b"");
    std::os::unix::fs::symlink("large", bench.source().join("link")).unwrap();
}

fn number(end: &End, name: &str) -> u64 {
    end.verdict[name].as_u64().unwrap()
}

fn moved(bytes: u64) -> impl Fn(&serde_json::Value) -> bool {
    move |progress| progress["bytes_transferred"].as_u64().unwrap_or(0) > bytes
}

/// Lets an attempt run until more than `bytes` are stored and some of them are durable, and gives both ends to `stop`.
fn interrupt(bench: &Bench, attempt: u32, bytes: u64, stop: impl FnOnce(&Mover, &Mover)) -> (End, End) {
    // One that does not publish: it may be stopped late.
    let (mut receiver, port) = bench.receiver_of(attempt, &PATIENT, &HOLD).unwrap();
    let sender = bench.sender_of(attempt, port, &[&SLOW[..], &PATIENT].concat());
    receiver.await_progress(|progress| moved(bytes)(progress) && progress["bytes_durable"].as_u64() > Some(0));
    stop(&receiver, &sender);
    (receiver.end(), sender.end())
}

fn assert_whole(bench: &Bench, receiver: &End, sender: &End) {
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    assert_eq!(receiver.verdict["root_digest"], sender.verdict["root_digest"]);
    assert_eq!(number(receiver, "bytes_transferred"), number(receiver, "bytes_total"));
    assert_eq!(number(sender, "bytes_transferred"), number(sender, "bytes_total"));
    assert_eq!(receiver.verdict["files_transferred"], receiver.verdict["files_total"]);
    assert_eq!(sender.verdict["files_transferred"], sender.verdict["files_total"]);
    assert!(!bench.partial().exists());
}

#[test]
fn whichever_end_dies_the_next_attempt_sends_what_is_missing() {
    type Stop = fn(&Mover, &Mover);
    let ways: [(&str, Stop); 4] = [
        ("receiver killed", |receiver, _| receiver.signal("KILL")),
        ("sender killed", |_, sender| sender.signal("KILL")),
        ("receiver stopped", |receiver, _| receiver.signal("TERM")),
        ("sender stopped", |_, sender| sender.signal("TERM")),
    ];
    for (way, stop) in ways {
        let bench = Bench::new();
        tree(&bench);
        interrupt(&bench, 1, 8 << 20, stop);
        let (receiver, sender) = bench.attempt(2, &[], &[]);
        assert_whole(&bench, &receiver, &sender);
        assert!(number(&receiver, "bytes_resumed") > 8 << 20, "{way}: {receiver:?}");
        assert_eq!(receiver.verdict["bytes_resumed"], sender.verdict["bytes_resumed"], "{way}");
        assert!(number(&receiver, "bytes_resent") <= 2 * BLOCK, "{way}: {receiver:?}");
    }
}

#[test]
fn kills_at_random_instants_cost_at_most_a_block_per_stream() {
    let bench = Bench::new();
    let total: u64 = 48 << 20;
    bench.write("large", &noise(total as usize, 2));
    let mut random = blake3::Hasher::new().update(b"instants").finalize_xof();
    let (mut attempt, mut kept, mut kills) = (1, 0, 0);
    while kills < 6 {
        let (receiver, port) = bench.receiver_of(attempt, &[], &HOLD).unwrap();
        let sender = bench.sender_of(attempt, port, &SLOW);
        let mut byte = [0; 2];
        random.fill(&mut byte);
        // The instant is what is tested, so it is chosen by time.
        std::thread::sleep(Duration::from_millis(150 + u64::from(byte[0])));
        (if byte[1] % 2 == 0 { &receiver } else { &sender }).signal("KILL");
        let ends = (receiver.end(), sender.end());
        assert!(ends.0.reason() != "Verified" || ends.1.reason() != "Verified");
        kills += 1;
        attempt += 1;
        kept = kept.max(number_or_zero(&ends.0));
    }
    let (receiver, sender) = bench.attempt(attempt, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
    assert!(number(&receiver, "bytes_resumed") >= kept);
    let resent = number(&receiver, "bytes_resent");
    eprintln!("{kills} kills: {resent} of {total} bytes were received in vain");
    assert!(resent <= kills * 2 * BLOCK, "{receiver:?}");
}

fn number_or_zero(end: &End) -> u64 {
    end.verdict["bytes_resumed"].as_u64().unwrap_or(0)
}

#[test]
fn thousands_of_kept_blocks_are_told_to_the_sender() {
    let bench = Bench::new();
    for file in 0..3000u32 {
        bench.write(&format!("a/{file}"), &file.to_be_bytes());
    }
    bench.write("large", &noise(32 << 20, 8));
    interrupt(&bench, 1, 4 << 20, |receiver, _| receiver.signal("KILL"));
    // A busy disk may take longer for the next thousands than a transfer may usually stand still.
    let (receiver, sender) = bench.attempt(2, &PATIENT, &PATIENT);
    assert_whole(&bench, &receiver, &sender);
    assert!(number(&receiver, "bytes_resumed") > 4 << 20, "{receiver:?}");
}

#[test]
fn a_source_that_changed_restarts_that_file_alone() {
    let bench = Bench::new();
    bench.write("changes", &noise(6 << 20, 3));
    bench.write("stays", &noise(40 << 20, 4));
    interrupt(&bench, 1, 12 << 20, |receiver, _| receiver.signal("KILL"));
    let path = bench.source().join("changes");
    let before = path.metadata().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"changed", 0).unwrap();
    // Size and modification time are as before: only the time of change gives it away.
    file.set_modified(before.modified().unwrap()).unwrap();
    assert_eq!((before.len(), before.mtime()), (file.metadata().unwrap().len(), file.metadata().unwrap().mtime()));
    let (receiver, sender) = bench.attempt(2, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
    let resumed = number(&receiver, "bytes_resumed");
    assert!(resumed > 4 << 20 && resumed <= 40 << 20, "{receiver:?}");
}

#[test]
fn files_that_come_and_go_between_attempts_do_not_mix_up_the_others() {
    let bench = Bench::new();
    tree(&bench);
    bench.write("a-goes", b"gone");
    interrupt(&bench, 1, 10 << 20, |_, sender| sender.signal("KILL"));
    std::fs::remove_file(bench.source().join("a-goes")).unwrap();
    bench.write("a-comes", &noise(70_000, 5));
    bench.write("many/0-comes", b"new");
    let (receiver, sender) = bench.attempt(2, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
    assert!(number(&receiver, "bytes_resumed") > 8 << 20, "{receiver:?}");
}

#[test]
fn the_ledger_can_be_looked_at() {
    let bench = Bench::new();
    tree(&bench);
    interrupt(&bench, 1, 4 << 20, |receiver, _| receiver.signal("TERM"));
    let (code, text) = support::output(&["ledger", &bench.partial().display().to_string(), "--json"]);
    let ledger: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &ledger["job"], &ledger["attempt"]), (Some(0), &"local".into(), &1.into()), "{text}");
    let held = ledger["bytes_held"].as_u64().unwrap();
    assert!(held > 4 << 20 && held >= ledger["bytes_durable"].as_u64().unwrap());
    let (receiver, sender) = bench.attempt(2, &[], &[]);
    assert_eq!(number(&receiver, "bytes_resumed"), held);
    assert_whole(&bench, &receiver, &sender);
    assert_eq!(support::output(&["ledger", &bench.source().display().to_string()]).0, Some(3));
}

#[test]
fn an_older_attempt_is_fenced_out() {
    let bench = Bench::new();
    tree(&bench);
    interrupt(&bench, 2, 1 << 20, |receiver, _| receiver.signal("KILL"));
    let end = bench.receiver_of(1, &[], &[]).map(|_| ()).unwrap_err();
    assert_eq!((end.code(), end.reason()), (Some(3), "Superseded"), "{end:?}");
    let (receiver, sender) = bench.attempt(3, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
}

#[test]
fn a_running_receiver_gives_way_to_a_later_attempt() {
    let bench = Bench::new();
    tree(&bench);
    let (mut old, port) = bench.receiver_of(1, &[], &HOLD).unwrap();
    let old_sender = bench.sender_of(1, port, &SLOW);
    old.await_progress(moved(4 << 20));
    // Both log to the same file; the old one's verdict is read from its event. It may get no processor for as long as the new one waits.
    let mut taken = bench.receiver_of(2, &[], &[]);
    for _ in 0..6 {
        if taken.as_ref().is_err_and(|end| end.message().contains("still runs")) {
            taken = bench.receiver_of(2, &[], &[]);
        }
    }
    let (receiver, port) = taken.unwrap();
    assert_eq!(old.await_event("verdict")["reason"], "Superseded");
    assert_eq!(old_sender.end().reason(), "PeerFailed");
    old.end();
    let sender = bench.sender_of(2, port, &[]).end();
    assert_whole(&bench, &receiver.end(), &sender);
}

#[test]
fn too_many_bytes_in_vain_end_the_job() {
    let bench = Bench::new();
    tree(&bench);
    interrupt(&bench, 1, 8 << 20, |receiver, _| receiver.signal("KILL"));
    // Everything is different now: what was received is lost.
    std::fs::OpenOptions::new().append(true).open(bench.source().join("large")).unwrap().write_all(b"x").unwrap();
    let (receiver, sender) = bench.attempt(2, &["--resend-budget", "1M"], &[]);
    assert_eq!((receiver.code(), receiver.reason()), (Some(3), "ResendBudgetExceeded"), "{receiver:?}");
    assert_eq!((sender.code(), sender.reason()), (Some(3), "PeerFailed"), "{sender:?}");
    let (receiver, sender) = bench.attempt(3, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
}

#[test]
fn a_block_that_was_damaged_on_the_disk_is_found_and_sent_again() {
    let bench = Bench::new();
    bench.write("large", &noise(3 << 20, 6));
    bench.write("small", b"x");
    let damage = [("FAIRLEAD_FAULT_DAMAGE_DISK", "1500000")];
    let (receiver, port) = bench.receiver_of(1, &["--verify", "ReadBack"], &damage).unwrap();
    let sender = bench.sender(port, &[]).end();
    let receiver = receiver.end();
    assert_whole(&bench, &receiver, &sender);
    for end in [&receiver, &sender] {
        assert_eq!(end.verdict["verified"], serde_json::json!(["Wire", "Block", "Disk"]), "{end:?}");
        assert_eq!(number(end, "bytes_resent"), BLOCK, "{end:?}");
    }
    assert_eq!(receiver.verdict["blocks_damaged"], 1);
}

/// Everything that the ledger does not call durable is gone, as after a power cut: from the files and, in part, from the ledger.
#[test]
fn a_node_that_loses_power_loses_only_what_was_not_durable() {
    let mut lost_any = false;
    // The instant of the kill decides whether anything was not durable then.
    for lost_bytes in [0u64, 1, 200].into_iter().cycle().take(15) {
        if lost_any && lost_bytes == 0 {
            return;
        }
        let bench = Bench::new();
        tree(&bench);
        interrupt(&bench, 1, 12 << 20, |receiver, _| receiver.signal("KILL"));
        let ledger = std::fs::OpenOptions::new().write(true).open(bench.partial().join("ledger")).unwrap();
        let mut replay = Replay::default();
        replay.extend(&std::fs::read(bench.partial().join("ledger")).unwrap());
        let (book, length) = replay.finish();
        let (mut durable, mut zeroed) = (0, 0);
        for (slot, file) in book.files() {
            let path = bench.partial().join(format!("{:x}/{slot:x}", slot / 4096));
            let partial = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            for held in file.blocks() {
                let length = u64::from(block_length(file.size, held.block));
                if book.is_durable(&held) {
                    durable += length;
                } else {
                    partial.write_all_at(&vec![0; length as usize], held.block.offset()).unwrap();
                    zeroed += length;
                }
            }
        }
        ledger.set_len(length - lost_bytes).unwrap();
        assert!(durable > 0);
        lost_any |= zeroed > 0;
        let (receiver, sender) = bench.attempt(2, &[], &[]);
        assert_whole(&bench, &receiver, &sender);
        assert!(number(&receiver, "bytes_resumed") <= durable, "{receiver:?}");
        if lost_bytes == 0 {
            assert_eq!((number(&receiver, "bytes_resumed"), number(&receiver, "bytes_resent")), (durable, zeroed));
        }
    }
    assert!(lost_any, "every kill came right after everything was made durable");
}

/// A write that was under way when the receiver was killed: the kernel may have finished it, and no record says so.
#[test]
fn a_block_that_was_only_begun_is_kept_if_it_is_there_and_counts_as_written_from_then_on() {
    let bench = Bench::new();
    bench.write("large", &noise((40 << 20) + 5, 9));
    interrupt(&bench, 1, 8 << 20, |receiver, _| receiver.signal("KILL"));
    let path = bench.partial().join("ledger");
    let mut doubtful = header("local").to_vec();
    let only_begun = |record: &Record| match record.clone() {
        Record::Block { slot, block, length, digest } => {
            Record::Begun { slot, block, length, digest }.encode_into(&mut doubtful);
        }
        Record::Mark { .. } => {}
        other => other.encode_into(&mut doubtful),
    };
    let mut replay = Replay::with_observer(only_begun);
    replay.extend(&std::fs::read(&path).unwrap());
    drop(replay);
    std::fs::write(&path, &doubtful).unwrap();
    let begun = blocks(&doubtful);
    assert!(begun.len() >= 8 && begun.iter().all(|(_, written)| !written), "{begun:?}");
    let partial = std::fs::OpenOptions::new().write(true).open(bench.partial().join("0/0")).unwrap();
    partial.write_all_at(b"torn", u64::from(begun[0].0) * BLOCK + BLOCK / 2).unwrap();

    let whole: u64 =
        begun[1..].iter().map(|(block, _)| u64::from(block_length((40 << 20) + 5, BlockIndex(*block)))).sum();
    interrupt(&bench, 2, (whole + (4 << 20)).min(40 << 20), |receiver, _| receiver.signal("KILL"));
    let after = blocks(&std::fs::read(&path).unwrap());
    assert!(begun[1..].iter().all(|(block, _)| after.contains(&(*block, true))), "{begun:?} {after:?}");
    let (receiver, sender) = bench.attempt(3, &[], &[]);
    assert_whole(&bench, &receiver, &sender);
    assert!(number(&receiver, "bytes_resumed") > whole, "{receiver:?}");
    assert!(number(&receiver, "bytes_resent") >= BLOCK, "the torn block came twice: {receiver:?}");
}

/// The blocks of the first partial file in a ledger, and whether each is known to be written.
fn blocks(ledger: &[u8]) -> Vec<(u32, bool)> {
    let mut replay = Replay::default();
    replay.extend(ledger);
    let (book, _): (LedgerContents, u64) = replay.finish();
    book.file(0).unwrap().blocks().map(|held| (held.block.0, held.written)).collect()
}

/// A partial file whose bytes changed behind the ledger's back is found where the disk is read again.
#[test]
fn a_kept_block_that_the_disk_lost_is_found_by_reading_back() {
    let bench = Bench::new();
    bench.write("large", &noise(40 << 20, 7));
    interrupt(&bench, 1, 12 << 20, |receiver, _| receiver.signal("TERM"));
    let mut replay = Replay::default();
    replay.extend(&std::fs::read(bench.partial().join("ledger")).unwrap());
    let (book, _) = replay.finish();
    let kept = book.file(0).unwrap().blocks().find(|held| book.is_durable(held)).unwrap();
    let partial = std::fs::OpenOptions::new().write(true).open(bench.partial().join("0/0")).unwrap();
    partial.write_all_at(b"damage", kept.block.offset()).unwrap();
    let (receiver, sender) = bench.attempt(2, &["--verify", "ReadBack"], &[]);
    assert_whole(&bench, &receiver, &sender);
    assert_eq!(receiver.verdict["blocks_damaged"], 1, "{receiver:?}");
}

/// After a write-back that failed the page cache holds what the disk does not, and no later sync fails. Here the disk is changed behind
/// the file system's back, before any mark was made.
#[test]
fn a_block_that_is_in_the_page_cache_and_not_on_the_disk_is_sent_again() {
    let bench = Bench::new();
    let content = noise(512 << 10, 12);
    bench.write("file", &content);
    if !bench.mount_destination_of_image(&[]) {
        return;
    }
    let (receiver, port) = bench.receiver_of(1, &PATIENT, &[("FAIRLEAD_FAULT_HANG", "SYNC")]).unwrap();
    let sender = bench.sender_of(1, port, &PATIENT);
    let partial = bench.partial().display().to_string();
    await_page(
        || support::output(&["ledger", &partial, "--json"]).1,
        |ledger| ledger.contains("\"bytes_held\":524288"),
    );
    receiver.signal("KILL");
    receiver.end();
    sender.end();
    std::fs::File::open(bench.partial().join("0/0")).unwrap().sync_all().unwrap();
    let image = std::fs::OpenOptions::new().read(true).write(true).open(bench.path("image")).unwrap();
    let place = std::fs::read(bench.path("image")).unwrap().chunks(1024).position(|piece| piece == &content[..1024]);
    image.write_all_at(&[0; 1024], place.unwrap() as u64 * 1024).unwrap();
    let (receiver, sender) = bench.attempt(2, &[], &[]);
    let on_disk = std::fs::File::open(bench.destination().join("file")).and_then(|mut file| {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(|_| bytes)
    });
    bench.unmount_destination();
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(number(&receiver, "bytes_resumed"), 0, "{receiver:?}");
    assert!(on_disk.is_ok_and(|bytes| bytes == content), "what was verified is on the disk");
}

#[test]
fn what_an_earlier_attempt_left_is_removed_also_where_directories_do_not_tell_what_is_in_them() {
    let bench = Bench::new();
    bench.write("empty", b"");
    if !bench.mount_destination_without_types() {
        return;
    }
    std::fs::create_dir_all(bench.partial().join("0")).unwrap();
    std::fs::write(bench.partial().join("ledger"), header("local")).unwrap();
    std::fs::write(bench.partial().join("0/0"), b"leftover").unwrap();
    let (receiver, sender) = bench.attempt(1, &[], &[]);
    let length = bench.destination().join("empty").metadata().map(|empty| empty.len());
    bench.unmount_destination();
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(length.ok(), Some(0));
}

/// 250 files in 100 directories, where 400 names fit.
#[test]
fn names_that_are_there_already_need_no_room() {
    let bench = Bench::new();
    for file in 0..250 {
        bench.write(&format!("{}/{file}", file % 100), &noise(16 << 10, file));
    }
    if !bench.mount_destination_of_names(400) {
        return;
    }
    for directory in 0..100 {
        std::fs::create_dir(bench.destination().join(directory.to_string())).unwrap();
    }
    let begun = interrupt(&bench, 1, 160 << 14, |receiver, _| receiver.signal("KILL"));
    let checked = bench.attempt(2, &["--check"], &["--check"]);
    let finished = bench.attempt(2, &[], &[]);
    let same = inventory(&bench.source()) == inventory(&bench.destination());
    bench.unmount_destination();
    assert_eq!(begun.0.reason(), "", "it was killed: {begun:?}");
    assert_eq!((checked.0.reason(), checked.1.reason()), ("PreflightPassed", "PreflightPassed"), "{checked:?}");
    assert_eq!((finished.0.reason(), finished.1.reason(), same), ("Verified", "Verified", true), "{finished:?}");
}

#[test]
fn a_ledger_of_nonsense_is_no_obstacle() {
    for content in [&b""[..], b"nonsense", &[0xff; 4096]] {
        let bench = Bench::new();
        tree(&bench);
        std::fs::create_dir_all(bench.partial().join("0")).unwrap();
        std::fs::write(bench.partial().join("ledger"), content).unwrap();
        std::fs::write(bench.partial().join("0/0"), b"leftover").unwrap();
        let (receiver, sender) = bench.attempt(1, &[], &[]);
        assert_whole(&bench, &receiver, &sender);
        assert_eq!(number(&receiver, "bytes_resumed"), 0);
    }
}
