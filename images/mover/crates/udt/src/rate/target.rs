//! A rate that is given, and kept whatever is lost up to a bound, as Tsunami has it.

use std::time::Duration;

use super::{LossMeter, Pace, RateRules, RecentLosses, Seen};
use crate::SYN;

/// Part of the packets that may be lost before the rate is lowered.
const BOUND: f64 = 0.075;
/// What is left of the rate at least after a round trip above the bound.
const LEAST_KEPT: f64 = 0.8;
/// What is given back of it in a round trip below.
const RECOVERY: f64 = 25.0 / 24.0;
/// For how many round trips it is given back at once, where a slow sender's packets are further apart than that.
const MOST_ROUND_TRIPS: f64 = 16.0;

/// State of the policy.
pub(super) struct Target {
    losses: LossMeter,
    looked: Duration,
    /// Part of the rate that is in force.
    part: f64,
}

impl Default for Target {
    fn default() -> Self {
        Self { losses: LossMeter::default(), looked: Duration::ZERO, part: 1.0 }
    }
}

impl Target {
    /// The limit, or without one what the link is found to carry; 0 before that is known.
    fn aim(&self, seen: &Seen) -> f64 {
        seen.limit.unwrap_or(seen.capacity)
    }

    fn set(&self, seen: &Seen, pace: &mut Pace) {
        let rate = self.aim(seen) * self.part;
        if rate > 0.0 {
            pace.interval = 1.0 / rate;
        }
        // The receiver's room bounds what is under way.
        pace.window = f64::MAX;
    }
}

impl RateRules for Target {
    fn on_ack(&mut self, seen: &Seen, pace: &mut Pace) {
        if let Some(lost) = self.losses.look(seen) {
            let since = seen.now - std::mem::replace(&mut self.looked, seen.now);
            let round_trips = since.div_duration_f64(seen.rtt + SYN).clamp(1.0, MOST_ROUND_TRIPS);
            self.part = if lost > BOUND {
                // What arrives gets through, whatever is lost beside it.
                let arrives = (seen.arrival_rate / self.aim(seen)).min(self.part);
                (self.part * (1.0 - lost).max(LEAST_KEPT)).max(arrives)
            } else {
                (self.part * RECOVERY.powf(round_trips)).min(1.0)
            };
        }
        self.set(seen, pace);
    }

    fn on_loss(&mut self, seen: &Seen, _first: u64, _recent: RecentLosses, pace: &mut Pace) {
        self.set(seen, pace);
    }

    fn needs_no_start(&self, seen: &Seen) -> bool {
        seen.limit.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SEEN, SYN};
    use super::*;

    #[test]
    fn the_rate_is_the_limit_until_too_much_is_lost_and_again_after_that() {
        let (mut target, mut pace) = (Target::default(), Pace { interval: 0.1, window: 16.0, slow_start: false });
        let mut seen = Seen { limit: Some(2_000.0), ..SEEN };
        let mut round = |lost: u64| {
            seen = Seen { now: seen.now + SEEN.rtt + SYN, sent: seen.sent + 1000, lost: seen.lost + lost, ..seen };
            target.on_ack(&seen, &mut pace);
            1.0 / pace.interval
        };
        let near = |rate: f64, expected: f64| assert!((rate - expected).abs() < 1e-6, "{rate}");
        near(round(0), 2_000.0);
        near(round(70), 2_000.0);
        near(round(100), 1_800.0);
        near(round(500), 1_440.0);
        near(round(0), 1_500.0);
        near((0..20).map(|_| round(0)).fold(0.0, f64::max), 2_000.0);
        near((0..20).map(|_| round(900)).fold(f64::MAX, f64::min), SEEN.arrival_rate);
    }

    #[test]
    fn a_sender_whose_packets_are_round_trips_apart_is_given_back_as_much_as_a_fast_one() {
        let (mut target, mut pace) = (Target::default(), Pace { interval: 0.1, window: 16.0, slow_start: false });
        let slow = Seen { limit: Some(2_000.0), arrival_rate: 1.0, ..SEEN };
        target.on_ack(&slow, &mut pace);
        target.part = 0.1;
        let later = Seen { now: slow.now + (SEEN.rtt + SYN) * 3, sent: slow.sent + 1, ..slow };
        target.on_ack(&later, &mut pace);
        assert!((1.0 / pace.interval - 200.0 * RECOVERY.powi(3)).abs() < 1e-6, "{pace:?}");
    }
}
