//! What is measured: the round-trip time, and at the receiver the rate at which packets come and the one that the link could carry.

use std::collections::VecDeque;
use std::time::Duration;

/// Values of a filter (draft, section 3: 16 intervals).
const VALUES: usize = 16;
/// How far a value may be from the median to count.
const OUTLIER: f64 = 8.0;
/// Packets of this time count together. The draft takes each interval between two packets, but senders and kernels hand packets on in
/// bursts, within which the interval says nothing of the rate.
const BATCH: Duration = Duration::from_millis(1);
/// An interval that the clock did not see.
const LEAST_INTERVAL: Duration = Duration::from_micros(1);
/// Time after which a path may have become another one, with a longer round trip.
pub(crate) const LEAST_SPAN: Duration = Duration::from_secs(60);
/// Every so many packets two are sent one after the other.
pub(crate) const PAIR_EVERY: u64 = 16;

/// The rate over those of the last 16 spans whose packets came at about the median's rate.
#[derive(Clone, Debug, Default)]
struct MedianFilter {
    /// Seconds, and the packets that came in them.
    spans: VecDeque<(f64, u32)>,
}

impl MedianFilter {
    fn push(&mut self, span: Duration, packets: u32) {
        if self.spans.len() == VALUES {
            self.spans.pop_front();
        }
        self.spans.push_back((span.as_secs_f64(), packets));
    }

    /// Packets per second; 0 if there are too few spans that agree.
    fn rate(&self) -> f64 {
        let interval = |(seconds, packets): &(f64, u32)| seconds / f64::from(*packets);
        let mut sorted: Vec<f64> = self.spans.iter().map(interval).collect();
        sorted.sort_by(f64::total_cmp);
        let Some(median) = sorted.get(sorted.len() / 2) else { return 0.0 };
        let is_near = |span: &&(f64, u32)| interval(span) * OUTLIER > *median && interval(span) < median * OUTLIER;
        let near = self.spans.iter().filter(is_near);
        let (count, seconds, packets) = near.fold((0, 0.0, 0.0), |(count, seconds, packets), span| {
            (count + 1, seconds + span.0, packets + f64::from(span.1))
        });
        // The mean of the intervals would be that of a slower flow where bursts differ in size.
        if count > VALUES / 2 && seconds > 0.0 {
            packets / seconds
        } else {
            0.0
        }
    }
}

/// Rates of the packets that come, in packets per second; 0 if they are not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    /// When the present batch began, and its packets.
    batch: Option<(Duration, u32)>,
    batches: MedianFilter,
    /// The first packet of a pair, and when it came.
    pair: Option<(u64, Duration)>,
    pairs: MedianFilter,
}

impl Arrivals {
    /// A packet came; `wire` is its number on the wire, where pairs begin at whole multiples. One that others overtook may have been sent
    /// again, and such do not leave in pairs.
    pub(crate) fn note(&mut self, now: Duration, number: u64, wire: u32, is_overtaken: bool) {
        match self.batch {
            Some((began, packets)) if now < began + BATCH => self.batch = Some((began, packets + 1)),
            Some((began, packets)) => {
                self.batches.push(now - began, packets);
                self.batch = Some((now, 1));
            }
            None => self.batch = Some((now, 1)),
        }
        if is_overtaken {
            return;
        }
        if u64::from(wire) % PAIR_EVERY == 0 {
            self.pair = Some((number, now));
        } else if let Some((first, came)) = self.pair.take() {
            if first + 1 == number {
                self.pairs.push(now.saturating_sub(came).max(LEAST_INTERVAL), 1);
            }
        }
    }

    pub(crate) fn arrival_rate(&self) -> f64 {
        self.batches.rate()
    }

    pub(crate) fn capacity(&self) -> f64 {
        self.pairs.rate()
    }
}

/// Round-trip time, smoothed as the draft says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimate {
    pub(crate) smoothed: Duration,
    pub(crate) variation: Duration,
    /// The shortest of the present span of time and of the one before, and when the present one began.
    least: [Option<Duration>; 2],
    began: Duration,
}

