//! Reads partial files again from the disk, past what the page cache remembers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::digest::{block_count, block_length, of_block, Digest};
use fairlead_protocol::limits::BLOCK_BYTES;
use fairlead_protocol::listing::Entry;
use rustix::fs::{Advice, OFlags};

use super::partial::PartialDirectory;
use crate::fault_injection::damage_disk;

/// Drops what the page cache holds of a file that was synced before; only clean pages can be dropped.
pub(crate) fn forget_pages(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Blocks of a synced partial file that do not come back as they were written. `work` is told of bytes read.
pub(crate) fn read_back(
    partial: &PartialDirectory,
    index: u32,
    entry: &Entry,
    digest: impl Fn(u32) -> Option<Digest>,
    buffer: &mut Vec<u8>,
    work: impl Fn(u64),
) -> io::Result<Vec<u32>> {
    let file = partial.open_slot(partial.slot(index), OFlags::RDWR)?;
    damage_disk(&file);
    forget_pages(&file)?;
    buffer.resize(BLOCK_BYTES as usize, 0);
    let mut damaged = Vec::new();
    for block in 0..block_count(entry.size) as u32 {
        let bytes = &mut buffer[..block_length(entry.size, block) as usize];
        match file.read_exact_at(bytes, u64::from(block) * u64::from(BLOCK_BYTES)) {
            Ok(()) if digest(block) == Some(of_block(bytes)) => {}
            // A sector that cannot be read may well be written again elsewhere.
            Ok(()) => damaged.push(block),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => damaged.push(block),
            Err(error) => return Err(error),
        }
        work(bytes.len() as u64);
    }
    Ok(damaged)
}
