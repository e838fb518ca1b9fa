//! Whether the mover may write what the listing holds: found out before the data, not when it is published.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Entry, Kind, Listing};
use fairlead_protocol::name::split;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{Access, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::fs::partial::directory_name;
use crate::fs::publish::may_be_opened_up;
use crate::fs::root::Root;
use crate::fs::survey::{check_space, destination_fault, survey, write_fault, Claims, Overwrite, Taken};
use crate::fs::volume_path::{OpenError, VolumePath};
use crate::progress::{Check, Progress};

/// Names that a message gives of those that cannot be written.
const NAMED: usize = 3;
/// The bit of a directory in which only owners may replace names.
const STICKY: u32 = 0o1000;
/// Bytes of the blocks in which the kernel counts what a file takes.
const STAT_BLOCK_BYTES: u64 = 512;

/// The destination as it is found, without a change to it: the directory, or the nearest parent that exists.
pub(crate) struct ReadOnlyDestination {
    root: Root,
    exists: bool,
}

impl ReadOnlyDestination {
    /// A fault if the mover could not write there.
    pub(crate) fn open(place: &VolumePath) -> Result<Self, Fault> {
        let (root, exists) = match place.open() {
            Ok(root) => (root, true),
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                (place.open_parent().map_err(|error| destination_fault(place, error))?, false)
            }
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                let what = format!("the destination {}", place.shown());
                // Who may not open it may still see whose it is.
                return Err(place
                    .stat()
                    .map_or_else(|| write_fault(&what, &error), |stat| denied(&what, &stat, &error)));
            }
            Err(error) => return Err(destination_fault(place, error)),
        };
        let what = if exists { "the destination" } else { "the nearest existing parent of the destination" };
        may_write(&root, b"", &format!("{what} {}", place.shown()))?;
        Ok(Self { root, exists })
    }

    /// The same checks as before a transfer, for `--check`. Files of equal size and time count as there already.
    pub(crate) fn check(
        &self,
        listing: &Listing,
        overwrite: Overwrite,
        job: &str,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let _operation = progress.disk.begin();
        let work = |amount| progress.work(amount);
        let (mut checklist, mut skip) = (super::Checklist::new(progress), Vec::new());
        if self.exists {
            let surveyed = survey(&self.root, listing, overwrite, Claims::default(), &work);
            let candidates = checklist.take("Names", surveyed, |_| "no name is in the way".to_owned());
            skip = candidates.unwrap_or_default();
            skip.retain(|index| {
                work(1);
                self.has_time_of(&listing.entry(*index))
            });
            checklist.note("Rights", check_rights(&self.root, listing, &skip, &work));
        }
        let partial = self.root.open_readable_directory(&directory_name(job));
        let taken = partial.map_or(Taken::default(), |partial| taken_in(partial, Taken::default()));
        let fits = check_space(&self.root, listing, &skip, taken, &work);
        checklist.note("Space", fits.map(|()| "what is missing fits".to_owned()));
        checklist.end()
    }

    fn has_time_of(&self, entry: &Entry) -> bool {
        let stat = rustix::fs::statat(&self.root, &*entry.path, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| (stat.st_mtime, stat.st_mtime_nsec as u32) == (entry.mtime_s, entry.mtime_ns))
    }
}

/// Adds what the files of a partial directory take. Its ledger counts as one of them.
fn taken_in(directory: impl AsFd, mut taken: Taken) -> Taken {
    let Ok(entries) = Dir::read_from(&directory) else { return taken };
    for entry in entries.flatten().filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")) {
        let name = entry.file_name();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
            Ok(shard) => taken = taken_in(shard, taken),
            Err(_) => {
                let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
                taken.bytes += stat.map_or(0, |stat| stat.st_blocks as u64 * STAT_BLOCK_BYTES);
                taken.names += 1;
            }
        }
    }
    taken
}

