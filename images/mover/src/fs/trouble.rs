//! Errors of files that say nothing against the path or the rights to it.

use std::io;

use rustix::io::Errno;

/// What a person is told to look at after such an error.
pub(crate) const REMEDY: &str =
    "another attempt may find it well again; look at the volume, at what is between it and the node, and at the node's memory and open files";

/// Whether the file system or the node is in trouble that another attempt, also on another node, may not meet: a disk or file server
/// that does not answer, a handle that has become stale, too little memory, too many open files.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::IO | Errno::STALE | Errno::TIMEDOUT | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::AGAIN)
    )
}
