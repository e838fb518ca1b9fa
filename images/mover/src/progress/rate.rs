//! The rate of a transfer, and the time its data took.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use crate::threads::lock;

/// Time over which the reported rate is the mean.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// A time that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// The mean rate of the last seconds. Times are by a clock that stands still in quiet periods.
pub(super) struct RateMeter {
    samples: Mutex<VecDeque<(Duration, u64)>>,
    /// When the first data byte was due.
    starts_ms: AtomicU64,
}

impl Default for RateMeter {
    fn default() -> Self {
        Self { samples: Mutex::default(), starts_ms: AtomicU64::new(UNKNOWN) }
    }
}

impl RateMeter {
    /// Forgets what was measured: the counter jumps, or another one counts from now on.
    pub(super) fn restart(&self) {
        lock(&self.samples).clear();
    }

    /// Data flow from `flowing` on. Later calls change nothing.
    pub(super) fn set_start(&self, flowing: Duration) {
        set_once(&self.starts_ms, flowing);
    }

    /// Adds the counter's value at this time.
    pub(super) fn sample(&self, flowing: Duration, bytes: u64) {
        let mut samples = lock(&self.samples);
        samples.push_back((flowing, bytes));
        while samples.len() > 2 && samples[1].0 + RATE_WINDOW <= flowing {
            samples.pop_front();
        }
    }

    /// The mean rate over the window.
    pub(super) fn bytes_per_second(&self) -> u64 {
        let samples = lock(&self.samples);
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return 0 };
        // The time before the first byte is no part of the rate.
        let began = first.0.max(Duration::from_millis(self.starts_ms.load(Ordering::Relaxed)));
        let span = (last.0.saturating_sub(began)).as_secs_f64();
        if span <= 0.0 {
            return 0;
        }
        (last.1.saturating_sub(first.1) as f64 / span) as u64
    }
}

/// From the first data byte to the last block, by the transfer's clock.
pub(super) struct BulkInterval {
    started_ms: AtomicU64,
    ended_ms: AtomicU64,
}

impl Default for BulkInterval {
    fn default() -> Self {
        Self { started_ms: AtomicU64::new(UNKNOWN), ended_ms: AtomicU64::new(UNKNOWN) }
    }
}

impl BulkInterval {
    pub(super) fn has_started(&self) -> bool {
        self.started_ms.load(Ordering::Relaxed) != UNKNOWN
    }

    /// The first data byte. Later calls change nothing.
    pub(super) fn set_start(&self, now: Duration) {
        set_once(&self.started_ms, now);
    }

    /// The last block so far.
    pub(super) fn set_end(&self, now: Duration) {
        self.ended_ms.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// Its length in seconds; 0 without data.
    pub(super) fn seconds(&self) -> f64 {
        let (start, end) = (self.started_ms.load(Ordering::Relaxed), self.ended_ms.load(Ordering::Relaxed));
        if start == UNKNOWN || end == UNKNOWN {
            return 0.0;
        }
        end.saturating_sub(start) as f64 / 1000.0
    }
}

fn set_once(cell: &AtomicU64, time: Duration) {
    let time = time.as_millis() as u64;
    let _ = cell.compare_exchange(UNKNOWN, time, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_before_the_data_is_no_part_of_the_rate() {
        let rate = RateMeter::default();
        rate.sample(Duration::ZERO, 0);
        rate.sample(Duration::from_secs(9), 0);
        assert_eq!(rate.bytes_per_second(), 0);
        rate.set_start(Duration::from_secs(10));
        rate.sample(Duration::from_secs(11), 1000);
        assert_eq!(rate.bytes_per_second(), 1000);
    }
}