/// Checks that everything that will be published may be: in directories that exist, names can be made and replaced, in the mover's own
/// after a change of their mode if need be; files that stay since they are identical (`skip`, in ascending order) can be given their
/// mode and time. `work` is called for every entry.
pub(crate) fn check_rights(
    root: &Root,
    listing: &Listing,
    skip: &[FileIndex],
    work: &dyn Fn(u64),
) -> Result<String, Fault> {
    let mut denials: Vec<Fault> = Vec::new();
    let mut count = 0u64;
    let mut note = |result: Result<(), Fault>| {
        if let Err(fault) = result {
            count += 1;
            if denials.len() < NAMED {
                denials.push(fault);
            }
        }
    };
    let euid = rustix::process::geteuid();
    let mut missing: Option<Vec<u8>> = None;
    let mut writable = BTreeSet::new();
    for (index, entry) in listing.iter() {
        work(1);
        let is_in = |missing: &[u8]| entry.path.starts_with(missing) && entry.path.get(missing.len()) == Some(&b'/');
        if missing.as_deref().is_some_and(is_in) {
            continue;
        }
        let stat = match rustix::fs::statat(root, &*entry.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            // The survey has told what else there may be.
            Err(_) => continue,
        };
        let (parent, _) = split(&entry.path);
        match (&stat, entry.kind) {
            (Some(_), Kind::Directory) => {
                note(may(
                    root,
                    &entry.path,
                    Access::READ_OK | Access::EXEC_OK,
                    &format!("the directory {}", show(&entry.path)),
                ));
                continue;
            }
            (stat, Kind::File) if skip.binary_search(&index).is_ok() => {
                // Only the owner may set the mode and time of a file, even to what they are.
                let foreign = stat.as_ref().filter(|stat| !euid.is_root() && stat.st_uid != euid.as_raw());
                if let Some(stat) = foreign {
                    let what = format!("{}, which is identical and stays,", show(&entry.path));
                    note(Err(denied(&what, stat, &Errno::PERM.into())));
                }
                continue;
            }
            (None, Kind::Directory) => missing = Some(entry.path.clone()),
            _ => {}
        }
        if writable.insert(parent.to_vec()) {
            let written = may_write(root, parent, &format!("the directory {}", show(parent)));
            note(written.or_else(|fault| if may_be_opened_up(root, parent) { Ok(()) } else { Err(fault) }));
        }
        if let (Some(stat), false) = (&stat, euid.is_root()) {
            note(may_replace(root, parent, &entry.path, stat, euid.as_raw()));
        }
    }
    if let Some(fault) = Fault::all(denials) {
        let more = count.saturating_sub(NAMED as u64);
        let message = if more > 0 { format!("{}; and {more} more", fault.message) } else { fault.message };
        return Err(Fault::new(fault.reason, message));
    }
    Ok("every name can be written".to_owned())
}

/// Notes the outcome of `check_rights` for a transfer.
pub(crate) fn note_rights(
    root: &Root,
    listing: &Listing,
    skip: &[FileIndex],
    progress: &Progress,
) -> Result<(), Fault> {
    let result = check_rights(root, listing, skip, &|amount| progress.work(amount));
    progress.note_check(match &result {
        Ok(found) => Check::passed("Rights", found.as_str()),
        Err(fault) => Check::failed("Rights", fault),
    });
    result.map(drop)
}

/// Whether a name in a sticky directory may be replaced: by the owner of either alone.
fn may_replace(root: &Root, parent: &[u8], path: &[u8], stat: &Stat, euid: u32) -> Result<(), Fault> {
    let parent = if parent.is_empty() { b"." } else { parent };
    let Ok(directory) = rustix::fs::statat(root, parent, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    if directory.st_mode & STICKY == 0 || [stat.st_uid, directory.st_uid].contains(&euid) {
        return Ok(());
    }
    Err(denied(&format!("{}, in a directory with the sticky bit,", show(path)), stat, &Errno::PERM.into()))
}

fn may_write(root: &Root, path: &[u8], what: &str) -> Result<(), Fault> {
    may(root, path, Access::WRITE_OK | Access::EXEC_OK, what)
}

/// A fault if the process has not the access to a directory. What the kernel cannot tell is left to the transfer.
fn may(root: &Root, path: &[u8], access: Access, what: &str) -> Result<(), Fault> {
    let path = if path.is_empty() { b"." } else { path };
    match rustix::fs::accessat(root, path, access, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
            let stat = rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW);
            Err(match stat {
                Ok(stat) => denied(what, &stat, &error.into()),
                Err(_) => write_fault(what, &error.into()),
            })
        }
        _ => Ok(()),
    }
}

