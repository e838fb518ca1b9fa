//! Doors for other processes: read-only HTTP on a port, control over a Unix socket.

pub(crate) mod http;
pub(crate) mod metrics;
mod server;
pub(crate) mod socket;
