//! The way of a block from a data stream to the disk.
//!
//! 1. `net::connect::accept` hands an authenticated data connection to `SenderConnections::data`, which calls
//!    [`BlockReceiver::receive`] on the stream's thread.
//! 2. [`BlockReceiver`] reads a pack's header and table (`net::wire::PackReceiver`) and asks the session's `Assembly` whether the
//!    transfer includes every block of it.
//! 3. It reads the payload, and compares each block with its digest.
//! 4. `fs::partial::BlockWriter` writes the block in its place in the partial file. A block of a file of many is announced before
//!    that to `fs::partial::ledger_writer::LedgerWriter` (`begun`).
//! 5. The `Assembly` counts the block, and `LedgerWriter` gets the pack's blocks (`stored`), which it records in the ledger and makes
//!    durable on threads of its own. Its header explains why a crash at any point leaves a true ledger.
//! 6. The pack's outcome goes to `Acknowledgements`, from where the receiver's own thread acknowledges it to the sender.
//!
//! When all blocks are there, `DestinationWork` makes everything durable, reads it again if asked to, and publishes it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use fairlead_protocol::assembly::Assembly;
use fairlead_protocol::digest::{block_count, of_block, of_zeros, BlockHasher};
use fairlead_protocol::index::PackId;
use fairlead_protocol::limits::{BLOCK_BYTES, PACK_PAYLOAD_BYTES};
use fairlead_protocol::listing::Listing;
use fairlead_protocol::pack::{decode_table, Header, Segment};
use fairlead_protocol::receiver::Receiver;
use fairlead_protocol::Fault;

use crate::fault_injection::panic_point;
use crate::fs::metadata::Preserve;
use crate::fs::partial::ledger_writer::LedgerWriter;
use crate::fs::partial::{BlockWriter, PartialDirectory};
use crate::net::wire::{PackReceiver, WireError};
use crate::progress::Progress;
use crate::threads::lock;

const CLOSE_POLL: Duration = Duration::from_millis(5);

/// How a stream ended other than by its end mark.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The connection broke, or its bytes are no packs: its blocks come over another one.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The transfer cannot go on.
    #[error("{0}")]
    Fault(#[from] Fault),
}

/// The outcome of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackOutcome {
    /// Every block is verified and handed to the file system.
    Stored(PackId),
    /// A block failed its check.
    Damaged(PackId),
}

/// Where blocks go.
pub(crate) enum BlockTarget {
    /// They are checked, written and recorded.
    Disk { partial: Arc<PartialDirectory>, ledger_writer: Arc<LedgerWriter>, preserve: Vec<Preserve> },
    /// They are checked and thrown away; without digests there is nothing to check beyond the wire.
    Discard { undigested: bool },
}

/// Takes packs off the data streams of a transfer; shared by the streams' threads.
pub(crate) struct BlockReceiver {
    listing: Arc<Listing>,
    session: Arc<Mutex<Receiver>>,
    pub(crate) progress: Arc<Progress>,
    target: BlockTarget,
    /// False once publication starts: a straggler must not touch a published file.
    open: RwLock<bool>,
}

impl BlockReceiver {
    pub(crate) fn new(
        listing: Arc<Listing>,
        session: Arc<Mutex<Receiver>>,
        progress: Arc<Progress>,
        target: BlockTarget,
    ) -> Self {
        Self { listing, session, progress, target, open: RwLock::new(true) }
    }

    /// Ends writing; returns when no pack is being written, and the ledger writer has all that were.
    pub(crate) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// As `close`, but waits no longer than `patience` for a write that does not return: for a transfer that has failed.
    pub(crate) fn close_within(&self, patience: Duration) {
        let started = Instant::now();
        loop {
            match self.open.try_write() {
                Ok(mut open) => return *open = false,
                Err(TryLockError::Poisoned(open)) => return *open.into_inner() = false,
                Err(TryLockError::WouldBlock) if started.elapsed() >= patience => return,
                Err(TryLockError::WouldBlock) => std::thread::sleep(CLOSE_POLL),
            }
        }
    }

