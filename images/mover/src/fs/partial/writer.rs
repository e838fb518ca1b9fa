//! Puts verified blocks in their places in partial files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairlead_protocol::digest::block_count;
use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Extent, Listing, Lookup};
use fairlead_protocol::pack::Segment;
use fairlead_protocol::Fault;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::large::LargeFile;
use super::PartialDirectory;
use crate::fault_injection::{crash_point, hang_point};
use crate::fs::metadata::{set_metadata, Preserve, FILE_MODE};
use crate::fs::survey::write_fault;

/// Grain of holes smaller than a block: what most file systems allocate at once.
const HOLE_BYTES: usize = 4096;

/// Writes blocks for one stream and keeps the last large file open.
pub(crate) struct BlockWriter<'a> {
    partial: &'a PartialDirectory,
    listing: &'a Listing,
    preserve: &'a [Preserve],
    entries: Lookup<'a>,
    open: Option<(FileIndex, LargeFile)>,
}

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(partial: &'a PartialDirectory, listing: &'a Listing, preserve: &'a [Preserve]) -> Self {
        Self { partial, listing, preserve, entries: Lookup::new(listing), open: None }
    }

    /// Writes a verified block in its place. Nothing of its file is truncated: a block that arrives twice is the same bytes.
    pub(crate) fn write(&mut self, segment: &Segment, bytes: &[u8]) -> Result<(), Fault> {
        self.try_write(segment, bytes)
            .map_err(|error| write_fault(&show(&self.listing.entry(segment.file).path), &error))
    }

    fn try_write(&mut self, segment: &Segment, bytes: &[u8]) -> io::Result<()> {
        let Some(Extent { size, has_holes, .. }) = self.listing.extent(segment.file) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if block_count(size) == 1 {
            return self.write_whole(segment, has_holes, bytes);
        }
        let file = match &mut self.open {
            Some((index, file)) if *index == segment.file => file,
            _ => {
                let file = LargeFile::open(self.partial, segment.file, size, has_holes)?;
                &mut self.open.insert((segment.file, file)).1
            }
        };
        crash_point();
        hang_point("WRITE");
        if has_holes {
            write_sparsely(file.buffered(), segment, bytes)
        } else {
            file.write(bytes, segment.block.offset())
        }
    }

    /// Writes a file of one block and gives it its metadata while it is open: opening it again costs more than all else.
    fn write_whole(&mut self, segment: &Segment, has_holes: bool, bytes: &[u8]) -> io::Result<()> {
        let file = self.partial.open_entry(segment.file)?;
        crash_point();
        hang_point("WRITE");
        let length = u64::from(segment.length);
        // What an earlier attempt left behind the file's end must not become part of it: nobody looks at the size again.
        if has_holes || file.metadata()?.len() > length {
            file.set_len(length)?;
        }
        if has_holes {
            write_sparsely(&file, segment, bytes)?;
        } else {
            file.write_all_at(bytes, 0)?;
        }
        if let Some(entry) = self.entries.get(segment.file) {
            set_metadata(&file, &entry, self.preserve, FILE_MODE)?;
            self.partial.finish(segment.file);
        }
        Ok(())
    }
}

/// Writes what is not zero of a block of a file with holes, and makes the rest a hole, whatever was there.
fn write_sparsely(file: &File, segment: &Segment, bytes: &[u8]) -> io::Result<()> {
    let start = segment.block.offset();
    if segment.is_hole {
        return make_hole(file, start, u64::from(segment.length));
    }
    let grains: Vec<(bool, &[u8])> = bytes.chunks(HOLE_BYTES).map(|grain| (is_zero(grain), grain)).collect();
    let mut at = 0;
    for run in grains.chunk_by(|left, right| left.0 == right.0) {
        let length: usize = run.iter().map(|(_, grain)| grain.len()).sum();
        let place = start + at as u64;
        if run[0].0 {
            make_hole(file, place, length as u64)?;
        } else {
            file.write_all_at(&bytes[at..at + length], place)?;
        }
        at += length;
    }
    Ok(())
}

/// Frees a range of a file, or fills it with zeros where the file system has no holes.
fn make_hole(file: &File, start: u64, length: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, length) {
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => file.write_all_at(&vec![0; length as usize], start),
        result => Ok(result?),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use fairlead_protocol::digest::of_block;
    use fairlead_protocol::index::BlockIndex;
    use fairlead_protocol::listing::Kind;

    use super::*;
    use crate::fs::root::Root;
    use crate::fs::samples::{entry, listing};

    #[test]
    fn what_was_left_behind_the_end_of_a_file_of_one_block_does_not_become_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, _) = PartialDirectory::open(&Root::open(folder.path()).unwrap(), "job", 1).unwrap();
        partial.prepare(vec![0]).unwrap();
        let index = FileIndex(0);
        partial.open_entry(index).unwrap().write_all_at(b"longer than it", 0).unwrap();
        let listing = listing(&[entry("file", Kind::File, 5)]);
        let segment =
            Segment { file: index, block: BlockIndex(0), length: 5, digest: of_block(b"bytes"), is_hole: false };
        BlockWriter::new(&partial, &listing, &[]).write(&segment, b"bytes").unwrap();
        assert!(partial.is_finished(index));
        assert_eq!(std::fs::read(folder.path().join(".fairlead-job/0/0")).unwrap(), b"bytes");
    }
}
