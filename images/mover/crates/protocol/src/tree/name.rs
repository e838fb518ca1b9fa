//! Which names a peer may send. The receiver treats them as hostile.

use crate::fault::{show, Fault, Reason};
use crate::limits::{JOB_BYTES, NAME_BYTES, PATH_BYTES, RESERVED_PREFIX, TARGET_BYTES};

/// Why a path cannot be a name below the destination's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The path has no bytes.
    #[error("is empty")]
    Empty,
    /// The path is longer than `PATH_MAX` allows.
    #[error("is longer than {PATH_BYTES} bytes")]
    PathTooLong,
    /// The path starts at the file system's root.
    #[error("is absolute")]
    Absolute,
    /// Two slashes follow each other, or the path ends with one.
    #[error("has an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("has a component \".\" or \"..\"")]
    DotComponent,
    /// A component is longer than `NAME_MAX`.
    #[error("has a component longer than {NAME_BYTES} bytes")]
    NameTooLong,
    /// The path holds a NUL byte.
    #[error("holds a NUL byte")]
    Nul,
    /// The name is one that the mover keeps for its partial files.
    #[error("starts with \".fairlead-\", which is kept for partial files")]
    Reserved,
}

impl NameError {
    /// The fault for the entry with this path.
    pub fn fault(self, path: &[u8]) -> Fault {
        Fault::new(Reason::NameNotAllowed, format!("the name {} {self}; rename or exclude it", show(path)))
    }
}

/// Checks a path relative to the root.
pub fn check_path(path: &[u8]) -> Result<(), NameError> {
    if path.is_empty() {
        return Err(NameError::Empty);
    }
    if path.len() > PATH_BYTES {
        return Err(NameError::PathTooLong);
    }
    if path[0] == b'/' {
        return Err(NameError::Absolute);
    }
    if path.contains(&0) {
        return Err(NameError::Nul);
    }
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" => return Err(NameError::EmptyComponent),
            b"." | b".." => return Err(NameError::DotComponent),
            name if name.len() > NAME_BYTES => return Err(NameError::NameTooLong),
            _ => {}
        }
    }
    if path.starts_with(RESERVED_PREFIX) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

/// Checks the target of a symbolic link; it may point anywhere, since it is stored and never followed.
pub fn check_target(target: &[u8]) -> Result<(), NameError> {
    match target {
        b"" => Err(NameError::Empty),
        _ if target.len() > TARGET_BYTES => Err(NameError::PathTooLong),
        _ if target.contains(&0) => Err(NameError::Nul),
        _ => Ok(()),
    }
}

/// Whether a job's name can be part of a file name, a DNS name and a URI.
pub fn job_is_valid(job: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !job.is_empty() && job.len() <= JOB_BYTES && job.bytes().all(inner) && !job.starts_with('-') && !job.ends_with('-')
}

/// Splits a path into its parent (empty for the root) and its last component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_by_the_table() {
        let long_name = vec![b'a'; 256];
        let long_path = [b"a/".repeat(2048).as_slice(), b"b"].concat();
        let table: &[(&[u8], Result<(), NameError>)] = &[
            (b"a", Ok(())),
            (b"a/b c/\xff\xfe", Ok(())),
            (b"..a/a../...", Ok(())),
            (b"a\nb", Ok(())),
            (b"a/.fairlead-x", Ok(())),
            (&long_name[..255], Ok(())),
            (b"", Err(NameError::Empty)),
            (b"/", Err(NameError::Absolute)),
            (b"/etc/passwd", Err(NameError::Absolute)),
            (b"..", Err(NameError::DotComponent)),
            (b"a/../b", Err(NameError::DotComponent)),
            (b"a/..", Err(NameError::DotComponent)),
            (b".", Err(NameError::DotComponent)),
            (b"a/./b", Err(NameError::DotComponent)),
            (b"a//b", Err(NameError::EmptyComponent)),
            (b"a/", Err(NameError::EmptyComponent)),
            (b"a\0b", Err(NameError::Nul)),
            (&long_name, Err(NameError::NameTooLong)),
            (&long_path, Err(NameError::PathTooLong)),
            (b".fairlead-job", Err(NameError::Reserved)),
            (b".fairlead-job/x", Err(NameError::Reserved)),
        ];
        for (path, expected) in table {
            assert_eq!(check_path(path), *expected, "{}", show(path));
        }
    }

    #[test]
    fn link_targets_may_point_anywhere_but_are_bounded() {
        assert_eq!(check_target(b"../../etc/passwd"), Ok(()));
        assert_eq!(check_target(b""), Err(NameError::Empty));
        assert_eq!(check_target(b"a\0"), Err(NameError::Nul));
        assert_eq!(check_target(&[b'a'; 4096]), Err(NameError::PathTooLong));
    }

    #[test]
    fn job_names_are_dns_labels() {
        for (job, valid) in [
            ("local", true),
            ("0d5a3c1e-7e37-4f6a-9a57-0b4bb3c2cf5e", true),
            ("", false),
            ("A", false),
            ("a/b", false),
            ("..", false),
            ("-a", false),
            ("a-", false),
        ] {
            assert_eq!(job_is_valid(job), valid, "{job}");
        }
        assert!(!job_is_valid(&"a".repeat(64)));
    }

    #[test]
    fn a_path_splits_at_its_last_slash() {
        assert_eq!(split(b"a/b/c"), (b"a/b".as_slice(), b"c".as_slice()));
        assert_eq!(split(b"c"), (b"".as_slice(), b"c".as_slice()));
    }
}
