//! How both ends come to know each other: identities, dialling, accepting.

pub(crate) mod accept;
pub(crate) mod dial;
pub(crate) mod door;
pub(crate) mod identity;
