//! A listing in little memory: some twenty bytes an entry, decoded where it is used.
//!
//! Entries are written one after the other, each as its difference from the one before. Every `GROUP`-th starts anew and its
//! place is noted, so that finding an entry decodes less than a group.

use std::ops::Deref;

use super::{Entry, Kind, Totals, Version, MODE_MASK};
use crate::digest::block_count;
use crate::index::FileIndex;

/// Entries between two places at which decoding can start.
const GROUP: u32 = 16;

const KINDS: [Kind; 3] = [Kind::File, Kind::Directory, Kind::Symlink];
const HAS_HOLES: u64 = 1 << 2;
const HAS_VERSION: u64 = 1 << 3;
/// The time of change is that of modification.
const SAME_TIME: u64 = 1 << 4;
const MODE_SHIFT: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    at: usize,
    first_block: u64,
}

/// Where a file's blocks are among all blocks of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// What the entry is.
    pub kind: Kind,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Blocks of the files before it.
    pub first_block: u64,
    /// Whether some of the file takes no space at the sender.
    pub has_holes: bool,
}

/// A checked listing. Entries have numbers from 0 on, in the listing's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    bytes: Vec<u8>,
    groups: Vec<Group>,
    length: u32,
    blocks: u64,
    totals: Totals,
    root_mtime: Option<(i64, u32)>,
}

/// What an entry is encoded against.
#[derive(Clone, Debug, Default)]
struct Before {
    path: Vec<u8>,
    mtime_s: i64,
    inode: u64,
}

impl Listing {
    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Totals over all entries.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The listing with the modification time of the root itself, in whole seconds since 1970 and nanoseconds of the second. The
    /// root is no entry, and its time no part of the tree's digest.
    #[must_use]
    pub fn with_root_mtime(self, root_mtime: Option<(i64, u32)>) -> Self {
        Self { root_mtime, ..self }
    }

    /// Modification time of the root itself, if it is known.
    pub fn root_mtime(&self) -> Option<(i64, u32)> {
        self.root_mtime
    }

    /// Blocks of all files.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The entry with this number, if there is one.
    pub fn get(&self, index: FileIndex) -> Option<Entry> {
        self.from(index).next().map(|(_, entry)| entry)
    }

    /// The entry with this number, which must exist: as for a slice's index, any other number is a fault of the program.
    pub fn entry(&self, index: FileIndex) -> Entry {
        let length = self.length;
        self.get(index).unwrap_or_else(|| panic!("entry {index} of a listing of {length}"))
    }

    /// Size and place of the entry with this number, if there is one: cheaper than the entry.
    pub fn extent(&self, index: FileIndex) -> Option<Extent> {
        let FileIndex(index) = index;
        if index >= self.length {
            return None;
        }
        let mut reader = self.reader_at(index / GROUP);
        for _ in 0..index % GROUP {
            reader.skip();
        }
        Some(reader.skip())
    }

    /// Size of the file with this number; 0 for what is no file.
    pub fn size(&self, index: FileIndex) -> u64 {
        self.extent(index).map_or(0, |extent| extent.size)
    }

    /// Whether the entry with this number is a regular file.
    pub fn is_file(&self, index: FileIndex) -> bool {
        self.extent(index).is_some_and(|extent| extent.kind == Kind::File)
    }

    /// All entries with their numbers.
    pub fn iter(&self) -> Iter<&Self> {
        self.from(FileIndex(0))
    }

    /// The entries from this number on.
    pub fn from(&self, index: FileIndex) -> Iter<&Self> {
        Iter::start(self, index)
    }

    /// Memory that the entries take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len() + self.groups.len() * size_of::<Group>()
    }

    fn reader_at(&self, group: u32) -> Reader<'_> {
        let Group { at, first_block } = self.groups[group as usize];
        Reader { bytes: &self.bytes, at, block: first_block }
    }

    fn push(&mut self, entry: &Entry, before: &mut Before) {
        if self.length % GROUP == 0 {
            *before = Before::default();
            self.groups.push(Group { at: self.bytes.len(), first_block: self.blocks });
        }
        encode(entry, before, &mut self.bytes);
        entry.path.clone_into(&mut before.path);
        before.mtime_s = entry.mtime_s;
        before.inode = entry.version.inode;
        self.length += 1;
        self.blocks += block_count(entry.size);
        match entry.kind {
            Kind::File => self.totals.files += 1,
            Kind::Directory => self.totals.directories += 1,
            Kind::Symlink => self.totals.symlinks += 1,
        }
        self.totals.bytes += entry.size;
    }
}

/// Writes a listing entry by entry. The order is checked by `ListingBuilder`.
#[derive(Default)]
pub(super) struct Writer {
    listing: Listing,
    before: Before,
}

impl Writer {
    pub(super) fn push(&mut self, entry: &Entry) {
        self.listing.push(entry, &mut self.before);
        // The next entry may start a group; the last path is wanted all the same.
        entry.path.clone_into(&mut self.before.path);
    }

    pub(super) fn last_path(&self) -> Option<&[u8]> {
        (self.listing.length > 0).then_some(&*self.before.path)
    }

