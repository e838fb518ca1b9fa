//! The listing of a tree: entries in one fixed order, so that duplicates and orphans show at once.

mod packed;

use std::cmp::Ordering;

pub use self::packed::{Extent, Iter, Listing, Lookup};

use self::packed::Writer;
use crate::digest::block_count;
use crate::fault::{show, Fault, Reason};
use crate::limits::ENTRIES;
use crate::message::{self, EntryKind};
use crate::name::{check_path, check_target, split};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// What distinguishes two states of a source file besides size and modification time; zero when unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// Time of the last change of content or attributes, whole seconds since 1970.
    pub ctime_s: i64,
    /// Time of the last change, nanoseconds of the second.
    pub ctime_ns: u32,
    /// Inode at the sender.
    pub inode: u64,
}

/// One name of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the root, any bytes but NUL.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits; set-id and sticky bits are masked.
    pub mode: u32,
    /// Modification time, whole seconds since 1970.
    pub mtime_s: i64,
    /// Modification time, nanoseconds of the second.
    pub mtime_ns: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Target of a symbolic link, else empty.
    pub target: Vec<u8>,
    /// State of the source file. Not part of the tree's digest.
    pub version: Version,
    /// Bytes of a regular file that take no space at the sender, 0 if unknown. Not part of the tree's digest.
    pub hole_bytes: u64,
}

/// Permission bits that travel.
pub const MODE_MASK: u32 = 0o777;

impl Entry {
    /// The entry as it travels.
    pub fn to_message(&self) -> message::EntryMessage {
        let kind = match self.kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Symlink => EntryKind::Symlink,
        };
        message::EntryMessage {
            path: self.path.clone(),
            kind: kind as i32,
            mode: self.mode,
            mtime_s: self.mtime_s,
            mtime_ns: self.mtime_ns,
            size: self.size,
            target: self.target.clone(),
            ctime_s: self.version.ctime_s,
            ctime_ns: self.version.ctime_ns,
            inode: self.version.inode,
            hole_bytes: self.hole_bytes,
        }
    }

    /// A checked entry from a peer's message.
    pub fn from_message(entry: message::EntryMessage) -> Result<Self, Fault> {
        check_path(&entry.path).map_err(|error| error.fault(&entry.path))?;
        let shown = || show(&entry.path);
        let kind = match EntryKind::try_from(entry.kind) {
            Ok(EntryKind::File) => Kind::File,
            Ok(EntryKind::Directory) => Kind::Directory,
            Ok(EntryKind::Symlink) => Kind::Symlink,
            _ => return Err(Fault::new(Reason::NameNotAllowed, format!("{} is of an unknown kind", shown()))),
        };
        if kind == Kind::Symlink {
            check_target(&entry.target).map_err(|error| {
                Fault::new(Reason::NameNotAllowed, format!("the target of the symbolic link {} {error}", shown()))
            })?;
        } else if !entry.target.is_empty() {
            return Err(Fault::protocol(format!("{} has a link target but is no link", shown())));
        }
        if entry.hole_bytes > entry.size {
            return Err(Fault::protocol(format!("{} has more holes than bytes", shown())));
        }
        if kind != Kind::File && entry.size != 0 {
            return Err(Fault::protocol(format!("{} has a size but is no file", shown())));
        }
        if block_count(entry.size) > u64::from(u32::MAX) {
            return Err(Fault::protocol(format!("{} is too large", shown())));
        }
        if entry.mtime_ns >= 1_000_000_000 {
            return Err(Fault::protocol(format!("{} has an impossible time", shown())));
        }
        Ok(Self {
            kind,
            mode: entry.mode & MODE_MASK,
            mtime_s: entry.mtime_s,
            mtime_ns: entry.mtime_ns,
            size: entry.size,
            path: entry.path,
            target: entry.target,
            version: Version { ctime_s: entry.ctime_s, ctime_ns: entry.ctime_ns, inode: entry.inode },
            hole_bytes: entry.hole_bytes,
        })
    }
}

/// Order of a listing: component by component, so that a directory directly precedes what it holds.
pub fn compare_paths(left: &[u8], right: &[u8]) -> Ordering {
    left.split(|&b| b == b'/').cmp(right.split(|&b| b == b'/'))
}

/// Totals of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes of all regular files.
    pub bytes: u64,
}

impl Totals {
    /// Entries of every kind.
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.symlinks
    }
}

