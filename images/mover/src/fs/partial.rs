//! Partial files: `.fairlead-<job>/` beneath the destination, where blocks land until everything is verified.

mod large;
pub(crate) mod ledger_file;
pub(crate) mod ledger_writer;
pub(crate) mod recovery;
mod writer;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::ledger::{LedgerContents, Record};
use fairlead_protocol::limits::RESERVED_PREFIX;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use self::ledger_file::LedgerFile;
use super::root::{remove_children, remove_tree, Root};
use super::survey::write_fault;
use crate::fault_injection::crash_point;

pub(crate) use self::writer::BlockWriter;

/// Files a shard directory holds: enough to need few directories, few enough for any file system.
const SHARD_FILES: u32 = 4096;
/// Time that an earlier attempt has to notice that it is over.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(10);
const TAKEOVER_POLL: Duration = Duration::from_millis(50);

/// Name of a job's partial directory.
pub(crate) fn directory_name(job: &str) -> Vec<u8> {
    [RESERVED_PREFIX, job.as_bytes()].concat()
}

/// A job's partial directory, held by this process alone.
pub(crate) struct PartialDirectory {
    directory: Root,
    name: Vec<u8>,
    ledger: LedgerFile,
    /// Which partial file belongs to which entry of the listing, once that is known.
    slots: OnceLock<Vec<u32>>,
    /// Entries whose partial file has its size, mode and time: one bit each.
    finished: OnceLock<Vec<AtomicU64>>,
    used: AtomicBool,
}

impl PartialDirectory {
    /// Takes the partial directory over from earlier attempts, with the contents of their ledger, or starts an empty one.
    pub(crate) fn open(root: &Root, job: &str, attempt: u32) -> Result<(Self, LedgerContents), Fault> {
        let name = directory_name(job);
        let failed =
            |error: io::Error| write_fault(&format!("the directory for partial files {}", show(&name)), &error);
        let directory = take(root, &name, job, attempt)?;
        if let Some((ledger, book)) = LedgerFile::open(&directory, job).map_err(failed)? {
            if book.attempt > attempt {
                let text = format!(
                    "attempt {} of the job has taken the partial files over; attempt {attempt} must not touch them",
                    book.attempt
                );
                return Err(Fault::new(Reason::Superseded, text));
            }
            if book.attempt < attempt {
                ledger.append_durably(&[Record::Attempt(attempt)])?;
            }
            let used = AtomicBool::new(book.files().next().is_some() || book.verified.is_some());
            return Ok((
                Self { directory, name, ledger, slots: OnceLock::new(), finished: OnceLock::new(), used },
                book,
            ));
        }
        remove_children(&directory).map_err(failed)?;
        let ledger = LedgerFile::create(&directory, job, attempt).map_err(failed)?;
        crash_point();
        rustix::fs::fsync(root).map_err(|error| failed(error.into()))?;
        let used = AtomicBool::new(false);
        Ok((
            Self { directory, name, ledger, slots: OnceLock::new(), finished: OnceLock::new(), used },
            LedgerContents::default(),
        ))
    }

