//! Writes blocks into partial files: small files through the page cache, large ones past it.
//!
//! What is received is not read here again, and a disk slower than the network would only fill the page cache: the kernel then
//! stops every writer at once, and the last sync has the longest queue. Past the cache a block is on its way to the disk when its
//! write returns, a copy and the kernel's own writing back are saved, and memory limits of a pod count nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::digest::block_count;
use fairlead_protocol::fault::show;
use fairlead_protocol::limits::BLOCK_BYTES;
use fairlead_protocol::listing::Entry;
use fairlead_protocol::pack::Segment;
use fairlead_protocol::Fault;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::Partial;
use crate::fault_injection::{crash_point, hang_point};
use crate::fs::survey::write_fault;

/// Files from this size on are written past the page cache.
const DIRECT_FILE_BYTES: u64 = 64 << 20;
/// Alignment that every disk takes.
const ALIGNMENT: usize = 4096;

/// Writes blocks for one stream and keeps the last large file open.
#[derive(Default)]
pub(crate) struct BlockWriter {
    open: Option<OpenFile>,
    aligned: AlignedBuffer,
}

struct OpenFile {
    index: u32,
    file: File,
    /// Past the page cache, where the file system can do that.
    direct: Option<File>,
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
            let file = partial.open_entry(segment.file)?;
            crash_point();
            return file.write_all_at(bytes, 0);
        }
        let open = match &mut self.open {
            Some(open) if open.index == segment.file => open,
            _ => self.open.insert(OpenFile::new(partial, entry, segment.file)?),
        };
        crash_point();
        hang_point("WRITE");
        let offset = u64::from(segment.block) * u64::from(BLOCK_BYTES);
        if let (Some(direct), true) = (&open.direct, bytes.len() % ALIGNMENT == 0) {
            match direct.write_all_at(self.aligned.hold(bytes), offset) {
                // Some file systems open a file for direct access and then refuse it.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => open.direct = None,
                result => return result,
            }
        }
        open.file.write_all_at(bytes, offset)
    }
}

impl OpenFile {
    fn new(partial: &Partial, entry: &Entry, index: u32) -> io::Result<Self> {
        let file = partial.open_entry(index)?;
        crash_point();
        preallocate(&file, entry.size)?;
        let large = entry.size >= DIRECT_FILE_BYTES;
        let direct = large.then(|| partial.open_slot(partial.slot(index), OFlags::RDWR | OFlags::DIRECT));
        Ok(Self { index, file, direct: direct.and_then(Result::ok) })
    }
}

/// Reserves a file's space, so that a full disk shows before the data. Only lack of space is an error.
fn preallocate(file: &File, size: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Holds a block where direct access can take it from.
#[derive(Default)]
struct AlignedBuffer {
    bytes: Vec<u8>,
}

impl AlignedBuffer {
    /// The same bytes at an aligned address: in place if they are there already, else a copy.
    fn hold<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        if bytes.as_ptr().align_offset(ALIGNMENT) == 0 {
            return bytes;
        }
        self.bytes.resize(bytes.len() + ALIGNMENT, 0);
        let start = self.bytes.as_ptr().align_offset(ALIGNMENT);
        let place = &mut self.bytes[start..start + bytes.len()];
        place.copy_from_slice(bytes);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_aligned_and_unchanged() {
        let mut buffer = AlignedBuffer::default();
        let block: Vec<u8> = (0..3 * ALIGNMENT).map(|at| at as u8).collect();
        for start in [0, 1, 17, ALIGNMENT] {
            let held = buffer.hold(&block[start..]);
            assert_eq!(held.as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(held, &block[start..]);
        }
    }
}
