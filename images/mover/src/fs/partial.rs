//! Partial files: `.fairlead-<job>/` beneath the destination, where blocks land until everything is verified.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::digest::block_count;
use fairlead_protocol::fault::show;
use fairlead_protocol::limits::{BLOCK_BYTES, RESERVED_PREFIX};
use fairlead_protocol::listing::Entry;
use fairlead_protocol::pack::Segment;
use fairlead_protocol::Fault;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::root::{remove_tree, Root};
use super::survey::write_fault;

/// Files a shard directory holds: enough to need few directories, few enough for any file system.
const SHARD_FILES: u32 = 4096;

/// Name of a job's partial directory.
pub(crate) fn directory_name(job: &str) -> Vec<u8> {
    [RESERVED_PREFIX, job.as_bytes()].concat()
}

/// A job's partial directory.
pub(crate) struct Partial {
    directory: Root,
    name: Vec<u8>,
}

impl Partial {
    /// Removes what an earlier attempt left and makes the directory anew.
    pub(crate) fn create(root: &Root, job: &str) -> Result<Self, Fault> {
        let name = directory_name(job);
        let failed =
            |error: io::Error| write_fault(&format!("the directory for partial files {}", show(&name)), &error);
        remove_tree(root, &name).map_err(failed)?;
        rustix::fs::mkdirat(root, &*name, Mode::RWXU).map_err(|error| failed(error.into()))?;
        let directory = root.open_readable_directory(&name).map_err(failed)?;
        Ok(Self { directory: Root::from(directory), name })
    }

    /// Makes the shard directories for a listing.
    pub(crate) fn prepare(&self, entries: &[Entry]) -> Result<(), Fault> {
        for shard in 0..(entries.len() as u32).div_ceil(SHARD_FILES) {
            rustix::fs::mkdirat(&self.directory, format!("{shard:x}"), Mode::RWXU)
                .map_err(|error| write_fault("the directory for partial files", &error.into()))?;
        }
        Ok(())
    }

    /// The open directory.
    pub(crate) fn directory(&self) -> &Root {
        &self.directory
    }

    /// Where the entry with this index lies, relative to the directory.
    pub(crate) fn place(index: u32) -> String {
        format!("{:x}/{index:x}", index / SHARD_FILES)
    }

    /// Opens the partial file of an entry and creates it if it is missing.
    pub(crate) fn open(&self, index: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.directory.open_beneath(Self::place(index).as_bytes(), flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Removes the directory with whatever is left in it.
    pub(crate) fn remove(&self, root: &Root) -> io::Result<()> {
        remove_tree(root, &self.name)
    }

    /// Removes the directory if nothing was written yet.
    pub(crate) fn remove_if_empty(&self, root: &Root) {
        let _ = rustix::fs::unlinkat(root, &*self.name, AtFlags::REMOVEDIR);
    }
}

/// Writes blocks for one stream and keeps the last large file open.
#[derive(Default)]
pub(crate) struct BlockWriter {
    open: Option<(u32, File)>,
}

impl BlockWriter {
    /// Writes a verified block in its place. Nothing is truncated: a block that arrives twice is the same bytes.
    pub(crate) fn write(
        &mut self,
        partial: &Partial,
        entry: &Entry,
        segment: &Segment,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        self.try_write(partial, entry, segment, bytes).map_err(|error| write_fault(&show(&entry.path), &error))
    }

    fn try_write(&mut self, partial: &Partial, entry: &Entry, segment: &Segment, bytes: &[u8]) -> io::Result<()> {
        if block_count(entry.size) == 1 {
            return partial.open(segment.file)?.write_all_at(bytes, 0);
        }
        let file = match &self.open {
            Some((index, file)) if *index == segment.file => file,
            _ => {
                let file = partial.open(segment.file)?;
                preallocate(&file, entry.size)?;
                &self.open.insert((segment.file, file)).1
            }
        };
        file.write_all_at(bytes, u64::from(segment.block) * u64::from(BLOCK_BYTES))
    }
}

/// Reserves a file's space, so that a full disk shows before the data. Only lack of space is an error.
fn preallocate(file: &File, size: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        _ => Ok(()),
    }
}
