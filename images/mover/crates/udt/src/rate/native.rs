//! UDT's own rate control: additive increase by decades of the free bandwidth, decrease by a ninth (draft, section 4). A loss that is no
//! sign of a full path costs nothing. That is UDT's own aim for noisy links, where it spares the first loss of an epoch [Gu 2009]; where an
//! epoch has thousands of packets, here it is a part of them. Beside a queue so few losses cost one ninth in an epoch and no more.

use std::time::Duration;

use super::{Pace, RateRules, RecentLosses, Seen, FIRST_WINDOW};
use crate::estimate::LEAST_SPAN;
use crate::SYN;

/// Packets x bytes that a second of one bit per second of free bandwidth is worth.
const BETA: f64 = 1.5e-6;
/// By which a loss stretches the interval.
const DECREASE: f64 = 1.125;
/// Decreases within one congestion epoch, the first one aside.
const DECREASES: u32 = 5;
/// Part of the packets of the last round trips whose loss is noise as long as there is no queue.
const NOISE: f64 = 0.005;
/// How far the rate may be above what arrives, or above the first window in a round trip. Pairs of packets that a host takes in one go
/// promise far more than there is.
const MOST_ABOVE: f64 = 1.125;

/// By how many packets in a `SYN` the rate grows, with so many bits per second of the capacity free and packets of so many bytes.
pub fn increase_packets(free_bps: f64, packet_bytes: f64) -> f64 {
    let least = 1.0 / packet_bytes;
    if free_bps <= 0.0 {
        return least;
    }
    (10f64.powf(free_bps.log10().ceil()) * BETA / packet_bytes).max(least)
}

/// Whether a noisy link may lose as many.
fn is_few(recent: RecentLosses) -> bool {
    recent.lost as f64 <= (NOISE * recent.sent as f64).max(1.0)
}

/// State of the control.
pub(super) struct Native {
    random: u64,
    /// Until when the window has no room for a queue: for a round trip after the slow start, which made one.
    drains_until: Option<Duration>,
    /// When more was lost than a noisy link loses, and what arrived then.
    full: Option<(Duration, f64)>,
    /// When the rate was increased last.
    increased: Option<Duration>,
    /// A loss was reported since the last acknowledgement.
    lost: bool,
    /// The packet that was the next one at the last decrease: a loss behind it begins a new congestion epoch.
    epoch_ends: u64,
    /// Reports of losses in this epoch, and their mean over epochs.
    reports: u32,
    mean_reports: f64,
    /// After how many reports the rate is decreased again within the epoch, and how often it was.
    every: u32,
    decreases: u32,
}

impl Native {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: seed,
            drains_until: None,
            full: None,
            increased: None,
            lost: false,
            epoch_ends: 0,
            reports: 0,
            mean_reports: 1.0,
            every: 1,
            decreases: 0,
        }
    }

    /// Times a `SYN` since the last increase. More than one where a lost packet held acknowledgements back, for a round trip at most.
    fn intervals_since(&mut self, seen: &Seen) -> f64 {
        let last = self.increased.replace(seen.now).unwrap_or(seen.now);
        (seen.now - last).clamp(SYN, seen.rtt.max(SYN)).as_secs_f64() / SYN.as_secs_f64()
    }

    /// The link's capacity. A receiver that wakes late stretches pairs, which then show less than arrives: there is a little more than
    /// that, unless that much was too much not long ago.
    fn capacity(&self, seen: &Seen) -> f64 {
        let full = self.full.filter(|(at, _)| seen.now < *at + LEAST_SPAN).map_or(f64::MAX, |(_, rate)| rate);
        seen.capacity.max((seen.arrival_rate * MOST_ABOVE).min(full))
    }

    /// 1 to `most`, by SplitMix64.
    fn random(&mut self, most: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + ((mixed ^ (mixed >> 31)) % u64::from(most.max(1))) as u32
    }
}

impl RateRules for Native {
    fn is_noise(&self, seen: &Seen, recent: RecentLosses) -> bool {
        !seen.has_queue() && is_few(recent)
    }

    fn on_ack(&mut self, seen: &Seen, pace: &mut Pace) {
        let syn = SYN.as_secs_f64();
        let drains = seen.now < *self.drains_until.get_or_insert(seen.now + seen.rtt);
        let round_trip = if drains { seen.least_rtt } else { seen.rtt };
        pace.window = seen.arrival_rate * (round_trip.as_secs_f64() + syn) + FIRST_WINDOW;
        if std::mem::take(&mut self.lost) {
            self.increased = Some(seen.now);
            return;
        }
        let interval = pace.interval.max(1e-9);
        let free_bps = (self.capacity(seen) - 1.0 / interval) * seen.packet_bytes * 8.0;
        let increase = increase_packets(free_bps, seen.packet_bytes) * self.intervals_since(seen);
        let increased = interval * syn / (interval * increase + syn);
        let first = FIRST_WINDOW / (seen.rtt.as_secs_f64() + syn);
        let least = if seen.arrival_rate > 0.0 { 1.0 / (seen.arrival_rate.max(first) * MOST_ABOVE) } else { 0.0 };
        // What is above it already does not grow, and is left to losses.
        pace.interval = increased.max(least.min(interval));
    }

