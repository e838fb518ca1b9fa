//! A directory beneath which everything is opened, without following a symbolic link.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fairlead_protocol::digest::{self, Digest};
use fairlead_protocol::index::BlockIndex;
use fairlead_protocol::limits::BLOCK_BYTES;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fault_injection::crash_point;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// How often a lookup is repeated that raced with a rename elsewhere (`EAGAIN` from openat2).
const LOOKUP_RETRIES: usize = 16;

/// An open directory.
pub(crate) struct Root(OwnedFd);

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Root {
    fn from(directory: OwnedFd) -> Self {
        Self(directory)
    }
}

impl Root {
    /// Opens a directory by a path of the command line, whose own links are followed; `VolumePath` follows none below a volume.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory as a place to open paths beneath: who may pass it need not be allowed to list it.
    pub(crate) fn open_place(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a path beneath the directory; the empty path is the directory itself.
    pub(crate) fn open_beneath(&self, path: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, mode, BENEATH) {
                Err(Errno::AGAIN) if tries < LOOKUP_RETRIES => tries += 1,
                result => return Ok(result?),
            }
        }
    }

    /// Opens a regular file for reading. A fifo in its place does not block.
    pub(crate) fn open_file(&self, path: &[u8]) -> io::Result<File> {
        self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map(File::from)
    }

    /// Opens a directory as a place for names in it.
    pub(crate) fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_beneath(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
    }

    /// Opens a directory to read or sync it.
    pub(crate) fn open_readable_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }
}

/// Digest of an open file of `size` bytes, or nothing if the file ends early. Adds to `work` as it goes.
pub(crate) fn hash_file(
    file: &File,
    size: u64,
    buffer: &mut Vec<u8>,
    work: impl Fn(u64),
) -> io::Result<Option<Digest>> {
    buffer.resize(BLOCK_BYTES as usize, 0);
    let mut blocks = Vec::with_capacity(digest::block_count(size) as usize);
    for block in BlockIndex(0).up_to(BlockIndex(digest::block_count(size) as u32)) {
        let length = digest::block_length(size, block);
        let bytes = &mut buffer[..length as usize];
        match file.read_exact_at(bytes, block.offset()) {
            Ok(()) => blocks.push(digest::of_block(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        work(u64::from(length));
    }
    Ok(Some(digest::of_file(size, blocks)))
}

/// Removes `name` in `parent` with everything in it, following no link. Succeeds if there is nothing.
pub(crate) fn remove_tree(parent: impl AsFd, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
    remove_children(&directory)?;
    match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes everything in a directory, following no link.
pub(crate) fn remove_children(directory: impl AsFd) -> io::Result<()> {
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let child = entry.file_name().to_bytes();
        if child == b"." || child == b".." {
            continue;
        }
        crash_point();
        match entry.file_type() {
            FileType::Directory | FileType::Unknown => remove_tree(&directory, child)?,
            _ => match rustix::fs::unlinkat(&directory, child, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_parents_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("link")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("file")).unwrap();
        let root = Root::open(inside.path()).unwrap();
        for path in ["link/secret", "file", "../secret", "/etc/passwd"] {
            assert!(root.open_file(path.as_bytes()).is_err(), "{path}");
        }
    }

    #[test]
    fn removing_a_tree_leaves_what_its_links_point_to() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let tree = inside.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/c"), "x").unwrap();
        symlink(outside.path(), tree.join("a/link")).unwrap();
        let root = Root::open(inside.path()).unwrap();
        remove_tree(&root, b"tree").unwrap();
        remove_tree(&root, b"tree").unwrap();
        assert!(!tree.exists());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn removing_a_link_leaves_its_directory() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("tree")).unwrap();
        remove_tree(Root::open(inside.path()).unwrap(), b"tree").unwrap();
        assert!(outside.path().join("kept").exists());
    }
}
