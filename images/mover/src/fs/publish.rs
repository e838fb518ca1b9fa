//! From verified partial files to final names: make durable, rename, restore metadata, make the names durable.

mod folding;
mod undo;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Entry, Kind, Listing};
use fairlead_protocol::name::split;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{Access, AtFlags, FileType, Mode, RenameFlags, Stat};
use rustix::io::Errno;

use self::folding::PlaceError;
use self::undo::Changes;
use super::metadata::{set_metadata, times, FileState, Preserve, FILE_MODE};
use super::partial::PartialDirectory;
use super::root::Root;
use super::survey::{has_target, write_fault, Overwrite};
use crate::fault_injection::{crash_point, hang_point};

/// Up to so many files or directories are synced one by one. Beyond, one `syncfs` of the destination's file system costs less
/// than a journal commit for each, at the price of flushing what others wrote there.
const SYNC_ONE_BY_ONE: usize = 128;

/// Mode of a new directory of which the mode is not kept.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// Bits of a mode that do not travel: a directory has those that it was given at the destination, or takes from the one above it.
const SPECIAL: Mode = Mode::SUID.union(Mode::SGID).union(Mode::SVTX);
/// What a directory's owner needs to change names in it.
const WRITABLE: Mode = Mode::WUSR.union(Mode::XUSR);

