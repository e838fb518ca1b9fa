//! Keeps the ledger while blocks arrive, on threads of its own, so that no stream waits for the disk.
//!
//! # Why a crash at any instruction leaves a true ledger
//! A block is checked against its digest, then written to its partial file, then recorded (`Block`). Its record states what
//! the place holds, not that the disk has it. A mark states that, and a mark is made in this order:
//!
//! 1. Note `through`, the end of the ledger. Every record before it is of a block that was written before it was recorded.
//! 2. `fdatasync` every partial file with such records that no mark covers, and `fsync` the directories of new ones.
//! 3. Append `Mark { through }`.
//! 4. `fdatasync` the ledger. Only now are those blocks counted as durable.
//!
//! If the process dies, the kernel still has every block and record that was written: blocks behind the last mark are read again
//! by the next attempt, and those that match their digest are kept. It reads them from the disk: a sync may have failed, after which
//! the page cache still holds what the disk does not. If the node dies, a mark that is in the ledger on the disk
//! was appended after the data it covers was there. Records are read in order up to the first unsound one, so a mark is never
//! believed without the records before it; records behind the last mark are checked against what the disk really holds.
//! What is to be overwritten with other bytes, or forgotten, is struck from the ledger durably (`Lost`, `Forgotten`) before that
//! happens, and so are blocks that the next attempt could not confirm, before any later mark could cover them.
//! `Verified` is appended durably after every file was synced whole, and before the first rename: from then on a complete file
//! whose partial file is gone can only be in place. The ledger itself is removed last, after the verdict.
//!
//! A block of a large file takes long to write, and the kernel finishes a write under way when the process is killed. So that
//! such a block is found, its beginning is recorded too (`Begun`). That record claims nothing: no mark covers it, the next attempt
//! reads the place and keeps the block only if it has the digest, and then records it (`Block`). So it may be late or missing, and
//! the order of writes above does not depend on it.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::fault::show;
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::ledger::{FileIdentity, Record};
use fairlead_protocol::listing::{Kind, Listing};
use fairlead_protocol::pack::Segment;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::OFlags;

use super::recovery::Recovery;
use super::PartialDirectory;
use crate::fault_injection::{crash_point, hang_point};
use crate::fs::survey::write_fault;
use crate::progress::Progress;
use crate::threads::lock;

/// Bytes and time after which blocks are made durable.
const COMMIT_BYTES: u64 = 64 << 20;
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// Making many small files durable disturbs those that still arrive: at most one part in so many of the time goes to it, as long
/// as no commit is further from the one before than the longest interval.
const COMMIT_SHARE: u32 = 5;
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes of records that are appended at once at most, when there are many.
const APPEND_BYTES: usize = 1 << 20;
/// Beyond so many files, one `syncfs` costs less than a sync of each.
pub(super) const SYNC_ONE_BY_ONE: usize = 64;

enum Command {
    /// A block is about to be written.
    Begun(Segment),
    /// Blocks of one pack are written; the pack had so many bytes.
    Stored(Vec<Segment>, u64),
    /// Answer when everything before is recorded.
    Barrier(SyncSender<()>),
}

struct State {
    /// Entries with blocks that no mark covers.
    dirty: BTreeSet<FileIndex>,
    dirty_bytes: u64,
    since: Option<Instant>,
    received_bytes: u64,
    through: u64,
    urgent: bool,
    busy: bool,
    over: bool,
    failed: Option<Fault>,
}

struct Shared {
    partial: Arc<PartialDirectory>,
    listing: Arc<Listing>,
    progress: Arc<Progress>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Writes the ledger of a transfer under way.
pub(crate) struct LedgerWriter {
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

impl LedgerWriter {
    /// Starts the threads.
    pub(crate) fn start(
        partial: Arc<PartialDirectory>,
        listing: Arc<Listing>,
        progress: Arc<Progress>,
        recovery: &Recovery,
        received_bytes: u64,
    ) -> io::Result<Self> {
        let through = partial.ledger().end();
        let dirty: BTreeSet<FileIndex> = recovery.unsynced.iter().copied().collect();
        let since = (!dirty.is_empty()).then(Instant::now);
        let state = State {
            dirty,
            dirty_bytes: 0,
            since,
            received_bytes,
            through,
            urgent: false,
            busy: false,
            over: false,
            failed: None,
        };
        let mut described = vec![false; listing.len() as usize];
        recovery.described.iter().for_each(|index| described[index.as_usize()] = true);
        let shared = Arc::new(Shared { partial, listing, progress, state: Mutex::new(state), changed: Condvar::new() });
        let (commands, inbox) = channel();
        let recorder = Recorder { shared: Arc::clone(&shared), described };
        std::thread::Builder::new().name("recorder".into()).spawn(move || recorder.run(&inbox))?;
        let syncer = Arc::clone(&shared);
        std::thread::Builder::new().name("syncer".into()).spawn(move || syncer.run())?;
        Ok(Self { commands, shared })
    }