/// The fault for something that belongs to somebody else, with whose it is and who the mover is.
fn denied(what: &str, stat: &Stat, error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        let text = format!("{what} is mounted read-only; mount the volume for writing or choose another");
        return Fault::new(Reason::DestinationUnwritable, text);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
    groups.push(group);
    groups.sort_unstable();
    groups.dedup();
    let groups = groups.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let kind = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory { "chmod g+rwx" } else { "chown" };
    let (owner, owners, mode) = (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777);
    Fault::new(
        Reason::DestinationUnwritable,
        format!(
            "{what} cannot be written by the mover (user {user}, groups {groups}): it belongs to user {owner}, group {owners}, with mode \
             {mode:04o} ({error}); run the mover as that user or in that group (runAsUser, supplementalGroups or fsGroup of a job's \
             securityContext), or change that with {kind}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::samples::listing_of;
    use rustix::thread::{capabilities, set_capabilities, CapabilitySet};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// This thread may do from now on what a mover in a pod may.
    fn without_privilege() {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets).unwrap();
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn every_directory_that_will_be_written_must_be_writable_and_no_other() {
        without_privilege();
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "b/c", "d", "e", "f"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["a", "b/c", "b", "d", "e", "f"] {
            chmod(&folder.path().join(name), 0o555);
        }
        let own = listing_of(&[("a", Kind::Directory), ("a/x", Kind::File)], 1);
        assert!(
            check_rights(&Root::open(folder.path()).unwrap(), &own, &[], &|_| {}).is_ok(),
            "its own are made writable"
        );
        for name in ["a", "b/c", "b", "d", "e", "f"] {
            std::os::unix::fs::chown(folder.path().join(name), Some(65534), None).unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        let (file, directory) = (Kind::File, Kind::Directory);
        let same = listing_of(&[("b", directory), ("b/c", directory), ("new", directory), ("new/x", file)], 1);
        assert!(check_rights(&root, &same, &[], &|_| {}).is_ok(), "nothing is written in what exists");
        let one = listing_of(&[("a", directory), ("a/x", file), ("a/y", file)], 1);
        let fault = check_rights(&root, &one, &[], &|_| {}).unwrap_err();
        assert_eq!((fault.reason, fault.retry), (Reason::DestinationUnwritable, false));
        for part in ["directory \"a\"", "mode 0555", "fsGroup", "chmod"] {
            assert!(fault.message.contains(part), "{fault}");
        }
        assert!(
            check_rights(&root, &one, &[FileIndex(1), FileIndex(2)], &|_| {}).is_ok(),
            "identical files are not written"
        );
        let names = ["a", "b", "d", "e", "f"].map(|name| [(name.to_owned(), directory), (format!("{name}/x"), file)]);
        let names: Vec<(&str, Kind)> = names.iter().flatten().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let fault = check_rights(&root, &listing_of(&names, 1), &[], &|_| {}).unwrap_err();
        assert!(fault.message.ends_with("and 2 more"), "{fault}");
        for name in ["a", "b", "b/c", "d", "e", "f"] {
            chmod(&folder.path().join(name), 0o755);
        }
    }

    #[test]
    fn a_destination_is_looked_at_without_being_made() {
        without_privilege();
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| VolumePath::new(&folder.path().join(name), Some(folder.path())).unwrap();
        assert!(!ReadOnlyDestination::open(&place("not/there/yet")).unwrap().exists);
        assert!(ReadOnlyDestination::open(&place("")).unwrap().exists);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        chmod(folder.path(), 0o555);
        for name in ["", "not/there/yet"] {
            let fault = ReadOnlyDestination::open(&place(name)).map(drop).unwrap_err();
            assert_eq!(fault.reason, Reason::DestinationUnwritable);
            assert!(fault.message.contains("mode 0555"), "{fault}");
        }
        chmod(folder.path(), 0o755);
    }

    #[test]
    fn what_is_missing_has_to_fit_and_what_is_there_already_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        let old = std::fs::File::options().write(true).open(folder.path().join("a")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        let place = VolumePath::new(folder.path(), None).unwrap();
        let destination = ReadOnlyDestination::open(&place).unwrap();
        let progress = Progress::new();
        let listing = listing_of(&[("a", Kind::File)], 1);
        assert_eq!(destination.check(&listing, Overwrite::IfDifferent, "job", &progress), Ok(()));
        let fault = destination.check(&listing, Overwrite::Never, "job", &progress).unwrap_err();
        assert_eq!(fault.reason, Reason::DestinationExists);
        let names: Vec<&str> = progress.checks().iter().map(|check| check.check).collect();
        assert_eq!(names, ["Names", "Rights", "Space"]);
    }
}
