//! Operations on the disk that are under way, so that a disk that does not answer is not taken for a quiet network.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::threads::lock;

/// The operations under way, oldest first.
#[derive(Default)]
pub(crate) struct DiskWatch {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    under_way: BTreeMap<u64, Instant>,
}

/// An operation; ends when dropped.
pub(crate) struct Operation<'a> {
    watch: &'a DiskWatch,
    id: u64,
}

impl DiskWatch {
    /// An operation begins.
    pub(crate) fn begin(&self) -> Operation<'_> {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        state.under_way.insert(id, Instant::now());
        Operation { watch: self, id }
    }

    /// Time the oldest operation has been under way; zero without one.
    pub(crate) fn oldest(&self) -> Duration {
        lock(&self.state).under_way.values().next().map_or(Duration::ZERO, Instant::elapsed)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        lock(&self.watch.state).under_way.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_operation_counts_until_it_ends() {
        let watch = DiskWatch::default();
        assert_eq!(watch.oldest(), Duration::ZERO);
        let old = watch.begin();
        let young = watch.begin();
        let age = watch.oldest();
        drop(young);
        assert!(watch.oldest() >= age && !watch.oldest().is_zero());
        drop(old);
        assert_eq!(watch.oldest(), Duration::ZERO);
    }
}