    /// The first failure, if there was one: the transfer cannot go on then.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        lock(&self.shared.state).failed.clone().map_or(Ok(()), Err)
    }

    /// A verified block of a file of many is about to be written in its place.
    pub(crate) fn begun(&self, segment: &Segment) {
        let _ = self.commands.send(Command::Begun(*segment));
    }

    /// Blocks of a pack of `bytes` bytes are in their places.
    pub(crate) fn stored(&self, segments: Vec<Segment>, bytes: u64) {
        let _ = self.commands.send(Command::Stored(segments, bytes));
    }

    /// Strikes blocks whose place is about to be overwritten with other bytes.
    pub(crate) fn lose(&self, blocks: &[BlockId]) -> Result<(), Fault> {
        // Records of these blocks may still be on their way; they must not come after.
        self.barrier(Duration::MAX);
        let lost = |id: &BlockId| Record::Lost { slot: self.shared.partial.slot(id.file), block: id.block };
        self.shared.partial.ledger().append_durably(&blocks.iter().map(lost).collect::<Vec<_>>())
    }

    /// Makes everything stored so far durable, or gives up after `patience`.
    pub(crate) fn flush(&self, patience: Duration) -> Result<(), Fault> {
        let too_slow = || Fault::new(Reason::Stalled, "disk slow: what was received could not be made durable in time");
        let started = Instant::now();
        if !self.barrier(patience) {
            return Err(too_slow());
        }
        let patience = patience.saturating_sub(started.elapsed());
        let mut state = lock(&self.shared.state);
        state.urgent = true;
        self.shared.changed.notify_all();
        let pending = |state: &mut State| state.failed.is_none() && (state.busy || !state.dirty.is_empty());
        let (state, timeout) =
            self.shared.changed.wait_timeout_while(state, patience, pending).unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            Some(fault) => Err(fault.clone()),
            None if timeout.timed_out() => Err(too_slow()),
            None => Ok(()),
        }
    }

    /// Notes durably that the whole tree is here and durable.
    pub(crate) fn verified(&self, root: Digest) -> Result<(), Fault> {
        self.shared.partial.ledger().append_durably(&[Record::Verified(root)])
    }

    /// Waits until everything sent so far is recorded; false when that takes longer than `patience`.
    fn barrier(&self, patience: Duration) -> bool {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.commands.send(Command::Barrier(done)).is_err()
            || wait.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        lock(&self.shared.state).over = true;
        self.shared.changed.notify_all();
    }
}

/// What came with some packs, and what of it was written: damaged blocks are not.
#[derive(Default)]
struct Arrived {
    payload_bytes: u64,
    written_bytes: u64,
}

struct Recorder {
    shared: Arc<Shared>,
    described: Vec<bool>,
}

impl Recorder {
    fn run(mut self, inbox: &Receiver<Command>) {
        // Empty files have no blocks, so they are recorded at once: a publication may be interrupted with them in place.
        let (listing, mut bytes) = (Arc::clone(&self.shared.listing), Vec::new());
        for (index, _) in listing.iter().filter(|(_, entry)| entry.kind == Kind::File && entry.size == 0) {
            self.describe(index, &mut bytes);
            if bytes.len() >= APPEND_BYTES {
                self.append(&mut bytes, Vec::new(), Arrived::default());
            }
        }
        self.append(&mut bytes, Vec::new(), Arrived::default());
        while let Ok(first) = inbox.recv() {
            let (mut barriers, mut dirty, mut arrived) = (Vec::new(), Vec::new(), Arrived::default());
            for command in std::iter::once(first).chain(inbox.try_iter()) {
                match command {
                    Command::Barrier(done) => barriers.push(done),
                    Command::Begun(Segment { file, block, length, digest, .. }) => {
                        self.describe(file, &mut bytes);
                        let slot = self.shared.partial.slot(file);
                        Record::Begun { slot, block, length, digest }.encode_into(&mut bytes);
                    }
                    Command::Stored(segments, pack_bytes) => {
                        arrived.payload_bytes += pack_bytes;
                        for segment in segments {
                            self.describe(segment.file, &mut bytes);
                            let (slot, block) = (self.shared.partial.slot(segment.file), segment.block);
                            Record::Block { slot, block, length: segment.length, digest: segment.digest }
                                .encode_into(&mut bytes);
                            dirty.push(segment.file);
                            arrived.written_bytes += u64::from(segment.payload_bytes());
                        }
                    }
                }
            }
            self.append(&mut bytes, dirty, arrived);
            barriers.into_iter().for_each(|done| {
                let _ = done.send(());
            });
        }
    }

