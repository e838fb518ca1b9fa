//! What became of packs, on its way from the threads that receive them to the one that tells the sender. It is told of some at a
//! time: each message wakes a thread of this end and two of the other, and on a fast path a pack comes every 150 microseconds.

use std::sync::Mutex;
use std::time::Duration;

use fairlead_protocol::receiver::lock;

use crate::net::streams::inbound::PackOutcome;

/// Least time between two acknowledgements.
const INTERVAL: Duration = Duration::from_millis(2);

/// Packs that the sender was not told of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PackOutcomes {
    pub(super) stored: Vec<u64>,
    pub(super) damaged: Vec<u64>,
}

/// Where the streams leave what became of their packs.
#[derive(Debug, Default)]
pub(super) struct Receipts(Mutex<PackOutcomes>);

impl Receipts {
    /// Notes a pack. True for the first since they were taken: whoever takes them has to be told.
    pub(super) fn note(&self, fate: PackOutcome) -> bool {
        let mut fates = lock(&self.0);
        let first = *fates == PackOutcomes::default();
        match fate {
            PackOutcome::Stored(pack) => fates.stored.push(pack),
            PackOutcome::Damaged(pack) => fates.damaged.push(pack),
        }
        first
    }

    /// What was noted since the last time.
    pub(super) fn take(&self) -> PackOutcomes {
        std::mem::take(&mut lock(&self.0))
    }
}

/// When to tell the sender. Times are by any clock.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    waiting: bool,
    told: Option<Duration>,
}

impl Rhythm {
    /// Some packs wait to be told of.
    pub(super) fn wait(&mut self) {
        self.waiting = true;
    }

    /// How long to go on waiting: at once after a pause, else not before the interval is over. Nothing if there is nothing to tell.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let since = self.told.map_or(INTERVAL, |told| now.saturating_sub(told));
        self.waiting.then(|| INTERVAL.saturating_sub(since))
    }

    /// They are told of now.
    pub(super) fn tell(&mut self, now: Duration) {
        *self = Self { waiting: false, told: Some(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_some_packs_is_news() {
        let receipts = Receipts::default();
        let noted =
            [PackOutcome::Stored(4), PackOutcome::Damaged(5), PackOutcome::Stored(6)].map(|fate| receipts.note(fate));
        assert_eq!(noted, [true, false, false]);
        assert_eq!(receipts.take(), PackOutcomes { stored: vec![4, 6], damaged: vec![5] });
        assert_eq!(receipts.take(), PackOutcomes::default());
        assert!(receipts.note(PackOutcome::Damaged(5)), "after they were taken");
    }

    #[test]
    fn the_sender_is_told_at_once_after_a_pause_and_then_in_intervals() {
        let at = Duration::from_micros;
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.due_in(at(0)), None, "nothing to tell");
        rhythm.wait();
        assert_eq!(rhythm.due_in(at(0)), Some(Duration::ZERO), "the first");
        rhythm.tell(at(100));
        assert_eq!(rhythm.due_in(at(200)), None);
        rhythm.wait();
        assert_eq!(rhythm.due_in(at(200)), Some(INTERVAL - at(100)));
        assert_eq!(rhythm.due_in(at(50)), Some(INTERVAL), "a clock that stood still");
        assert_eq!(rhythm.due_in(at(2100)), Some(Duration::ZERO));
        assert_eq!(rhythm.due_in(at(9000)), Some(Duration::ZERO));
    }
}
