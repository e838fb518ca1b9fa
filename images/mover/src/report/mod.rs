//! What the mover tells the world: progress while it runs, a verdict at its end.

pub(crate) mod disk_watch;
pub(crate) mod ledger;
pub(crate) mod output;
mod pause;
pub(crate) mod progress;
pub(crate) mod verdict;
