//! Sockets: TLS with identities, the control connection, data streams, the echo service.

pub(crate) mod accept;
mod ahead;
pub(crate) mod data;
pub(crate) mod dial;
pub(crate) mod echo;
pub(crate) mod identity;
pub(crate) mod interface;
pub(crate) mod link;
pub(crate) mod pacing;
pub(crate) mod pool;
pub(crate) mod tcp;
pub(crate) mod wire;
