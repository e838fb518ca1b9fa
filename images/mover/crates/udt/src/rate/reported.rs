//! A rate that follows what the receiver reports: the rate at which packets come to it, and the room that it has left, which a slow disk
//! takes, as with PA-UDP.

use std::time::Duration;

use super::{LossMeter, Pace, RateRules, RecentLosses, Seen, FIRST_WINDOW};
use crate::SYN;

/// Part of the packets whose loss says that no more arrives than the path or the receiver takes.
const BOUND: f64 = 0.01;
/// By how much more than the present rate is tried for in a round trip, and how far at most above what arrives.
const TRY: f64 = 1.0625;
const MOST: f64 = 1.25;
/// What is left of the rate at least after a round trip with losses.
const LEAST_KEPT: f64 = 0.5;
/// Part of the receiver's room below which the rate goes with what is left of it.
const SHORT_OF_ROOM: f64 = 0.25;
/// Packets over which acknowledgements are counted at least.
const LEAST_ACKED: u64 = 16;

/// State of the policy.
#[derive(Default)]
pub(super) struct Reported {
    losses: LossMeter,
    acked: AckedRate,
    /// Without regard to the room; 0 before the first look.
    rate: f64,
}

/// Packets that are acknowledged per second. libudt reports less than what comes when it comes unevenly, since its filter leaves the short
/// gaps out: a rate held to that alone is never raised.
#[derive(Default)]
struct AckedRate {
    since: Duration,
    acked: u64,
    rate: f64,
}

impl AckedRate {
    fn follow(&mut self, seen: &Seen) -> f64 {
        let acked = seen.next - seen.in_flight;
        if acked >= self.acked + LEAST_ACKED && seen.now > self.since {
            let rate = (acked - self.acked) as f64 / (seen.now - self.since).as_secs_f64();
            *self = Self { since: seen.now, acked, rate };
        }
        self.rate
    }
}

impl RateRules for Reported {
    fn on_ack(&mut self, seen: &Seen, pace: &mut Pace) {
        let arrival_rate = seen.arrival_rate.max(self.acked.follow(seen));
        if self.rate == 0.0 {
            self.rate = if pace.interval > 0.0 { 1.0 / pace.interval } else { arrival_rate };
        }
        if let Some(lost) = self.losses.look(seen) {
            self.rate = if lost > BOUND {
                (self.rate * (1.0 - lost).max(LEAST_KEPT)).max(arrival_rate.min(self.rate))
            } else {
                self.rate.max((self.rate * TRY).min(arrival_rate * MOST))
            };
        }
        self.rate = self.rate.min(seen.limit.unwrap_or(f64::MAX));
        let room = (seen.free / (seen.room * SHORT_OF_ROOM).max(1.0)).min(1.0);
        // Never nothing: the window stops a sender whose receiver has no room.
        let rate = self.rate * room.max(0.01);
        if rate > 0.0 {
            pace.interval = 1.0 / rate;
        }
        pace.window = 2.0 * self.rate * (seen.rtt + SYN).as_secs_f64() + FIRST_WINDOW;
    }

    fn on_loss(&mut self, _seen: &Seen, _first: u64, _recent: RecentLosses, _pace: &mut Pace) {}
}

#[cfg(test)]
mod tests {
    use super::super::SEEN;
    use super::*;

    #[test]
    fn the_rate_follows_what_arrives_and_what_room_there_is() {
        let (mut reported, mut pace) = (Reported::default(), Pace { interval: 0.001, window: 16.0, slow_start: false });
        let mut seen = SEEN;
        let mut round = |lost: u64, arrival_rate: f64, free: f64| {
            let now = seen.now + SEEN.rtt + SYN;
            seen = Seen { now, sent: seen.sent + 1000, lost: seen.lost + lost, arrival_rate, free, ..seen };
            reported.on_ack(&seen, &mut pace);
            1.0 / pace.interval
        };
        let near = |rate: f64, expected: f64| assert!((rate - expected).abs() < 1e-6, "{rate}");
        near(round(5, 1000.0, 8192.0), 1062.5);
        near(round(0, 800.0, 8192.0), 1062.5);
        near(round(200, 900.0, 8192.0), 900.0);
        near(round(0, 900.0, 1024.0), 956.25 / 2.0);
        near(round(0, 900.0, 8192.0), 956.25 * TRY);
    }

    #[test]
    fn the_rate_rises_with_what_is_acknowledged_where_less_is_reported() {
        let (mut reported, mut pace) = (Reported::default(), Pace { interval: 0.01, window: 16.0, slow_start: false });
        let mut seen = Seen { next: 0, in_flight: 0, arrival_rate: 75.0, rtt: SYN, ..SEEN };
        for _ in 0..200 {
            let packets = ((SYN * 20).as_secs_f64() / pace.interval) as u64;
            seen = Seen { now: seen.now + SYN * 20, next: seen.next + packets, sent: seen.sent + packets, ..seen };
            reported.on_ack(&seen, &mut pace);
        }
        assert!(1.0 / pace.interval > 10_000.0, "{pace:?}");
    }
}
