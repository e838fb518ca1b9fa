//! Blocks that the receiver has from earlier attempts, as runs of consecutive blocks.

use std::sync::Arc;

use crate::digest::{block_count, block_length, Digest};
use crate::fault::Fault;
use crate::index::{BlockId, BlockIndex, FileIndex};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Extent, Kind, Listing};
use crate::message::{self, Body, KeptRun};
use crate::schedule::Span;

/// Consecutive blocks of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The file.
    pub file: FileIndex,
    /// The first block.
    pub first: BlockIndex,
    /// The block after the last.
    pub end: BlockIndex,
}

impl BlockRun {
    /// How many blocks they are.
    pub fn blocks(&self) -> u64 {
        u64::from(self.end.0 - self.first.0)
    }

    /// Bytes of the run's blocks, for a file of `size` bytes.
    pub fn bytes(&self, size: u64) -> u64 {
        self.first.up_to(self.end).map(|block| u64::from(block_length(size, block))).sum()
    }

    /// The blocks in order.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> {
        let file = self.file;
        self.first.up_to(self.end).map(move |block| BlockId { file, block })
    }
}

/// Adds a block to the runs; blocks come in ascending order.
pub fn add(runs: &mut Vec<BlockRun>, id: BlockId) {
    let BlockId { file, block } = id;
    match runs.last_mut() {
        Some(run) if (run.file, run.end) == (file, block) => run.end = block.next(),
        _ => runs.push(BlockRun { file, first: block, end: block.next() }),
    }
}

/// Runs on their way to the sender, frame by frame, with the digests of their blocks.
pub struct KeptFrames {
    runs: Arc<[BlockRun]>,
    /// The next run, and how many of its blocks are in earlier frames.
    next: usize,
    sent: u32,
}

impl KeptFrames {
    /// Nothing of these runs, which are in order, was sent.
    pub fn new(runs: Arc<[BlockRun]>) -> Self {
        Self { runs, next: 0, sent: 0 }
    }

    /// The next frame with the digests that `digest` finds; nothing when all runs were sent.
    pub fn next_frame(&mut self, mut digest: impl FnMut(BlockId) -> Digest) -> Option<Body> {
        let (mut frame, mut room) = (Vec::new(), NUMBERS_PER_FRAME as u32);
        while let (Some(BlockRun { file, first, end }), 1..) = (self.runs.get(self.next).copied(), room) {
            let first = BlockIndex(first.0 + self.sent);
            let until = BlockIndex(first.0 + (end.0 - first.0).min(room));
            let digests = first.up_to(until).flat_map(|block| digest(BlockId { file, block })).collect();
            frame.push(KeptRun { file: file.0, first: first.0, digests });
            room -= until.0 - first.0;
            self.sent += until.0 - first.0;
            if until == end {
                (self.next, self.sent) = (self.next + 1, 0);
            }
        }
        (!frame.is_empty()).then_some(Body::Kept(message::Kept { runs: frame }))
    }
}

/// Checks a run of the peer's against the listing and the run before it; the run and its digests.
pub fn admit(run: &KeptRun, listing: &Listing, before: Option<&BlockRun>) -> Result<(BlockRun, Vec<Digest>), Fault> {
    let wrong = |why: &str| Fault::protocol(format!("the receiver keeps blocks of entry {}, {why}", run.file));
    let Some(Extent { kind: Kind::File, size, .. }) = listing.extent(FileIndex(run.file)) else {
        return Err(wrong("which is no file"));
    };
    let digests = run.digests.chunks_exact(size_of::<Digest>());
    let odd = !digests.remainder().is_empty();
    let digests: Vec<Digest> = digests.filter_map(|digest| digest.try_into().ok()).collect();
    let end = u64::from(run.first) + digests.len() as u64;
    if digests.is_empty() || odd || end > block_count(size) {
        return Err(wrong("which it does not have"));
    }
    if before.is_some_and(|before| (before.file.0, before.end.0) > (run.file, run.first)) {
        return Err(wrong("out of order"));
    }
    let (first, end) = (BlockIndex(run.first), BlockIndex(end as u32));
    Ok((BlockRun { file: FileIndex(run.file), first, end }, digests))
}

