//! Data streams: what the sender puts into them and what the receiver makes of it.

pub(crate) mod inbound;
pub(crate) mod outbound;
