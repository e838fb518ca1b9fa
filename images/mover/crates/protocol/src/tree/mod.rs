//! What is moved: names, entries and the digests of their content.

pub mod digest;
pub mod listing;
pub mod name;
