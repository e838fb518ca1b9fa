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
/// Every so many packets two are sent one after the other.
pub(crate) const PAIR_EVERY: u64 = 16;

/// Mean of the values near the median of the last 16.
#[derive(Clone, Debug, Default)]
struct MedianFilter {
    values: VecDeque<f64>,
}

impl MedianFilter {
    fn push(&mut self, value: f64) {
        if self.values.len() == VALUES {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// Nothing if there are too few that agree.
    fn mean(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.values.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        let near = || sorted.iter().filter(|value| **value * OUTLIER > median && **value < median * OUTLIER);
        let count = near().count();
        (count > VALUES / 2).then(|| near().sum::<f64>() / count as f64)
    }
}

fn per_second(interval: Option<f64>) -> f64 {
    interval.map_or(0.0, |seconds| 1.0 / seconds)
}

/// Rates of the packets that come, in packets per second; 0 if they are not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    /// When the present batch began, and its packets.
    batch: Option<(Duration, u32)>,
    intervals: MedianFilter,
    /// The first packet of a pair, and when it came.
    pair: Option<(u64, Duration)>,
    pairs: MedianFilter,
}

impl Arrivals {
    /// A packet came, the next in order or not; `wire` is its number on the wire, where pairs begin at whole multiples.
    pub(crate) fn note(&mut self, now: Duration, number: u64, wire: u32) {
        match self.batch {
            Some((began, packets)) if now < began + BATCH => self.batch = Some((began, packets + 1)),
            Some((began, packets)) => {
                self.intervals.push((now - began).as_secs_f64() / f64::from(packets));
                self.batch = Some((now, 1));
            }
            None => self.batch = Some((now, 1)),
        }
        if u64::from(wire) % PAIR_EVERY == 0 {
            self.pair = Some((number, now));
        } else if let Some((first, came)) = self.pair.take() {
            if first + 1 == number {
                self.pairs.push(now.saturating_sub(came).max(LEAST_INTERVAL).as_secs_f64());
            }
        }
    }

    pub(crate) fn arrival_rate(&self) -> f64 {
        per_second(self.intervals.mean())
    }

    pub(crate) fn capacity(&self) -> f64 {
        per_second(self.pairs.mean())
    }
}

/// Round-trip time, smoothed as the draft says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimate {
    pub(crate) smoothed: Duration,
    pub(crate) variation: Duration,
    pub(crate) least: Option<Duration>,
}

impl RttEstimate {
    /// Before anything was measured: what the draft begins with.
    pub(crate) fn new() -> Self {
        let first = crate::SYN * 10;
        Self { smoothed: first, variation: first / 2, least: None }
    }

    pub(crate) fn update(&mut self, sample: Duration) {
        if self.least.is_none() {
            (self.smoothed, self.variation) = (sample, sample / 2);
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(sample)) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        }
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
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
            arrivals.note(now, number, number as u32);
        }
        assert!((450.0..700.0).contains(&arrivals.arrival_rate()), "{}", arrivals.arrival_rate());
        assert!((9_000.0..11_000.0).contains(&arrivals.capacity()), "{}", arrivals.capacity());
    }

    #[test]
    fn bursts_count_by_what_they_carry() {
        let mut arrivals = Arrivals::default();
        for number in 0..2_000u64 {
            arrivals.note(Duration::from_micros(number / 20 * 500), number, number as u32);
        }
        assert!((38_000.0..42_000.0).contains(&arrivals.arrival_rate()), "{}", arrivals.arrival_rate());
    }

    #[test]
    fn a_round_trip_is_smoothed() {
        let (mut rtt, ms) = (RttEstimate::new(), Duration::from_millis);
        rtt.update(ms(80));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.least), (ms(80), ms(40), Some(ms(80))));
        rtt.update(ms(160));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.least), (ms(90), ms(50), Some(ms(80))));
    }
}
