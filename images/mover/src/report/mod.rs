//! What people and programs see of a transfer: events and a progress line while it runs, a verdict at its end.

pub(crate) mod output;
pub(crate) mod verdict;
