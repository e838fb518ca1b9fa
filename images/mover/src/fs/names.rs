//! The names in a directory, sorted, in one piece of memory: a directory may hold millions.

use std::os::fd::AsFd;

use rustix::fs::Dir;
use rustix::io::Errno;

/// Names without `.` and `..`, in the order of their bytes.
#[derive(Default)]
pub(super) struct Names {
    /// Each with a NUL behind it.
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Names {
    /// Reads an open directory; `work` is called for every name.
    pub(super) fn read(directory: impl AsFd, work: impl Fn()) -> Result<Self, Errno> {
        let mut names = Self::default();
        for item in Dir::read_from(directory)? {
            let item = item?;
            work();
            let name = item.file_name().to_bytes_with_nul();
            if name != b".\0" && name != b"..\0" {
                names.starts.push(names.bytes.len());
                names.bytes.extend_from_slice(name);
            }
        }
        let bytes = &names.bytes;
        names.starts.sort_unstable_by(|left, right| at(bytes, *left).cmp(at(bytes, *right)));
        Ok(names)
    }

    /// The name at this place of the order.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        self.starts.get(place).map(|start| at(&self.bytes, *start))
    }
}

fn at(bytes: &[u8], start: usize) -> &[u8] {
    bytes[start..].split(|byte| *byte == 0).next().unwrap_or_default()
}
