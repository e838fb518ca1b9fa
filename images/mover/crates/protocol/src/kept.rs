//! Blocks that the receiver has from earlier attempts, as runs of consecutive blocks with their digests.

use crate::digest::{block_count, block_length, Digest};
use crate::fault::Fault;
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Entry, Kind};
use crate::message::{self, Body};
use crate::schedule::Span;

/// Consecutive blocks of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the file in the listing.
    pub file: u32,
    /// Number of the first block.
    pub first: u32,
    /// One digest a block.
    pub digests: Vec<Digest>,
}

impl Run {
    /// Number of the block after the last.
    pub fn end(&self) -> u32 {
        self.first + self.digests.len() as u32
    }

    /// Bytes of the run's blocks, for a file of `size` bytes.
    pub fn bytes(&self, size: u64) -> u64 {
        (self.first..self.end()).map(|block| u64::from(block_length(size, block))).sum()
    }
}

/// Runs of one file from its blocks in ascending order.
pub fn runs(file: u32, blocks: impl IntoIterator<Item = (u32, Digest)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, digest) in blocks {
        match runs.last_mut() {
            Some(run) if run.end() == block => run.digests.push(digest),
            _ => runs.push(Run { file, first: block, digests: vec![digest] }),
        }
    }
    runs
}

/// The runs as they travel; none without runs.
pub fn frames(runs: &[Run]) -> Vec<Body> {
    let (mut frames, mut frame, mut digests) = (Vec::new(), Vec::new(), 0);
    let mut flush = |frame: &mut Vec<message::Run>| {
        if !frame.is_empty() {
            frames.push(Body::Kept(message::Kept { runs: std::mem::take(frame) }));
        }
    };
    for run in runs {
        let mut first = run.first;
        let mut rest = run.digests.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(NUMBERS_PER_FRAME - digests));
            frame.push(message::Run { file: run.file, first, digests: piece.concat() });
            first += piece.len() as u32;
            rest = after;
            digests += piece.len();
            if digests == NUMBERS_PER_FRAME {
                flush(&mut frame);
                digests = 0;
            }
        }
    }
    flush(&mut frame);
    frames
}

/// Checks a run of the peer's against the listing and the run before it.
pub fn admit(run: message::Run, entries: &[Entry], before: Option<&Run>) -> Result<Run, Fault> {
    let wrong = |why: &str| Fault::protocol(format!("the receiver keeps blocks of entry {}, {why}", run.file));
    let Some(entry) = entries.get(run.file as usize).filter(|entry| entry.kind == Kind::File) else {
        return Err(wrong("which is no file"));
    };
    let digests = run.digests.chunks_exact(size_of::<Digest>());
    let odd = !digests.remainder().is_empty();
    let digests: Vec<Digest> = digests.filter_map(|digest| digest.try_into().ok()).collect();
    let end = u64::from(run.first) + digests.len() as u64;
    if digests.is_empty() || odd || end > block_count(entry.size) {
        return Err(wrong("which it does not have"));
    }
    if before.is_some_and(|before| (before.file, before.end()) > (run.file, run.first)) {
        return Err(wrong("out of order"));
    }
    Ok(Run { file: run.file, first: run.first, digests })
}

/// What is left of a file of `size` bytes beside its kept runs, which are in order.
pub fn gaps(file: u32, size: u64, kept: &[Run]) -> Vec<Span> {
    let (mut gaps, mut next) = (Vec::new(), 0);
    let end = block_count(size) as u32;
    for (from, to) in kept.iter().map(|run| (run.first, run.end())).chain([(end, end)]) {
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
    use crate::listing::Version;
    use crate::message::Control;
    use proptest::prelude::*;
    use prost::Message;

    fn file(size: u64) -> Entry {
        let (path, target) = (b"f".to_vec(), Vec::new());
        Entry { path, kind: Kind::File, mode: 0, mtime_s: 0, mtime_ns: 0, size, target, version: Version::default() }
    }

    proptest! {
        #[test]
        fn runs_travel_in_bounded_frames_and_leave_the_rest_as_gaps(have in proptest::collection::vec(any::<bool>(), 1..9000)) {
            let size = have.len() as u64 * u64::from(BLOCK_BYTES);
            let held = || (0u32..).zip(&have).filter(|(_, held)| **held).map(|(block, _)| block);
            let sent = runs(0, held().map(|block| (block, [block as u8; 32])));
            let mut taken: Vec<Run> = Vec::new();
            for body in frames(&sent) {
                let frame_bytes = Control { body: Some(body.clone()) }.encoded_len();
                prop_assert!(frame_bytes <= CONTROL_FRAME_BYTES);
                let Body::Kept(kept) = body else { panic!() };
                for run in kept.runs {
                    let run = admit(run, &[file(size)], taken.last()).unwrap();
                    taken.push(run);
                }
            }
            let blocks: Vec<u32> = taken.iter().flat_map(|run| run.first..run.end()).collect();
            prop_assert_eq!(&blocks, &held().collect::<Vec<_>>());
            let missing: Vec<u32> = gaps(0, size, &taken).iter().flat_map(|span| span.next..span.end).collect();
            let expected: Vec<u32> = (0u32..).zip(&have).filter(|(_, held)| !**held).map(|(block, _)| block).collect();
            prop_assert_eq!(missing, expected);
        }
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        let entries = [file(3 * u64::from(BLOCK_BYTES))];
        let run = |file, first, bytes| message::Run { file, first, digests: vec![0; bytes] };
        for (wrong, before) in [
            (run(1, 0, 32), None),
            (run(0, 0, 0), None),
            (run(0, 0, 31), None),
            (run(0, 2, 64), None),
            (run(0, u32::MAX, 64), None),
            (run(0, 0, 32), Some((0, 1))),
        ] {
            let before = before.map(|(file, first)| Run { file, first, digests: vec![[0; 32]] });
            assert!(admit(wrong.clone(), &entries, before.as_ref()).is_err(), "{wrong:?}");
        }
        assert!(admit(run(0, 0, 96), &entries, None).is_ok());
    }
}
