//! What earlier attempts left, held against the listing of this one: blocks to keep, files published already, waste to remove.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use fairlead_protocol::digest::{block_length, of_block};
use fairlead_protocol::fault::show;
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::kept::{self, BlockRun};
use fairlead_protocol::ledger::{FileIdentity, HeldBlock, LedgerContents, PartialFile, Record};
use fairlead_protocol::limits::BLOCK_BYTES;
use fairlead_protocol::listing::{Kind, Listing};
use fairlead_protocol::Fault;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::ledger_file::LedgerDigests;
use super::ledger_writer::SYNC_ONE_BY_ONE;
use super::PartialDirectory;
use crate::fs::readback::forget_pages;
use crate::fs::root::Root;
use crate::fs::survey::{write_fault, Taken};

/// Slot of an entry that needs no partial file.
pub(crate) const NO_SLOT: u32 = 0;

/// What can be used of earlier attempts.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// A slot for every entry.
    slots: Vec<u32>,
    next_slot: u32,
    /// Blocks that need not be sent, in listing order.
    pub(crate) kept: Vec<BlockRun>,
    /// Files with kept blocks that may not be on the disk yet.
    pub(crate) unsynced: Vec<FileIndex>,
    /// Entries whose file record is in the ledger already, in order.
    pub(crate) described: Vec<FileIndex>,
    /// Complete files whose partial file is gone: an interrupted publication may have renamed them.
    pub(crate) claimed: Vec<FileIndex>,
    /// Whether an interrupted publication may have made links.
    pub(crate) links_claimed: bool,
    /// Space that the partial files take already, in bytes.
    allocated_bytes: u64,
    /// Bytes of kept blocks.
    pub(crate) kept_bytes: u64,
}

impl Recovery {
    /// The slot of an entry.
    pub(crate) fn slot(&self, index: FileIndex) -> Option<u32> {
        self.slots.get(index.as_usize()).copied()
    }

    /// What the partial files took already of those that are to come, `skip` being in place.
    pub(crate) fn taken(&self, skip: &[FileIndex]) -> Taken {
        let is_in = |indices: &[FileIndex], index: &FileIndex| indices.binary_search(index).is_ok();
        let there = self.described.iter().filter(|index| !is_in(&self.claimed, index) && !is_in(skip, index));
        Taken { bytes: self.allocated_bytes, names: there.count() as u64 }
    }

    /// The slots, once it is known which claimed files are in place (`skip`); the others start anew.
    pub(crate) fn settle(&mut self, partial: &PartialDirectory, skip: &[FileIndex]) -> Result<Vec<u32>, Fault> {
        let mut records = Vec::new();
        let anew: Vec<FileIndex> =
            self.claimed.iter().copied().filter(|index| skip.binary_search(index).is_err()).collect();
        for index in &anew {
            let slot = &mut self.slots[index.as_usize()];
            records.push(Record::Forgotten(*slot));
            *slot = self.next_slot;
            self.next_slot += 1;
        }
        self.described.retain(|index| anew.binary_search(index).is_err());
        if !records.is_empty() {
            partial.ledger().append_durably(&records)?;
        }
        Ok(self.slots.clone())
    }
}

/// Matches the ledger with the listing. Blocks whose data may not have reached the disk are read again from it and checked; what is of
/// no use is struck from the ledger first and removed then. `work` is called for every entry and with the bytes read.
pub(crate) fn recover(
    root: &Root,
    partial: &PartialDirectory,
    book: &LedgerContents,
    listing: &Listing,
    work: &dyn Fn(u64),
) -> Result<Recovery, Fault> {
    let (known, mut matched_slots) = (book.index(), Slots::default());
    let mut recovery = Recovery {
        slots: Vec::with_capacity(listing.len() as usize),
        next_slot: book.next_slot,
        links_claimed: book.verified.is_some(),
        ..Recovery::default()
    };
    let (mut records, mut buffer) = (Vec::new(), vec![0; BLOCK_BYTES as usize]);
    let mut digests = LedgerDigests::new(partial.ledger());
    let unmarked = |file: &PartialFile| file.blocks().any(|held| !book.is_durable(&held));
    let many = book.files().filter(|(_, file)| unmarked(file)).nth(SYNC_ONE_BY_ONE).is_some();
    // If it fails, a sync of each file tells which one it was.
    let synced = many && rustix::fs::syncfs(partial.directory()).is_ok();
    for (index, entry) in listing.iter() {
        work(1);
        let matched = if entry.kind == Kind::File { known.slot(&FileIdentity::of(&entry)) } else { None };
        let matched = matched.filter(|slot| matched_slots.insert(*slot));
        let taken = match matched.and_then(|slot| book.file(slot).map(|file| (slot, file))) {
            Some((slot, file)) => {
                let failed = |error: io::Error| write_fault(&show(&entry.path), &error);
                let mut candidate = Candidate { root, partial, book, index, path: &entry.path, slot, file, synced };
                let taken = candidate.take(&mut recovery, &mut records, &mut digests, &mut buffer, work);
                taken.map_err(failed)?.then_some(slot)
            }
            None => None,
        };
        let slot = match (taken, entry.kind) {
            (Some(slot), _) => {
                recovery.described.push(index);
                slot
            }
            (None, Kind::Directory) => NO_SLOT,
            (None, Kind::File | Kind::Symlink) => {
                if let Some(slot) = matched {
                    records.push(Record::Forgotten(slot));
                }
                recovery.next_slot += 1;
                recovery.next_slot - 1
            }
        };
        recovery.slots.push(slot);
    }
    drop(known);
    records.extend(book.files().filter(|(slot, _)| !matched_slots.has(*slot)).map(|(slot, _)| Record::Forgotten(slot)));
    if !records.is_empty() {
        partial.ledger().append_durably(&records)?;
    }
    let mut used = Slots::default();
    for index in &recovery.described {
        used.insert(recovery.slots[index.as_usize()]);
    }
    partial.sweep(|slot| used.has(slot), || work(1)).map_err(|error| write_fault("a partial file", &error))?;
    Ok(recovery)
}

