//! Packs for the data streams: blocks chosen by the session, read from the source, laid out with their table.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fairlead_protocol::digest::Digest;
use fairlead_protocol::index::{ConnectionId, PathIndex};
use fairlead_protocol::listing::{Listing, Lookup};
use fairlead_protocol::pack::{Header, Segment, HEADER_BYTES};
use fairlead_protocol::schedule::{BlockRef, Pack};
use fairlead_protocol::sender::Sender;
use fairlead_protocol::{Fault, Reason};

use crate::fault_injection::panic_point;
use crate::fs::block_source::{BlockSource, BlockSourceReader};
use crate::net::streams::{PackSource, StreamEnd};
use crate::net::wire::{PackSender, Payload};
use crate::progress::Progress;
use crate::threads::lock;

/// Time between checks of an idle connection.
const IDLE: Duration = Duration::from_millis(100);

/// The source's blocks as packs; shared by the threads of the data streams.
pub(super) struct SourcePacks {
    session: Arc<Mutex<Sender>>,
    source: Arc<BlockSource>,
    listing: Arc<Listing>,
    progress: Arc<Progress>,
    /// Blocks carry no digests.
    undigested: bool,
    /// Notified when blocks may wait to be sent.
    work: Condvar,
}

/// What a stream reuses from pack to pack.
#[derive(Default)]
struct Workspace {
    reader: BlockSourceReader,
    head: Vec<u8>,
    payload: Vec<u8>,
    digests: Vec<Digest>,
}

impl SourcePacks {
    pub(super) fn new(
        session: Arc<Mutex<Sender>>,
        source: Arc<BlockSource>,
        listing: Arc<Listing>,
        progress: Arc<Progress>,
        undigested: bool,
    ) -> Self {
        Self { session, source, listing, progress, undigested, work: Condvar::new() }
    }

    /// The next pack, for which it waits a moment. A connection that is not wanted any more gets none: the session's lock is held from
    /// that question on, as blocks may be waiting already for the connections that replace it.
    fn next_pack(&self, connection: ConnectionId, wanted: &dyn Fn() -> bool) -> Option<Pack> {
        let mut session = lock(&self.session);
        if !wanted() {
            return None;
        }
        if let Some(pack) = session.next_pack(connection) {
            return Some(pack);
        }
        session = self.work.wait_timeout(session, IDLE).unwrap_or_else(PoisonError::into_inner).0;
        wanted().then(|| session.next_pack(connection)).flatten()
    }

    /// Lays out header and table, and the blocks of files, which are read straight into their place.
    fn fill(&self, pack: &Pack, work: &mut Workspace) -> Result<(), Fault> {
        let Workspace { reader, head, payload, digests } = work;
        let is_memory = self.source.is_memory();
        if !is_memory {
            payload.resize(pack.bytes() as usize, 0);
        }
        head.clear();
        head.resize(HEADER_BYTES, 0);
        digests.clear();
        let mut entries = Lookup::new(&self.listing);
        let mut rest = &mut payload[..];
        for block in &pack.blocks {
            let Some(entry) = entries.get(block.file) else {
                return Err(Fault::new(Reason::InternalError, "a block of no file was to be sent"));
            };
            let _operation = self.progress.disk.begin();
            let hole = reader.hole(&self.source, &entry, block)?;
            let length = if is_memory || hole.is_some() { 0 } else { block.length as usize };
            let (bytes, after) = std::mem::take(&mut rest).split_at_mut(length);
            rest = after;
            let digest = match hole {
                _ if self.undigested => Digest::default(),
                Some(digest) => digest,
                None => reader.read(&self.source, &entry, block, bytes)?,
            };
            digests.push(digest);
            let BlockRef { file, block, length } = *block;
            Segment { file, block, length, digest, is_hole: hole.is_some() }.encode_into(head);
            #[cfg(feature = "fault-injection")]
            crate::fault_injection::damage(pack.id, bytes);
        }
        let unused = rest.len();
        if !is_memory {
            payload.truncate(payload.len() - unused);
        }
        let payload_bytes = if is_memory { pack.bytes() as u32 } else { payload.len() as u32 };
        let header = Header::Data { pack: pack.id, segments: pack.blocks.len() as u16, payload_bytes };
        head[..HEADER_BYTES].copy_from_slice(&header.encode());
        let mut session = lock(&self.session);
        let mut read = pack.blocks.iter().zip(digests);
        read.try_for_each(|(block, digest)| session.read(block.id(), *digest))
    }
}

impl PackSource for SourcePacks {
    fn send_packs(
        &self,
        connection: ConnectionId,
        stream: &mut dyn PackSender,
        wanted: &dyn Fn() -> bool,
        sent: &mut u64,
    ) -> Result<(), StreamEnd> {
        let mut work = Workspace::default();
        while wanted() {
            let Some(pack) = self.next_pack(connection, wanted) else {
                stream.check()?;
                continue;
            };
            self.fill(&pack, &mut work)?;
            self.progress.bulk_started();
            let payload = match *self.source {
                BlockSource::Tree(_) => Payload::Bytes(&work.payload),
                BlockSource::Zeros(_) => Payload::Zeros(pack.bytes() as usize),
            };
            panic_point("SEND");
            stream.send(&work.head, payload)?;
            *sent += 1;
        }
        Ok(())
    }

    fn connection_made(&self, connection: ConnectionId, path: PathIndex) {
        lock(&self.session).connection_made(connection, path);
    }

    fn connection_lost(&self, connection: ConnectionId) -> usize {
        lock(&self.session).connection_lost(connection)
    }

    fn wake(&self) {
        self.work.notify_all();
    }
}
