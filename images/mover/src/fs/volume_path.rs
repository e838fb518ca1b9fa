//! The directory that a transfer reads or writes, and how it is reached: beneath its volume no symbolic link is followed.
//!
//! Others may write to the same volume. A link on the way, whether it stays inside the volume or not, could be pointed at another
//! user's files or at the mover's own mounts between two transfers or while one runs, so every link is refused.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::root::Root;

/// A directory of the command line, with the volume that it lies in if one was named.
#[derive(Clone, Debug)]
pub(crate) struct VolumePath {
    /// The whole path, for messages.
    path: PathBuf,
    /// The volume, and the names from there on.
    beneath: Option<(PathBuf, PathBuf)>,
}

/// Why a directory was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{} is a symbolic link, and no link is followed below the volume; name the directory itself", .0.display())]
    Link(PathBuf),
    #[error("the kernel has no openat2, which keeps paths inside their volume; Linux 5.6 or newer is needed")]
    Unsupported,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl VolumePath {
    /// A path in `volume`; without a volume the path's own links are followed. The error is for the user.
    pub(crate) fn new(path: &Path, volume: Option<&Path>) -> Result<Self, String> {
        let Some(volume) = volume else { return Ok(Self { path: path.to_owned(), beneath: None }) };
        let names = path.strip_prefix(volume).ok();
        let names = names.filter(|names| names.components().all(|part| matches!(part, Component::Normal(_))));
        let Some(names) = names else {
            return Err(format!("{} is no path in --volume {}", path.display(), volume.display()));
        };
        Ok(Self { path: path.to_owned(), beneath: Some((volume.to_owned(), names.to_owned())) })
    }

    /// The whole path, for messages.
    pub(crate) fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Opens the directory.
    pub(crate) fn open(&self) -> Result<Root, OpenError> {
        match &self.beneath {
            None => Ok(Root::open(&self.path)?),
            Some((volume, names)) => {
                let root = Root::open_place(volume)?;
                root.open_readable_directory(names.as_os_str().as_bytes())
                    .map(Root::from)
                    .map_err(|error| explained(&root, volume, names, error))
            }
        }
    }

    /// Whose the directory is, also where it may not be opened; nothing if that cannot be told.
    pub(crate) fn stat(&self) -> Option<Stat> {
        let Some((volume, names)) = &self.beneath else { return rustix::fs::stat(&self.path).ok() };
        let place = Root::open_place(volume).and_then(|root| root.open_directory(names.as_os_str().as_bytes()));
        rustix::fs::fstat(place.ok()?).ok()
    }

    /// Opens the nearest parent that exists.
    pub(crate) fn open_parent(&self) -> Result<Root, OpenError> {
        let mut place = self.clone();
        loop {
            let above = place.path.pop() && place.beneath.as_mut().is_none_or(|(_, names)| names.pop());
            if !above {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            if place.path.as_os_str().is_empty() {
                place.path = PathBuf::from(".");
            }
            match place.open() {
                Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
    }

    /// Opens the directory and creates it if it is missing, with its parents.
    pub(crate) fn create(&self) -> Result<Root, OpenError> {
        let Some((volume, names)) = &self.beneath else {
            std::fs::create_dir_all(&self.path)?;
            return self.open();
        };
        let root = Root::open_place(volume)?;
        let mut parent = Root::from(root.open_directory(b"").map_err(|error| explained(&root, volume, names, error))?);
        for name in names.iter().map(OsStrExt::as_bytes) {
            let child = match parent.open_directory(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => parent.open_directory(name),
                        Err(error) => Err(error.into()),
                    }
                }
                child => child,
            };
            parent = Root::from(child.map_err(|error| explained(&root, volume, names, error))?);
        }
        // Once more from the volume on: a directory on the way may have been moved out of it meanwhile.
        self.open()
    }
}

/// Names the link or the lack that is behind an error of `openat2` for `names` beneath `root`.
fn explained(root: &Root, volume: &Path, names: &Path, error: io::Error) -> OpenError {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::NOSYS) {
        return OpenError::Unsupported;
    }
    // NOTDIR: the last name is a link, which is no directory when it is not followed.
    if !is(Errno::LOOP) && !is(Errno::NOTDIR) {
        return error.into();
    }
    let mut so_far = PathBuf::new();
    let link = names.iter().find_map(|name| {
        so_far.push(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let found = root.open_beneath(so_far.as_os_str().as_bytes(), flags, Mode::empty()).and_then(|found| {
            let mode = rustix::fs::fstat(&found)?.st_mode;
            Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Symlink)
        });
        let is_link = match found {
            Ok(is_link) => is_link,
            Err(error) => error.raw_os_error() == Some(Errno::LOOP.raw_os_error()),
        };
        is_link.then(|| volume.join(&so_far))
    });
    link.map_or_else(|| error.into(), OpenError::Link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{capabilities, set_capabilities, CapabilitySet};
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn place(volume: &Path, path: &str) -> VolumePath {
        VolumePath::new(&volume.join(path), Some(volume)).unwrap()
    }

    #[test]
    fn a_path_must_lie_in_its_volume() {
        let volume = Some(Path::new("/data"));
        for inside in ["/data", "/data/", "/data/a", "/data/a/./b", "/data//a"] {
            assert!(VolumePath::new(Path::new(inside), volume).is_ok(), "{inside}");
        }
        for outside in ["/", "/dat", "/database", "/data/../etc", "/data/a/..", "a", "/etc/data"] {
            let why = VolumePath::new(Path::new(outside), volume).unwrap_err();
            assert!(why.contains(outside) && why.contains("--volume /data"), "{why}");
        }
        assert!(VolumePath::new(Path::new("../anywhere"), None).is_ok());
    }

    #[test]
    fn a_link_in_any_component_is_refused_by_its_name_at_both_ends_wherever_it_leads() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outside.path().join("b/c")).unwrap();
        for (at, link) in [("link/b/c", "link"), ("a/link/c", "a/link"), ("a/b/link", "a/b/link")] {
            for inside in [true, false] {
                let volume = tempfile::tempdir().unwrap();
                std::fs::create_dir_all(volume.path().join("a/b/c")).unwrap();
                let target = if inside { volume.path().join("a") } else { outside.path().to_owned() };
                let target = target.join(if link == "a/link" {
                    "b"
                } else if link == "a/b/link" {
                    "b/c"
                } else {
                    ""
                });
                symlink(target, volume.path().join(link)).unwrap();
                for opened in [place(volume.path(), at).open(), place(volume.path(), at).create()] {
                    match opened.map(drop) {
                        Err(OpenError::Link(named)) => assert_eq!(named, volume.path().join(link), "{at}"),
                        other => panic!("{at}: {other:?}"),
                    }
                }
                assert_eq!(std::fs::read_dir(outside.path().join("b/c")).unwrap().count(), 0);
            }
        }
    }

    #[test]
    fn missing_parents_are_created_and_what_exists_is_used() {
        let volume = tempfile::tempdir().unwrap();
        let made = place(volume.path(), "a/b/c").create().unwrap();
        let expected = volume.path().join("a/b/c").metadata().unwrap();
        assert_eq!(rustix::fs::fstat(&made).unwrap().st_ino, expected.ino());
        place(volume.path(), "a/b/c").create().unwrap();
        place(volume.path(), "").create().unwrap();
        std::fs::write(volume.path().join("file"), "x").unwrap();
        for path in ["file", "file/below"] {
            assert!(matches!(place(volume.path(), path).create(), Err(OpenError::Io(_))), "{path}");
        }
        assert!(matches!(place(volume.path(), "missing").open(), Err(OpenError::Io(_))));
    }

    #[test]
    fn parents_that_cannot_be_written_are_used_where_nothing_is_missing() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(volume.path().join("a/b")).unwrap();
        std::fs::set_permissions(volume.path().join("a"), std::fs::Permissions::from_mode(0o555)).unwrap();
        place(volume.path(), "a/b").create().unwrap();
        std::fs::set_permissions(volume.path().join("a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_volume_that_the_mover_may_pass_and_not_list_is_used() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(volume.path().join("home/own")).unwrap();
        for closed in ["", "home"] {
            std::fs::set_permissions(volume.path().join(closed), std::fs::Permissions::from_mode(0o311)).unwrap();
        }
        drop_rights_of_root();
        place(volume.path(), "home/own").open().unwrap();
        place(volume.path(), "home/own/new").create().unwrap();
    }

    /// Of this thread alone: root may list every directory, and movers in pods may not.
    fn drop_rights_of_root() {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets).unwrap();
    }

    #[test]
    fn a_parent_that_is_exchanged_for_a_link_all_the_time_never_leads_outside() {
        let outside = tempfile::tempdir().unwrap();
        let volume = tempfile::tempdir().unwrap();
        let (parent, link) = (volume.path().join("run"), volume.path().join("link"));
        std::fs::create_dir(&parent).unwrap();
        symlink(outside.path(), &link).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let here = rustix::fs::CWD;
                while !over.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    let _ = rustix::fs::renameat_with(here, &parent, here, &link, exchange);
                }
            });
            for round in 0..2000 {
                // Through the directory or not at all.
                let _ = place(volume.path(), &format!("run/{round}/deep")).create();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
