//! The numbers that files, blocks, packs and connections go by. Each has a type of its own, so that none is taken for another.

use std::fmt;

use crate::limits::BLOCK_BYTES;

/// Position of an entry in the listing, from 0. Blocks belong to entries that are regular files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIndex(pub u32);

/// Position of a block in its file, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The file.
    pub file: FileIndex,
    /// The block in that file.
    pub block: BlockIndex,
}

/// Number of a pack, unique in an attempt: blocks that are sent again travel in a pack with another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(pub u64);

/// Number of a data connection at the sender, unique in an attempt: a stream that connects again has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Position of a path among those of a transfer, from 0. Each has an interface at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathIndex(pub u8);

impl PathIndex {
    /// The position in a slice that has one item for each path.
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

impl FileIndex {
    /// The position in a slice that has one item for each entry.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl BlockIndex {
    /// Offset in bytes of the block's first byte in its file.
    pub fn offset(self) -> u64 {
        u64::from(self.0) * u64::from(BLOCK_BYTES)
    }

    /// The block behind this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The blocks from this one up to `end`, which is not included.
    pub fn up_to(self, end: Self) -> impl Iterator<Item = Self> {
        (self.0..end.0).map(Self)
    }
}

impl BlockId {
    /// The block `block` of the file `file`.
    pub fn new(file: FileIndex, block: BlockIndex) -> Self {
        Self { file, block }
    }
}

impl fmt::Display for FileIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
