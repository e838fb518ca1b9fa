//! Time in which data is held back on purpose: no rate is to be judged by it. Times are durations since any fixed start.

use std::time::Duration;

/// Adds up pauses, of which the last may not be over yet.
#[derive(Debug, Default)]
pub(super) struct Pause {
    past: Duration,
    since: Duration,
    until: Duration,
}

impl Pause {
    /// From `now` on, data is held back until `until`, whatever was said before.
    pub(super) fn set(&mut self, now: Duration, until: Duration) {
        self.past = self.total(now);
        (self.since, self.until) = (now, until.max(now));
    }

    /// What is left of the pause at `now`.
    pub(super) fn left(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    /// When the last pause ends or ended.
    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// How much of the time up to `now`, which does not come before the last `set`, was paused.
    pub(super) fn total(&self, now: Duration) -> Duration {
        self.past + self.until.min(now).saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_up_however_they_are_replaced() {
        let at = Duration::from_secs;
        let mut pause = Pause::default();
        assert_eq!((pause.total(at(7)), pause.left(at(7))), (at(0), at(0)));
        pause.set(at(10), at(20));
        assert_eq!((pause.total(at(10)), pause.left(at(10))), (at(0), at(10)));
        assert_eq!((pause.total(at(14)), pause.left(at(14))), (at(4), at(6)));
        pause.set(at(14), at(16));
        assert_eq!((pause.total(at(30)), pause.left(at(30))), (at(6), at(0)), "shortened");
        pause.set(at(30), at(40));
        pause.set(at(33), at(0));
        assert_eq!((pause.total(at(40)), pause.left(at(33))), (at(9), at(0)), "ended");
        pause.set(at(41), at(41));
        assert_eq!(pause.total(at(50)), at(9), "told again that there is none");
    }
}
