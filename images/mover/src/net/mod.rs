//! Sockets: connections with identities, control, data streams and their pacing, the echo service.

pub(crate) mod affinity;
pub(crate) mod connect;
pub(crate) mod control_connection;
pub(crate) mod echo;
pub(crate) mod engine;
pub(crate) mod interface;
pub(crate) mod pacing;
pub(crate) mod paths;
pub(crate) mod send_buffer;
pub(crate) mod strangers;
pub(crate) mod streams;
pub(crate) mod tcp;
pub(crate) mod wire;
