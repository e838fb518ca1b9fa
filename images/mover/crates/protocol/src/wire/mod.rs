//! How it travels: control frames and their messages, packs, tags where nothing is encrypted, and seals of datagrams.

pub mod frame;
pub mod keyed;
pub mod message;
pub mod opening;
pub mod pack;
pub mod sealed;