/// A set of slots, one bit each.
#[derive(Default)]
struct Slots(Vec<u64>);

impl Slots {
    /// Adds a slot; false if it was there.
    fn insert(&mut self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

struct Candidate<'a> {
    root: &'a Root,
    partial: &'a PartialDirectory,
    book: &'a LedgerContents,
    index: FileIndex,
    path: &'a [u8],
    slot: u32,
    file: &'a PartialFile,
    /// Whether the kernel has nothing of the file that is not written back.
    synced: bool,
}

impl Candidate<'_> {
    /// Takes what the partial file holds over into `recovery`; false if it holds nothing.
    fn take(
        &mut self,
        recovery: &mut Recovery,
        records: &mut Vec<Record>,
        digests: &mut LedgerDigests<'_>,
        buffer: &mut [u8],
        work: &dyn Fn(u64),
    ) -> io::Result<bool> {
        let open = match self.partial.open_slot(self.slot, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.file.is_complete() {
                    recovery.claimed.push(self.index);
                }
                return Ok(self.file.is_complete());
            }
            open => open?,
        };
        if self.file.is_complete() && self.is_linked_in_place(&open) {
            self.partial.remove_slot(self.slot)?;
            recovery.claimed.push(self.index);
            return Ok(true);
        }
        let mut unsynced = false;
        let mut from_disk = None;
        let mut holds = |held: &HeldBlock, digests: &mut LedgerDigests<'_>| -> io::Result<bool> {
            let length = block_length(self.file.size, held.block);
            if self.book.is_durable(held) {
                return Ok(true);
            }
            if !*from_disk.get_or_insert_with(|| self.forget_cache(&open)) {
                return Ok(false);
            }
            let bytes = &mut buffer[..length as usize];
            match open.read_exact_at(bytes, held.block.offset()) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                // The write that comes now may well end elsewhere on the disk.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(false),
                result => result?,
            }
            work(u64::from(length));
            unsynced = true;
            Ok(of_block(bytes) == digests.read(held.digest_at())?)
        };
        for held in self.file.blocks() {
            let (slot, block, length) = (self.slot, held.block, block_length(self.file.size, held.block));
            if !holds(&held, digests)? {
                records.push(Record::Lost { slot, block });
                continue;
            }
            recovery.kept_bytes += u64::from(length);
            kept::add(&mut recovery.kept, BlockId::new(self.index, block));
            if !held.written {
                // It turned out to be: from now on a mark may cover it.
                records.push(Record::Block { slot, block, length, digest: digests.read(held.digest_at())? });
            }
        }
        if unsynced {
            recovery.unsynced.push(self.index);
        }
        recovery.allocated_bytes += (open.metadata()?.blocks() * 512).min(self.file.size);
        Ok(true)
    }

    /// Has what is read next come from the disk; false if it cannot. Pages that the kernel failed to write back, for an attempt before
    /// this one, count as clean: they hold what the disk has not, and no later sync fails for them.
    fn forget_cache(&self, open: &File) -> bool {
        (self.synced || open.sync_data().is_ok()) && forget_pages(open).is_ok()
    }

    /// Whether the final name is a hard link to the partial file: how a publication without `RENAME_NOREPLACE` goes about it.
    fn is_linked_in_place(&self, open: &File) -> bool {
        let place = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        let linked = open.metadata().is_ok_and(|meta| meta.nlink() > 1);
        linked && self.root.open_file(self.path).is_ok_and(|there| place(&there) == place(open))
    }
}
