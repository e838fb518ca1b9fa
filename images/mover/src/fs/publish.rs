//! From verified partial files to final names: make durable, rename, restore metadata, make the names durable.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Entry, Kind, Listing};
use fairlead_protocol::name::split;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::metadata::{set_metadata, times, Preserve, FILE_MODE};
use super::partial::PartialDirectory;
use super::root::Root;
use super::survey::{has_target, write_fault, Overwrite};
use crate::fault_injection::crash_point;

/// Up to so many files or directories are synced one by one. Beyond, one `syncfs` of the destination's file system costs less
/// than a journal commit for each, at the price of flushing what others wrote there.
const SYNC_ONE_BY_ONE: usize = 128;

/// Everything a publication needs.
pub(crate) struct Publication<'a> {
    pub(crate) root: &'a Root,
    pub(crate) partial: &'a PartialDirectory,
    pub(crate) listing: &'a Listing,
    /// Files that are identical already, in ascending order.
    pub(crate) skip: &'a [FileIndex],
    pub(crate) overwrite: Overwrite,
    /// Whether an interrupted publication may have made some of the links.
    pub(crate) links_claimed: bool,
    pub(crate) preserve: &'a [Preserve],
    /// Called for every entry that is dealt with, to show that work goes on.
    pub(crate) work: &'a dyn Fn(),
}

impl Publication<'_> {
    /// Gives the partial files their final size check and metadata and makes them durable.
    pub(crate) fn make_durable(&self) -> Result<(), Fault> {
        let files = self.listing.totals().files as usize - self.skip.len();
        let one_by_one = files <= SYNC_ONE_BY_ONE;
        let files = self.listing.iter().filter(|(_, entry)| entry.kind == Kind::File);
        let unfinished = |index: FileIndex| !self.is_skipped(index) && (one_by_one || !self.partial.is_finished(index));
        for (index, entry) in files.filter(|(index, _)| unfinished(*index)) {
            self.finish_file(index, &entry, one_by_one).map_err(|error| write_fault(&show(&entry.path), &error))?;
            (self.work)();
        }
        if !one_by_one {
            self.sync_file_system()?;
        }
        Ok(())
    }

    fn finish_file(&self, index: FileIndex, entry: &Entry, sync: bool) -> io::Result<()> {
        let file = self.partial.open_entry(index)?;
        let size = file.metadata()?.len();
        if size != entry.size {
            return Err(io::Error::other(format!("its partial file has {size} bytes instead of {}", entry.size)));
        }
        set_metadata(&file, entry, self.preserve, FILE_MODE)?;
        if sync {
            crash_point();
            file.sync_all()?;
        }
        Ok(())
    }

    fn sync_file_system(&self) -> Result<(), Fault> {
        crash_point();
        rustix::fs::syncfs(self.partial.directory()).map_err(|error| write_fault("the destination", &error.into()))
    }

    /// Creates directories and renames files and links to their final names, then makes the names durable.
    pub(crate) fn publish(&self) -> Result<(), Fault> {
        let mut parent: Option<(Vec<u8>, OwnedFd)> = None;
        // Directories in order: number, and whether this publication made it.
        let mut directories = Vec::new();
        for (index, entry) in self.listing.iter() {
            let (directory, name) = split(&entry.path);
            let failed = |error: io::Error| name_fault(&entry, &error);
            let place = match &parent {
                Some((open, place)) if *open == directory => place,
                _ => {
                    let place = self.root.open_directory(directory).map_err(failed)?;
                    &parent.insert((directory.to_vec(), place)).1
                }
            };
            match entry.kind {
                Kind::Directory => directories.push((index, make_directory(place, name).map_err(failed)?)),
                Kind::File if self.is_skipped(index) => self.refresh(&entry).map_err(failed)?,
                Kind::File => self.rename(index, place, name).map_err(failed)?,
                Kind::Symlink => self.link(index, &entry, place, name).map_err(failed)?,
            }
            (self.work)();
        }
        self.finish_directories(&directories)?;
        self.partial.clear().map_err(|error| write_fault("the directory for partial files", &error))?;
        crash_point();
        rustix::fs::fsync(self.root).map_err(|error| write_fault("the destination", &error.into()))
    }

    fn rename(&self, index: FileIndex, place: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let (from, partial) = (self.partial.place(index), self.partial.directory());
        let flags = match self.overwrite {
            Overwrite::Never => RenameFlags::NOREPLACE,
            Overwrite::IfDifferent | Overwrite::Always => RenameFlags::empty(),
        };
        crash_point();
        match rustix::fs::renameat_with(partial, from.as_bytes(), place, name, flags) {
            // Some network file systems lack NOREPLACE; a hard link refuses to replace as well.
            Err(Errno::INVAL | Errno::NOSYS) if self.overwrite == Overwrite::Never => {
                rustix::fs::linkat(partial, from.as_bytes(), place, name, AtFlags::empty())?;
                crash_point();
                rustix::fs::unlinkat(partial, from.as_bytes(), AtFlags::empty())?;
                Ok(())
            }
            result => Ok(result?),
        }
    }

    fn link(&self, index: FileIndex, entry: &Entry, place: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let partial = self.partial.directory();
        if self.links_claimed && has_target(place, name, &entry.target) {
            return Ok(());
        }
        let from = self.partial.place(index);
        crash_point();
        rustix::fs::symlinkat(&*entry.target, partial, from.as_bytes())?;
        if self.preserve.contains(&Preserve::ModificationTime) {
            rustix::fs::utimensat(partial, from.as_bytes(), &times(entry), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.rename(index, place, name)
    }

    fn refresh(&self, entry: &Entry) -> io::Result<()> {
        let file: File = self.root.open_file(&entry.path)?;
        let now = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode & 0o7777);
        set_metadata(&file, entry, self.preserve, now)
    }

    /// Modes and times of directories, the deepest first since each change touches its parent; then all are synced, so that the
    /// file system's journal is committed once and not after each change.
    fn finish_directories(&self, directories: &[(FileIndex, bool)]) -> Result<(), Fault> {
        let one_by_one = directories.len() <= SYNC_ONE_BY_ONE;
        let mut unsynced = Vec::new();
        for (index, created) in directories.iter().rev() {
            let entry = self.listing.entry(*index);
            let failed = |error: io::Error| name_fault(&entry, &error);
            let directory = self.root.open_readable_directory(&entry.path).map_err(failed)?;
            match set_metadata(&directory, &entry, self.preserve, Mode::from_raw_mode(0o755)) {
                // A directory that was there before and belongs to someone else keeps its mode and time.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !created => {}
                result => result.map_err(failed)?,
            }
            if one_by_one {
                unsynced.push((directory, entry));
            }
            (self.work)();
        }
        if !one_by_one {
            return self.sync_file_system();
        }
        unsynced.iter().try_for_each(|(directory, entry)| {
            crash_point();
            rustix::fs::fsync(directory).map_err(|error| name_fault(entry, &error.into()))
        })
    }

    fn is_skipped(&self, index: FileIndex) -> bool {
        self.skip.binary_search(&index).is_ok()
    }
}

fn name_fault(entry: &Entry, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            let text = format!("{} appeared at the destination during the transfer", show(&entry.path));
            Fault::new(Reason::DestinationExists, text)
        }
        _ => write_fault(&show(&entry.path), error),
    }
}

fn make_directory(place: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    crash_point();
    match rustix::fs::mkdirat(place, name, Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