    /// Makes the shard directories for the slots of a listing's entries. To be called once.
    pub(crate) fn prepare(&self, slots: Vec<u32>) -> Result<(), Fault> {
        self.used.store(true, Ordering::Relaxed);
        let mut shards: Vec<u32> = slots.iter().map(|slot| slot / SHARD_FILES).collect();
        shards.sort_unstable();
        shards.dedup();
        let failed = |error: Errno| write_fault("the directory for partial files", &error.into());
        for shard in shards {
            crash_point();
            match rustix::fs::mkdirat(&self.directory, format!("{shard:x}"), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        crash_point();
        rustix::fs::fsync(&self.directory).map_err(failed)?;
        let _ = self.finished.set((0..slots.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
        let _ = self.slots.set(slots);
        Ok(())
    }

    /// Notes that an entry's partial file needs nothing more but to be made durable.
    pub(super) fn finish(&self, index: FileIndex) {
        if let Some(word) = self.finished.get().and_then(|words| words.get(index.as_usize() / 64)) {
            word.fetch_or(1 << (index.0 % 64), Ordering::AcqRel);
        }
    }

    /// Whether an entry's partial file needs nothing more but to be made durable.
    pub(crate) fn is_finished(&self, index: FileIndex) -> bool {
        let word = self.finished.get().and_then(|words| words.get(index.as_usize() / 64));
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (index.0 % 64) & 1 == 1)
    }

    /// The open directory.
    pub(crate) fn directory(&self) -> &Root {
        &self.directory
    }

    /// The ledger of what the partial files hold.
    pub(crate) fn ledger(&self) -> &LedgerFile {
        &self.ledger
    }

    /// The partial file of the entry with this index.
    pub(crate) fn slot(&self, index: FileIndex) -> u32 {
        self.slots.get().and_then(|slots| slots.get(index.as_usize())).copied().unwrap_or(index.0)
    }

    /// Where the entry with this index lies, relative to the directory.
    pub(crate) fn place(&self, index: FileIndex) -> String {
        place(self.slot(index))
    }

    /// Opens the partial file of an entry and creates it if it is missing.
    pub(crate) fn open_entry(&self, index: FileIndex) -> io::Result<File> {
        crash_point();
        self.open_slot(self.slot(index), OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a partial file.
    pub(crate) fn open_slot(&self, slot: u32, flags: OFlags) -> io::Result<File> {
        // openat2 refuses a mode for a file that it does not make.
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        let place = place(slot);
        match self.directory.open_beneath(place.as_bytes(), flags, mode) {
            // It may have its final mode already, which keeps even its owner from writing. It keeps that mode: whoever gave it
            // may not do so again.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let stat = rustix::fs::statat(&self.directory, &*place, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(error);
                }
                rustix::fs::chmodat(&self.directory, &*place, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
                let file = self.directory.open_beneath(place.as_bytes(), flags, mode)?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
                Ok(File::from(file))
            }
            open => Ok(File::from(open?)),
        }
    }

    /// Removes a partial file that is of no use, if it is there.
    pub(crate) fn remove_slot(&self, slot: u32) -> io::Result<()> {
        crash_point();
        match rustix::fs::unlinkat(&self.directory, place(slot), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes every partial file but those in use: later attempts must not find leftovers in a new file's place. Not every file
    /// system tells what a name is when it lists it. `work` is called for every name.
    pub(crate) fn sweep(&self, used: impl Fn(u32) -> bool, work: impl Fn()) -> io::Result<()> {
        for shard in Dir::read_from(&self.directory)? {
            let shard = shard?;
            let name = shard.file_name().to_bytes();
            if name == b"." || name == b".." || !matches!(shard.file_type(), FileType::Directory | FileType::Unknown) {
                continue;
            }
            let directory = match self.directory.open_readable_directory(name) {
                Err(error) if is_no_directory(&error) => continue,
                open => open?,
            };
            for file in Dir::read_from(&directory)? {
                let file = file?;
                work();
                let slot = file.file_name().to_str().ok().and_then(|name| u32::from_str_radix(name, 16).ok());
                if file.file_type() == FileType::Directory || slot.is_some_and(&used) {
                    continue;
                }
                crash_point();
                match rustix::fs::unlinkat(&directory, file.file_name(), AtFlags::empty()) {
                    Ok(()) | Err(Errno::ISDIR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Removes everything but the ledger, from which a later attempt knows what was published. `work` is called for every name.
    pub(crate) fn clear(&self, work: impl Fn()) -> io::Result<()> {
        self.sweep(|_| false, work)
    }

    /// Makes the names of these entries' partial files durable.
    pub(crate) fn sync_names(&self, indices: &[FileIndex]) -> io::Result<()> {
        let mut shards: Vec<u32> = indices.iter().map(|index| self.slot(*index) / SHARD_FILES).collect();
        shards.sort_unstable();
        shards.dedup();
        for shard in shards {
            crash_point();
            rustix::fs::fsync(self.directory.open_readable_directory(format!("{shard:x}").as_bytes())?)?;
        }
        Ok(())
    }

    /// Removes the directory with whatever is left in it. The ledger cannot be used any more.
    pub(crate) fn remove(&self, root: &Root) -> io::Result<()> {
        self.ledger.close();
        crash_point();
        remove_tree(root, &self.name)
    }

    /// Removes the directory if nothing was written yet.
    pub(crate) fn remove_if_unused(&self, root: &Root) {
        if !self.used.load(Ordering::Relaxed) && self.ledger.check().is_ok() {
            let _ = self.remove(root);
        }
    }
}

fn place(slot: u32) -> String {
    format!("{:x}/{slot:x}", slot / SHARD_FILES)
}

/// Opens and locks the partial directory, and makes it if it is missing. The lock ends with the process, however that ends.
fn take(root: &Root, name: &[u8], job: &str, attempt: u32) -> Result<Root, Fault> {
    let failed = |error: io::Error| write_fault(&format!("the directory for partial files {}", show(name)), &error);
    let deadline = Instant::now() + TAKEOVER;
    loop {
        crash_point();
        match rustix::fs::mkdirat(root, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let directory = match root.open_readable_directory(name) {
            Ok(directory) => Root::from(directory),
            Err(error) if is_no_directory(&error) => {
                remove_tree(root, name).map_err(failed)?;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // Somebody may have removed it between opening and locking.
            Ok(()) if is_at(root, name, &directory).map_err(failed)? => return Ok(directory),
            Ok(()) => continue,
            Err(error) if has_no_locks(error) => return Ok(directory),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                LedgerFile::announce(&directory, job, attempt).map_err(failed)?;
                std::thread::sleep(TAKEOVER_POLL);
            }
            Err(Errno::WOULDBLOCK) => return Err(still_held(name)),
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Removes a job's partial directory with the lock that its receivers hold. One that still runs is waited for, up to `patience`: it would
/// write on into files that nobody sees, and could publish some of them.
pub(crate) fn clean(root: &Root, job: &str, patience: Duration) -> Result<(), Fault> {
    let name = directory_name(job);
    let failed = |error: io::Error| write_fault("the directory for partial files", &error);
    let deadline = Instant::now() + patience;
    loop {
        let directory = match root.open_readable_directory(&name) {
            Ok(directory) => Root::from(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if is_no_directory(&error) => return remove_tree(root, &name).map_err(failed),
            Err(error) => return Err(failed(error)),
        };
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // The lock is held until the directory is gone.
            Ok(()) if is_at(root, &name, &directory).map_err(failed)? => {
                return remove_tree(root, &name).map_err(failed)
            }
            Ok(()) => continue,
            Err(error) if has_no_locks(error) => return remove_tree(root, &name).map_err(failed),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(TAKEOVER_POLL),
            Err(Errno::WOULDBLOCK) => return Err(still_held(&name)),
            Err(error) => return Err(failed(error.into())),
        }
    }
}

fn still_held(name: &[u8]) -> Fault {
    let text = format!("another receiver of the job still runs and holds {}; stop it or wait for its end", show(name));
    Fault { retry: true, ..Fault::new(Reason::DestinationUnwritable, text) }
}

/// A file system without locks, or NFS, which locks no directory: the length of the ledger still shows a takeover.
fn has_no_locks(error: Errno) -> bool {
    matches!(error, Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK | Errno::BADF | Errno::INVAL)
}

/// A file, or a symbolic link, where the directory should be.
fn is_no_directory(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn is_at(root: &Root, name: &[u8], directory: &Root) -> io::Result<bool> {
    let there = match rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        stat => stat?,
    };
    let here = rustix::fs::fstat(directory)?;
    Ok((there.st_dev, there.st_ino) == (here.st_dev, here.st_ino))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::thread::{capabilities, set_capabilities, CapabilitySet};

    use super::*;

    #[test]
    fn partial_files_are_not_removed_beside_a_receiver_that_still_runs() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let (running, _) = PartialDirectory::open(&root, "job", 1).unwrap();
        running.prepare(vec![0]).unwrap();
        let fault = clean(&root, "job", Duration::ZERO).unwrap_err();
        assert_eq!((fault.reason, fault.retry), (Reason::DestinationUnwritable, true));
        assert!(folder.path().join(".fairlead-job").exists());
        // Another job's are its own.
        clean(&root, "other", Duration::ZERO).unwrap();

        drop(running);
        clean(&root, "job", Duration::ZERO).unwrap();
        assert!(!folder.path().join(".fairlead-job").exists());
        clean(&root, "job", Duration::ZERO).unwrap();
    }

    /// NFS keeps a removed file that is open under another name, and the directory with it.
    #[test]
    fn no_file_in_the_partial_directory_is_open_once_it_is_removed() {
        for used in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::open(folder.path()).unwrap();
            let (partial, _) = PartialDirectory::open(&root, "job", 1).unwrap();
            if used {
                partial.prepare(vec![0]).unwrap();
                drop(partial.open_entry(FileIndex(0)).unwrap());
                partial.remove(&root).unwrap();
            } else {
                partial.remove_if_unused(&root);
            }
            assert!(!folder.path().join(".fairlead-job").exists());
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let names = open.flat_map(|descriptor| std::fs::read_link(descriptor.path()));
            let beneath = folder.path().join(".fairlead-job");
            let held: Vec<_> = names.filter(|name| name.starts_with(&beneath)).collect();
            assert_eq!(held, Vec::<std::path::PathBuf>::new());
        }
    }

    #[test]
    fn what_is_no_directory_is_removed_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(".fairlead-job")).unwrap();
        clean(&Root::open(folder.path()).unwrap(), "job", Duration::ZERO).unwrap();
        assert!(folder.path().join(".fairlead-job").symlink_metadata().is_err());
        assert!(elsewhere.path().exists());
    }

    #[test]
    fn removing_what_was_replaced_counts_as_work() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, _) = PartialDirectory::open(&Root::open(folder.path()).unwrap(), "job", 1).unwrap();
        let replaced = folder.path().join(".fairlead-job/replaced");
        std::fs::create_dir(&replaced).unwrap();
        (0..9).for_each(|name| std::fs::write(replaced.join(name.to_string()), "x").unwrap());
        let work = std::cell::Cell::new(0);
        partial.clear(|| work.set(work.get() + 1)).unwrap();
        assert_eq!(std::fs::read_dir(replaced).unwrap().count(), 0);
        assert!(work.get() >= 9, "{}", work.get());
    }

    #[test]
    fn a_file_that_has_its_final_mode_keeps_it_when_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        // Of this thread alone. Movers in pods have none.
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets).unwrap();
        let (partial, _) = PartialDirectory::open(&Root::open(folder.path()).unwrap(), "job", 1).unwrap();
        partial.prepare(vec![0]).unwrap();
        for mode in [0o444, 0o400, 0o200, 0o000] {
            rustix::fs::fchmod(partial.open_entry(FileIndex(0)).unwrap(), Mode::from_raw_mode(mode)).unwrap();
            for flags in [OFlags::RDWR, OFlags::RDONLY] {
                let file = partial.open_slot(0, flags).unwrap();
                assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, mode, "{flags:?}");
            }
        }
    }
}
