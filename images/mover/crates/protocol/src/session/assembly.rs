//! What the receiver has: which blocks it may take, which it holds.

use std::sync::Arc;

use crate::digest::{block_length, Digest, DigestTable, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::index::{BlockId, FileIndex};
use crate::kept::BlockRun;
use crate::listing::{Kind, Listing};
use crate::pack::Segment;

/// Blocks of a tree as they arrive in any order, some of them twice.
pub struct Assembly {
    listing: Arc<Listing>,
    table: DigestTable,
    blocks_missing: u64,
    /// Blocks of earlier attempts, in order.
    kept: Arc<[BlockRun]>,
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
    /// Expects every non-empty file of the listing but the `skipped`, whose digests the table knows as whole.
    pub fn new(listing: &Arc<Listing>, table: DigestTable, skipped: &[FileIndex]) -> Self {
        let known = skipped.iter().map(|file| crate::digest::block_count(listing.size(*file))).sum::<u64>();
        Self { listing: Arc::clone(listing), table, blocks_missing: listing.blocks() - known, kept: Arc::default() }
    }

    /// Notes blocks that earlier attempts left, in order; `digest` finds each one's digest.
    pub fn keep(
        &mut self,
        kept: Vec<BlockRun>,
        mut digest: impl FnMut(BlockId) -> Result<Digest, Fault>,
    ) -> Result<(), Fault> {
        for run in &kept {
            let size = self.listing.size(run.file);
            for id in run.ids() {
                let (BlockId { file, block }, digest) = (id, digest(id)?);
                let segment = Segment { file, block, length: block_length(size, block), digest, is_hole: false };
                self.admits(&segment)?;
                self.stored(&segment)?;
            }
        }
        self.kept = kept.into();
        Ok(())
    }

    /// Blocks of earlier attempts, in order.
    pub fn kept(&self) -> Arc<[BlockRun]> {
        Arc::clone(&self.kept)
    }

    /// Whether this block was kept from an earlier attempt with another content than the sender has now.
    pub fn contradicts_kept(&self, segment: &Segment) -> bool {
        let Segment { file, block, digest, .. } = *segment;
        let at = self.kept.partition_point(|run| (run.file, run.end) <= (file, block));
        let kept = self.kept.get(at).is_some_and(|run| run.file == file && run.first <= block);
        kept && self.digest(segment.id()).is_some_and(|known| known != digest)
    }

    /// Removes a block that is not here after all. Returns whether its file was complete.
    pub fn forget(&mut self, block: BlockId) -> bool {
        let whole = self.table.is_complete(block.file);
        let known = self.table.forget(block);
        self.blocks_missing += u64::from(known);
        whole && known
    }

    /// Whether a file has every block.
    pub fn is_whole(&self, file: FileIndex) -> bool {
        self.table.is_complete(file)
    }

    /// Digest of a block that is here.
    pub fn digest(&self, block: BlockId) -> Option<Digest> {
        self.table.block(block)
    }

    /// Whether the transfer includes this block with this length.
    pub fn admits(&self, segment: &Segment) -> Result<(), Fault> {
        let Segment { file, block, length, .. } = *segment;
        let extent = self.listing.extent(file).filter(|extent| extent.kind == Kind::File && extent.size > 0);
        let Some(extent) = extent.filter(|_| !self.table.is_whole_known(file)) else {
            return Err(Fault::protocol(format!("a block arrived for entry {file}, which takes none")));
        };
        if length == 0 || block_length(extent.size, block) != length {
            let path = show(&self.listing.entry(file).path);
            let text = format!("block {block} of {path} has {length} bytes, which does not fit the listing");
            return Err(Fault::protocol(text));
        }
        Ok(())
    }

    /// Notes a verified and written block that `admits` let in.
    pub fn stored(&mut self, segment: &Segment) -> Result<Stored, Fault> {
        match self.table.record(segment.id(), segment.digest) {
            Recorded::New { file_complete } => {
                self.blocks_missing -= 1;
                Ok(Stored { new: true, file_complete })
            }
            Recorded::Known => Ok(Stored { new: false, file_complete: false }),
            Recorded::Contradicts => {
                let path = show(&self.listing.entry(segment.file).path);
                let text = format!("block {} of {path} arrived twice with different content", segment.block);
                Err(Fault::new(Reason::SourceChanged, text))
            }
        }
    }

    /// Whether every expected block is here.
    pub fn is_complete(&self) -> bool {
        self.blocks_missing == 0
    }

    /// Digest of the tree; an incomplete file is an error.
    pub fn root(&self) -> Result<Digest, Fault> {
        self.table.root().map_err(|file| {
            Fault::protocol(format!("the file {} is not complete", show(&self.listing.entry(file).path)))
        })
    }
}
