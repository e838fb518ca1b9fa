//! Looks at the destination before data moves: what is in the way, what may be identical, whether there is room.

use std::io;
use std::os::fd::AsFd;

use clap::ValueEnum;
use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Entry, Kind, Listing};
use fairlead_protocol::name::split;
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::root::Root;
use super::trouble;
use super::volume_path::{OpenError, VolumePath};

/// What happens to names that exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Overwrite {
    /// The transfer fails before data moves.
    Never,
    /// Files with identical content stay, others are replaced.
    IfDifferent,
    /// They are replaced.
    Always,
}

/// Opens the destination and creates it if it is missing, with its parents.
pub(crate) fn open_destination(path: &VolumePath) -> Result<Root, Fault> {
    path.create().map_err(|error| destination_fault(path, error))
}

/// The fault for a destination that was not opened.
pub(crate) fn destination_fault(path: &VolumePath, error: OpenError) -> Fault {
    let shown = path.shown();
    match error {
        OpenError::Io(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) => {
            let text = format!("the destination {shown} or one of its parents is not a directory; name another");
            Fault::new(Reason::DestinationExists, text)
        }
        OpenError::Io(error) => write_fault(&format!("the destination {shown}"), &error),
        refused => Fault::new(Reason::DestinationUnwritable, format!("the destination {shown}: {refused}")),
    }
}

/// The fault for an error while the destination is written.
pub(crate) fn write_fault(what: &str, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let text = format!("no space is left for {what}: {error}; free space or choose a larger volume");
            Fault::new(Reason::DestinationFull, text)
        }
        _ if trouble::may_pass(error) => {
            let text = format!("{what} cannot be written: {error}; {}", trouble::REMEDY);
            Fault { retry: true, ..Fault::new(Reason::DestinationUnwritable, text) }
        }
        _ => {
            let uid = rustix::process::geteuid().as_raw();
            let text = format!(
                "{what} cannot be written by user {uid}: {error}; check permissions and that the volume is writable"
            );
            Fault::new(Reason::DestinationUnwritable, text)
        }
    }
}

/// What an interrupted publication of the same job may have put in place; under no policy is it in the way.
#[derive(Clone, Copy, Default)]
pub(crate) struct Claims<'a> {
    /// Files, in ascending order.
    pub(crate) files: &'a [FileIndex],
    /// Whether links may be among it.
    pub(crate) links: bool,
}

/// Compares the listing with what exists. Returns the files of equal size that may be identical: all under `IfDifferent`, else
/// the claimed ones. `work` is called for every entry.
pub(crate) fn survey(
    root: &Root,
    listing: &Listing,
    overwrite: Overwrite,
    claims: Claims<'_>,
    work: &dyn Fn(u64),
) -> Result<Vec<FileIndex>, Fault> {
    let mut candidates = Vec::new();
    let mut missing_directory: Option<Vec<u8>> = None;
    let mut parent: Option<(Vec<u8>, std::os::fd::OwnedFd)> = None;
    for (index, entry) in listing.iter() {
        work(1);
        let path = entry.path.as_slice();
        let is_in = |missing: &[u8]| path.starts_with(missing) && path.get(missing.len()) == Some(&b'/');
        if missing_directory.as_deref().is_some_and(is_in) {
            continue;
        }
        let (directory, name) = split(path);
        let place = match &parent {
            Some((open, place)) if *open == directory => place,
            _ => {
                let place = root.open_directory(directory).map_err(|error| write_fault(&show(directory), &error))?;
                &parent.insert((directory.to_vec(), place)).1
            }
        };
        let stat = match rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                if entry.kind == Kind::Directory {
                    missing_directory = Some(path.to_vec());
                }
                continue;
            }
            Err(error) => return Err(write_fault(&show(path), &error.into())),
        };
        let found = FileType::from_raw_mode(stat.st_mode);
        let claimed = match entry.kind {
            Kind::File => claims.files.binary_search(&index).is_ok(),
            Kind::Symlink => claims.links && found == FileType::Symlink && has_target(place, name, &entry.target),
            Kind::Directory => false,
        };
        let policy = match (claimed, entry.kind) {
            (false, _) => overwrite,
            (true, Kind::File) => Overwrite::IfDifferent,
            (true, _) => Overwrite::Always,
        };
        match judge(&entry, found, stat.st_size as u64, policy) {
            Judgement::Keep | Judgement::Replace => {}
            Judgement::Compare => candidates.push(index),
            Judgement::Refuse(why) => {
                let text = format!("{} exists at the destination {why}; nothing was changed", show(path));
                return Err(Fault::new(Reason::DestinationExists, text));
            }
        }
    }
    Ok(candidates)
}

