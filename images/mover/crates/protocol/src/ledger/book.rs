//! The contents of a ledger, in little memory: a job may have millions of partial files.

use super::{FileIdentity, Record, CRC_BYTES};
use crate::digest::{block_count, block_length, Digest};
use crate::index::BlockIndex;
use crate::limits::{ENTRIES, STREAMS};

/// A block that a partial file holds, or may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBlock {
    /// The block in its file.
    pub block: BlockIndex,
    /// Whether its write is known to have ended; else the place may hold anything.
    pub written: bool,
    /// Where its record ends in the ledger.
    end: u64,
}

impl HeldBlock {
    /// Where the digest of the block's bytes is in the ledger: a book of millions of blocks would be large with them.
    pub fn digest_at(&self) -> u64 {
        self.end - (CRC_BYTES + size_of::<Digest>()) as u64
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Blocks {
    None,
    /// The first block of a file, whose record ends here: all there is of most files.
    First(u64),
    /// In a box, so that the many files of one block take no space for it.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<HeldBlock>>),
}

/// A partial file and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialFile {
    /// Hash of the source file's identity. Two files may share it: see `FileIdentity::hash`.
    identity: u64,
    /// Size of the file of the source, in bytes.
    pub size: u64,
    blocks: Blocks,
}

impl PartialFile {
    /// The blocks in order, each once.
    pub fn blocks(&self) -> impl Iterator<Item = HeldBlock> + '_ {
        let (first, many): (_, &[HeldBlock]) = match &self.blocks {
            Blocks::None => (None, &[]),
            Blocks::First(end) => (Some(HeldBlock { block: BlockIndex(0), written: true, end: *end }), &[]),
            Blocks::Many(many) => (None, many),
        };
        first.into_iter().chain(many.iter().copied())
    }

    /// Whether every block is there.
    pub fn is_complete(&self) -> bool {
        self.blocks().filter(|held| held.written).count() as u64 == block_count(self.size)
    }

    /// Where the digest of a block is in the ledger, if the block is there.
    pub fn digest_at(&self, block: BlockIndex) -> Option<u64> {
        match &self.blocks {
            Blocks::Many(many) => {
                let at = many.binary_search_by_key(&block, |held| held.block).ok()?;
                Some(many[at].digest_at())
            }
            _ => self.blocks().find(|held| held.block == block).map(|held| held.digest_at()),
        }
    }

    fn hold(&mut self, held: HeldBlock) {
        self.blocks = match std::mem::replace(&mut self.blocks, Blocks::None) {
            Blocks::None | Blocks::First(_) if block_count(self.size) == 1 => Blocks::First(held.end),
            Blocks::Many(mut many) => {
                // What was begun and is now written takes no second place; the other streams were at work in between.
                let mut late = many.iter_mut().rev().take(BEGUN_BLOCKS);
                match late.find(|known| held.written && known.block == held.block && !known.written) {
                    Some(begun) => *begun = held,
                    None => many.push(held),
                }
                Blocks::Many(many)
            }
            Blocks::None | Blocks::First(_) => Blocks::Many(Box::new(vec![held])),
        };
    }

    fn lose(&mut self, block: BlockIndex) {
        match &mut self.blocks {
            Blocks::Many(many) => many.retain(|held| held.block != block),
            Blocks::First(_) if block.0 == 0 => self.blocks = Blocks::None,
            _ => {}
        }
    }

    fn settle(&mut self) {
        if let Blocks::Many(many) = &mut self.blocks {
            // What is written counts, whatever was begun after: the same bytes, of a block that came twice.
            many.sort_by_key(|held| (held.block, std::cmp::Reverse((held.written, held.end))));
            many.dedup_by_key(|held| held.block);
            many.shrink_to_fit();
        }
    }
}

const PAGE: usize = 1024;
/// Records that are searched for a block's `Begun` record when the block is written.
const BEGUN_BLOCKS: usize = 2 * STREAMS as usize;

/// Partial files by slot. Slots are dense, so that pages of them take less than a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slots {
    pages: Vec<Option<Box<[Option<PartialFile>; PAGE]>>>,
}

impl Slots {
    fn get(&self, slot: u32) -> Option<&PartialFile> {
        self.pages.get(slot as usize / PAGE)?.as_ref()?[slot as usize % PAGE].as_ref()
    }

    fn place(&mut self, slot: u32) -> &mut Option<PartialFile> {
        let page = slot as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        &mut page[slot as usize % PAGE]
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut PartialFile> {
        self.pages.get_mut(slot as usize / PAGE)?.as_mut()?[slot as usize % PAGE].as_mut()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &PartialFile)> {
        let pages = self.pages.iter().enumerate().filter_map(|(page, files)| Some((page, files.as_deref()?)));
        pages.flat_map(|(page, files)| {
            let files = (page * PAGE..).zip(files);
            files.filter_map(|(slot, file)| Some((slot as u32, file.as_ref()?)))
        })
    }
}

/// The contents of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerContents {
    /// The highest attempt so far.
    pub attempt: u32,
    /// The first slot that was never used.
    pub next_slot: u32,
    /// Digest of the tree, once everything was complete and durable.
    pub verified: Option<Digest>,
    marked_bytes: u64,
    files: Slots,
    through: u64,
}