    /// Reads packs until the stream's end mark and reports each one's outcome.
    pub(crate) fn receive(
        &self,
        stream: &mut dyn PackReceiver,
        report: impl FnMut(PackOutcome),
    ) -> Result<(), StreamError> {
        match &self.target {
            BlockTarget::Disk { partial, ledger_writer, preserve } => {
                let mut writer = BlockWriter::new(partial, &self.listing, preserve);
                let mut payload = vec![0; PACK_PAYLOAD_BYTES as usize];
                self.packs(stream, report, |pack, segments, payload_bytes, stream| {
                    let payload = &mut payload[..payload_bytes as usize];
                    stream.read_exact(payload).map_err(WireError::from)?;
                    Ok(self.take(pack, segments, payload, ledger_writer, &mut writer)?)
                })
            }
            BlockTarget::Discard { undigested } => self
                .packs(stream, report, |pack, segments, _, stream| self.discard(pack, segments, *undigested, stream)),
        }
    }

    /// Has every pack taken whose blocks belong to the transfer.
    fn packs(
        &self,
        stream: &mut dyn PackReceiver,
        mut report: impl FnMut(PackOutcome),
        mut take: impl FnMut(PackId, &[Segment], u32, &mut dyn PackReceiver) -> Result<PackOutcome, StreamError>,
    ) -> Result<(), StreamError> {
        let (mut table, mut segments) = (Vec::new(), Vec::new());
        loop {
            let Header::Data { pack, payload_bytes, .. } = stream.head(&mut table)? else { return Ok(()) };
            self.progress.bulk_started();
            decode_table(&table, payload_bytes, &mut segments).map_err(WireError::from)?;
            self.with_assembly(|assembly| segments.iter().try_for_each(|segment| assembly.admits(segment)))?;
            panic_point("RECEIVE");
            let outcome = take(pack, &segments, payload_bytes, stream)?;
            if !*self.open.read().unwrap_or_else(PoisonError::into_inner) {
                // What goes out again, should the disk have damaged blocks, must come over a stream that is read for it.
                return Err(WireError::from(io::Error::other("every block was here already")).into());
            }
            if matches!(outcome, PackOutcome::Damaged(_)) {
                self.progress.counters.packs_damaged.fetch_add(1, Ordering::Relaxed);
            }
            report(outcome);
        }
    }

    /// Checks blocks as they pass and keeps none.
    fn discard(
        &self,
        pack: PackId,
        segments: &[Segment],
        undigested: bool,
        stream: &mut dyn PackReceiver,
    ) -> Result<PackOutcome, StreamError> {
        let mut outcome = PackOutcome::Stored(pack);
        for segment in segments {
            let (length, mut hasher) = (segment.payload_bytes() as usize, BlockHasher::default());
            if segment.is_hole {
                hasher.update(&vec![0; segment.length as usize]);
            } else if undigested {
                stream.skim(length, &mut |_| {}).map_err(WireError::from)?;
            } else {
                stream.skim(length, &mut |piece| hasher.update(piece)).map_err(WireError::from)?;
            }
            if undigested || hasher.finish() == segment.digest {
                self.note(segment)?;
            } else {
                self.resent(segment);
                outcome = PackOutcome::Damaged(pack);
            }
        }
        Ok(outcome)
    }

