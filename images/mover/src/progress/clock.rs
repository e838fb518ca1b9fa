//! The clock of a transfer, and the quiet periods in it, in which data is held back on purpose: no rate is judged by those.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::threads::lock;

/// Time since the mover started, and how much of it data could flow.
pub(crate) struct TransferClock {
    started: Instant,
    pause: Mutex<Pause>,
}

impl TransferClock {
    /// A clock that shows zero now.
    pub(super) fn start() -> Self {
        Self { started: Instant::now(), pause: Mutex::default() }
    }

    /// Time since the mover started.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The sender holds all data back for so long, from now; zero ends that.
    pub(crate) fn hold(&self, time: Duration) {
        let now = self.now();
        lock(&self.pause).set(now, now + time);
    }

    /// What is left of a quiet period.
    pub(crate) fn quiet_left(&self) -> Duration {
        lock(&self.pause).left(self.now())
    }

    /// When the last quiet period ends or ended.
    pub(crate) fn quiet_until(&self) -> Duration {
        lock(&self.pause).until
    }

    /// How long the quiet periods have lasted so far.
    pub(crate) fn quiet_total(&self) -> Duration {
        let now = self.now();
        lock(&self.pause).total(now)
    }

    /// `now` by a clock that stands still in quiet periods.
    pub(super) fn flowing(&self, now: Duration) -> Duration {
        now.saturating_sub(lock(&self.pause).total(now))
    }
}

/// Adds up pauses, of which the last may not be over yet. Times are since any fixed start.
#[derive(Debug, Default)]
struct Pause {
    past: Duration,
    since: Duration,
    until: Duration,
}

impl Pause {
    /// From `now` on, data is held back until `until`, whatever was set before.
    fn set(&mut self, now: Duration, until: Duration) {
        self.past = self.total(now);
        (self.since, self.until) = (now, until.max(now));
    }

    /// What is left of the pause at `now`.
    fn left(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    /// How much of the time up to `now`, which does not come before the last `set`, was paused.
    fn total(&self, now: Duration) -> Duration {
        self.past + self.until.min(now).saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_rate_stands_still_in_a_quiet_period() {
        let clock = TransferClock::start();
        lock(&clock.pause).set(Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(clock.flowing(clock.now()), Duration::ZERO);
        assert!(clock.quiet_left() > Duration::from_secs(3000));
        clock.hold(Duration::ZERO);
        assert_eq!(clock.quiet_left(), Duration::ZERO);
        let quiet = clock.quiet_total();
        assert!(quiet > Duration::ZERO);
        assert_eq!(clock.quiet_total(), quiet, "it is over");
    }

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
        assert_eq!(pause.total(at(50)), at(9), "set again to none");
    }
}
