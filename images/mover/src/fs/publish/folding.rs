//! Names of a listing that the destination's file system takes for one, as `Makefile` and `makefile` where case does not count.

use std::collections::HashMap;
use std::io;

use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::Listing;
use fairlead_protocol::name::split;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::fs::root::Root;

/// Why an entry is not at its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    /// The file system has refused it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The name leads to another entry of the listing.
    #[error("the name leads to entry {0} of the listing")]
    Shared(FileIndex),
    /// A file that was identical is not what it was.
    #[error("the file was changed")]
    Changed,
}

impl From<Errno> for PlaceError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Entries that are in place, by their inodes. Filled only once something is found at a name: where nothing is, no name leads to two.
#[derive(Default)]
pub(super) struct Inodes(Option<HashMap<u64, FileIndex>>);

impl Inodes {
    /// Notes that an entry is in place, if that is of use yet.
    pub(super) fn add(&mut self, inode: u64, index: FileIndex) {
        if let Some(known) = &mut self.0 {
            known.insert(inode, index);
        }
    }

    /// Refuses what was found at a name if it is another entry. `placed`: all that came to their names so far.
    pub(super) fn check(
        &mut self,
        found: &Stat,
        placed: impl Iterator<Item = (u64, FileIndex)>,
        (root, listing): (&Root, &Listing),
    ) -> Result<(), PlaceError> {
        match self.0.get_or_insert_with(|| placed.collect()).get(&found.st_ino) {
            // An inode may have been given to something else since.
            Some(other) if leads_to(root, &listing.entry(*other).path, found) => Err(PlaceError::Shared(*other)),
            _ => Ok(()),
        }
    }
}

fn leads_to(root: &Root, path: &[u8], found: &Stat) -> bool {
    let (directory, name) = split(path);
    let Ok(place) = root.open_directory(directory) else { return false };
    let there = rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW);
    there.is_ok_and(|there| (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino))
}
