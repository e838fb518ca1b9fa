//! The sender's long work on files: list, hash, read again. Done on threads of its own, so that the session goes on answering.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlead_protocol::digest::{block_length, Digest};
use fairlead_protocol::kept::Run;
use fairlead_protocol::limits::LISTING_FRAME_TARGET_BYTES;
use fairlead_protocol::listing::{Entry, ListingBuilder, Totals};
use fairlead_protocol::message::{Body, Listing};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::schedule::BlockRef;
use fairlead_protocol::sender::Sender;
use fairlead_protocol::{Fault, Reason};

use crate::fs::source::empty;
use crate::memory::{Origin, OriginReader};
use crate::net::link::Link;
use crate::report::progress::Progress;

/// Listing bytes that may wait for the network.
const LISTING_BACKLOG_BYTES: usize = 1 << 20;

/// Digests of whole files, to compare them with the destination's.
pub(crate) fn hash(
    files: &[u32],
    source: &Origin,
    entries: &[Entry],
    progress: &Progress,
    over: &AtomicBool,
) -> Result<Vec<(u32, Digest)>, Fault> {
    let mut buffer = Vec::new();
    let work = |bytes| {
        progress.work.fetch_add(bytes, Ordering::Relaxed);
    };
    let wanted = files.iter().take_while(|_| !over.load(Ordering::Relaxed));
    wanted.map(|file| Ok((*file, source.hash(&entries[*file as usize], &mut buffer, work)?))).collect()
}

/// Reads the blocks again that the receiver has from earlier attempts, so that the tree's digest covers what the source holds now.
pub(crate) fn recheck(
    kept: &[Run],
    source: &Origin,
    session: &Mutex<Sender>,
    progress: &Progress,
    over: &AtomicBool,
) -> Result<(), Fault> {
    let entries = lock(session).entries();
    let (mut reader, mut buffer) = (OriginReader::default(), Vec::new());
    for run in kept {
        let entry = &entries[run.file as usize];
        for (block, digest) in (run.first..).zip(&run.digests) {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let length = block_length(entry.size, block);
            buffer.resize(length as usize, 0);
            let now = reader.read(source, entry, &BlockRef { file: run.file, block, length }, &mut buffer)?;
            let reopened = lock(session).checked(run.file, block, digest, now)?;
            progress.reopened(reopened.bytes, reopened.files);
            progress.work.fetch_add(u64::from(length), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Walks the source and streams its entries in bounded frames, no faster than the network takes them.
pub(crate) fn list(source: Origin, link: &Link, over: &AtomicBool) -> Result<(Arc<Origin>, Vec<Entry>, Totals), Fault> {
    let mut builder = ListingBuilder::default();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let flush = |batch: &mut Vec<_>| link.send(Body::Listing(Listing { entries: std::mem::take(batch) }));
    source.walk(|entry| {
        bytes += entry.path.len() + entry.target.len() + 64;
        batch.push(entry.to_message());
        builder.push(entry)?;
        if bytes < LISTING_FRAME_TARGET_BYTES {
            return Ok(());
        }
        flush(&mut batch);
        bytes = 0;
        while link.backlog_bytes() > LISTING_BACKLOG_BYTES {
            if over.load(Ordering::Relaxed) {
                return Err(Fault::new(Reason::PeerLost, "the transfer ended while the source was listed"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    })?;
    flush(&mut batch);
    let totals = builder.totals();
    if totals.entries() == 0 {
        return Err(empty("after the patterns"));
    }
    Ok((Arc::new(source), builder.finish(), totals))
}
