//! The receiving end of data streams: read a pack, check every block, write it, acknowledge it.

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairlead_protocol::assembly::Assembly;
use fairlead_protocol::digest::{of_block, of_hole};
use fairlead_protocol::limits::PACK_PAYLOAD_BYTES;
use fairlead_protocol::listing::Listing;
use fairlead_protocol::pack::{decode_table, Header, PackError, Segment, HEADER_BYTES, SEGMENT_BYTES};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::Fault;

use crate::fs::journal::Journal;
use crate::fs::metadata::Preserve;
use crate::fs::partial::{BlockWriter, Partial};
use crate::report::progress::Progress;

/// How a stream ended other than by its end mark.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The connection broke; its blocks come over another one.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are no packs; the connection is given up.
    #[error("{0}")]
    Pack(#[from] PackError),
    /// The transfer cannot go on.
    #[error("{0}")]
    Fault(#[from] Fault),
}

/// What became of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackFate {
    /// Every block is verified and handed to the file system.
    Stored(u64),
    /// A block failed its check.
    Damaged(u64),
}

/// What all streams of a transfer share.
pub(crate) struct DataPlane {
    pub(crate) listing: Arc<Listing>,
    pub(crate) assembly: Arc<Mutex<Option<Assembly>>>,
    pub(crate) partial: Arc<Partial>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) preserve: Vec<Preserve>,
    /// False once publication starts: a straggler must not touch a published file.
    open: RwLock<bool>,
}

impl DataPlane {
    pub(crate) fn new(
        listing: Arc<Listing>,
        assembly: Arc<Mutex<Option<Assembly>>>,
        partial: Arc<Partial>,
        progress: Arc<Progress>,
        journal: Arc<Journal>,
        preserve: Vec<Preserve>,
    ) -> Self {
        Self { listing, assembly, partial, progress, journal, preserve, open: RwLock::new(true) }
    }

    /// Ends writing; returns when no write is under way.
    pub(crate) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Reads packs until the stream's end mark and reports each one's fate.
    pub(crate) fn receive(&self, stream: &mut impl Read, mut report: impl FnMut(PackFate)) -> Result<(), StreamError> {
        let mut writer = BlockWriter::new(&self.partial, &self.listing, &self.preserve);
        let (mut table, mut payload, mut segments) = (Vec::new(), vec![0; PACK_PAYLOAD_BYTES as usize], Vec::new());
        loop {
            let mut header = [0; HEADER_BYTES];
            stream.read_exact(&mut header)?;
            let Header::Data { pack, segments: count, payload_bytes } = Header::decode(&header)? else { return Ok(()) };
            self.progress.bulk_started();
            table.resize(usize::from(count) * SEGMENT_BYTES, 0);
            stream.read_exact(&mut table)?;
            decode_table(&table, payload_bytes, &mut segments)?;
            let payload = &mut payload[..payload_bytes as usize];
            stream.read_exact(payload)?;
            report(self.take(pack, &segments, payload, &mut writer)?);
        }
    }

    fn take(
        &self,
        pack: u64,
        segments: &[Segment],
        payload: &[u8],
        writer: &mut BlockWriter<'_>,
    ) -> Result<PackFate, Fault> {
        self.with_assembly(|assembly| segments.iter().try_for_each(|segment| assembly.admits(segment)))?;
        let mut fate = PackFate::Stored(pack);
        let mut rest = payload;
        let mut written = Vec::with_capacity(segments.len());
        for segment in segments {
            let (bytes, after) = rest.split_at(segment.payload_bytes() as usize);
            rest = after;
            let digest = if segment.is_hole { of_hole(segment.length) } else { of_block(bytes) };
            if digest != segment.digest {
                self.progress.blocks_damaged.fetch_add(1, Ordering::Relaxed);
                self.progress.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
                fate = PackFate::Damaged(pack);
                continue;
            }
            if self.store(segment, bytes, writer)? {
                written.push(*segment);
            }
        }
        self.journal.stored(written, payload.len() as u64);
        Ok(fate)
    }

    /// Writes a block and says whether it was not here before.
    fn store(&self, segment: &Segment, bytes: &[u8], writer: &mut BlockWriter<'_>) -> Result<bool, Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return Ok(false);
        }
        self.make_way(segment)?;
        writer.write(segment, bytes)?;
        drop(open);
        let stored = self.with_assembly(|assembly| assembly.stored(segment))?;
        let counter = if stored.new { &self.progress.bytes_transferred } else { &self.progress.bytes_resent };
        counter.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        if stored.file_complete {
            self.progress.files_transferred.fetch_add(1, Ordering::Relaxed);
        }
        Ok(stored.new)
    }

    /// A block that an earlier attempt left gives way to what the sender has now, in the ledger before on the disk.
    fn make_way(&self, segment: &Segment) -> Result<(), Fault> {
        if !self.with_assembly(|assembly| Ok(assembly.contradicts_kept(segment)))? {
            return Ok(());
        }
        self.journal.lose(&[(segment.file, segment.block)])?;
        let whole = self.with_assembly(|assembly| Ok(assembly.forget(segment.file, segment.block)))?;
        self.progress.reopened(u64::from(segment.length), u64::from(whole));
        self.progress.bytes_resent.fetch_add(u64::from(segment.length), Ordering::Relaxed);
        Ok(())
    }

    fn with_assembly<T>(&self, act: impl FnOnce(&mut Assembly) -> Result<T, Fault>) -> Result<T, Fault> {
        match lock(&self.assembly).as_mut() {
            Some(assembly) => act(assembly),
            None => Err(Fault::protocol("data arrived before the plan")),
        }
    }
}