impl RttEstimate {
    /// Before anything was measured: what the draft begins with.
    pub(crate) fn new() -> Self {
        let first = crate::SYN * 10;
        Self { smoothed: first, variation: first / 2, least: [None; 2], began: Duration::ZERO }
    }

    /// The shortest one of the last minute or two; nothing before the first measurement.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least.into_iter().flatten().min()
    }

    pub(crate) fn update(&mut self, now: Duration, sample: Duration) {
        if self.least().is_none() {
            (self.smoothed, self.variation) = (sample, sample / 2);
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(sample)) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        }
        if now >= self.began + LEAST_SPAN {
            (self.least, self.began) = ([None, self.least[0]], now);
        }
        self.least[0] = Some(self.least[0].map_or(sample, |least| least.min(sample)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_most_intervals() {
        let mut arrivals = Arrivals::default();
        assert_eq!((arrivals.arrival_rate(), arrivals.capacity()), (0.0, 0.0));
        // 500 packets per second, pairs 100 us apart, a pause of a second after the 300th.
        let mut now = Duration::ZERO;
        for number in 0..600u64 {
            now += Duration::from_micros(if number % PAIR_EVERY == 1 { 100 } else { 2000 });
            now += Duration::from_secs(u64::from(number == 300));
            arrivals.note(now, number, number as u32, false);
        }
        assert!((450.0..700.0).contains(&arrivals.arrival_rate()), "{}", arrivals.arrival_rate());
        assert!((9_000.0..11_000.0).contains(&arrivals.capacity()), "{}", arrivals.capacity());
    }

    #[test]
    fn packets_that_may_have_been_sent_again_are_no_pairs() {
        let mut arrivals = Arrivals::default();
        let mut now = Duration::ZERO;
        for (gap_us, is_overtaken) in [(100, false), (9_000, true)] {
            for number in 0..600u64 {
                now += Duration::from_micros(if number % PAIR_EVERY == 1 { gap_us } else { 9_000 });
                arrivals.note(now, number, number as u32, is_overtaken);
            }
        }
        assert!((9_000.0..11_000.0).contains(&arrivals.capacity()), "{}", arrivals.capacity());
    }

    #[test]
    fn bursts_count_by_what_they_carry() {
        let mut arrivals = Arrivals::default();
        for number in 0..2_000u64 {
            arrivals.note(Duration::from_micros(number / 20 * 500), number, number as u32, false);
        }
        assert!((38_000.0..42_000.0).contains(&arrivals.arrival_rate()), "{}", arrivals.arrival_rate());
    }

    #[test]
    fn bursts_of_all_sizes_count_by_what_they_carry() {
        let (mut arrivals, mut number) = (Arrivals::default(), 0);
        for burst in 0..2_000u64 {
            for _ in 0..10 + burst * 8 % 21 {
                arrivals.note(Duration::from_millis(burst), number, number as u32, false);
                number += 1;
            }
        }
        assert!((18_000.0..22_000.0).contains(&arrivals.arrival_rate()), "{}", arrivals.arrival_rate());
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_a_while() {
        let (mut rtt, ms) = (RttEstimate::new(), Duration::from_millis);
        for (second, sample, least) in
            [(0, 20, 20), (59, 90, 20), (60, 80, 20), (119, 70, 20), (120, 90, 70), (180, 90, 90)]
        {
            rtt.update(Duration::from_secs(second), ms(sample));
            assert_eq!(rtt.least(), Some(ms(least)), "after {second} s");
        }
    }

    #[test]
    fn a_round_trip_is_smoothed() {
        let (mut rtt, ms) = (RttEstimate::new(), Duration::from_millis);
        rtt.update(Duration::ZERO, ms(80));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.least()), (ms(80), ms(40), Some(ms(80))));
        rtt.update(Duration::ZERO, ms(160));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.least()), (ms(90), ms(50), Some(ms(80))));
    }
}
