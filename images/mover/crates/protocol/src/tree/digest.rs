//! Digests of blocks, files and trees. A file's digest comes from its blocks' digests in order, so no serial pass is needed.

mod table;

use std::sync::OnceLock;

pub use self::table::{DigestTable, Recorded};

use crate::index::BlockIndex;
use crate::limits::BLOCK_BYTES;
use crate::listing::{Entry, Kind};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// How many blocks a file of `size` bytes has.
pub fn block_count(size: u64) -> u64 {
    size.div_ceil(u64::from(BLOCK_BYTES))
}

/// Length in bytes of block `block` of a file of `size` bytes; zero when there is no such block.
pub fn block_length(size: u64, block: BlockIndex) -> u32 {
    size.saturating_sub(block.offset()).min(u64::from(BLOCK_BYTES)) as u32
}

/// Digest of a block's bytes.
pub fn of_block(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// Digest of so many zeros, at most a block, as a hole is. The one of a whole block is computed once.
pub fn of_zeros(length: u32) -> Digest {
    static WHOLE: OnceLock<Digest> = OnceLock::new();
    let digest = |length: u32| of_block(&vec![0; length as usize]);
    if length == BLOCK_BYTES {
        *WHOLE.get_or_init(|| digest(BLOCK_BYTES))
    } else {
        digest(length.min(BLOCK_BYTES))
    }
}

/// `of_block` for bytes that come in pieces.
#[derive(Default)]
pub struct BlockHasher(blake3::Hasher);

impl BlockHasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The block's digest.
    pub fn finish(self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

/// Digest of a file from its size and its blocks' digests in order.
pub fn of_file(size: u64, blocks: impl IntoIterator<Item = Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("fairlead file v1");
    hasher.update(&BLOCK_BYTES.to_be_bytes());
    hasher.update(&size.to_be_bytes());
    for block in blocks {
        hasher.update(&block);
    }
    *hasher.finalize().as_bytes()
}

/// Digest of a tree, fed with its entries in listing order.
pub struct RootHasher(blake3::Hasher);

impl Default for RootHasher {
    fn default() -> Self {
        Self(blake3::Hasher::new_derive_key("fairlead root v1"))
    }
}

impl RootHasher {
    /// Adds one entry; `file` is the digest of a regular file's content.
    pub fn add(&mut self, entry: &Entry, file: Option<&Digest>) {
        let kind: u8 = match entry.kind {
            Kind::File => 1,
            Kind::Directory => 2,
            Kind::Symlink => 3,
        };
        let mut head = Vec::with_capacity(29 + entry.path.len());
        head.extend_from_slice(&(entry.path.len() as u32).to_be_bytes());
        head.extend_from_slice(&entry.path);
        head.push(kind);
        head.extend_from_slice(&entry.mode.to_be_bytes());
        head.extend_from_slice(&entry.mtime_s.to_be_bytes());
        head.extend_from_slice(&entry.mtime_ns.to_be_bytes());
        head.extend_from_slice(&entry.size.to_be_bytes());
        self.0.update(&head);
        let tail: &[u8] = file.map_or(&entry.target, |digest| digest);
        self.0.update(&(tail.len() as u32).to_be_bytes());
        self.0.update(tail);
    }

    /// The tree's digest.
    pub fn finish(self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_lengths_add_up_to_the_size() {
        for size in [0, 1, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20] {
            let count = block_count(size);
            let sum: u64 = (0..count as u32).map(|block| u64::from(block_length(size, BlockIndex(block)))).sum();
            assert_eq!(sum, size);
            assert_eq!(block_length(size, BlockIndex(count as u32)), 0);
        }
    }
}