    fn take(
        &self,
        pack: PackId,
        segments: &[Segment],
        payload: &[u8],
        ledger_writer: &LedgerWriter,
        writer: &mut BlockWriter<'_>,
    ) -> Result<PackOutcome, Fault> {
        // Held until the ledger writer has what the assembly counts: who closes this flushes that next.
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            // The caller finds that too, and reports nothing.
            return Ok(PackOutcome::Stored(pack));
        }
        let mut outcome = PackOutcome::Stored(pack);
        let mut rest = payload;
        let mut written = Vec::with_capacity(segments.len());
        for segment in segments {
            let (bytes, after) = rest.split_at(segment.payload_bytes() as usize);
            rest = after;
            let digest = if segment.is_hole { of_zeros(segment.length) } else { of_block(bytes) };
            if digest != segment.digest {
                self.resent(segment);
                outcome = PackOutcome::Damaged(pack);
                continue;
            }
            if self.store(segment, bytes, ledger_writer, writer)? {
                written.push(*segment);
            }
        }
        ledger_writer.stored(written, payload.len() as u64);
        drop(open);
        Ok(outcome)
    }

    /// Writes a block and returns whether it was not here before.
    fn store(
        &self,
        segment: &Segment,
        bytes: &[u8],
        ledger_writer: &LedgerWriter,
        writer: &mut BlockWriter<'_>,
    ) -> Result<bool, Fault> {
        self.make_way(segment, ledger_writer)?;
        if self.is_one_of_many(segment) {
            ledger_writer.begun(segment);
        }
        let operation = self.progress.disk.begin();
        writer.write(segment, bytes)?;
        drop(operation);
        self.note(segment)
    }

    /// Whether the block's file has others. For a small file the block alone shows it, which saves a lookup in the listing.
    fn is_one_of_many(&self, segment: &Segment) -> bool {
        (segment.block.0 > 0 || segment.length == BLOCK_BYTES) && block_count(self.listing.size(segment.file)) > 1
    }

    /// Notes a block that is checked and in its place; returns whether it was not here before.
    fn note(&self, segment: &Segment) -> Result<bool, Fault> {
        let stored = self.with_assembly(|assembly| assembly.stored(segment))?;
        let counter =
            if stored.new { &self.progress.counters.bytes_transferred } else { &self.progress.counters.bytes_resent };
        counter.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        if stored.file_complete {
            self.progress.counters.files_transferred.fetch_add(1, Ordering::Relaxed);
        }
        Ok(stored.new)
    }

    /// A block that an earlier attempt left gives way to what the sender has now, in the ledger before on the disk.
    fn make_way(&self, segment: &Segment, ledger_writer: &LedgerWriter) -> Result<(), Fault> {
        if !self.with_assembly(|assembly| Ok(assembly.contradicts_kept(segment)))? {
            return Ok(());
        }
        ledger_writer.lose(&[segment.id()])?;
        let whole = self.with_assembly(|assembly| Ok(assembly.forget(segment.id())))?;
        self.progress.reopened(u64::from(segment.length), u64::from(whole));
        self.progress.counters.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        Ok(())
    }

    /// Counts a damaged block, which is sent again.
    fn resent(&self, segment: &Segment) {
        self.progress.counters.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
    }

    fn with_assembly<T>(&self, act: impl FnOnce(&mut Assembly) -> Result<T, Fault>) -> Result<T, Fault> {
        act(lock(&self.session).assembly()?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fairlead_protocol::digest::Digest;
    use fairlead_protocol::index::{BlockIndex, FileIndex};
    use fairlead_protocol::listing::{Entry, Kind, ListingBuilder, Version};
    use fairlead_protocol::message::{Body, ListingEnd, ListingMessage};

    use super::*;
    use crate::fs::partial::recovery::Recovery;

    const BYTES: &[u8; 5] = b"block";

    /// A data stream of packs that hold the given digests' blocks, all with the same bytes.
    struct Packs(VecDeque<Vec<Digest>>, u64);

    impl PackReceiver for Packs {
        fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
            table.clear();
            let Some(digests) = self.0.pop_front() else { return Ok(Header::End) };
            for (file, digest) in (0..).map(FileIndex).zip(&digests) {
                let (block, length) = (BlockIndex(0), BYTES.len() as u32);
                Segment { file, block, length, digest: *digest, is_hole: false }.encode_into(table);
            }
            let pack = PackId(self.1);
            self.1 += 1;
            let payload_bytes = (digests.len() * BYTES.len()) as u32;
            Ok(Header::Data { pack, segments: digests.len() as u16, payload_bytes })
        }

        fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
            bytes.chunks_mut(BYTES.len()).for_each(|block| block.copy_from_slice(BYTES));
            Ok(())
        }

        fn skim(&mut self, _: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
            sink(BYTES);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A session that takes blocks of files with these sizes, and its listing.
    fn session_of(files: &[(&str, u64)]) -> (Receiver, Listing) {
        let (mut session, mut builder) = (Receiver::default(), ListingBuilder::default());
        for (path, size) in files {
            let (kind, size, target, version) = (Kind::File, *size, Vec::new(), Version::default());
            let path = (*path).into();
            let entry = Entry { path, kind, mode: 0, mtime_s: 0, mtime_ns: 0, size, target, version, hole_bytes: 0 };
            session.on_message(Body::Listing(ListingMessage { entries: vec![entry.to_message()] })).unwrap();
            builder.push(&entry).unwrap();
        }
        let bytes = files.iter().map(|(_, size)| size).sum();
        let end = ListingEnd { files: files.len() as u64, bytes, ..ListingEnd::default() };
        session.on_message(Body::ListingEnd(end)).unwrap();
        session.surveyed(Vec::new()).unwrap();
        drop(session.reserved(Vec::new(), |_| Ok(Digest::default())).unwrap());
        (session, builder.finish())
    }

    /// Takes blocks of three files and keeps none.
    fn receiver_of_three_files(progress: &Arc<Progress>) -> BlockReceiver {
        let (session, listing) = session_of(&["a", "b", "c"].map(|path| (path, BYTES.len() as u64)));
        let target = BlockTarget::Discard { undigested: false };
        BlockReceiver::new(Arc::new(listing), Arc::new(Mutex::new(session)), Arc::clone(progress), target)
    }

    #[test]
    fn a_stream_ends_once_the_blocks_are_closed_and_acknowledges_nothing_more() {
        let blocks = receiver_of_three_files(&Arc::new(Progress::new()));
        blocks.close();
        let mut outcomes = Vec::new();
        let mut packs = Packs(VecDeque::from([vec![of_block(BYTES)], vec![of_block(BYTES)]]), 0);
        assert!(blocks.receive(&mut packs, |outcome| outcomes.push(outcome)).is_err());
        assert_eq!((outcomes, packs.0.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_pack_counts_as_damaged_once_however_many_of_its_blocks_are() {
        let progress = Arc::new(Progress::new());
        let blocks = receiver_of_three_files(&progress);
        let (good, bad) = (of_block(BYTES), [1; 32]);
        let mut outcomes = Vec::new();
        let packs = VecDeque::from([vec![bad, good, bad], vec![good, good, good]]);
        blocks.receive(&mut Packs(packs, 0), |outcome| outcomes.push(outcome)).unwrap();
        assert_eq!(outcomes, [PackOutcome::Damaged(PackId(0)), PackOutcome::Stored(PackId(1))]);
        let counters = &progress.counters;
        assert_eq!(counters.packs_damaged.load(Ordering::Relaxed), 1);
        // Two damaged blocks, and the good one that came twice.
        assert_eq!(counters.bytes_resent.load(Ordering::Relaxed), 15);
        assert_eq!(counters.bytes_transferred.load(Ordering::Relaxed), 15);
    }
    /// One pack of these segments, with the bytes of one block.
    struct OnePack(Vec<Segment>);

    impl PackReceiver for OnePack {
        fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
            table.clear();
            let segments = std::mem::take(&mut self.0);
            segments.iter().for_each(|segment| segment.encode_into(table));
            if segments.is_empty() {
                return Ok(Header::End);
            }
            Ok(Header::Data { pack: PackId(0), segments: segments.len() as u16, payload_bytes: BYTES.len() as u32 })
        }

        fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(BYTES);
            Ok(())
        }

        fn skim(&mut self, _: usize, _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A block is counted as soon as it is written, while the rest of its pack is still looked at: here holes that are none, which take long.
    #[test]
    fn blocks_that_are_counted_are_durable_once_the_receiver_is_closed_and_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let root = crate::fs::root::Root::open(folder.path()).unwrap();
        let partial = Arc::new(PartialDirectory::open(&root, "job", 1).unwrap().0);
        partial.prepare(vec![0, 1]).unwrap();
        let hole_length = BLOCK_BYTES - 1;
        let (session, listing) = session_of(&[("a", BYTES.len() as u64), ("b", u64::from(hole_length))]);
        let (listing, progress) = (Arc::new(listing), Arc::new(Progress::new()));
        let (kept, counted) = (Recovery::default(), &progress.counters.bytes_transferred);
        let writer = LedgerWriter::start(Arc::clone(&partial), Arc::clone(&listing), Arc::clone(&progress), &kept, 0);
        let ledger_writer = Arc::new(writer.unwrap());
        let target = BlockTarget::Disk { partial, ledger_writer: Arc::clone(&ledger_writer), preserve: Vec::new() };
        let blocks = BlockReceiver::new(listing, Arc::new(Mutex::new(session)), Arc::clone(&progress), target);
        let (file, block, length) = (FileIndex(0), BlockIndex(0), BYTES.len() as u32);
        let good = Segment { file, block, length, digest: of_block(BYTES), is_hole: false };
        let bad = Segment { file: FileIndex(1), block, length: hole_length, digest: [1; 32], is_hole: true };
        let mut segments = vec![bad; 500];
        segments[0] = good;
        std::thread::scope(|threads| {
            threads.spawn(|| blocks.receive(&mut OnePack(segments), |_| {}));
            while counted.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            blocks.close();
            ledger_writer.flush(Duration::from_secs(60)).unwrap();
            assert_eq!(progress.counters.bytes_durable.load(Ordering::Relaxed), BYTES.len() as u64);
        });
    }
}