/// What is left of a file of `size` bytes beside its kept runs, which are in order.
pub fn gaps(file: FileIndex, size: u64, kept: &[BlockRun]) -> Vec<Span> {
    let (mut gaps, mut next) = (Vec::new(), BlockIndex(0));
    let end = BlockIndex(block_count(size) as u32);
    for (from, to) in kept.iter().map(|run| (run.first, run.end)).chain([(end, end)]) {
        if next < from {
            gaps.push(Span { file, size, next, end: from });
        }
        next = to;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BLOCK_BYTES, CONTROL_FRAME_BYTES};
    use crate::listing::{Entry, ListingBuilder, Version};
    use crate::message::ControlMessage;
    use proptest::prelude::*;
    use prost::Message;

    fn listing(size: u64) -> Listing {
        let (path, target, version) = (b"f".to_vec(), Vec::new(), Version::default());
        let mut builder = ListingBuilder::default();
        let kind = Kind::File;
        let entry = Entry { path, kind, mode: 0, mtime_s: 0, mtime_ns: 0, size, target, version, hole_bytes: 0 };
        builder.push(&entry).unwrap();
        builder.finish()
    }

    proptest! {
        #[test]
        fn runs_travel_in_bounded_frames_and_leave_the_rest_as_gaps(have in proptest::collection::vec(any::<bool>(), 1..9000)) {
            let size = have.len() as u64 * u64::from(BLOCK_BYTES);
            let held = || (0u32..).zip(&have).filter(|(_, held)| **held).map(|(block, _)| block);
            let id = |block| BlockId::new(FileIndex(0), BlockIndex(block));
            let (mut sent, listing) = (Vec::new(), listing(size));
            held().for_each(|block| add(&mut sent, id(block)));
            let mut taken: Vec<BlockRun> = Vec::new();
            let mut frames = KeptFrames::new(sent.into());
            while let Some(body) = frames.next_frame(|id| [id.block.0 as u8; 32]) {
                let frame_bytes = ControlMessage { body: Some(body.clone()) }.encoded_len();
                prop_assert!(frame_bytes <= CONTROL_FRAME_BYTES);
                let Body::Kept(kept) = body else { panic!() };
                for run in kept.runs {
                    let (run, digests) = admit(&run, &listing, taken.last()).unwrap();
                    let expected: Vec<Digest> = run.ids().map(|id| [id.block.0 as u8; 32]).collect();
                    prop_assert_eq!(digests, expected);
                    taken.push(run);
                }
            }
            let blocks: Vec<u32> = taken.iter().flat_map(|run| run.first.0..run.end.0).collect();
            prop_assert_eq!(&blocks, &held().collect::<Vec<_>>());
            let missing: Vec<u32> = gaps(FileIndex(0), size, &taken).iter().flat_map(|span| span.next.0..span.end.0).collect();
            let expected: Vec<u32> = (0u32..).zip(&have).filter(|(_, held)| !**held).map(|(block, _)| block).collect();
            prop_assert_eq!(missing, expected);
        }
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        let listing = listing(3 * u64::from(BLOCK_BYTES));
        let run = |file, first, bytes| KeptRun { file, first, digests: vec![0; bytes] };
        for (wrong, before) in [
            (run(1, 0, 32), None),
            (run(0, 0, 0), None),
            (run(0, 0, 31), None),
            (run(0, 2, 64), None),
            (run(0, u32::MAX, 64), None),
            (run(0, 0, 32), Some((0, 1))),
        ] {
            let before = before.map(|(file, first): (u32, u32)| BlockRun {
                file: FileIndex(file),
                first: BlockIndex(first),
                end: BlockIndex(first + 1),
            });
            assert!(admit(&wrong, &listing, before.as_ref()).is_err(), "{wrong:?}");
        }
        assert!(admit(&run(0, 0, 96), &listing, None).is_ok());
    }
}
