//! The control socket: one line of JSON asks, one line of JSON answers, over a UNIX stream socket.

pub mod client;
pub mod protocol;
pub mod server;
