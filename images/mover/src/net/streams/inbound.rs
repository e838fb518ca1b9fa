//! The receiving end of data streams: read a pack, check every block, write it, acknowledge it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use fairlead_protocol::assembly::Assembly;
use fairlead_protocol::digest::{block_count, of_block, of_zeros, BlockHasher};
use fairlead_protocol::limits::{BLOCK_BYTES, PACK_PAYLOAD_BYTES};
use fairlead_protocol::listing::Listing;
use fairlead_protocol::pack::{decode_table, Header, Segment};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::Fault;

use crate::fs::metadata::Preserve;
use crate::fs::partial::ledger_writer::LedgerWriter;
use crate::fs::partial::{BlockWriter, PartialDirectory};
use crate::net::wire::{PackReceiver, WireError};
use crate::report::progress::Progress;

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

/// What became of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackOutcome {
    /// Every block is verified and handed to the file system.
    Stored(u64),
    /// A block failed its check.
    Damaged(u64),
}

/// What becomes of blocks.
pub(crate) enum Depot {
    /// They are checked, written and recorded.
    Disk { partial: Arc<PartialDirectory>, ledger_writer: Arc<LedgerWriter>, preserve: Vec<Preserve> },
    /// They are checked and thrown away; without digests there is nothing to check beyond the wire.
    Null { undigested: bool },
}

/// What all streams of a transfer share.
pub(crate) struct DataPlane {
    pub(crate) listing: Arc<Listing>,
    pub(crate) assembly: Arc<Mutex<Option<Assembly>>>,
    pub(crate) progress: Arc<Progress>,
    depot: Depot,
    /// False once publication starts: a straggler must not touch a published file.
    open: RwLock<bool>,
}

impl DataPlane {
    pub(crate) fn new(
        listing: Arc<Listing>,
        assembly: Arc<Mutex<Option<Assembly>>>,
        progress: Arc<Progress>,
        depot: Depot,
    ) -> Self {
        Self { listing, assembly, progress, depot, open: RwLock::new(true) }
    }

    /// Ends writing; returns when no write is under way.
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

    /// Reads packs until the stream's end mark and reports each one's fate.
    pub(crate) fn receive(
        &self,
        stream: &mut dyn PackReceiver,
        report: impl FnMut(PackOutcome),
    ) -> Result<(), StreamError> {
        match &self.depot {
            Depot::Disk { partial, ledger_writer, preserve } => {
                let mut writer = BlockWriter::new(partial, &self.listing, preserve);
                let mut payload = vec![0; PACK_PAYLOAD_BYTES as usize];
                self.packs(stream, report, |pack, segments, payload_bytes, stream| {
                    let payload = &mut payload[..payload_bytes as usize];
                    stream.read_exact(payload).map_err(WireError::from)?;
                    Ok(self.take(pack, segments, payload, ledger_writer, &mut writer)?)
                })
            }
            Depot::Null { undigested } => self
                .packs(stream, report, |pack, segments, _, stream| self.discard(pack, segments, *undigested, stream)),
        }
    }

    /// Has every pack taken whose blocks belong to the transfer.
    fn packs(
        &self,
        stream: &mut dyn PackReceiver,
        mut report: impl FnMut(PackOutcome),
        mut take: impl FnMut(u64, &[Segment], u32, &mut dyn PackReceiver) -> Result<PackOutcome, StreamError>,
    ) -> Result<(), StreamError> {
        let (mut table, mut segments) = (Vec::new(), Vec::new());
        loop {
            let Header::Data { pack, payload_bytes, .. } = stream.head(&mut table)? else { return Ok(()) };
            self.progress.bulk_started();
            decode_table(&table, payload_bytes, &mut segments).map_err(WireError::from)?;
            self.with_assembly(|assembly| segments.iter().try_for_each(|segment| assembly.admits(segment)))?;
            report(take(pack, &segments, payload_bytes, stream)?);
        }
    }

    /// Checks blocks as they pass and keeps none.
    fn discard(
        &self,
        pack: u64,
        segments: &[Segment],
        undigested: bool,
        stream: &mut dyn PackReceiver,
    ) -> Result<PackOutcome, StreamError> {
        let mut fate = PackOutcome::Stored(pack);
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
                self.damaged(segment);
                fate = PackOutcome::Damaged(pack);
            }
        }
        Ok(fate)
    }

    fn take(
        &self,
        pack: u64,
        segments: &[Segment],
        payload: &[u8],
        ledger_writer: &LedgerWriter,
        writer: &mut BlockWriter<'_>,
    ) -> Result<PackOutcome, Fault> {
        let mut fate = PackOutcome::Stored(pack);
        let mut rest = payload;
        let mut written = Vec::with_capacity(segments.len());
        for segment in segments {
            let (bytes, after) = rest.split_at(segment.payload_bytes() as usize);
            rest = after;
            let digest = if segment.is_hole { of_zeros(segment.length) } else { of_block(bytes) };
            if digest != segment.digest {
                self.damaged(segment);
                fate = PackOutcome::Damaged(pack);
                continue;
            }
            if self.store(segment, bytes, ledger_writer, writer)? {
                written.push(*segment);
            }
        }
        ledger_writer.stored(written, payload.len() as u64);
        Ok(fate)
    }

    /// Writes a block and says whether it was not here before.
    fn store(
        &self,
        segment: &Segment,
        bytes: &[u8],
        ledger_writer: &LedgerWriter,
        writer: &mut BlockWriter<'_>,
    ) -> Result<bool, Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return Ok(false);
        }
        self.make_way(segment, ledger_writer)?;
        if self.is_one_of_many(segment) {
            ledger_writer.begun(segment);
        }
        let operation = self.progress.disk.begin();
        writer.write(segment, bytes)?;
        drop((operation, open));
        self.note(segment)
    }

    /// Whether the block's file has others. Small files are told by the block alone: to look them up takes a while.
    fn is_one_of_many(&self, segment: &Segment) -> bool {
        (segment.block > 0 || segment.length == BLOCK_BYTES) && block_count(self.listing.size(segment.file)) > 1
    }

    /// Notes a block that is checked and where it belongs; says whether it was not here before.
    fn note(&self, segment: &Segment) -> Result<bool, Fault> {
        let stored = self.with_assembly(|assembly| assembly.stored(segment))?;
        let counter = if stored.new { &self.progress.bytes_transferred } else { &self.progress.bytes_resent };
        counter.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        if stored.file_complete {
            self.progress.files_transferred.fetch_add(1, Ordering::Relaxed);
        }
        Ok(stored.new)
    }

    /// A block that an earlier attempt left gives way to what the sender has now, in the ledger before on the disk.
    fn make_way(&self, segment: &Segment, ledger_writer: &LedgerWriter) -> Result<(), Fault> {
        if !self.with_assembly(|assembly| Ok(assembly.contradicts_kept(segment)))? {
            return Ok(());
        }
        ledger_writer.lose(&[(segment.file, segment.block)])?;
        let whole = self.with_assembly(|assembly| Ok(assembly.forget(segment.file, segment.block)))?;
        self.progress.reopened(u64::from(segment.length), u64::from(whole));
        self.progress.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, segment: &Segment) {
        self.progress.blocks_damaged.fetch_add(1, Ordering::Relaxed);
        self.progress.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
    }

    fn with_assembly<T>(&self, act: impl FnOnce(&mut Assembly) -> Result<T, Fault>) -> Result<T, Fault> {
        match lock(&self.assembly).as_mut() {
            Some(assembly) => act(assembly),
            None => Err(Fault::protocol("data arrived before the plan")),
        }
    }
}