    fn describe(&mut self, index: FileIndex, bytes: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.described[index.as_usize()], true) {
            let identity = FileIdentity::of(&self.shared.listing.entry(index));
            Record::File { slot: self.shared.partial.slot(index), identity }.encode_into(bytes);
        }
    }

    fn append(&self, bytes: &mut Vec<u8>, dirty: Vec<FileIndex>, arrived: Arrived) {
        let operation = self.shared.progress.disk.begin();
        let appended = match bytes.is_empty() {
            true => Ok(None),
            false => self.shared.partial.ledger().append(bytes).map(Some),
        };
        drop(operation);
        bytes.clear();
        let mut state = lock(&self.shared.state);
        state.received_bytes += arrived.payload_bytes;
        match appended {
            Ok(end) if dirty.is_empty() => state.through = end.unwrap_or(state.through),
            Ok(end) => {
                state.through = end.unwrap_or(state.through);
                state.dirty.extend(dirty);
                state.dirty_bytes += arrived.written_bytes;
                state.since.get_or_insert_with(Instant::now);
                self.shared.changed.notify_all();
            }
            Err(fault) => {
                drop(state);
                self.shared.fail(fault);
            }
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut synced = vec![false; self.listing.len() as usize];
        let mut interval = COMMIT_INTERVAL;
        while let Some((dirty, bytes, mark)) = self.next_commit(interval) {
            let started = Instant::now();
            match self.commit(&dirty, &mark, &mut synced) {
                Ok(()) => self.progress.counters.bytes_durable.fetch_add(bytes, Ordering::Relaxed),
                Err(fault) => return self.fail(fault),
            };
            interval = (started.elapsed() * COMMIT_SHARE).clamp(COMMIT_INTERVAL, LONGEST_INTERVAL);
            lock(&self.state).busy = false;
            self.changed.notify_all();
        }
    }

    /// Waits until there is enough to make durable, many files no more often than every `interval`; nothing when the transfer
    /// is over.
    fn next_commit(&self, interval: Duration) -> Option<(Vec<FileIndex>, u64, Record)> {
        let mut state = lock(&self.state);
        loop {
            if state.over || state.failed.is_some() {
                return None;
            }
            let age = state.since.map(|since| since.elapsed());
            let many = state.dirty.len() > SYNC_ONE_BY_ONE;
            let interval = if many { interval } else { COMMIT_INTERVAL };
            let enough = state.dirty_bytes >= COMMIT_BYTES && !many;
            let due = state.urgent || enough || age.is_some_and(|age| age >= interval);
            if due && !state.dirty.is_empty() {
                state.busy = true;
                state.since = None;
                let (through, received_bytes) = (state.through, state.received_bytes);
                let dirty = std::mem::take(&mut state.dirty).into_iter().collect();
                let mark = Record::Mark { through, received_bytes };
                return Some((dirty, std::mem::take(&mut state.dirty_bytes), mark));
            }
            state.urgent = false;
            self.changed.notify_all();
            let wait = age.map_or(COMMIT_INTERVAL, |age| interval.saturating_sub(age)).min(COMMIT_INTERVAL);
            state = self
                .changed
                .wait_timeout(state, wait.max(Duration::from_millis(1)))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn commit(&self, dirty: &[FileIndex], mark: &Record, synced: &mut [bool]) -> Result<(), Fault> {
        let _operation = self.progress.disk.begin();
        hang_point("SYNC");
        if dirty.len() > SYNC_ONE_BY_ONE {
            crash_point();
            rustix::fs::syncfs(self.partial.directory())
                .map_err(|error| write_fault("the destination", &error.into()))?;
        } else {
            for index in dirty {
                let failed = |error: io::Error| write_fault(&show(&self.listing.entry(*index).path), &error);
                let file = self.partial.open_slot(self.partial.slot(*index), OFlags::RDONLY).map_err(failed)?;
                crash_point();
                file.sync_data().map_err(failed)?;
                self.progress.work(1);
            }
            let new: Vec<FileIndex> = dirty.iter().copied().filter(|index| !synced[index.as_usize()]).collect();
            self.partial.sync_names(&new).map_err(|error| write_fault("the directory for partial files", &error))?;
        }
        dirty.iter().for_each(|index| synced[index.as_usize()] = true);
        self.partial.ledger().append_durably(std::slice::from_ref(mark))
    }

    fn fail(&self, fault: Fault) {
        lock(&self.state).failed.get_or_insert(fault);
        self.changed.notify_all();
    }
}