/// Takes entries in order and refuses duplicates, disorder and children without a directory.
#[derive(Default)]
pub struct ListingBuilder {
    writer: Writer,
    open_directories: Vec<Vec<u8>>,
}

impl ListingBuilder {
    /// Adds the next entry.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Fault> {
        let listing = self.writer.listing();
        if listing.len() as usize >= ENTRIES {
            return Err(Fault::protocol(format!("the listing has more than {ENTRIES} entries")));
        }
        if let Some(last) = self.writer.last_path() {
            match compare_paths(last, &entry.path) {
                Ordering::Less => {}
                Ordering::Equal => {
                    return Err(Fault::new(Reason::NameNotAllowed, format!("{} is listed twice", show(&entry.path))))
                }
                Ordering::Greater => {
                    return Err(Fault::protocol(format!("{} is listed out of order", show(&entry.path))))
                }
            }
        }
        let (parent, _) = split(&entry.path);
        while self.open_directories.last().is_some_and(|open| open != parent) {
            self.open_directories.pop();
        }
        if !parent.is_empty() && self.open_directories.is_empty() {
            return Err(Fault::new(Reason::NameNotAllowed, format!("{} is in no listed directory", show(&entry.path))));
        }
        if listing.totals().bytes.checked_add(entry.size).is_none() {
            return Err(Fault::protocol("the sizes of the listing overflow"));
        }
        if entry.kind == Kind::Directory {
            self.open_directories.push(entry.path.clone());
        }
        self.writer.push(entry);
        Ok(())
    }

    /// Totals so far.
    pub fn totals(&self) -> Totals {
        self.writer.listing().totals()
    }

    /// The entries in order.
    pub fn finish(self) -> Listing {
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        let target = if kind == Kind::Symlink { b"t".to_vec() } else { Vec::new() };
        Entry {
            path: path.into(),
            kind,
            mode: 0o644,
            mtime_s: 0,
            mtime_ns: 0,
            size: 0,
            target,
            version: Version::default(),
            hole_bytes: 0,
        }
    }

    fn build(paths: &[(&str, Kind)]) -> Result<Totals, Reason> {
        let mut builder = ListingBuilder::default();
        for (path, kind) in paths {
            builder.push(&entry(path, *kind)).map_err(|fault| fault.reason)?;
        }
        Ok(builder.totals())
    }

    #[test]
    fn a_listing_is_ordered_without_duplicates_or_orphans() {
        use Kind::{Directory as D, File as F, Symlink as L};
        type Case<'a> = (&'a [(&'a str, Kind)], Result<(), Reason>);
        let table: &[Case<'_>] = &[
            (&[("a", D), ("a/b", D), ("a/b/c", F), ("a/d", F), ("a-b", F), ("e", L)], Ok(())),
            (&[("a", F), ("a", F)], Err(Reason::NameNotAllowed)),
            (&[("a", D), ("a", F)], Err(Reason::NameNotAllowed)),
            (&[("b", F), ("a", F)], Err(Reason::ProtocolError)),
            (&[("a/b", F)], Err(Reason::NameNotAllowed)),
            (&[("a", F), ("a/b", F)], Err(Reason::NameNotAllowed)),
            (&[("a", L), ("a/b", F)], Err(Reason::NameNotAllowed)),
            (&[("a", D), ("b", D), ("b/a/x", F)], Err(Reason::NameNotAllowed)),
        ];
        for (paths, expected) in table {
            assert_eq!(build(paths).map(|_| ()), *expected, "{paths:?}");
        }
    }

    #[test]
    fn hostile_entries_are_refused_and_set_id_bits_masked() {
        let good = entry("a", Kind::File).to_message();
        let refused = |change: fn(&mut message::EntryMessage)| {
            let mut bad = good.clone();
            change(&mut bad);
            Entry::from_message(bad).is_err()
        };
        assert!(refused(|e| e.path = b"../a".to_vec()));
        assert!(refused(|e| e.kind = 0));
        assert!(refused(|e| e.kind = 99));
        assert!(refused(|e| e.kind = EntryKind::Symlink as i32));
        assert!(refused(|e| e.target = b"x".to_vec()));
        assert!(refused(|e| e.mtime_ns = 1_000_000_000));
        assert!(refused(|e| e.size = u64::MAX));
        assert!(refused(|e| e.hole_bytes = 1));
        let mut set_id = good;
        set_id.mode = 0o106755;
        assert_eq!(Entry::from_message(set_id).map(|e| e.mode), Ok(0o755));
    }
}
