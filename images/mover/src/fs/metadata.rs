//! Modes and times of what was received.

use std::io;
use std::os::fd::AsFd;

use clap::ValueEnum;
use fairlead_protocol::listing::Entry;
use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT};

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
