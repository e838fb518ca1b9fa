//! The sender's long work on files: list, hash, read again. It runs on threads of its own, so that the sender's own thread goes on
//! answering the receiver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fairlead_protocol::digest::{block_length, Digest};
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::kept::BlockRun;
use fairlead_protocol::limits::{LISTING_FRAME_TARGET_BYTES, NUMBERS_PER_FRAME};
use fairlead_protocol::listing::{Listing, ListingBuilder};
use fairlead_protocol::message::{self, Body};
use fairlead_protocol::schedule::BlockRef;
use fairlead_protocol::sender::Sender;
use fairlead_protocol::{Fault, Reason};

use crate::fault_injection::hang_point;
use crate::fs::block_source::{BlockSource, BlockSourceReader};
use crate::fs::source::empty;
use crate::net::control_connection::ControlConnection;
use crate::progress::Progress;
use crate::threads::lock;

/// Digests of whole files, to compare them with the destination's. `report` takes them some at a time.
pub(crate) fn hash(
    files: &[FileIndex],
    source: &BlockSource,
    listing: &Listing,
    progress: &Progress,
    over: &AtomicBool,
    mut report: impl FnMut(Vec<(FileIndex, Digest)>),
) -> Result<(), Fault> {
    let mut buffer = Vec::new();
    let mut digest = |file: &FileIndex| {
        let _operation = progress.disk.begin();
        hang_point("HASH");
        // Empty files count too.
        progress.work(1);
        Ok((*file, source.hash(&listing.entry(*file), &mut buffer, |bytes| progress.work(bytes))?))
    };
    for files in files.chunks(NUMBERS_PER_FRAME) {
        let wanted = files.iter().take_while(|_| !over.load(Ordering::Relaxed));
        report(wanted.map(&mut digest).collect::<Result<_, Fault>>()?);
    }
    Ok(())
}

/// Reads the blocks again that the receiver has from earlier attempts, so that the tree's digest covers what the source holds now.
pub(crate) fn recheck(
    kept: &[BlockRun],
    source: &BlockSource,
    listing: &Listing,
    session: &Mutex<Sender>,
    progress: &Progress,
    over: &AtomicBool,
) -> Result<(), Fault> {
    let (mut reader, mut buffer) = (BlockSourceReader::default(), Vec::new());
    for run in kept {
        let entry = listing.entry(run.file);
        for id in run.ids() {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let length = block_length(entry.size, id.block);
            buffer.resize(length as usize, 0);
            let operation = progress.disk.begin();
            let now = reader.read(source, &entry, &BlockRef { file: id.file, block: id.block, length }, &mut buffer)?;
            drop(operation);
            let reopened = lock(session).checked(id, now)?;
            progress.reopened(reopened.bytes, reopened.files);
            progress.work(u64::from(length));
        }
    }
    Ok(())
}

/// Walks the source and streams its entries in bounded frames, no faster than the network takes them.
pub(crate) fn list(
    source: BlockSource,
    link: &ControlConnection,
    progress: &Progress,
    over: &AtomicBool,
) -> Result<(Arc<BlockSource>, Listing), Fault> {
    let mut builder = ListingBuilder::default();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let flush =
        |batch: &mut Vec<_>| link.send(Body::Listing(message::ListingMessage { entries: std::mem::take(batch) }));
    let mut operation = Some(progress.disk.begin());
    hang_point("LIST");
    let walked = source.walk(&|| progress.work(1), |entry| {
        bytes += entry.path.len() + entry.target.len() + 64;
        batch.push(entry.to_message());
        builder.push(&entry)?;
        if bytes < LISTING_FRAME_TARGET_BYTES {
            return Ok(());
        }
        flush(&mut batch);
        bytes = 0;
        // The disk is not what is waited for now.
        operation = None;
        if link.await_room(over) {
            operation = Some(progress.disk.begin());
            return Ok(());
        }
        Err(Fault::new(Reason::PeerLost, "the transfer ended while the source was listed"))
    })?;
    drop(operation);
    flush(&mut batch);
    if walked.hard_linked > 0 {
        tracing::warn!(
            names = walked.hard_linked,
            "hard links are not kept: a file is sent once for each of its names"
        );
    }
    if builder.totals().entries() == 0 {
        return Err(empty("after the patterns"));
    }
    Ok((Arc::new(source), builder.finish().with_root_mtime(walked.root_mtime)))
}
