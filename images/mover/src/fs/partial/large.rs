//! A partial file of many blocks, reserved at once and, if it is large, written past the page cache.
//!
//! What is received is not read here again, and a disk slower than the network would only fill the page cache: the kernel then
//! stops every writer at once, and the last sync has the longest queue. Past the cache a block is on its way to the disk when its
//! write returns, a copy and the kernel's own writing back are saved, and the memory limit of a pod counts nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::index::FileIndex;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::PartialDirectory;
use crate::fault_injection::crash_point;

/// Files from this size on are written past the page cache.
const DIRECT_FILE_BYTES: u64 = 64 << 20;
/// Alignment that every disk takes.
const ALIGNMENT: usize = 4096;

/// A partial file as one stream has it open.
pub(super) struct LargeFile {
    file: File,
    /// Past the page cache, where the file system can do that.
    direct: Option<File>,
    aligned: AlignedBuffer,
}

impl LargeFile {
    /// Opens an entry's partial file and reserves its `size` in bytes. Only lack of space keeps it from being reserved. A file
    /// with holes gets its size and no space, and stays in the page cache, where holes of any grain can be made.
    pub(super) fn open(partial: &PartialDirectory, index: FileIndex, size: u64, has_holes: bool) -> io::Result<Self> {
        let file = partial.open_entry(index)?;
        crash_point();
        if has_holes {
            file.set_len(size)?;
            return Ok(Self { file, direct: None, aligned: AlignedBuffer::default() });
        }
        let reserved = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
            return Err(error.into());
        }
        let large = size >= DIRECT_FILE_BYTES;
        let direct = large.then(|| partial.open_slot(partial.slot(index), OFlags::RDWR | OFlags::DIRECT));
        Ok(Self { file, direct: direct.and_then(Result::ok), aligned: AlignedBuffer::default() })
    }

    /// The file as it is written through the page cache.
    pub(super) fn buffered(&self) -> &File {
        &self.file
    }

    /// Writes bytes at an offset, which is a multiple of the block size.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let (Some(direct), true) = (&self.direct, bytes.len() % ALIGNMENT == 0) {
            match direct.write_all_at(self.aligned.hold(bytes), offset) {
                // Some file systems open a file for direct access and then refuse it.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => self.direct = None,
                result => return result,
            }
        }
        self.file.write_all_at(bytes, offset)
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