/// Everything a publication needs.
pub(crate) struct Publication<'a> {
    pub(crate) root: &'a Root,
    pub(crate) partial: &'a PartialDirectory,
    pub(crate) listing: &'a Listing,
    /// Files that are identical already, in ascending order.
    pub(crate) skip: &'a [FileIndex],
    /// What files were like when they were compared, in ascending order of the files; all of `skip` are among them.
    pub(crate) states: &'a [(FileIndex, FileState)],
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

    /// Creates directories and renames files and links to their final names, then makes the names durable. A publication that
    /// fails on the way is taken back; the message says what became of it.
    pub(crate) fn publish(&self) -> Result<(), Fault> {
        hang_point("PUBLISH");
        let mut done = Done::default();
        let placed = self
            .check_identical()
            .and_then(|()| self.put_in_place(&mut done))
            .and_then(|directories| self.finish_directories(&directories, &done));
        if let Err(fault) = placed {
            let outcome = done.changes.take_back(self.root, self.partial, self.listing);
            for (path, mode) in &done.opened_up {
                if let Err(error) = self.set_mode(path, *mode) {
                    tracing::warn!(directory = %show(path), %error, "the mode of the directory was not restored");
                }
            }
            return Err(Fault {
                retry: fault.retry,
                ..Fault::new(fault.reason, format!("{}; {outcome}", fault.message))
            });
        }
        self.partial.clear(self.work).map_err(|error| write_fault("the directory for partial files", &error))?;
        crash_point();
        rustix::fs::fsync(self.root).map_err(|error| write_fault("the destination", &error.into()))
    }

    /// Refuses what was changed since it was compared, before any name is.
    fn check_identical(&self) -> Result<(), Fault> {
        for index in self.skip {
            let entry = self.listing.entry(*index);
            match rustix::fs::statat(self.root, &*entry.path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if self.is_unchanged(*index, &stat) => (self.work)(),
                Ok(_) | Err(Errno::NOENT) => return Err(changed(&entry)),
                Err(error) => return Err(write_fault(&show(&entry.path), &error.into())),
            }
        }
        Ok(())
    }

    fn is_unchanged(&self, index: FileIndex, stat: &Stat) -> bool {
        let place = self.states.binary_search_by_key(&index, |(file, _)| *file);
        place.is_ok_and(|place| self.states[place].1 == FileState::of(stat))
    }

    /// The directories of the listing in order: number, and whether this publication made it.
    fn put_in_place(&self, done: &mut Done) -> Result<Vec<(FileIndex, bool)>, Fault> {
        let mut parent: Option<Place> = None;
        let mut directories = Vec::new();
        for (index, entry) in self.listing.iter() {
            let (directory, name) = split(&entry.path);
            let failed = |error: io::Error| name_fault(&entry, &error);
            let refused = |error: PlaceError| match error {
                PlaceError::Io(error) => failed(error),
                PlaceError::Shared(other) => shared(&entry, &self.listing.entry(other)),
                PlaceError::Changed => changed(&entry),
            };
            let place = match &parent {
                Some(place) if place.path == directory => place,
                _ => {
                    let open = self.root.open_directory(directory).map_err(failed)?;
                    parent.insert(Place { path: directory.to_vec(), open })
                }
            };
            match entry.kind {
                Kind::Directory => {
                    let created = self.make_directory(index, place, name, done).map_err(refused)?;
                    directories.push((index, created));
                }
                Kind::File if self.is_skipped(index) => self.refresh(index, &entry, done).map_err(refused)?,
                Kind::File => self.rename(index, place, name, done).map_err(refused)?,
                Kind::Symlink => self.link(index, &entry, place, name, done).map_err(refused)?,
            }
            (self.work)();
        }
        Ok(directories)
    }

    fn may_replace(&self) -> bool {
        self.overwrite != Overwrite::Never
    }

    fn rename(&self, index: FileIndex, place: &Place, name: &[u8], done: &mut Done) -> Result<(), PlaceError> {
        let (from, partial) = (self.partial.place(index), self.partial.directory());
        let may_replace = self.may_replace();
        let flags = if may_replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let rename = || {
            crash_point();
            match rustix::fs::renameat_with(partial, from.as_bytes(), &place.open, name, flags) {
                // Some network file systems lack NOREPLACE; a hard link refuses to replace as well.
                Err(Errno::INVAL | Errno::NOSYS) if !may_replace => {
                    rustix::fs::linkat(partial, from.as_bytes(), &place.open, name, AtFlags::empty())?;
                    crash_point();
                    Ok(rustix::fs::unlinkat(partial, from.as_bytes(), AtFlags::empty())?)
                }
                result => Ok(result?),
            }
        };
        let opened_up = &mut done.opened_up;
        let rename = || self.writing_in(place, opened_up, rename);
        done.changes.place(self, index, (&place.open, name), rename)
    }

    fn link(
        &self,
        index: FileIndex,
        entry: &Entry,
        place: &Place,
        name: &[u8],
        done: &mut Done,
    ) -> Result<(), PlaceError> {
        let partial = self.partial.directory();
        if self.links_claimed && has_target(&place.open, name, &entry.target) {
            return Ok(());
        }
        let from = self.partial.place(index);
        crash_point();
        rustix::fs::symlinkat(&*entry.target, partial, from.as_bytes())?;
        if self.preserve.contains(&Preserve::ModificationTime) {
            rustix::fs::utimensat(partial, from.as_bytes(), &times(entry), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.rename(index, place, name, done)
    }

    /// Makes a directory; false if it is there already.
    fn make_directory(
        &self,
        index: FileIndex,
        place: &Place,
        name: &[u8],
        done: &mut Done,
    ) -> Result<bool, PlaceError> {
        // Where it has its final mode at once, a publication that finishes an interrupted one need not know who made it.
        let mode = if self.preserve.contains(&Preserve::Mode) { Mode::RWXU } else { DIRECTORY_MODE };
        let created = self.writing_in(place, &mut done.opened_up, || {
            crash_point();
            match rustix::fs::mkdirat(&place.open, name, mode) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })?;
        let there = rustix::fs::statat(&place.open, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if created {
            done.changes.made(index, &there);
        } else {
            done.changes.stays(self, index, &there)?;
        }
        Ok(created)
    }

    /// Changes a name in a directory. If only the mode of the mover's own directory forbids that, it is changed until the publication
    /// is over, as rsync does it.
    fn writing_in<T>(
        &self,
        place: &Place,
        opened_up: &mut BTreeMap<Vec<u8>, Mode>,
        change: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        match change() {
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && may_be_opened_up(self.root, &place.path) =>
            {
                let stat = rustix::fs::statat(self.root, &*place.path, AtFlags::SYMLINK_NOFOLLOW)?;
                let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
                crash_point();
                self.set_mode(&place.path, mode | WRITABLE)?;
                opened_up.entry(place.path.clone()).or_insert(mode);
                change()
            }
            result => result,
        }
    }

    fn set_mode(&self, directory: &[u8], mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self.root.open_readable_directory(directory)?, mode)?)
    }

    fn refresh(&self, index: FileIndex, entry: &Entry, done: &mut Done) -> Result<(), PlaceError> {
        let file: File = self.root.open_file(&entry.path)?;
        let stat = rustix::fs::fstat(&file)?;
        done.changes.stays(self, index, &stat)?;
        // With hard links this publication itself may have changed the file's times under another name.
        if stat.st_nlink == 1 && !self.is_unchanged(index, &stat) {
            return Err(PlaceError::Changed);
        }
        set_metadata(&file, entry, self.preserve, mode_of(&file)?)?;
        if self.skip.len() <= SYNC_ONE_BY_ONE {
            // Whoever wrote it may have left its content to the kernel.
            crash_point();
            file.sync_all()?;
        }
        Ok(())
    }

    /// Modes and times of directories, the deepest first since each change touches its parent; then all are synced, so that the
    /// file system's journal is committed once and not after each change. So are the identical files, where they are many.
    fn finish_directories(&self, directories: &[(FileIndex, bool)], done: &Done) -> Result<(), Fault> {
        let one_by_one = directories.len().max(self.skip.len()) <= SYNC_ONE_BY_ONE;
        let mut unsynced = Vec::new();
        for (index, created) in directories.iter().rev() {
            let mut entry = self.listing.entry(*index);
            let failed = |error: io::Error| name_fault(&self.listing.entry(*index), &error);
            let directory = self.root.open_readable_directory(&entry.path).map_err(failed)?;
            let own = mode_of(&directory).map_err(failed)?;
            let special = own.intersection(SPECIAL);
            let mode = match done.opened_up.get(&entry.path) {
                Some(mode) => *mode,
                None if *created => DIRECTORY_MODE.union(special),
                None => own,
            };
            entry.mode |= special.as_raw_mode();
            match set_metadata(&directory, &entry, self.preserve, mode) {
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

/// The mode that an open file or directory has.
fn mode_of(open: impl AsFd) -> io::Result<Mode> {
    Ok(Mode::from_raw_mode(rustix::fs::fstat(open)?.st_mode & 0o7777))
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

/// The fault for a file that was identical and is not what it was.
fn changed(entry: &Entry) -> Fault {
    let text = format!(
        "{} was changed at the destination after it had been found identical; keep others from writing there, another attempt compares it again",
        show(&entry.path)
    );
    Fault { retry: true, ..Fault::new(Reason::DestinationExists, text) }
}

/// The fault for an entry whose name leads to another one.
fn shared(entry: &Entry, other: &Entry) -> Fault {
    let (name, other) = (show(&entry.path), show(&other.path));
    let text = format!(
        "{name} and {other} are one name at the destination, as on a file system that takes upper and lower case for the same; rename or exclude one of them, or choose another volume"
    );
    Fault::new(Reason::NameNotAllowed, text)
}

/// A directory whose names are being changed.
struct Place {
    path: Vec<u8>,
    open: OwnedFd,
}

/// What a publication did so far.
#[derive(Default)]
struct Done {
    changes: Changes,
    /// Directories that were made writable for the time of the publication, with the mode that they had.
    opened_up: BTreeMap<Vec<u8>, Mode>,
}

/// Whether a directory of the mover's own keeps it from changing names only by its mode. Not asked of the destination itself, whose
/// mode is for whoever made it.
pub(crate) fn may_be_opened_up(root: &Root, directory: &[u8]) -> bool {
    if directory.is_empty() {
        return false;
    }
    let Ok(stat) = rustix::fs::statat(root, directory, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let denied = rustix::fs::accessat(root, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    denied == Err(Errno::ACCESS)
        && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && !Mode::from_raw_mode(stat.st_mode).contains(WRITABLE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::fs::samples::listing_of;

    /// Publishes empty files and directories; `work` comes after each of them.
    fn publish(
        folder: &Path,
        overwrite: Overwrite,
        listing: &Listing,
        skip: &[FileIndex],
        work: &dyn Fn(),
    ) -> Result<(), Fault> {
        let root = &Root::open(folder).unwrap();
        let (partial, _) = &PartialDirectory::open(root, "job", 1).unwrap();
        partial.prepare((0..listing.len()).collect()).unwrap();
        for (index, entry) in listing.iter() {
            if entry.kind == Kind::File && skip.binary_search(&index).is_err() {
                partial.open_entry(index).unwrap();
            }
        }
        let state = |index: &FileIndex| {
            let path = listing.entry(*index).path;
            (*index, FileState::of(&rustix::fs::statat(root, &*path, AtFlags::SYMLINK_NOFOLLOW).unwrap()))
        };
        let (links_claimed, preserve) = (false, &[][..]);
        let states = &skip.iter().map(state).collect::<Vec<_>>();
        Publication { root, partial, listing, skip, states, overwrite, links_claimed, preserve, work }.publish()
    }

    fn assert_shared(fault: &Fault, names: [&str; 2]) {
        assert_eq!((fault.reason, fault.retry), (Reason::NameNotAllowed, false), "{fault}");
        assert!(names.iter().all(|name| fault.message.contains(&format!("\"{name}\""))), "{fault}");
        assert!(fault.message.contains("again what they were before"), "{fault}");
    }

    /// No file system of a build machine folds names; here one name is made to lead to where the other one does once that is in place.
    #[test]
    fn files_of_which_the_destination_folds_the_names_are_refused_and_taken_back() {
        for overwrite in [Overwrite::Never, Overwrite::IfDifferent, Overwrite::Always] {
            let folder = tempfile::tempdir().unwrap();
            let [first, second] = ["Makefile", "makefile"].map(|name| folder.path().join(name));
            let fold = || drop(std::fs::hard_link(&first, &second));
            let both = listing_of(&[("Makefile", Kind::File), ("makefile", Kind::File)], 0);
            let fault = publish(folder.path(), overwrite, &both, &[], &fold).unwrap_err();
            assert_shared(&fault, ["Makefile", "makefile"]);
            assert!(!first.exists());
        }
    }

    #[test]
    fn a_file_that_stays_is_not_replaced_under_another_name_of_the_listing() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["Makefile", "makefile"].map(|name| folder.path().join(name));
        std::fs::write(&first, "same").unwrap();
        let dealt_with = std::cell::Cell::new(0);
        // The first call only says that the file is what it was.
        let fold = || {
            if dealt_with.replace(dealt_with.get() + 1) > 0 {
                drop(std::fs::hard_link(&first, &second));
            }
        };
        let both = listing_of(&[("Makefile", Kind::File), ("makefile", Kind::File)], 0);
        let fault = publish(folder.path(), Overwrite::IfDifferent, &both, &[FileIndex(0)], &fold).unwrap_err();
        assert_eq!(fault.reason, Reason::NameNotAllowed, "{fault}");
        assert_eq!(std::fs::read(&first).unwrap(), b"same");
    }

    #[test]
    fn an_identical_file_that_is_changed_meanwhile_is_named_and_left_alone() {
        // Before the publication, and in the course of it.
        for change_at in [0, 2] {
            let folder = tempfile::tempdir().unwrap();
            let [one, two] = ["a", "b"].map(|name| folder.path().join(name));
            [&one, &two].iter().for_each(|path| std::fs::write(path, "same").unwrap());
            let dealt_with = std::cell::Cell::new(0);
            let change = || {
                if dealt_with.replace(dealt_with.get() + 1) == change_at {
                    std::fs::write(&two, "mine").unwrap();
                }
            };
            let both = listing_of(&[("a", Kind::File), ("b", Kind::File)], 4);
            let skip = [FileIndex(0), FileIndex(1)];
            let fault = publish(folder.path(), Overwrite::IfDifferent, &both, &skip, &change).unwrap_err();
            assert_eq!((fault.reason, fault.retry), (Reason::DestinationExists, true), "{fault}");
            assert!(fault.message.starts_with("\"b\" was changed"), "{fault}");
            assert_eq!(std::fs::read(&two).unwrap(), b"mine");
        }
    }

    /// Whoever gives one name its time changes what the other name shows.
    #[test]
    fn identical_files_that_are_one_by_hard_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&one, "same").unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        let both = listing_of(&[("a", Kind::File), ("b", Kind::File)], 4);
        let skip = [FileIndex(0), FileIndex(1)];
        assert_eq!(publish(folder.path(), Overwrite::IfDifferent, &both, &skip, &|| {}), Ok(()));
    }

    #[test]
    fn directories_of_which_the_destination_folds_the_names_are_not_merged() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["Dir", "dir"].map(|name| folder.path().join(name));
        let fold = || {
            if std::fs::create_dir(&second).is_ok() {
                let bound = Command::new("mount").arg("--bind").args([&first, &second]).status();
                assert!(bound.is_ok_and(|status| status.success()), "this needs root");
            }
        };
        let both = listing_of(&[("Dir", Kind::Directory), ("dir", Kind::Directory)], 0);
        let published = publish(folder.path(), Overwrite::Never, &both, &[], &fold);
        assert!(Command::new("umount").arg(&second).status().unwrap().success());
        assert_shared(&published.unwrap_err(), ["Dir", "dir"]);
        assert!(!first.exists());
    }
}