    fn on_loss(&mut self, seen: &Seen, first: u64, recent: RecentLosses, pace: &mut Pace) {
        self.lost = true;
        if !is_few(recent) {
            self.full = Some((seen.now, seen.arrival_rate));
        }
        if first >= self.epoch_ends {
            let slower = pace.interval * DECREASE;
            // A ninth below what arrives drains a queue. A few losses beside one take the rate no further.
            let drains = (DECREASE / seen.arrival_rate).max(pace.interval);
            pace.interval = if is_few(recent) { slower.min(drains) } else { slower };
            self.mean_reports = self.mean_reports * 0.875 + f64::from(self.reports) * 0.125;
            (self.reports, self.decreases) = (1, 0);
            self.every = self.random(self.mean_reports.round().max(1.0) as u32);
            self.epoch_ends = seen.next;
            return;
        }
        self.reports += 1;
        if self.decreases < DECREASES && self.reports % self.every == 0 && !is_few(recent) {
            pace.interval *= DECREASE;
            self.decreases += 1;
            self.epoch_ends = seen.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SEEN;
    use super::*;

    const MANY: RecentLosses = RecentLosses { sent: 1000, lost: 100 };

    #[test]
    fn the_increase_goes_by_decades_of_what_is_free() {
        let cases = [
            (50e3, 1.0 / 1500.0),
            (0.5e6, 0.001),
            (5e6, 0.01),
            (50e6, 0.1),
            (500e6, 1.0),
            (0.0, 1.0 / 1500.0),
            (-1e9, 1.0 / 1500.0),
        ];
        for (free_bps, expected) in cases {
            let found = increase_packets(free_bps, 1500.0);
            assert!((found - expected).abs() < 1e-12, "{free_bps}: {found}");
        }
    }

    fn pace(interval: f64) -> Pace {
        Pace { interval, window: FIRST_WINDOW, slow_start: false }
    }

    #[test]
    fn an_acknowledgement_adds_the_increase_to_what_goes_in_a_syn() {
        // 10 packets in 10 ms; 9,000 packets per second of 1,500 bytes are free: 108 Mb/s, a decade of 1 Gb/s.
        let (mut native, mut pace) = (Native::new(1), pace(0.001));
        native.on_ack(&SEEN, &mut pace);
        assert!((0.01 / pace.interval - 11.0).abs() < 1e-9, "{pace:?}");
        assert!((pace.window - 116.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn an_acknowledgement_that_was_held_back_makes_up_for_a_round_trip_of_increases() {
        let (mut native, mut pace) = (Native::new(1), pace(0.001));
        let fast = Seen { arrival_rate: 2_000.0, ..SEEN };
        native.on_ack(&fast, &mut pace);
        let before = pace.interval;
        native.on_ack(&Seen { now: SEEN.now + Duration::from_secs(9), ..fast }, &mut pace);
        assert!(
            (0.01 / pace.interval - 0.01 / before - 9.0).abs() < 1e-9,
            "one packet for each of 9 times 10 ms: {pace:?}"
        );
    }

    #[test]
    fn the_rate_grows_to_an_eighth_above_what_arrives_and_no_further() {
        let (mut native, mut pace) = (Native::new(1), pace(0.001));
        for round in 0..50 {
            native.on_ack(&Seen { now: SEEN.now + SYN * round, ..SEEN }, &mut pace);
        }
        assert!((1.0 / pace.interval - 1_125.0).abs() < 1e-6, "{pace:?}");
        let before = pace.interval;
        native.on_ack(&Seen { now: SEEN.now + SYN * 50, arrival_rate: 500.0, ..SEEN }, &mut pace);
        assert_eq!(pace.interval, before, "less that arrives is no reason to slow down");
    }

    #[test]
    fn the_first_window_in_a_round_trip_is_never_too_much() {
        let (mut native, mut pace) = (Native::new(1), pace(0.05));
        for round in 0..50 {
            native.on_ack(&Seen { now: SEEN.now + SYN * round, arrival_rate: 20.0, ..SEEN }, &mut pace);
        }
        assert!((1.0 / pace.interval - 160.0 * MOST_ABOVE).abs() < 1e-6, "16 in 90 ms and 10: {pace:?}");
    }

    #[test]
    fn few_losses_are_noise_where_there_is_no_queue() {
        let cases = [
            ("five in a thousand", 1000, 5, 90, true),
            ("six in a thousand", 1000, 6, 90, false),
            ("the first one", 9, 1, 90, true),
            ("two in a few", 300, 2, 90, false),
            ("one with a queue", 1000, 1, 102, false),
            ("one with a queue that is shorter than the clock sees", 1000, 1, 101, true),
        ];
        for (name, sent, lost, rtt_ms, expected) in cases {
            let seen = Seen { rtt: Duration::from_millis(rtt_ms), ..SEEN };
            assert_eq!(Native::new(1).is_noise(&seen, RecentLosses { sent, lost }), expected, "{name}");
        }
    }

    #[test]
    fn a_loss_of_a_new_epoch_costs_a_ninth_and_those_of_the_same_one_not_each() {
        let (mut native, mut pace) = (Native::new(1), pace(0.001));
        native.on_loss(&SEEN, 900, MANY, &mut pace);
        assert!((pace.interval - 0.001125).abs() < 1e-12);
        let after_first = pace.interval;
        for _ in 0..100 {
            native.on_loss(&SEEN, 950, MANY, &mut pace);
        }
        let most = after_first * DECREASE.powi(DECREASES as i32);
        assert!(pace.interval > after_first && pace.interval <= most + 1e-12, "{pace:?}");
        native.on_loss(&Seen { next: 2000, ..SEEN }, 1000, MANY, &mut pace);
        assert!(pace.interval > most, "a new epoch");
        let before = pace.interval;
        native.on_ack(&SEEN, &mut pace);
        assert_eq!(pace.interval, before, "no increase beside a loss");
    }

    #[test]
    fn few_losses_beside_a_queue_take_the_rate_to_a_ninth_below_what_arrives_and_no_further() {
        let few = RecentLosses { sent: 1000, lost: 5 };
        let (mut native, mut pace) = (Native::new(1), pace(0.0009));
        native.on_loss(&SEEN, 900, few, &mut pace);
        assert!((pace.interval - 0.0009 * DECREASE).abs() < 1e-12, "a ninth");
        let after_first = pace.interval;
        (0..100).for_each(|_| native.on_loss(&SEEN, 950, few, &mut pace));
        assert_eq!(pace.interval, after_first, "once in an epoch");
        for epoch in 2..10 {
            native.on_loss(&Seen { next: 1000 * epoch, ..SEEN }, 1000 * epoch - 100, few, &mut pace);
        }
        assert!((pace.interval - DECREASE / SEEN.arrival_rate).abs() < 1e-12, "{pace:?}");
        native.on_loss(&Seen { arrival_rate: 2_000.0, next: 20_000, ..SEEN }, 19_000, few, &mut pace);
        assert!((pace.interval - DECREASE / SEEN.arrival_rate).abs() < 1e-12, "a loss makes nothing faster: {pace:?}");
    }

    #[test]
    fn pairs_that_show_less_than_arrives_do_not_stop_the_rate() {
        let seen = Seen { arrival_rate: 10_000.0, capacity: 5_000.0, ..SEEN };
        let (mut native, mut pace) = (Native::new(1), pace(0.0001));
        native.on_ack(&seen, &mut pace);
        let expected = increase_packets(1_250.0 * 1500.0 * 8.0, 1500.0);
        assert!((SYN.as_secs_f64() / pace.interval - 100.0 - expected).abs() < 1e-6, "{pace:?}");
        native.on_loss(&seen, 900, MANY, &mut pace);
        for (waited, grows) in [(SYN, false), (SYN * 2, false), (LEAST_SPAN, true)] {
            pace.interval = 0.0001;
            native.on_ack(&Seen { now: seen.now + waited, ..seen }, &mut pace);
            let increase = SYN.as_secs_f64() / pace.interval - 100.0;
            assert_eq!(increase > 0.01, grows, "{waited:?} after much was lost at that rate: {increase}");
        }
    }

    #[test]
    fn for_a_round_trip_after_the_slow_start_the_window_has_no_room_for_a_queue() {
        let with_queue = Seen { rtt: SEEN.rtt * 2, ..SEEN };
        let (mut native, mut pace) = (Native::new(1), pace(0.001));
        for (waited, round_trip) in [(Duration::ZERO, SEEN.rtt), (SEEN.rtt, SEEN.rtt), (SEEN.rtt * 2, with_queue.rtt)] {
            native.on_ack(&Seen { now: SEEN.now + waited, ..with_queue }, &mut pace);
            let expected = SEEN.arrival_rate * (round_trip + SYN).as_secs_f64() + FIRST_WINDOW;
            assert!((pace.window - expected).abs() < 1e-6, "after {waited:?}: {pace:?}");
        }
    }

    #[test]
    fn after_many_reports_in_an_epoch_the_next_one_waits_a_random_number_of_them() {
        let mut native = Native::new(7);
        let mut seen: Vec<u32> = (0..1000).map(|_| native.random(5)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }
}
