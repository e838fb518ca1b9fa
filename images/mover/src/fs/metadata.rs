//! Modes and times of what was received.

use std::io;
use std::os::fd::AsFd;

use clap::ValueEnum;
use fairlead_protocol::listing::Entry;
use rustix::fs::{Mode, Stat, Timespec, Timestamps, UTIME_OMIT};

use crate::fault_injection::crash_point;

/// What is kept besides the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Preserve {
    Mode,
    ModificationTime,
    /// Nothing: a list on a command line cannot be empty.
    None,
}

/// Mode of a file of which the mode is not kept.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Gives an open file or directory what is kept of the entry; the mode is `default_mode` if that is not.
pub(crate) fn set_metadata(
    file: impl AsFd,
    entry: &Entry,
    preserve: &[Preserve],
    default_mode: Mode,
) -> io::Result<()> {
    let mode = if preserve.contains(&Preserve::Mode) { Mode::from_raw_mode(entry.mode) } else { default_mode };
    crash_point();
    rustix::fs::fchmod(&file, mode)?;
    if preserve.contains(&Preserve::ModificationTime) {
        rustix::fs::futimens(&file, &times(entry))?;
    }
    Ok(())
}

/// What a file was like: equal only if neither its size nor its times of modification and change have changed. Whoever puts another file in
/// its place changes these too, and its inode's number is not the same for ever on every network file system. Eight bytes of a
/// digest of them, since there may be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState([u8; 8]);

impl FileState {
    pub(crate) fn of(stat: &Stat) -> Self {
        let mut hasher = blake3::Hasher::new();
        for number in [stat.st_size as u64, stat.st_mtime as u64, stat.st_ctime as u64] {
            hasher.update(&number.to_le_bytes());
        }
        for nanoseconds in [stat.st_mtime_nsec as u32, stat.st_ctime_nsec as u32] {
            hasher.update(&nanoseconds.to_le_bytes());
        }
        let mut state = [0; 8];
        hasher.finalize_xof().fill(&mut state);
        Self(state)
    }
}

/// The entry's time of modification, as system calls take it.
pub(crate) fn times(entry: &Entry) -> Timestamps {
    modified_at((entry.mtime_s, entry.mtime_ns))
}

/// A time of modification, whole seconds since 1970 and nanoseconds of the second, as system calls take it.
pub(crate) fn modified_at((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) },
    }
}
