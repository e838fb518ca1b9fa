//! Digests of blocks, files and trees. A file's digest comes from its blocks' digests in order, so no serial pass is needed.

use crate::limits::BLOCK_BYTES;
use crate::listing::{Entry, Kind};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// How many blocks a file of `size` bytes has.
pub fn block_count(size: u64) -> u64 {
    size.div_ceil(u64::from(BLOCK_BYTES))
}

/// Length in bytes of block `block` of a file of `size` bytes; zero when there is no such block.
pub fn block_length(size: u64, block: u32) -> u32 {
    let start = u64::from(block) * u64::from(BLOCK_BYTES);
    size.saturating_sub(start).min(u64::from(BLOCK_BYTES)) as u32
}

/// Digest of a block's bytes.
pub fn of_block(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
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
pub fn of_file<'a>(size: u64, blocks: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("fairlead file v1");
    hasher.update(&BLOCK_BYTES.to_be_bytes());
    hasher.update(&size.to_be_bytes());
    for block in blocks {
        hasher.update(block);
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

/// Which blocks of one file are known, with their digests.
#[derive(Clone, Debug, Default)]
pub enum BlockDigests {
    /// No block yet.
    #[default]
    None,
    /// The only block of a small file.
    One(Digest),
    /// Blocks of a large file; `missing` counts the absent ones.
    Many {
        /// One place a block.
        blocks: Vec<Option<Digest>>,
        /// How many places are still empty.
        missing: u64,
    },
    /// The whole file's digest, when the blocks are not needed one by one.
    Whole(Digest),
}

/// What `BlockDigests::record` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The block was not known before.
    New,
    /// The block was known with the same digest.
    Known,
    /// The block was known with another digest.
    Contradicts,
}

impl BlockDigests {
    /// Notes the digest of one block of a file of `size` bytes. `block` must exist.
    pub fn record(&mut self, size: u64, block: u32, digest: Digest) -> Recorded {
        let count = block_count(size);
        debug_assert!(u64::from(block) < count);
        let compare = |known: &Digest| if *known == digest { Recorded::Known } else { Recorded::Contradicts };
        match self {
            Self::None if count == 1 => {
                *self = Self::One(digest);
                Recorded::New
            }
            Self::None => {
                let mut blocks = vec![None; count as usize];
                blocks[block as usize] = Some(digest);
                *self = Self::Many { blocks, missing: count - 1 };
                Recorded::New
            }
            Self::One(known) => compare(known),
            Self::Many { blocks, missing } => match &blocks[block as usize] {
                Some(known) => compare(known),
                None => {
                    blocks[block as usize] = Some(digest);
                    *missing -= 1;
                    Recorded::New
                }
            },
            Self::Whole(_) => Recorded::Contradicts,
        }
    }

    /// Forgets a block of a file; says whether it was known.
    pub fn forget(&mut self, block: u32) -> bool {
        match self {
            Self::One(_) => {
                *self = Self::None;
                true
            }
            Self::Many { blocks, missing } => {
                let known = blocks.get_mut(block as usize).and_then(Option::take).is_some();
                *missing += u64::from(known);
                known
            }
            Self::None | Self::Whole(_) => false,
        }
    }

    /// Digest of one block, if it is known.
    pub fn block(&self, block: u32) -> Option<Digest> {
        match self {
            Self::One(digest) => (block == 0).then_some(*digest),
            Self::Many { blocks, .. } => blocks.get(block as usize).copied().flatten(),
            Self::None | Self::Whole(_) => None,
        }
    }

    /// Whether no block of a non-empty file is missing.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::One(_) | Self::Many { missing: 0, .. } | Self::Whole(_))
    }

    /// The file's digest if all its blocks are known.
    pub fn file(&self, size: u64) -> Option<Digest> {
        match self {
            Self::None if size == 0 => Some(of_file(0, [])),
            Self::One(block) => Some(of_file(size, [block])),
            Self::Many { blocks, missing: 0 } => Some(of_file(size, blocks.iter().flatten())),
            Self::Whole(digest) => Some(*digest),
            _ => None,
        }
    }
}

/// Digest of the whole tree, or the index of the first file that is not complete.
pub fn of_tree(entries: &[Entry], files: &[BlockDigests]) -> Result<Digest, usize> {
    let mut root = RootHasher::default();
    for (index, (entry, blocks)) in entries.iter().zip(files).enumerate() {
        match entry.kind {
            Kind::File => root.add(entry, Some(&blocks.file(entry.size).ok_or(index)?)),
            _ => root.add(entry, None),
        }
    }
    Ok(root.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Version;

    #[test]
    fn block_lengths_add_up_to_the_size() {
        for size in [0, 1, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20] {
            let count = block_count(size);
            let sum: u64 = (0..count as u32).map(|block| u64::from(block_length(size, block))).sum();
            assert_eq!(sum, size);
            assert_eq!(block_length(size, count as u32), 0);
        }
    }

    #[test]
    fn a_file_is_complete_only_with_every_block_in_any_order() {
        let size = (2 << 20) + 5;
        let digests = [[1; 32], [2; 32], [3; 32]];
        let mut blocks = BlockDigests::default();
        assert_eq!(blocks.record(size, 2, digests[2]), Recorded::New);
        assert_eq!(blocks.record(size, 0, digests[0]), Recorded::New);
        assert_eq!(blocks.record(size, 0, digests[0]), Recorded::Known);
        assert_eq!(blocks.record(size, 0, digests[1]), Recorded::Contradicts);
        assert_eq!(blocks.file(size), None);
        assert_eq!(blocks.record(size, 1, digests[1]), Recorded::New);
        assert_eq!(blocks.file(size), Some(of_file(size, &digests)));
    }

    #[test]
    fn any_change_of_an_entry_changes_the_root() {
        let base = Entry {
            path: b"a".to_vec(),
            kind: Kind::File,
            mode: 0o644,
            mtime_s: 1,
            mtime_ns: 2,
            size: 0,
            target: Vec::new(),
            version: Version::default(),
        };
        let root = |entry: &Entry| of_tree(std::slice::from_ref(entry), &[BlockDigests::None]);
        let mut changed = vec![base.clone(); 5];
        changed[0].path = b"b".to_vec();
        changed[1].mode = 0o600;
        changed[2].mtime_s = 2;
        changed[3].mtime_ns = 3;
        changed[4].kind = Kind::Directory;
        for entry in &changed {
            assert_ne!(root(entry), root(&base));
        }
        assert_eq!(root(&base), root(&base.clone()));
    }
}
