//! One rate for many senders, exactly: the generic cell rate algorithm as virtual scheduling (ITU-T I.371, annex A).

use std::time::Duration;

/// How far ahead of its rate the bucket lets bytes go. Threads that wake this late lose nothing; over a second it adds at most 0.8 %.
const TOLERANCE: Duration = Duration::from_millis(8);

/// Admits bytes at a rate. Times are durations since any fixed start.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate_bps: u64,
    /// When the bytes admitted so far are all due.
    due_ns: u64,
}

impl Bucket {
    /// A bucket for `rate_bps` bits per second, at least 1.
    pub(crate) fn new(rate_bps: u64) -> Self {
        Self { rate_bps: rate_bps.max(1), due_ns: 0 }
    }

    /// Admits `bytes`, or returns how long to wait before asking again.
    pub(crate) fn take(&mut self, now: Duration, bytes: u64) -> Result<(), Duration> {
        let now_ns = nanoseconds(now);
        let early_ns = self.due_ns.saturating_sub(now_ns.saturating_add(nanoseconds(TOLERANCE)));
        if early_ns > 0 {
            return Err(Duration::from_nanos(early_ns));
        }
        self.due_ns = self.due_ns.max(now_ns).saturating_add(self.cost_ns(bytes));
        Ok(())
    }

    /// Counts bytes that went out without having been admitted.
    pub(crate) fn charge(&mut self, now: Duration, bytes: u64) {
        self.due_ns = self.due_ns.max(nanoseconds(now)).saturating_add(self.cost_ns(bytes));
    }

    /// Gives back bytes that were admitted and did not go out.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.due_ns = self.due_ns.saturating_sub(self.cost_ns(bytes));
    }

    /// Changes the rate; what is owed stays owed in bytes, not in time.
    pub(crate) fn set_rate(&mut self, now: Duration, rate_bps: u64) {
        let (rate_bps, now_ns) = (rate_bps.max(1), nanoseconds(now));
        let owed_ns = u128::from(self.due_ns.saturating_sub(now_ns));
        let rescaled = owed_ns * u128::from(self.rate_bps) / u128::from(rate_bps);
        self.due_ns = now_ns.saturating_add(u64::try_from(rescaled).unwrap_or(u64::MAX));
        self.rate_bps = rate_bps;
    }

    fn cost_ns(&self, bytes: u64) -> u64 {
        let cost = u128::from(bytes) * 8_000_000_000 / u128::from(self.rate_bps);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn bytes_are_admitted_at_the_rate_and_a_late_thread_loses_nothing() {
        let mut bucket = Bucket::new(8_000_000);
        assert_eq!(bucket.take(at(1000), 20_000), Ok(()));
        assert_eq!(bucket.take(at(1000), 1000), Err(at(12)), "20 ms are owed, 8 of them are tolerated");
        assert_eq!(bucket.take(at(1019), 9_000), Ok(()), "7 ms late");
        assert_eq!(bucket.take(at(1019), 1), Err(at(2)));
        assert!(bucket.take(at(1018), 1).is_err());
    }

    #[test]
    fn a_new_rate_holds_at_once_for_what_is_owed() {
        let mut bucket = Bucket::new(1000);
        bucket.charge(at(0), 1000);
        assert_eq!(bucket.take(at(0), 1), Err(at(7992)));
        bucket.set_rate(at(0), 1_000_000_000);
        assert_eq!(bucket.take(at(0), 1), Ok(()));
        bucket.set_rate(at(0), u64::MAX);
        assert_eq!(bucket.take(at(0), u64::MAX), Ok(()));
        for rate in [0, 1, u64::from(u32::MAX) + 1] {
            bucket.set_rate(at(0), rate);
            assert!(bucket.take(at(100), 0).is_err(), "owed bytes outlive any rate");
        }
    }

    #[test]
    fn what_is_given_back_or_was_never_admitted_counts() {
        let mut bucket = Bucket::new(8_000);
        assert_eq!(bucket.take(at(0), 1000), Ok(()));
        bucket.refund(1000);
        assert_eq!(bucket.take(at(0), 1000), Ok(()));
        bucket.charge(at(0), 1000);
        assert_eq!(bucket.take(at(0), 1), Err(at(1992)));
    }

    proptest! {
        /// Whoever asks whenever: no second holds more than the rate, the tolerance and one request.
        #[test]
        fn no_second_exceeds_the_rate(
            rate_bps in 1_000_000u64..10_000_000_000,
            pauses_us in proptest::collection::vec(0u64..40_000, 1..400),
        ) {
            let piece = rate_bps / 8 / 200;
            let (mut bucket, mut now, mut admitted) = (Bucket::new(rate_bps), at(5), Vec::new());
            for pause in pauses_us {
                while bucket.take(now, piece).is_ok() {
                    admitted.push((now, piece));
                }
                now += Duration::from_micros(pause);
            }
            for (index, (start, _)) in admitted.iter().enumerate() {
                let within = admitted[index..].iter().take_while(|(time, _)| *time < *start + at(1000));
                let bytes: u64 = within.map(|(_, bytes)| bytes).sum();
                prop_assert!(bytes as f64 * 8.0 <= rate_bps as f64 * 1.0131 + 1.0, "{bytes} bytes");
            }
        }

        /// A sender that always has data and wakes less than the tolerance late uses all of the rate.
        #[test]
        fn the_rate_is_used(rate_bps in 1_000_000u64..10_000_000_000, late_us in proptest::collection::vec(0u64..7_000, 100)) {
            let piece = rate_bps / 8 / 200;
            let (mut bucket, mut now, mut bytes) = (Bucket::new(rate_bps), at(0), 0);
            for late in late_us.into_iter().cycle().take(1000) {
                match bucket.take(now, piece) {
                    Ok(()) => bytes += piece,
                    Err(wait) => now += wait + Duration::from_micros(late),
                }
            }
            let used = bytes as f64 * 8.0 / now.as_secs_f64();
            prop_assert!(used >= rate_bps as f64 * 0.98, "{used} of {rate_bps}");
        }
    }
}
