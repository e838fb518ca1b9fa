//! Both ends of a session against each other, without sockets or files: loss, damage and hostile peers are replayed at will.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;

use fairlead_protocol::digest::{self, of_block, of_file, Digest};
use fairlead_protocol::index::{BlockId, BlockIndex, ConnectionId, FileIndex, PathIndex};
use fairlead_protocol::kept::{add, BlockRun, KeptFrames};
use fairlead_protocol::listing::{Entry, Kind, ListingBuilder, Version};
use fairlead_protocol::message::{Body, Complete, ListingEnd, ListingMessage, Packs};
use fairlead_protocol::pack::Segment;
use fairlead_protocol::receiver::{Receiver, ReceiverEffect, ReceiverStep};
use fairlead_protocol::schedule::Pack;
use fairlead_protocol::sender::{Sender, SenderEffect};
use fairlead_protocol::{Fault, Reason};
use proptest::prelude::*;

const BLOCK: u64 = fairlead_protocol::limits::BLOCK_BYTES as u64;

fn file(path: &str, size: u64) -> Entry {
    Entry {
        path: path.into(),
        kind: Kind::File,
        mode: 0o644,
        mtime_s: 1,
        mtime_ns: 2,
        size,
        target: Vec::new(),
        version: Version::default(),
        hole_bytes: 0,
    }
}

/// Content is a function of place, so that no bytes are kept.
fn block_digest(id: BlockId) -> Digest {
    of_block(&[id.file.0.to_be_bytes(), id.block.0.to_be_bytes()].concat())
}

fn id(file: u32, block: u32) -> BlockId {
    BlockId::new(FileIndex(file), BlockIndex(block))
}

fn file_digest(index: FileIndex, size: u64) -> Digest {
    let block = |block| block_digest(BlockId::new(index, BlockIndex(block)));
    let blocks: Vec<Digest> = (0..digest::block_count(size) as u32).map(block).collect();
    of_file(size, blocks)
}

/// Blocks in order, with their digests.
type Kept = Vec<(BlockId, Digest)>;

fn runs(kept: &Kept) -> Vec<BlockRun> {
    let mut runs = Vec::new();
    kept.iter().for_each(|(block, _)| add(&mut runs, *block));
    runs
}

struct Pair {
    sender: Sender,
    receiver: Receiver,
    /// Files the destination has already, with their digests.
    present: HashMap<FileIndex, Digest>,
    /// Blocks of earlier attempts, with their digests.
    kept: Kept,
    /// Blocks that the disk gives back damaged, once.
    disk_damage: Vec<BlockId>,
    /// Files that the sender skips, and kept blocks with their bytes and whole files, by its plan.
    skipped: Arc<Vec<FileIndex>>,
    sender_kept: Arc<Vec<BlockRun>>,
    kept_totals: (u64, u64),
    listing: Arc<fairlead_protocol::listing::Listing>,
    published: bool,
    finished: bool,
}

impl Pair {
    fn planned(entries: &[Entry], present: HashMap<FileIndex, Digest>) -> Result<Self, Fault> {
        Self::resumed(entries, present, Vec::new())
    }

    /// Lists, compares and plans; data may flow afterwards.
    fn resumed(entries: &[Entry], present: HashMap<FileIndex, Digest>, kept: Kept) -> Result<Self, Fault> {
        let mut pair = Self {
            sender: Sender::default(),
            receiver: Receiver::default(),
            present,
            kept,
            disk_damage: Vec::new(),
            skipped: Arc::default(),
            sender_kept: Arc::default(),
            kept_totals: (0, 0),
            listing: Arc::default(),
            published: false,
            finished: false,
        };
        let mut builder = ListingBuilder::default();
        entries.iter().try_for_each(|entry| builder.push(entry))?;
        let totals = builder.totals();
        pair.listing = pair.sender.listed(builder.finish())?;
        let listing = ListingMessage { entries: entries.iter().map(Entry::to_message).collect() };
        pair.tell_receiver(Body::Listing(listing))?;
        let end = ListingEnd {
            files: totals.files,
            directories: totals.directories,
            symlinks: totals.symlinks,
            bytes: totals.bytes,
            ..ListingEnd::default()
        };
        pair.tell_receiver(Body::ListingEnd(end))?;
        pair.sender.release();
        Ok(pair)
    }

    fn tell_receiver(&mut self, body: Body) -> Result<(), Fault> {
        let step = self.receiver.on_message(body)?;
        self.follow(step)
    }

