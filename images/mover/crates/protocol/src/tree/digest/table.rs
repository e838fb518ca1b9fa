//! Which blocks of a listing are known, with their digests: 32 bytes a block that is known, nothing for the others.

use std::collections::HashMap;
use std::sync::Arc;

use super::{block_count, of_file, Digest, RootHasher};
use crate::fault::Fault;
use crate::index::{BlockId, FileIndex};
use crate::limits::BLOCKS;
use crate::listing::{Extent, Kind, Listing};

const PAGE: usize = 256;

#[derive(Clone)]
struct Page {
    digests: [Digest; PAGE],
    known: [u64; PAGE / 64],
}

/// What `DigestTable::record` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The block was not known before.
    New {
        /// No block of its file is missing now.
        file_complete: bool,
    },
    /// The block was known with the same digest.
    Known,
    /// The block was known with another digest, or there is no such block.
    Contradicts,
}

/// Digests of the blocks of a listing's files.
#[derive(Default)]
pub struct DigestTable {
    listing: Arc<Listing>,
    pages: Vec<Option<Box<Page>>>,
    /// Files of which the whole digest is known instead of the blocks'. It has the place of the first block's.
    whole: Vec<u64>,
    /// Blocks that files of several blocks lack, once they have one.
    missing: HashMap<FileIndex, u32>,
}

impl DigestTable {
    /// A table in which nothing is known. Refuses a listing of more than `BLOCKS` blocks.
    pub fn new(listing: Arc<Listing>) -> Result<Self, Fault> {
        if listing.blocks() > BLOCKS {
            let text = format!("the listing has {} blocks, more than {BLOCKS}; split the transfer", listing.blocks());
            return Err(Fault::protocol(text));
        }
        let pages = vec![None; (listing.blocks() as usize).div_ceil(PAGE)];
        let whole = vec![0; (listing.len() as usize).div_ceil(64)];
        Ok(Self { listing, pages, whole, missing: HashMap::new() })
    }

    /// Notes the digest of one block.
    pub fn record(&mut self, id: BlockId, digest: Digest) -> Recorded {
        let BlockId { file, block } = id;
        let Some(Extent { size, first_block, .. }) = self.listing.extent(file) else { return Recorded::Contradicts };
        let count = block_count(size);
        if u64::from(block.0) >= count || self.is_whole_known(file) {
            return Recorded::Contradicts;
        }
        let at = first_block + u64::from(block.0);
        match self.at(at) {
            Some(known) if known == digest => return Recorded::Known,
            Some(_) => return Recorded::Contradicts,
            None => self.set(at, digest),
        }
        if count == 1 {
            return Recorded::New { file_complete: true };
        }
        let missing = self.missing.entry(file).or_insert(count as u32);
        *missing -= 1;
        Recorded::New { file_complete: *missing == 0 }
    }

    /// Notes the digest of one block over any other digest that is known of it.
    pub fn replace(&mut self, block: BlockId, digest: Digest) -> Recorded {
        self.forget(block);
        self.record(block, digest)
    }

    /// Forgets a block; returns whether it was known.
    pub fn forget(&mut self, id: BlockId) -> bool {
        let BlockId { file, block } = id;
        let Some(Extent { size, first_block, .. }) = self.listing.extent(file) else { return false };
        let at = first_block + u64::from(block.0);
        if self.is_whole_known(file) || u64::from(block.0) >= block_count(size) || self.at(at).is_none() {
            return false;
        }
        self.unset(at);
        if let Some(missing) = self.missing.get_mut(&file) {
            *missing += 1;
        }
        true
    }

    /// Digest of one block, if it is known.
    pub fn block(&self, id: BlockId) -> Option<Digest> {
        let BlockId { file, block } = id;
        let Extent { size, first_block, .. } = self.listing.extent(file)?;
        let known = u64::from(block.0) < block_count(size) && !self.is_whole_known(file);
        if known {
            self.at(first_block + u64::from(block.0))
        } else {
            None
        }
    }