/// Whether a name is a symbolic link to this target.
pub(crate) fn has_target(place: impl AsFd, name: &[u8], target: &[u8]) -> bool {
    rustix::fs::readlinkat(place, name, Vec::new()).is_ok_and(|found| found.to_bytes() == target)
}

/// The fault for a file that an interrupted publication should have put in place, where something else is now.
pub(crate) fn refuse_claimed(root: &Root, entry: &Entry) -> Result<(), Fault> {
    let (directory, name) = split(&entry.path);
    let there = root
        .open_directory(directory)
        .is_ok_and(|place| rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
    if !there {
        return Ok(());
    }
    let text = format!(
        "{} exists at the destination and is not what an earlier attempt put there; remove it or choose another policy",
        show(&entry.path)
    );
    Err(Fault::new(Reason::DestinationExists, text))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Keep,
    Replace,
    Compare,
    Refuse(&'static str),
}

/// What to do with an entry whose name exists as `found` with `size` bytes.
fn judge(entry: &Entry, found: FileType, size: u64, overwrite: Overwrite) -> Judgement {
    match (entry.kind, found, overwrite) {
        (Kind::Directory, FileType::Directory, _) => Judgement::Keep,
        (Kind::Directory, _, _) => Judgement::Refuse("as something else than a directory; move it away"),
        (_, FileType::Directory, _) => Judgement::Refuse("as a directory, where a file or link is to go; move it away"),
        (_, FileType::RegularFile | FileType::Symlink, Overwrite::Never) => {
            Judgement::Refuse("and the overwrite policy is Never; remove it or choose another policy")
        }
        (Kind::File, FileType::RegularFile, Overwrite::IfDifferent) if size == entry.size => Judgement::Compare,
        (_, FileType::RegularFile | FileType::Symlink, _) => Judgement::Replace,
        _ => Judgement::Refuse("as a device, socket or pipe; move it away"),
    }
}

/// What earlier attempts took already of what a transfer needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) bytes: u64,
    /// Partial files.
    pub(crate) names: u64,
}

/// Checks that the bytes and names still to be written fit, beside those that earlier attempts took already. `work` is called for every
/// directory that is looked for.
pub(crate) fn check_space(
    root: &Root,
    listing: &Listing,
    skip: &[FileIndex],
    taken: Taken,
    work: &dyn Fn(u64),
) -> Result<(), Fault> {
    let stat = rustix::fs::fstatvfs(root).map_err(|error| write_fault("the destination", &error.into()))?;
    let unit = stat.f_frsize.max(1);
    let writes = |index: FileIndex| skip.binary_search(&index).is_err();
    let files = listing.iter().filter(|(index, entry)| entry.kind == Kind::File && writes(*index));
    let needed = files
        .map(|(_, entry)| (entry.size - entry.hole_bytes).div_ceil(unit))
        .fold(0u64, u64::saturating_add)
        .saturating_mul(unit);
    let needed = needed.saturating_sub(taken.bytes);
    let free = stat.f_bavail.saturating_mul(unit);
    if needed > free {
        let text = format!("the transfer needs {needed} bytes at the destination and {free} are free; free space or choose a larger volume");
        return Err(Fault::new(Reason::DestinationFull, text));
    }
    let names = (u64::from(listing.len()) - skip.len() as u64).saturating_sub(taken.names);
    if stat.f_files == 0 || names <= stat.f_favail {
        return Ok(());
    }
    // Directories that are there already are looked for only where it depends on them.
    let directories = listing.iter().filter(|(_, entry)| entry.kind == Kind::Directory);
    let exists = |entry: &Entry| {
        work(1);
        root.open_directory(&entry.path).is_ok()
    };
    let existing = directories.filter(|(_, entry)| exists(entry)).count();
    let names = names.saturating_sub(existing as u64);
    if names > stat.f_favail {
        let text = format!("the transfer needs {names} inodes at the destination and {} are free", stat.f_favail);
        return Err(Fault::new(Reason::DestinationFull, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::samples::{entry, listing};

    #[test]
    fn existing_names_are_judged_by_the_table() {
        use Judgement::{Compare, Keep, Refuse, Replace};
        use Overwrite::{Always, IfDifferent, Never};
        let refused = Refuse("");
        let table = [
            (Kind::Directory, FileType::Directory, 0, Never, Keep),
            (Kind::Directory, FileType::RegularFile, 0, Always, refused),
            (Kind::Directory, FileType::Symlink, 0, Always, refused),
            (Kind::File, FileType::Directory, 0, Always, refused),
            (Kind::Symlink, FileType::Directory, 0, IfDifferent, refused),
            (Kind::File, FileType::RegularFile, 5, Never, refused),
            (Kind::File, FileType::Symlink, 5, Never, refused),
            (Kind::Symlink, FileType::RegularFile, 5, Never, refused),
            (Kind::File, FileType::RegularFile, 5, IfDifferent, Compare),
            (Kind::File, FileType::RegularFile, 6, IfDifferent, Replace),
            (Kind::File, FileType::Symlink, 5, IfDifferent, Replace),
            (Kind::Symlink, FileType::Symlink, 5, IfDifferent, Replace),
            (Kind::File, FileType::RegularFile, 5, Always, Replace),
            (Kind::File, FileType::Fifo, 0, Always, refused),
        ];
        for (kind, found, size, overwrite, expected) in table {
            let judged = judge(&entry("a", kind, 5), found, size, overwrite);
            let same = matches!((judged, expected), (Refuse(_), Refuse(_))) || judged == expected;
            assert!(same, "{kind:?} {found:?} {size} {overwrite:?}: {judged:?}");
        }
    }

    #[test]
    fn only_what_may_pass_by_itself_is_worth_another_attempt() {
        let table = [
            (Errno::IO, true),
            (Errno::STALE, true),
            (Errno::TIMEDOUT, true),
            (Errno::NOMEM, true),
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::AGAIN, true),
            (Errno::ACCESS, false),
            (Errno::PERM, false),
            (Errno::ROFS, false),
        ];
        for (error, passes) in table {
            let fault = write_fault("\"a\"", &error.into());
            assert_eq!((fault.reason, fault.retry), (Reason::DestinationUnwritable, passes), "{fault}");
            assert_eq!(fault.message.contains("check permissions"), !passes, "{fault}");
        }
        let full = write_fault("\"a\"", &Errno::NOSPC.into());
        assert_eq!((full.reason, full.retry), (Reason::DestinationFull, false), "{full}");
    }

    #[test]
    fn only_names_of_the_listing_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        std::fs::write(directory.path().join("a/other"), "x").unwrap();
        let root = Root::open(directory.path()).unwrap();
        let listing = listing(&[
            entry("a", Kind::Directory, 0),
            entry("a/b", Kind::File, 1),
            entry("c", Kind::Directory, 0),
            entry("c/d", Kind::File, 1),
        ]);
        assert_eq!(survey(&root, &listing, Overwrite::Never, Claims::default(), &|_| {}), Ok(Vec::new()));
        std::fs::write(directory.path().join("a/b"), "x").unwrap();
        let fault = survey(&root, &listing, Overwrite::Never, Claims::default(), &|_| {}).unwrap_err();
        assert_eq!(fault.reason, Reason::DestinationExists);
        assert!(fault.message.contains("a/b"));
        let work = std::cell::Cell::new(0);
        let surveyed =
            survey(&root, &listing, Overwrite::IfDifferent, Claims::default(), &|amount| work.set(work.get() + amount));
        assert_eq!((surveyed, work.get()), (Ok(vec![FileIndex(1)]), 4));
    }

    #[test]
    fn a_transfer_larger_than_the_volume_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let listing = listing(&[entry("a", Kind::File, 1 << 50)]);
        assert_eq!(
            check_space(&root, &listing, &[], Taken::default(), &|_| {}).unwrap_err().reason,
            Reason::DestinationFull
        );
        assert_eq!(check_space(&root, &listing, &[FileIndex(0)], Taken::default(), &|_| {}), Ok(()));
    }
}