    fn follow(&mut self, step: ReceiverStep) -> Result<(), Fault> {
        for body in step.send {
            self.tell_sender(body)?;
        }
        let next = match step.effect {
            None => return Ok(()),
            Some(ReceiverEffect::Survey(_)) => {
                let mut candidates: Vec<FileIndex> = self.present.keys().copied().collect();
                candidates.sort_unstable();
                self.receiver.surveyed(candidates)?
            }
            Some(ReceiverEffect::HashFiles(files)) => {
                files.iter().try_for_each(|file| self.receiver.hashed(&[(*file, self.present[file])]))?;
                self.receiver.hashed_all()?
            }
            Some(ReceiverEffect::Reserve { .. }) => {
                let kept = std::mem::take(&mut self.kept);
                let digest = |id| Ok(kept.iter().find(|held| held.0 == id).unwrap().1);
                let mut plan = self.receiver.reserved(runs(&kept), digest)?;
                while let Some(body) = self.receiver.plan_frame(&mut plan) {
                    self.tell_sender(body)?;
                }
                return Ok(());
            }
            Some(ReceiverEffect::Settle) => self.receiver.settled(&std::mem::take(&mut self.disk_damage))?,
            Some(ReceiverEffect::Publish { .. }) => {
                self.published = true;
                self.receiver.published(false)?
            }
        };
        self.follow(next)
    }