    /// Notes the digest of a whole file, whose blocks are not needed one by one.
    pub fn set_whole(&mut self, file: FileIndex, digest: Digest) {
        let Some(Extent { kind: Kind::File, size, first_block, .. }) = self.listing.extent(file) else { return };
        if size > 0 {
            self.set(first_block, digest);
        } else if digest != of_file(0, []) {
            return;
        }
        self.whole[file.as_usize() / 64] |= 1 << (file.0 % 64);
    }

    /// Forgets the digest of a whole file.
    pub fn unset_whole(&mut self, file: FileIndex) {
        if !self.is_whole_known(file) {
            return;
        }
        self.whole[file.as_usize() / 64] &= !(1 << (file.0 % 64));
        if let Some(Extent { size: 1.., first_block, .. }) = self.listing.extent(file) {
            self.unset(first_block);
        }
    }

    /// Digest of a whole file that was noted as such.
    pub fn whole(&self, file: FileIndex) -> Option<Digest> {
        match self.listing.extent(file)? {
            _ if !self.is_whole_known(file) => None,
            Extent { size: 0, .. } => Some(of_file(0, [])),
            Extent { first_block, .. } => self.at(first_block),
        }
    }

    /// Whether the digest of a whole file was noted as such.
    pub fn is_whole_known(&self, file: FileIndex) -> bool {
        self.whole.get(file.as_usize() / 64).is_some_and(|bits| bits >> (file.0 % 64) & 1 == 1)
    }

    /// Whether no block of a file with blocks is missing.
    pub fn is_complete(&self, file: FileIndex) -> bool {
        match self.listing.extent(file) {
            None => false,
            Some(_) if self.is_whole_known(file) => true,
            Some(Extent { size, first_block, .. }) => match block_count(size) {
                0 => false,
                1 => self.at(first_block).is_some(),
                _ => self.missing.get(&file) == Some(&0),
            },
        }
    }

    /// Digest of the whole tree, or the number of the first file that is not complete.
    pub fn root(&self) -> Result<Digest, FileIndex> {
        let mut root = RootHasher::default();
        let mut first_block = 0;
        for (index, entry) in self.listing.iter() {
            let count = block_count(entry.size);
            if entry.kind == Kind::File {
                let file = if self.is_whole_known(index) {
                    self.whole(index)
                } else {
                    let known = (first_block..first_block + count).all(|at| self.at(at).is_some());
                    known.then(|| of_file(entry.size, (first_block..first_block + count).filter_map(|at| self.at(at))))
                };
                root.add(&entry, Some(&file.ok_or(index)?));
            } else {
                root.add(&entry, None);
            }
            first_block += count;
        }
        Ok(root.finish())
    }

    fn at(&self, block: u64) -> Option<Digest> {
        let page = self.pages.get(block as usize / PAGE)?.as_deref()?;
        let place = block as usize % PAGE;
        (page.known[place / 64] >> (place % 64) & 1 == 1).then(|| page.digests[place])
    }

    fn set(&mut self, block: u64, digest: Digest) {
        let empty = || Box::new(Page { digests: [[0; 32]; PAGE], known: [0; PAGE / 64] });
        let page = self.pages[block as usize / PAGE].get_or_insert_with(empty);
        let place = block as usize % PAGE;
        page.digests[place] = digest;
        page.known[place / 64] |= 1 << (place % 64);
    }