    pub(super) fn listing(&self) -> &Listing {
        &self.listing
    }

    pub(super) fn finish(mut self) -> Listing {
        self.listing.bytes.shrink_to_fit();
        self.listing
    }
}

/// Entries in order; `L` is a reference to the listing or shares it.
pub struct Iter<L> {
    listing: L,
    next: u32,
    at: usize,
    block: u64,
    before: Before,
}

impl<L: Deref<Target = Listing>> Iter<L> {
    /// The entries from this number on.
    pub fn start(listing: L, index: FileIndex) -> Self {
        let index = index.0.min(listing.length);
        let mut iter = Self { next: index / GROUP * GROUP, at: 0, block: 0, before: Before::default(), listing };
        while iter.next < index {
            iter.advance();
        }
        iter
    }
}

impl<L: Deref<Target = Listing>> Iterator for Iter<L> {
    type Item = (FileIndex, Entry);

    fn next(&mut self) -> Option<(FileIndex, Entry)> {
        let entry = self.advance()?;
        Some((FileIndex(self.next - 1), Entry { path: self.before.path.clone(), ..entry }))
    }
}

impl<L: Deref<Target = Listing>> Iter<L> {
    /// The next entry without its path, which `before` has.
    fn advance(&mut self) -> Option<Entry> {
        let listing = &*self.listing;
        if self.next >= listing.length {
            return None;
        }
        if self.next % GROUP == 0 {
            let Group { at, first_block } = listing.groups[(self.next / GROUP) as usize];
            (self.at, self.block, self.before) = (at, first_block, Before::default());
        }
        let mut reader = Reader { bytes: &listing.bytes, at: self.at, block: self.block };
        let entry = reader.entry(&mut self.before);
        (self.at, self.block) = (reader.at, reader.block);
        self.next += 1;
        Some(entry)
    }
}

/// Finds entries, cheaply when they are asked for in order.
pub struct Lookup<'a> {
    listing: &'a Listing,
    ahead: Iter<&'a Listing>,
}

impl<'a> Lookup<'a> {
    /// Nothing is decoded yet.
    pub fn new(listing: &'a Listing) -> Self {
        Self { listing, ahead: listing.iter() }
    }

    /// The entry with this number, if there is one.
    pub fn get(&mut self, index: FileIndex) -> Option<Entry> {
        if self.ahead.next != index.0 {
            self.ahead = self.listing.from(index);
        }
        self.ahead.next().map(|(_, entry)| entry)
    }
}

fn encode(entry: &Entry, before: &Before, out: &mut Vec<u8>) {
    let Entry { path, kind, mode, mtime_s, mtime_ns, size, target, version, hole_bytes } = entry;
    let shared = path.iter().zip(&before.path).take_while(|(left, right)| left == right).count();
    let same_time = (version.ctime_s, version.ctime_ns) == (*mtime_s, *mtime_ns);
    let has_version = *version != Version::default();
    let kind = KINDS.iter().position(|known| known == kind).unwrap_or(0) as u64;
    let flag = |set: bool, flag: u64| if set { flag } else { 0 };
    let head = kind
        | flag(*hole_bytes > 0, HAS_HOLES)
        | flag(has_version, HAS_VERSION)
        | flag(same_time, SAME_TIME)
        | u64::from(mode & MODE_MASK) << MODE_SHIFT;
    put(head, out);
    put(*size, out);
    put(shared as u64, out);
    put((path.len() - shared) as u64, out);
    out.extend_from_slice(&path[shared..]);
    put_difference(*mtime_s, before.mtime_s, out);
    put(u64::from(*mtime_ns), out);
    if *hole_bytes > 0 {
        put(*hole_bytes, out);
    }
    if has_version {
        if !same_time {
            put_difference(version.ctime_s, *mtime_s, out);
            put(u64::from(version.ctime_ns), out);
        }
        put_difference(version.inode as i64, before.inode as i64, out);
    }
    if entry.kind == Kind::Symlink {
        put(target.len() as u64, out);
        out.extend_from_slice(target);
    }
}

/// Reads what `encode` wrote; only a listing's own bytes are ever read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Blocks before the next entry.
    block: u64,
}

struct Head {
    kind: Kind,
    flags: u64,
    size: u64,
    shared: usize,
    rest: usize,
}

