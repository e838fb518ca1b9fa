//! Where the sender's bytes come from: a directory, or zeros made up in memory, which measure a path without any disk.

use fairlead_protocol::digest::{block_count, block_length, of_file, of_zeros, Digest};
use fairlead_protocol::index::BlockIndex;
use fairlead_protocol::listing::{Entry, Kind, Version};
use fairlead_protocol::schedule::BlockRef;
use fairlead_protocol::Fault;

use crate::fs::source::{BlockReader, SourceTree, Walked};

/// Name of the file of zeros, if the receiver stores it.
const ZEROS_NAME: &[u8] = b"zero";

/// What is sent.
pub(crate) enum BlockSource {
    /// The content of a directory.
    Tree(SourceTree),
    /// One file of so many zeros, which exists nowhere.
    Zeros(u64),
}

impl BlockSource {
    /// Hands every entry, in listing order, to `emit`; `work` is called for every name that is looked at.
    pub(crate) fn walk(
        &self,
        work: &dyn Fn(),
        mut emit: impl FnMut(Entry) -> Result<(), Fault>,
    ) -> Result<Walked, Fault> {
        match self {
            Self::Tree(source) => source.walk(work, emit),
            Self::Zeros(size) => emit(Entry {
                path: ZEROS_NAME.to_vec(),
                kind: Kind::File,
                mode: 0o644,
                mtime_s: 0,
                mtime_ns: 0,
                size: *size,
                target: Vec::new(),
                version: Version::default(),
                hole_bytes: 0,
            })
            .map(|()| Walked::default()),
        }
    }

    /// Digest of a whole file, to compare it with the destination's.
    pub(crate) fn hash(&self, entry: &Entry, buffer: &mut Vec<u8>, work: impl Fn(u64)) -> Result<Digest, Fault> {
        match self {
            Self::Tree(source) => source.hash(entry, buffer, work),
            Self::Zeros(size) => {
                let blocks = BlockIndex(0).up_to(BlockIndex(block_count(*size) as u32));
                let digests: Vec<Digest> = blocks.map(|block| of_zeros(block_length(*size, block))).collect();
                Ok(of_file(*size, digests))
            }
        }
    }

    /// Whether there is no disk behind it.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Zeros(_))
    }
}

/// Reads blocks for one stream.
#[derive(Default)]
pub(crate) struct BlockSourceReader {
    files: BlockReader,
}

impl BlockSourceReader {
    /// Digest of a block that is a hole of its file, so that nothing of it has to be read or sent.
    pub(crate) fn hole(
        &mut self,
        source: &BlockSource,
        entry: &Entry,
        block: &BlockRef,
    ) -> Result<Option<Digest>, Fault> {
        match source {
            BlockSource::Tree(tree) => self.files.hole(tree, entry, block),
            BlockSource::Zeros(_) => Ok(None),
        }
    }

    /// Reads one block and returns its digest. Only a tree's bytes go to `bytes`: zeros are sent from where they are.
    pub(crate) fn read(
        &mut self,
        source: &BlockSource,
        entry: &Entry,
        block: &BlockRef,
        bytes: &mut [u8],
    ) -> Result<Digest, Fault> {
        match source {
            BlockSource::Tree(tree) => self.files.read(tree, entry, block, bytes),
            BlockSource::Zeros(_) => Ok(of_zeros(block.length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlead_protocol::digest::of_block;
    use fairlead_protocol::limits::BLOCK_BYTES;

    #[test]
    fn zeros_hash_like_the_bytes_they_stand_for() {
        for size in [0, 1, 1 << 20, (1 << 20) + 5, 3 << 20] {
            let bytes = vec![0; size];
            let digests: Vec<Digest> = bytes.chunks(BLOCK_BYTES as usize).map(of_block).collect();
            let (mut entries, source) = (Vec::new(), BlockSource::Zeros(size as u64));
            let emit = |entry| {
                entries.push(entry);
                Ok(())
            };
            source.walk(&|| {}, emit).unwrap();
            assert_eq!(entries[0].size, size as u64);
            assert_eq!(source.hash(&entries[0], &mut Vec::new(), |_| {}).unwrap(), of_file(size as u64, digests));
        }
    }
}