    fn unset(&mut self, block: u64) {
        if let Some(page) = &mut self.pages[block as usize / PAGE] {
            let place = block as usize % PAGE;
            page.known[place / 64] &= !(1 << (place % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::BlockIndex;
    use crate::listing::{Entry, ListingBuilder, Version};

    fn entry(path: &str, size: u64) -> Entry {
        let (path, version) = (path.into(), Version::default());
        let target = Vec::new();
        Entry { path, kind: Kind::File, mode: 0o644, mtime_s: 1, mtime_ns: 2, size, target, version, hole_bytes: 0 }
    }

    fn id(file: u32, block: u32) -> BlockId {
        BlockId::new(FileIndex(file), BlockIndex(block))
    }

    fn table(entries: &[Entry]) -> DigestTable {
        let mut builder = ListingBuilder::default();
        entries.iter().for_each(|entry| builder.push(entry).unwrap());
        DigestTable::new(Arc::new(builder.finish())).unwrap()
    }

    #[test]
    fn a_file_is_complete_only_with_every_block_in_any_order() {
        let size = (2 << 20) + 5;
        let mut table = table(&[entry("a", 7), entry("b", size), entry("c", 1)]);
        assert_eq!(table.record(id(1, 2), [3; 32]), Recorded::New { file_complete: false });
        assert_eq!(table.record(id(1, 0), [1; 32]), Recorded::New { file_complete: false });
        assert_eq!(table.record(id(1, 0), [1; 32]), Recorded::Known);
        assert_eq!(table.record(id(1, 0), [2; 32]), Recorded::Contradicts);
        assert_eq!(table.record(id(1, 3), [2; 32]), Recorded::Contradicts);
        assert_eq!(table.record(id(3, 0), [2; 32]), Recorded::Contradicts);
        assert!(!table.is_complete(FileIndex(1)));
        assert_eq!(table.record(id(1, 1), [2; 32]), Recorded::New { file_complete: true });
        assert!(
            table.is_complete(FileIndex(1)) && !table.is_complete(FileIndex(0)) && !table.is_complete(FileIndex(2))
        );
        assert_eq!(table.root(), Err(FileIndex(0)));
        assert!(table.forget(id(1, 0)) && !table.forget(id(1, 0)) && !table.is_complete(FileIndex(1)));
        assert_eq!(table.replace(id(1, 0), [4; 32]), Recorded::New { file_complete: true });
        assert_eq!((table.block(id(1, 0)), table.block(id(1, 3))), (Some([4; 32]), None));
    }

    #[test]
    fn whole_digests_stand_for_their_blocks() {
        let entries = [entry("a", 0), entry("b", 3 << 20)];
        let (mut blocks, mut whole) = (table(&entries), table(&entries));
        for block in 0..3 {
            blocks.record(id(1, block), [block as u8; 32]);
        }
        whole.set_whole(FileIndex(1), of_file(3 << 20, [[0; 32], [1; 32], [2; 32]]));
        assert_eq!(whole.root(), blocks.root());
        assert_eq!((whole.block(id(1, 0)), whole.record(id(1, 0), [0; 32])), (None, Recorded::Contradicts));
        whole.unset_whole(FileIndex(1));
        assert_eq!(
            (whole.is_complete(FileIndex(1)), whole.block(id(1, 0)), whole.root()),
            (false, None, Err(FileIndex(1)))
        );
        whole.set_whole(FileIndex(0), [1; 32]);
        assert_eq!(whole.whole(FileIndex(0)), None, "an empty file has but one digest");
        whole.set_whole(FileIndex(0), of_file(0, []));
        assert_eq!(whole.whole(FileIndex(0)), Some(of_file(0, [])));
    }

    #[test]
    fn any_change_of_an_entry_changes_the_root() {
        let base = entry("a", 0);
        let root = |entry: &Entry| table(std::slice::from_ref(entry)).root();
        let mut changed = vec![base.clone(); 5];
        changed[0].path = b"b".to_vec();
        changed[1].mode = 0o600;
        changed[2].mtime_s = 2;
        changed[3].mtime_ns = 3;
        changed[4].kind = Kind::Directory;
        for entry in &changed {
            assert_ne!(root(entry), root(&base));
        }
        let version = Version { ctime_s: 1, ctime_ns: 2, inode: 3 };
        assert_eq!(root(&Entry { version, ..base.clone() }), root(&base));
    }

    #[test]
    fn more_blocks_than_any_transfer_has_are_refused_before_memory_is_taken() {
        let most = (u64::from(u32::MAX)) << 20;
        let mut builder = ListingBuilder::default();
        (0..2).for_each(|file| builder.push(&entry(&format!("{file}"), most)).unwrap());
        assert!(DigestTable::new(Arc::new(builder.finish())).is_err());
    }
}
