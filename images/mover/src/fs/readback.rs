//! Reads partial files again from the disk, past what the page cache remembers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::digest::{block_count, block_length, of_block, Digest};
use fairlead_protocol::index::{BlockId, BlockIndex, FileIndex};
use fairlead_protocol::limits::BLOCK_BYTES;
use fairlead_protocol::listing::Entry;
use rustix::fs::{Advice, OFlags};

use super::partial::PartialDirectory;
use crate::fault_injection::damage_disk;

/// Drops what the page cache holds of a file that was synced before; only clean pages can be dropped.
pub(crate) fn forget_pages(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Blocks of a synced partial file that do not come back as they were written. `work` is called with the bytes read.
pub(crate) fn read_back(
    partial: &PartialDirectory,
    index: FileIndex,
    entry: &Entry,
    digest: impl Fn(BlockId) -> Option<Digest>,
    buffer: &mut Vec<u8>,
    work: impl Fn(u64),
) -> io::Result<Vec<BlockId>> {
    let file = partial.open_slot(partial.slot(index), OFlags::RDWR)?;
    damage_disk(&file);
    forget_pages(&file)?;
    buffer.resize(BLOCK_BYTES as usize, 0);
    let mut damaged = Vec::new();
    for block in BlockIndex(0).up_to(BlockIndex(block_count(entry.size) as u32)) {
        let id = BlockId::new(index, block);
        let bytes = &mut buffer[..block_length(entry.size, block) as usize];
        match file.read_exact_at(bytes, block.offset()) {
            Ok(()) if digest(id) == Some(of_block(bytes)) => {}
            // A sector that cannot be read may well be written again elsewhere.
            Ok(()) => damaged.push(id),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => damaged.push(id),
            Err(error) => return Err(error),
        }
        work(bytes.len() as u64);
    }
    Ok(damaged)
}
