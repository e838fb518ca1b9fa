//! How it travels: control frames and their messages, packs, and tags where nothing is encrypted.

pub mod frame;
pub mod keyed;
pub mod message;
pub mod opening;
pub mod pack;