    fn tell_sender(&mut self, body: Body) -> Result<(), Fault> {
        match self.sender.on_message(body)? {
            Some(SenderEffect::HashFiles(files)) => {
                let digest = |file: &FileIndex| (*file, file_digest(*file, self.listing.size(*file)));
                let digests: Vec<_> = files.iter().map(digest).collect();
                // In two parts, as a sender does that has many.
                for part in digests.chunks(digests.len().div_ceil(2)) {
                    let answer = self.sender.hashed(part)?;
                    answer.into_iter().try_for_each(|body| self.tell_receiver(body))?;
                }
                Ok(())
            }
            Some(SenderEffect::Planned { skipped, kept, kept_bytes, kept_files }) => {
                (self.skipped, self.sender_kept, self.kept_totals) = (skipped, kept, (kept_bytes, kept_files));
                Ok(())
            }
            Some(SenderEffect::Finished { .. }) => {
                self.finished = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self, pack: &Pack) {
        for block in &pack.blocks {
            self.sender.read(block.id(), block_digest(block.id())).unwrap();
        }
    }

    fn store(&mut self, pack: &Pack) -> Result<(), Fault> {
        let assembly = self.receiver.assembly().unwrap();
        pack.blocks.iter().try_for_each(|block| {
            let digest = block_digest(block.id());
            let segment =
                Segment { file: block.file, block: block.block, length: block.length, digest, is_hole: false };
            assembly.admits(&segment)?;
            if assembly.contradicts_kept(&segment) {
                assembly.forget(block.id());
            }
            assembly.stored(&segment).map(|_| ())
        })
    }

    /// Reads the kept blocks again, as the sender must.
    fn recheck(&mut self) {
        for run in self.sender_kept.iter() {
            for block in run.ids() {
                self.sender.checked(block, block_digest(block)).unwrap();
            }
        }
    }

    /// Sends until the receiver has published; returns the blocks that were sent.
    fn finish(&mut self) -> Vec<BlockId> {
        let mut sent = Vec::new();
        self.complete().unwrap();
        while !self.finished {
            let pack = self.sender.next_pack(ConnectionId(0)).unwrap();
            self.read(&pack);
            sent.extend(pack.blocks.iter().map(|block| block.id()));
            self.store(&pack).unwrap();
            self.tell_sender(Body::Stored(Packs { packs: vec![pack.id.0] })).unwrap();
            self.complete().unwrap();
        }
        sent
    }

    fn complete(&mut self) -> Result<(), Fault> {
        match self.sender.complete()? {
            Some(body) => self.tell_receiver(body),
            None => Ok(()),
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_lost_or_damaged_the_roots_agree(
        sizes in proptest::collection::vec(0u64..(4 * BLOCK), 1..12),
        present in proptest::collection::vec(0u8..3, 12),
        fates in proptest::collection::vec(0u8..5, 0..40),
    ) {
        let entries: Vec<Entry> = sizes.iter().enumerate().map(|(i, size)| file(&format!("{i:03}"), *size)).collect();
        let known = |(index, size): (usize, &u64)| match present[index] {
            0 => None,
            1 => Some((FileIndex(index as u32), file_digest(FileIndex(index as u32), *size))),
            _ => Some((FileIndex(index as u32), [9; 32])),
        };
        let mut pair = Pair::planned(&entries, sizes.iter().enumerate().filter_map(known).collect()).unwrap();
        prop_assert_eq!(pair.skipped.len(), present[..sizes.len()].iter().filter(|state| **state == 1).count());
        let mut fates = fates.into_iter().chain(std::iter::repeat(0));
        let mut rounds = 0u64;
        pair.complete().unwrap();
        while !pair.finished {
            rounds += 1;
            prop_assert!(rounds < 10_000);
            if let Some(pack) = pair.sender.next_pack(ConnectionId(rounds % 3)) {
                pair.read(&pack);
                let packs = || Packs { packs: vec![pack.id.0] };
                match fates.next() {
                    Some(1) => pair.tell_sender(Body::Damaged(packs())).unwrap(),
                    Some(2) => { pair.sender.connection_lost(ConnectionId(rounds % 3)); }
                    // Stored, but the connection broke before the sender knew: the blocks come twice.
                    Some(3) => { pair.store(&pack).unwrap(); pair.sender.connection_lost(ConnectionId(rounds % 3)); }
                    _ => { pair.store(&pack).unwrap(); pair.tell_sender(Body::Stored(packs())).unwrap(); }
                }
            }
            pair.complete().unwrap();
        }
        prop_assert!(pair.published);
    }
}

proptest! {
    #[test]
    fn a_resumed_transfer_sends_exactly_what_is_missing_or_different(
        sizes in proptest::collection::vec(0u64..(5 * BLOCK), 1..10),
        states in proptest::collection::vec(0u8..4, 50),
    ) {
        let entries: Vec<Entry> = sizes.iter().enumerate().map(|(i, size)| file(&format!("{i:03}"), *size)).collect();
        let (mut kept, mut expected) = (Vec::new(), Vec::new());
        let mut states = states.into_iter().cycle();
        for (index, size) in (0u32..).zip(&sizes) {
            for block in 0..digest::block_count(*size) as u32 {
                match states.next() {
                    Some(0) => expected.push(id(index, block)),
                    Some(1) => { kept.push((id(index, block), [7; 32])); expected.push(id(index, block)); }
                    _ => kept.push((id(index, block), block_digest(id(index, block)))),
                }
            }
        }
        let mut pair = Pair::resumed(&entries, HashMap::new(), kept).unwrap();
        prop_assert!(pair.sender.complete().unwrap().is_none() || pair.sender_kept.is_empty());
        pair.recheck();
        let mut sent = pair.finish();
        sent.sort_unstable();
        prop_assert_eq!(sent, expected);
        prop_assert!(pair.published);
    }
}

#[test]
fn nothing_is_complete_before_the_kept_blocks_are_read_again() {
    let kept = vec![(id(0, 0), block_digest(id(0, 0)))];
    let mut pair = Pair::resumed(&[file("a", 10)], HashMap::new(), kept).unwrap();
    assert_eq!(pair.sender.complete(), Ok(None));
    assert_eq!(pair.kept_totals, (10, 1));
    pair.recheck();
    assert!(pair.finish().is_empty());
    assert!(pair.published);
}

#[test]
fn a_kept_block_that_differs_reopens_its_file() {
    let kept = vec![(id(0, 0), [9; 32])];
    let mut pair = Pair::resumed(&[file("a", 10)], HashMap::new(), kept).unwrap();
    let reopened = pair.sender.checked(id(0, 0), block_digest(id(0, 0))).unwrap();
    assert_eq!((reopened.bytes, reopened.files), (10, 1));
    assert_eq!(pair.finish(), [id(0, 0)]);
}

#[test]
fn blocks_that_the_disk_lost_are_sent_again() {
    let mut pair = Pair::planned(&[file("a", 2 * BLOCK), file("b", 5)], HashMap::new()).unwrap();
    pair.disk_damage = vec![id(0, 1), id(1, 0)];
    assert_eq!(pair.finish(), [id(0, 0), id(0, 1), id(1, 0), id(0, 1), id(1, 0)]);
    assert_eq!(pair.sender.counts().packs_damaged, 2, "each of them in a pack of its own");
    assert!(pair.published);
}

#[test]
fn a_disk_that_never_keeps_a_block_is_given_up() {
    let mut pair = Pair::planned(&[file("a", 5)], HashMap::new()).unwrap();
    let pack = pair.sender.next_pack(ConnectionId(0)).unwrap();
    pair.read(&pack);
    pair.store(&pack).unwrap();
    for round in 1.. {
        let root = pair.receiver.assembly().unwrap().root().unwrap();
        let settle = pair.receiver.on_message(Body::Complete(Complete { root: root.to_vec(), disk: false })).unwrap();
        assert!(matches!(settle.effect, Some(ReceiverEffect::Settle)));
        match pair.receiver.settled(&[id(0, 0)]) {
            Ok(step) => assert!(matches!(step.send[..], [Body::Again(_)])),
            Err(fault) => {
                assert_eq!((fault.reason, round), (Reason::ChecksumMismatch, 4));
                return;
            }
        }
        pair.store(&pack).unwrap();
    }
}

#[test]
fn a_receiver_that_keeps_what_cannot_be_is_refused() {
    for (file_number, first) in [(1, 0), (0, 1)] {
        let (mut sender, mut builder) = (Sender::default(), ListingBuilder::default());
        builder.push(&file("a", 10)).unwrap();
        sender.listed(builder.finish()).unwrap();
        let file = FileIndex(file_number);
        let kept = [BlockRun { file, first: BlockIndex(first), end: BlockIndex(first + 1) }];
        let frame = KeptFrames::new(kept.into()).next_frame(|_| [0; 32]);
        let Some(Body::Kept(message)) = frame else { panic!() };
        assert_eq!(sender.on_message(Body::Kept(message)).unwrap_err().reason, Reason::ProtocolError);
    }
}

#[test]
fn another_root_is_never_published() {
    let mut pair = Pair::planned(&[file("a", 10)], HashMap::new()).unwrap();
    let pack = pair.sender.next_pack(ConnectionId(0)).unwrap();
    pair.store(&pack).unwrap();
    let fault = pair.tell_receiver(Body::Complete(Complete { root: vec![0; 32], disk: false })).unwrap_err();
    assert_eq!(fault.reason, Reason::ChecksumMismatch);
    assert!(!pair.published);
}

#[test]
fn a_sender_that_is_done_too_early_is_refused() {
    let mut pair = Pair::planned(&[file("a", 10)], HashMap::new()).unwrap();
    let fault = pair.tell_receiver(Body::Complete(Complete { root: vec![0; 32], disk: false })).unwrap_err();
    assert_eq!(fault.reason, Reason::ProtocolError);
    assert!(!pair.published);
}

#[test]
fn blocks_that_no_file_has_are_refused() {
    let entries = [file("a", BLOCK + 5), file("b", 0)];
    let mut pair = Pair::planned(&entries, HashMap::new()).unwrap();
    let assembly = pair.receiver.assembly().unwrap();
    let admits = |file, block, length| {
        let (file, block) = (FileIndex(file), BlockIndex(block));
        let segment = Segment { file, block, length, digest: [0; 32], is_hole: false };
        assembly.admits(&segment).is_ok()
    };
    assert!(admits(0, 0, BLOCK as u32) && admits(0, 1, 5));
    for (file, block, length) in
        [(0, 0, 5), (0, 1, 6), (0, 2, 5), (0, u32::MAX, 1), (1, 0, 1), (2, 0, 1), (u32::MAX, 0, 1)]
    {
        assert!(!admits(file, block, length), "{file} {block} {length}");
    }
}

#[test]
fn a_source_that_reads_differently_the_second_time_has_changed() {
    let mut pair = Pair::planned(&[file("a", 10)], HashMap::new()).unwrap();
    let pack = pair.sender.next_pack(ConnectionId(0)).unwrap();
    pair.read(&pack);
    pair.tell_sender(Body::Damaged(Packs { packs: vec![pack.id.0] })).unwrap();
    let fault = pair.sender.read(id(0, 0), [1; 32]).unwrap_err();
    assert_eq!(fault.reason, Reason::SourceChanged);
}

#[test]
fn messages_out_of_turn_are_refused_by_both_ends() {
    let mut pair = Pair::planned(&[file("a", 10)], HashMap::new()).unwrap();
    let root = || Complete { root: vec![0; 32], disk: false };
    assert_eq!(pair.sender.on_message(Body::Published(root())).unwrap_err().reason, Reason::ProtocolError);
    assert_eq!(pair.receiver.on_message(Body::Published(root())).unwrap_err().reason, Reason::ProtocolError);
    let listing = Body::Listing(ListingMessage { entries: Vec::new() });
    assert_eq!(pair.receiver.on_message(listing).unwrap_err().reason, Reason::ProtocolError);
}

#[test]
fn a_copy_that_arrives_after_the_last_block_was_stored_changes_nothing_even_if_it_is_damaged() {
    let (slow, fast) = (ConnectionId(0), ConnectionId(1));
    let mut pair = Pair::planned(&[file("a", 2 * BLOCK)], HashMap::new()).unwrap();
    pair.sender.connection_made(slow, PathIndex(0));
    pair.sender.connection_made(fast, PathIndex(1));
    let [original, other] = [slow, fast].map(|connection| pair.sender.next_pack(connection).unwrap());
    let stored = |pack: &Pack| Body::Stored(Packs { packs: vec![pack.id.0] });
    pair.read(&original);
    pair.read(&other);
    pair.store(&other).unwrap();
    pair.tell_sender(stored(&other)).unwrap();
    let copy = pair.sender.next_pack(fast).unwrap();
    assert_eq!(copy.blocks, original.blocks);
    pair.store(&copy).unwrap();
    pair.tell_sender(stored(&copy)).unwrap();
    let complete = pair.sender.complete().unwrap().unwrap();
    for late in [Body::Damaged(Packs { packs: vec![original.id.0] }), stored(&original)] {
        pair.tell_sender(late).unwrap();
    }
    pair.tell_receiver(complete).unwrap();
    assert!(pair.finished && pair.published);
}
