//! Acknowledgements of packs, on their way from the threads of the data streams to the thread that sends messages. They are sent
//! several at a time: each message wakes a thread of this end and two of the other, and on a fast path a pack comes every 150 µs.

use std::sync::Mutex;
use std::time::Duration;

use fairlead_protocol::index::PackId;

use super::blocks::PackOutcome;
use crate::threads::lock;

/// Least time between two acknowledgements.
const INTERVAL: Duration = Duration::from_millis(2);

/// Packs of which the sender does not know the outcome yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PackOutcomes {
    pub(super) stored: Vec<PackId>,
    pub(super) damaged: Vec<PackId>,
}

/// Where the streams leave the outcomes of their packs.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements(Mutex<PackOutcomes>);

impl Acknowledgements {
    /// Adds a pack. True for the first since the last `take`: the caller has to see to it that they are taken.
    pub(super) fn add(&self, outcome: PackOutcome) -> bool {
        let mut outcomes = lock(&self.0);
        let first = *outcomes == PackOutcomes::default();
        match outcome {
            PackOutcome::Stored(pack) => outcomes.stored.push(pack),
            PackOutcome::Damaged(pack) => outcomes.damaged.push(pack),
        }
        first
    }

    /// What was added since the last time.
    pub(super) fn take(&self) -> PackOutcomes {
        std::mem::take(&mut lock(&self.0))
    }
}

/// When the next acknowledgement is due. Times are by any clock.
#[derive(Debug, Default)]
pub(super) struct AcknowledgementTimer {
    pending: bool,
    sent: Option<Duration>,
}

impl AcknowledgementTimer {
    /// Some packs are to be acknowledged.
    pub(super) fn set_pending(&mut self) {
        self.pending = true;
    }

    /// Time until the acknowledgement is due: none after a pause, else what is left of the interval. Nothing if no pack is pending.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let since = self.sent.map_or(INTERVAL, |sent| now.saturating_sub(sent));
        self.pending.then(|| INTERVAL.saturating_sub(since))
    }

    /// The pending packs are acknowledged at `now`.
    pub(super) fn set_sent(&mut self, now: Duration) {
        *self = Self { pending: false, sent: Some(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_some_packs_is_news() {
        let acknowledgements = Acknowledgements::default();
        let outcomes =
            [PackOutcome::Stored(PackId(4)), PackOutcome::Damaged(PackId(5)), PackOutcome::Stored(PackId(6))];
        assert_eq!(outcomes.map(|outcome| acknowledgements.add(outcome)), [true, false, false]);
        let expected = PackOutcomes { stored: vec![PackId(4), PackId(6)], damaged: vec![PackId(5)] };
        assert_eq!(acknowledgements.take(), expected);
        assert_eq!(acknowledgements.take(), PackOutcomes::default());
        assert!(acknowledgements.add(PackOutcome::Damaged(PackId(5))), "after they were taken");
    }

    #[test]
    fn the_sender_is_told_at_once_after_a_pause_and_then_in_intervals() {
        let at = Duration::from_micros;
        let mut timer = AcknowledgementTimer::default();
        assert_eq!(timer.due_in(at(0)), None, "nothing to tell");
        timer.set_pending();
        assert_eq!(timer.due_in(at(0)), Some(Duration::ZERO), "the first");
        timer.set_sent(at(100));
        assert_eq!(timer.due_in(at(200)), None);
        timer.set_pending();
        assert_eq!(timer.due_in(at(200)), Some(INTERVAL - at(100)));
        assert_eq!(timer.due_in(at(50)), Some(INTERVAL), "a clock that stood still");
        assert_eq!(timer.due_in(at(2100)), Some(Duration::ZERO));
        assert_eq!(timer.due_in(at(9000)), Some(Duration::ZERO));
    }
}
