//! From verified partial files to final names: make durable, rename, restore metadata, make the names durable.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use clap::ValueEnum;
use fairlead_protocol::fault::show;
use fairlead_protocol::listing::{Entry, Kind};
use fairlead_protocol::name::split;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{AtFlags, Mode, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::partial::Partial;
use super::root::Root;
use super::survey::{has_target, write_fault, Overwrite};
use crate::fault_injection::crash_point;

/// Up to so many files or directories are synced one by one. Beyond, one `syncfs` of the destination's file system costs less
/// than a journal commit for each, at the price of flushing what others wrote there.
const SYNC_ONE_BY_ONE: usize = 128;

/// What is kept besides the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Preserve {
    Mode,
    ModificationTime,
    /// Nothing: a list on a command line cannot be empty.
    None,
}

/// Everything a publication needs.
pub(crate) struct Publication<'a> {
    pub(crate) root: &'a Root,
    pub(crate) partial: &'a Partial,
    pub(crate) entries: &'a [Entry],
    /// Files that are identical already, in ascending order.
    pub(crate) skip: &'a [u32],
    pub(crate) overwrite: Overwrite,
    /// Whether an interrupted publication may have made some of the links.
    pub(crate) links_claimed: bool,
    pub(crate) preserve: &'a [Preserve],
    /// Told of every entry that is dealt with, to show that work goes on.
    pub(crate) work: &'a dyn Fn(),
}

impl Publication<'_> {
    /// Gives the partial files their final size check and metadata and makes them durable.
    pub(crate) fn make_durable(&self) -> Result<(), Fault> {
        let written: Vec<u32> = self.indices(Kind::File).filter(|index| !self.is_skipped(*index)).collect();
        let one_by_one = written.len() <= SYNC_ONE_BY_ONE;
        for index in written {
            let entry = &self.entries[index as usize];
            self.finish_file(index, entry, one_by_one).map_err(|error| write_fault(&show(&entry.path), &error))?;
            (self.work)();
        }
        if !one_by_one {
            self.sync_file_system()?;
        }
        Ok(())
    }

    fn finish_file(&self, index: u32, entry: &Entry, sync: bool) -> io::Result<()> {
        let file = self.partial.open_entry(index)?;
        let size = file.metadata()?.len();
        if size != entry.size {
            return Err(io::Error::other(format!("its partial file has {size} bytes instead of {}", entry.size)));
        }
        self.set_metadata(&file, entry, Mode::from_raw_mode(0o644))?;
        if sync {
            crash_point();
            file.sync_all()?;
        }
        Ok(())
    }

    fn set_metadata(&self, file: impl AsFd, entry: &Entry, default_mode: Mode) -> io::Result<()> {
        let mode = if self.preserve.contains(&Preserve::Mode) { Mode::from_raw_mode(entry.mode) } else { default_mode };
        crash_point();
        rustix::fs::fchmod(&file, mode)?;
        if self.preserve.contains(&Preserve::ModificationTime) {
            rustix::fs::futimens(&file, &times(entry))?;
        }
        Ok(())
    }

    fn sync_file_system(&self) -> Result<(), Fault> {
        crash_point();
        rustix::fs::syncfs(self.partial.directory()).map_err(|error| write_fault("the destination", &error.into()))
    }

    /// Creates directories and renames files and links to their final names, then makes the names durable.
    pub(crate) fn publish(&self) -> Result<(), Fault> {
        let mut parent: Option<(&[u8], OwnedFd)> = None;
        let mut created = vec![false; self.entries.len()];
        for (index, entry) in self.entries.iter().enumerate() {
            let (directory, name) = split(&entry.path);
            let failed = |error: io::Error| self.name_fault(entry, &error);
            let place = match &parent {
                Some((open, place)) if *open == directory => place,
                _ => &parent.insert((directory, self.root.open_directory(directory).map_err(failed)?)).1,
            };
            match entry.kind {
                Kind::Directory => created[index] = make_directory(place, name).map_err(failed)?,
                Kind::File if self.is_skipped(index as u32) => self.refresh(entry).map_err(failed)?,
                Kind::File => self.rename(index as u32, place, name).map_err(failed)?,
                Kind::Symlink => self.link(index as u32, entry, place, name).map_err(failed)?,
            }
            (self.work)();
        }
        self.finish_directories(&created)?;
        self.partial.clear().map_err(|error| write_fault("the directory for partial files", &error))?;
        crash_point();
        rustix::fs::fsync(self.root).map_err(|error| write_fault("the destination", &error.into()))
    }

    fn rename(&self, index: u32, place: &OwnedFd, name: &[u8]) -> io::Result<()> {
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

    fn link(&self, index: u32, entry: &Entry, place: &OwnedFd, name: &[u8]) -> io::Result<()> {
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
        self.set_metadata(&file, entry, now)
    }

    /// Modes and times of directories, the deepest first since each change touches its parent.
    fn finish_directories(&self, created: &[bool]) -> Result<(), Fault> {
        let one_by_one = self.indices(Kind::Directory).count() <= SYNC_ONE_BY_ONE;
        for index in self.indices(Kind::Directory).collect::<Vec<_>>().into_iter().rev() {
            let entry = &self.entries[index as usize];
            let failed = |error: io::Error| self.name_fault(entry, &error);
            let directory = self.root.open_readable_directory(&entry.path).map_err(failed)?;
            match self.set_metadata(&directory, entry, Mode::from_raw_mode(0o755)) {
                // A directory that was there before and belongs to someone else keeps its mode and time.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !created[index as usize] => {}
                result => result.map_err(failed)?,
            }
            if one_by_one {
                crash_point();
                rustix::fs::fsync(&directory).map_err(|error| failed(error.into()))?;
            }
            (self.work)();
        }
        if !one_by_one {
            self.sync_file_system()?;
        }
        Ok(())
    }

    fn indices(&self, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(self.entries).filter(move |(_, entry)| entry.kind == kind).map(|(index, _)| index)
    }

    fn is_skipped(&self, index: u32) -> bool {
        self.skip.binary_search(&index).is_ok()
    }

    fn name_fault(&self, entry: &Entry, error: &io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
                let text = format!("{} appeared at the destination during the transfer", show(&entry.path));
                Fault::new(Reason::DestinationExists, text)
            }
            _ => write_fault(&show(&entry.path), error),
        }
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

fn times(entry: &Entry) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: entry.mtime_s, tv_nsec: i64::from(entry.mtime_ns) },
    }
}