impl LedgerContents {
    /// The partial files by slot.
    pub fn files(&self) -> impl Iterator<Item = (u32, &PartialFile)> {
        self.files.iter()
    }

    /// The partial file of this slot.
    pub fn file(&self, slot: u32) -> Option<&PartialFile> {
        self.files.get(slot)
    }

    /// Finds partial files by the files of the source they belong to.
    pub fn index(&self) -> SlotsByIdentity {
        let mut slots: Vec<(u64, u32)> = self.files().map(|(slot, file)| (file.identity, slot)).collect();
        slots.sort_unstable();
        SlotsByIdentity(slots)
    }

    /// Whether the data of a block is on the disk for certain. The others have to be read again before they count.
    pub fn is_durable(&self, held: &HeldBlock) -> bool {
        held.written && held.end <= self.through
    }

    /// Payload bytes that earlier attempts received, as far as the ledger records it.
    pub fn received_bytes(&self) -> u64 {
        let late = |(_, file): (u32, &PartialFile)| -> u64 {
            let unmarked = file.blocks().filter(|held| !self.is_durable(held));
            unmarked.map(|held| u64::from(block_length(file.size, held.block))).sum()
        };
        self.marked_bytes + self.files().map(late).sum::<u64>()
    }

    /// Takes a fact whose record reaches from `start` to `end`. False if it cannot be.
    pub(super) fn apply(&mut self, record: &Record, start: u64, end: u64) -> bool {
        match record {
            Record::Attempt(attempt) => {
                if *attempt < self.attempt {
                    return false;
                }
                self.attempt = *attempt;
            }
            Record::File { slot, identity } => {
                let new = *slot < self.next_slot.saturating_add(ENTRIES as u32) && self.files.get(*slot).is_none();
                if !new || block_count(identity.size) > u64::from(u32::MAX) {
                    return false;
                }
                self.next_slot = self.next_slot.max(slot + 1);
                let file = PartialFile { identity: identity.hash(), size: identity.size, blocks: Blocks::None };
                *self.files.place(*slot) = Some(file);
            }
            Record::Block { slot, block, length, .. } => {
                let Some(file) = self.files.get_mut(*slot) else { return false };
                if *length == 0 || block_length(file.size, *block) != *length {
                    return false;
                }
                file.hold(HeldBlock { block: *block, written: true, end });
            }
            Record::Begun { slot, block, length, .. } => {
                let Some(file) = self.files.get_mut(*slot) else { return false };
                let fits = *length > 0 && block_length(file.size, *block) == *length;
                if !fits || block_count(file.size) < 2 {
                    return false;
                }
                file.hold(HeldBlock { block: *block, written: false, end });
            }
            Record::Mark { through, received_bytes } => {
                if *through > start || *through < self.through || *received_bytes < self.marked_bytes {
                    return false;
                }
                self.through = *through;
                self.marked_bytes = *received_bytes;
            }
            Record::Lost { slot, block } => {
                let Some(file) = self.files.get_mut(*slot) else { return false };
                file.lose(*block);
            }
            Record::Forgotten(slot) => {
                if self.files.get(*slot).is_none() {
                    return false;
                }
                *self.files.place(*slot) = None;
            }
            Record::Verified(root) => self.verified = Some(*root),
        }
        true
    }

    pub(super) fn settle(&mut self) {
        self.files.pages.iter_mut().flatten().flat_map(|page| page.iter_mut().flatten()).for_each(PartialFile::settle);
    }
}

/// Partial files by the files of the source they belong to.
pub struct SlotsByIdentity(Vec<(u64, u32)>);

impl SlotsByIdentity {
    /// The slot of the partial file that belongs to this file of the source.
    pub fn slot(&self, identity: &FileIdentity) -> Option<u32> {
        let hash = identity.hash();
        let at = self.0.binary_search_by_key(&hash, |(known, _)| *known).ok()?;
        Some(self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Version;

    #[test]
    fn a_partial_file_of_one_block_takes_32_bytes() {
        assert!(size_of::<Option<PartialFile>>() <= 32);
        assert!(size_of::<HeldBlock>() <= 16);
    }

    #[test]
    fn slots_far_beyond_any_listing_are_refused() {
        let identity =
            FileIdentity { path: b"a".to_vec(), size: 1, mtime_s: 0, mtime_ns: 0, version: Version::default() };
        let mut book = LedgerContents::default();
        let file = |slot| Record::File { slot, identity: identity.clone() };
        assert!(book.apply(&file(ENTRIES as u32 - 1), 0, 1));
        assert!(!book.apply(&file(ENTRIES as u32 - 1), 1, 2), "a slot is used once");
        assert!(!book.apply(&file(u32::MAX), 1, 2));
        assert_eq!((book.files().count(), book.next_slot), (1, ENTRIES as u32));
        assert!(book.apply(&Record::Forgotten(ENTRIES as u32 - 1), 2, 3));
        assert_eq!((book.files().count(), book.index().slot(&identity)), (0, None));
    }
}
