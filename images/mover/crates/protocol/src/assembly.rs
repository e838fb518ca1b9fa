//! What the receiver has: which blocks it may take, which it holds.

use std::collections::HashMap;

use crate::digest::{block_count, block_length, of_tree, BlockDigests, Digest, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::kept::Run;
use crate::listing::{Entry, Kind};
use crate::pack::Segment;

/// Blocks of a tree as they arrive in any order, some of them twice.
pub struct Assembly {
    expected: Vec<bool>,
    files: Vec<BlockDigests>,
    blocks_missing: u64,
    /// Ranges of blocks of earlier attempts, by file.
    kept: HashMap<u32, Vec<(u32, u32)>>,
}

/// What a stored block meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The block was not here before.
    pub new: bool,
    /// The block was the last one of its file.
    pub file_complete: bool,
}

impl Assembly {
    /// Expects every non-empty file of the listing but the `skipped`, whose digests are known.
    pub fn new(entries: &[Entry], skipped: &[(u32, Digest)]) -> Self {
        let mut expected: Vec<bool> = entries.iter().map(|entry| entry.kind == Kind::File && entry.size > 0).collect();
        let mut files = vec![BlockDigests::None; entries.len()];
        for (index, digest) in skipped {
            expected[*index as usize] = false;
            files[*index as usize] = BlockDigests::Whole(*digest);
        }
        let blocks_missing = entries
            .iter()
            .zip(&expected)
            .filter(|(_, wanted)| **wanted)
            .map(|(entry, _)| block_count(entry.size))
            .sum();
        Self { expected, files, blocks_missing, kept: HashMap::new() }
    }

    /// Notes blocks that earlier attempts left.
    pub fn keep(&mut self, entries: &[Entry], run: &Run) -> Result<(), Fault> {
        for (block, digest) in (run.first..).zip(&run.digests) {
            let length = block_length(entries[run.file as usize].size, block);
            let segment = Segment { file: run.file, block, length, digest: *digest };
            self.admits(entries, &segment)?;
            self.stored(entries, &segment)?;
        }
        self.kept.entry(run.file).or_default().push((run.first, run.end()));
        Ok(())
    }

    /// Whether this block was kept from an earlier attempt with another content than the sender has now.
    pub fn contradicts_kept(&self, segment: &Segment) -> bool {
        let kept = self
            .kept
            .get(&segment.file)
            .is_some_and(|ranges| ranges.iter().any(|(first, end)| (first..end).contains(&&segment.block)));
        kept && self.digest(segment.file, segment.block).is_some_and(|known| known != segment.digest)
    }

    /// A block is not here after all. Says whether its file was complete.
    pub fn forget(&mut self, file: u32, block: u32) -> bool {
        let blocks = &mut self.files[file as usize];
        let whole = blocks.is_complete();
        let known = blocks.forget(block);
        self.blocks_missing += u64::from(known);
        whole && known
    }

    /// Whether a file has every block.
    pub fn is_whole(&self, file: u32) -> bool {
        self.files[file as usize].is_complete()
    }

    /// Digest of a block that is here.
    pub fn digest(&self, file: u32, block: u32) -> Option<Digest> {
        self.files[file as usize].block(block)
    }

    /// Whether the transfer includes this block with this length.
    pub fn admits(&self, entries: &[Entry], segment: &Segment) -> Result<(), Fault> {
        let file = segment.file as usize;
        if !self.expected.get(file).copied().unwrap_or(false) {
            return Err(Fault::protocol(format!("a block arrived for entry {file}, which takes none")));
        }
        if block_length(entries[file].size, segment.block) != segment.length {
            return Err(Fault::protocol(format!(
                "block {} of {} has {} bytes, which does not fit the listing",
                segment.block,
                show(&entries[file].path),
                segment.length
            )));
        }
        Ok(())
    }

    /// Notes a verified and written block that `admits` let in.
    pub fn stored(&mut self, entries: &[Entry], segment: &Segment) -> Result<Stored, Fault> {
        let file = segment.file as usize;
        match self.files[file].record(entries[file].size, segment.block, segment.digest) {
            Recorded::New => {
                self.blocks_missing -= 1;
                Ok(Stored { new: true, file_complete: self.files[file].is_complete() })
            }
            Recorded::Known => Ok(Stored { new: false, file_complete: false }),
            Recorded::Contradicts => Err(Fault::new(
                Reason::SourceChanged,
                format!(
                    "block {} of {} arrived twice with different content",
                    segment.block,
                    show(&entries[file].path)
                ),
            )),
        }
    }

    /// Whether every expected block is here.
    pub fn is_complete(&self) -> bool {
        self.blocks_missing == 0
    }

    /// Digest of the tree; an incomplete file is an error.
    pub fn root(&self, entries: &[Entry]) -> Result<Digest, Fault> {
        of_tree(entries, &self.files)
            .map_err(|index| Fault::protocol(format!("the file {} is not complete", show(&entries[index].path))))
    }
}
