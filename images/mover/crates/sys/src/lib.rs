//! The few system calls that no library offers safely.
