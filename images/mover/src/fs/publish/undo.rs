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
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

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
    /// A file or link with this inode came to a name that was free.
    Added(u64),
    /// A file or link with this inode replaced another one, which is kept.
    Replaced(u64),
    /// As `Replaced`, but nothing is kept: the file system has no hard links, or the file is somebody else's.
    Lost,
}

/// What a publication changed so far, in order.
#[derive(Default)]
pub(super) struct Changes {
    names: Vec<(FileIndex, Change)>,
    /// Whether the folder for what was replaced is there.
    has_folder: bool,
}

impl Changes {
    /// Notes that a directory was made.
    pub(super) fn made(&mut self, index: FileIndex) {
        self.names.push((index, Change::Made));
    }

    /// Puts an entry's partial file at its name by `rename`, and keeps what the name led to before.
    pub(super) fn place(
        &mut self,
        partial: &PartialDirectory,
        index: FileIndex,
        (place, name): (&OwnedFd, &[u8]),
        may_replace: bool,
        mut rename: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let inode = rustix::fs::statat(partial.directory(), &*partial.place(index), AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        let kept = if may_replace { self.keep(partial, index, place, name) } else { Ok(false) };
        rename()?;
        let change = match kept {
            Ok(true) => Change::Replaced(inode),
            Ok(false) => Change::Added(inode),
            Err(_) => Change::Lost,
        };
        self.names.push((index, change));
        Ok(())
    }

    /// Keeps what a name leads to; false if there is nothing.
    fn keep(&mut self, partial: &PartialDirectory, index: FileIndex, place: &OwnedFd, name: &[u8]) -> io::Result<bool> {
        let (directory, link) = (partial.directory(), kept_at(partial, index));
        match rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            found => drop(found?),
        }
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
        Ok(true)
    }

    /// Makes every name what it was, the last one first, and says what became of them. Names that somebody else has changed since
    /// stay as they are.
    pub(super) fn take_back(self, root: &Root, partial: &PartialDirectory, listing: &Listing) -> String {
        let Some(count) = Some(self.names.len()).filter(|count| *count > 0) else {
            return "nothing was changed at the destination".to_owned();
        };
        let mut left = Vec::new();
        for (index, change) in self.names.into_iter().rev() {
            let path = listing.entry(index).path;
            if take_back(root, partial, index, &path, change).is_err() {
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

fn take_back(root: &Root, partial: &PartialDirectory, index: FileIndex, path: &[u8], change: Change) -> io::Result<()> {
    let (parent, name) = split(path);
    let place = root.open_directory(parent)?;
    let (directory, slot) = (partial.directory(), partial.place(index));
    match change {
        Change::Made => match rustix::fs::unlinkat(&place, name, AtFlags::REMOVEDIR) {
            // Somebody has put something there, or has removed it.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        },
        Change::Added(inode) if is_at(&place, name, inode) => {
            rustix::fs::renameat(&place, name, directory, &*slot)?;
        }
        Change::Replaced(inode) if is_at(&place, name, inode) => {
            rustix::fs::linkat(&place, name, directory, &*slot, AtFlags::empty())?;
            rustix::fs::renameat(directory, &*kept_at(partial, index), &place, name)?;
        }
        Change::Added(_) | Change::Replaced(_) => {}
        Change::Lost => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}

fn kept_at(partial: &PartialDirectory, index: FileIndex) -> String {
    format!("{REPLACED}/{:x}", partial.slot(index))
}

fn is_at(place: impl AsFd, name: &[u8], inode: u64) -> bool {
    rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| there.st_ino == inode)
}
