//! Taking a publication back that cannot be finished: every name becomes what it was.
//!
//! What a name led to before is kept as a hard link in the partial directory until the publication is over, so that it can be put
//! back in one step. A crash needs none of this: the next attempt finishes what was verified.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::Listing;
use fairlead_protocol::name::split;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::folding::{Inodes, PlaceError};
use super::Publication;
use crate::fault_injection::crash_point;
use crate::fs::partial::PartialDirectory;
use crate::fs::root::Root;

/// Folder in the partial directory for what was replaced.
const REPLACED: &str = "replaced";
/// Names that a message gives of those that could not be taken back.
const NAMED: usize = 3;

/// What a publication did to one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A directory was made.
    Made,
    /// A file or link came to a name that was free.
    Added,
    /// A file or link replaced another one, which is kept.
    Replaced,
    /// As `Replaced`, but nothing is kept: the file system has no hard links, or the file is somebody else's.
    Lost,
}

/// A name that was changed, and the inode that it leads to since.
struct ChangedName {
    index: FileIndex,
    change: Change,
    inode: u64,
}

/// What a publication changed so far, in order.
#[derive(Default)]
pub(super) struct Changes {
    names: Vec<ChangedName>,
    inodes: Inodes,
    /// Whether the folder for what was replaced is there.
    has_folder: bool,
}

impl Changes {
    /// Notes that a directory was made.
    pub(super) fn made(&mut self, index: FileIndex, directory: &Stat) {
        self.note(index, Change::Made, directory.st_ino);
    }

    /// Notes that what was found at an entry's name stays: a directory, or an identical file.
    pub(super) fn stays(&mut self, of: &Publication<'_>, index: FileIndex, found: &Stat) -> Result<(), PlaceError> {
        // With hard links several names lead to one file, whatever the file system makes of names.
        if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink > 1 {
            return Ok(());
        }
        self.tell_apart(of, found)?;
        self.inodes.add(found.st_ino, index);
        Ok(())
    }

    /// Puts an entry's partial file at its name by `rename`, and keeps what the name led to before.
    pub(super) fn place(
        &mut self,
        of: &Publication<'_>,
        index: FileIndex,
        (place, name): (&OwnedFd, &[u8]),
        mut rename: impl FnMut() -> io::Result<()>,
    ) -> Result<(), PlaceError> {
        let (directory, partial) = (of.partial.directory(), of.partial.place(index));
        let inode = rustix::fs::statat(directory, &*partial, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        let found = if of.may_replace() { look(place, name) } else { Ok(None) };
        let kept = match found {
            Ok(Some(found)) => {
                self.tell_apart(of, &found)?;
                self.keep(of.partial, index, place, name).map(|()| Change::Replaced)
            }
            Ok(None) => Ok(Change::Added),
            Err(error) => Err(error),
        };
        if let Err(error) = rename() {
            if let (io::ErrorKind::AlreadyExists, Ok(Some(found))) = (error.kind(), look(place, name)) {
                self.tell_apart(of, &found)?;
            }
            return Err(error.into());
        }
        self.note(index, kept.unwrap_or(Change::Lost), inode);
        Ok(())
    }

    fn note(&mut self, index: FileIndex, change: Change, inode: u64) {
        self.names.push(ChangedName { index, change, inode });
        self.inodes.add(inode, index);
    }

    /// Refuses to take what was found at a name for something that was there before if it is another entry of the listing.
    fn tell_apart(&mut self, of: &Publication<'_>, found: &Stat) -> Result<(), PlaceError> {
        let placed = self.names.iter().map(|name| (name.inode, name.index));
        self.inodes.check(found, placed, (of.root, of.listing))
    }

    /// Keeps what a name leads to.
    fn keep(&mut self, partial: &PartialDirectory, index: FileIndex, place: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let (directory, link) = (partial.directory(), kept_at(partial, index));
        if !self.has_folder {
            crash_point();
            match rustix::fs::mkdirat(directory, REPLACED, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => self.has_folder = true,
                Err(error) => return Err(error.into()),
            }
        }
        crash_point();
        match rustix::fs::linkat(place, name, directory, &*link, AtFlags::empty()) {
            // Of an interrupted publication of the same name.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(directory, &*link, AtFlags::empty())?;
                rustix::fs::linkat(place, name, directory, &*link, AtFlags::empty())?;
            }
            linked => linked?,
        }
        Ok(())
    }

    /// Makes every name what it was, the last one first, and says what became of them. Names that somebody else has changed since
    /// stay as they are.
    pub(super) fn take_back(self, root: &Root, partial: &PartialDirectory, listing: &Listing) -> String {
        let Some(count) = Some(self.names.len()).filter(|count| *count > 0) else {
            return "nothing was changed at the destination".to_owned();
        };
        let mut left = Vec::new();
        for name in self.names.into_iter().rev() {
            let path = listing.entry(name.index).path;
            if take_back(root, partial, &path, &name).is_err() {
                left.push(show(&path));
            }
        }
        if left.is_empty() {
            return format!("the {count} names that were in place already are again what they were before");
        }
        left.reverse();
        let (more, named) = (left.len().saturating_sub(NAMED), left.iter().take(NAMED).cloned().collect::<Vec<_>>());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "of the {count} names that were in place already {} could not be taken back and are as the source has them: {}{more}",
            left.len(),
            named.join(", ")
        )
    }
}

fn take_back(root: &Root, partial: &PartialDirectory, path: &[u8], changed: &ChangedName) -> io::Result<()> {
    let ChangedName { index, change, inode } = *changed;
    let (parent, name) = split(path);
    let place = root.open_directory(parent)?;
    let (directory, slot) = (partial.directory(), partial.place(index));
    match change {
        Change::Made => match rustix::fs::unlinkat(&place, name, AtFlags::REMOVEDIR) {
            // Somebody has put something there, or has removed it.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        },
        Change::Added if is_at(&place, name, inode) => {
            rustix::fs::renameat(&place, name, directory, &*slot)?;
        }
        Change::Replaced if is_at(&place, name, inode) => {
            rustix::fs::linkat(&place, name, directory, &*slot, AtFlags::empty())?;
            rustix::fs::renameat(directory, &*kept_at(partial, index), &place, name)?;
        }
        Change::Added | Change::Replaced => {}
        Change::Lost => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}

/// What a name leads to, if there is something.
fn look(place: &OwnedFd, name: &[u8]) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn kept_at(partial: &PartialDirectory, index: FileIndex) -> String {
    format!("{REPLACED}/{:x}", partial.slot(index))
}

fn is_at(place: impl AsFd, name: &[u8], inode: u64) -> bool {
    rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| there.st_ino == inode)
}