impl Reader<'_> {
    fn head(&mut self) -> Head {
        let flags = self.number();
        let kind = KINDS[(flags & 3) as usize];
        let size = self.number();
        Head { kind, flags, size, shared: self.number() as usize, rest: self.number() as usize }
    }

    /// An entry without its path, which `before` has then.
    fn entry(&mut self, before: &mut Before) -> Entry {
        let Head { kind, flags, size, shared, rest } = self.head();
        before.path.truncate(shared);
        before.path.extend_from_slice(self.take(rest));
        let mtime_s = self.difference(before.mtime_s);
        let mtime_ns = self.number() as u32;
        let hole_bytes = if flags & HAS_HOLES > 0 { self.number() } else { 0 };
        let mut version = Version::default();
        if flags & HAS_VERSION > 0 {
            (version.ctime_s, version.ctime_ns) = if flags & SAME_TIME > 0 {
                (mtime_s, mtime_ns)
            } else {
                (self.difference(mtime_s), self.number() as u32)
            };
            version.inode = self.difference(before.inode as i64) as u64;
        }
        let mut target = Vec::new();
        if kind == Kind::Symlink {
            let length = self.number() as usize;
            target.extend_from_slice(self.take(length));
        }
        before.mtime_s = mtime_s;
        before.inode = version.inode;
        self.block += block_count(size);
        let mode = (flags >> MODE_SHIFT) as u32;
        Entry { path: Vec::new(), kind, mode, mtime_s, mtime_ns, size, target, version, hole_bytes }
    }

    fn skip(&mut self) -> Extent {
        let Head { kind, flags, size, rest, .. } = self.head();
        self.at += rest;
        let holes = u32::from(flags & HAS_HOLES > 0);
        let version = match (flags & HAS_VERSION > 0, flags & SAME_TIME > 0) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 3,
        };
        for _ in 0..2 + holes + version {
            self.number();
        }
        if kind == Kind::Symlink {
            let length = self.number() as usize;
            self.at += length;
        }
        let first_block = self.block;
        self.block += block_count(size);
        Extent { kind, size, first_block, has_holes: holes > 0 }
    }

    fn take(&mut self, length: usize) -> &[u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn number(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.bytes[self.at];
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }

    fn difference(&mut self, base: i64) -> i64 {
        let zigzag = self.number();
        base.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_difference(value: i64, base: i64, out: &mut Vec<u8>) {
    let difference = value.wrapping_sub(base);
    put(((difference << 1) ^ (difference >> 63)) as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let version = (any::<i64>(), any::<u32>(), any::<u64>(), 0..3u8);
        let sizes =
            (prop_oneof![Just(0), 0..5_000_000u64, any::<u32>().prop_map(|s| u64::from(s) << 8)], any::<bool>());
        (bytes(), 0..3usize, any::<u32>(), any::<i64>(), any::<u32>(), sizes, bytes(), version).prop_map(
            |(path, kind, mode, mtime_s, mtime_ns, (size, holes), target, (ctime_s, ctime_ns, inode, version))| {
                let kind = KINDS[kind];
                let size = if kind == Kind::File { size } else { 0 };
                let version = match version {
                    0 => Version::default(),
                    1 => Version { ctime_s: mtime_s, ctime_ns: mtime_ns, inode },
                    _ => Version { ctime_s, ctime_ns, inode },
                };
                Entry {
                    path,
                    kind,
                    mode: mode & MODE_MASK,
                    mtime_s,
                    mtime_ns,
                    size,
                    target: if kind == Kind::Symlink { target } else { Vec::new() },
                    version,
                    hole_bytes: if holes { size / 2 } else { 0 },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_packed_is_what_was_listed(entries in proptest::collection::vec(entry(), 0..70), jump in 0..80u32) {
            let mut writer = Writer::default();
            entries.iter().for_each(|entry| writer.push(entry));
            let listing = writer.finish();
            prop_assert_eq!(listing.iter().map(|(_, entry)| entry).collect::<Vec<_>>(), entries.clone());
            prop_assert_eq!(listing.get(FileIndex(listing.len())), None);
            prop_assert_eq!(listing.extent(FileIndex(listing.len())), None);
            let (mut first_block, mut lookup) = (0, Lookup::new(&listing));
            for (index, entry) in (0..).map(FileIndex).zip(&entries) {
                prop_assert_eq!(listing.get(index), Some(entry.clone()));
                prop_assert_eq!(listing.extent(index), Some(Extent {
                    kind: entry.kind,
                    size: entry.size,
                    first_block,
                    has_holes: entry.hole_bytes > 0,
                }));
                prop_assert_eq!(lookup.get(index), Some(entry.clone()));
                prop_assert_eq!(lookup.get(FileIndex(jump)), entries.get(jump as usize).cloned());
                prop_assert_eq!(listing.from(index).count(), entries.len() - index.as_usize());
                first_block += block_count(entry.size);
            }
            prop_assert_eq!(listing.blocks(), first_block);
        }
    }

    #[test]
    fn a_million_small_files_take_some_twenty_bytes_each() {
        let mut writer = Writer::default();
        for file in 0..1_000_000u32 {
            let version = Version { ctime_s: 1_700_000_000, ctime_ns: file * 900, inode: 4_000_000 + u64::from(file) };
            writer.push(&Entry {
                path: format!("run-42/part-{:04}/image-{file:08}.dat", file / 1000).into_bytes(),
                kind: Kind::File,
                mode: 0o644,
                mtime_s: 1_700_000_000,
                mtime_ns: file * 900,
                size: 4096,
                target: Vec::new(),
                version,
                hole_bytes: 0,
            });
        }
        let bytes = writer.finish().heap_bytes();
        assert!(bytes < 26_000_000, "{bytes}");
    }
}
