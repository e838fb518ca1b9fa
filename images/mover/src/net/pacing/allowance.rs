//! How much faster than its share of the cap the kernel may send from a socket. Its pacing forgets the time that a late timer, a
//! late thread or a closed window cost, so at the share itself it falls short of it. The loop is closed over what left in the last
//! second: what that falls short of the cap is made up for, as far as no second from any of its moments on gets too much.

use std::time::Duration;

/// Thousandths of the share while the last second has what it may have.
pub(super) const LEAST_PER_MILLE: u64 = 1008;
/// Thousandths of the share at most.
pub(super) const MOST_PER_MILLE: u64 = 1008 + 100;
/// What is made up for within a second at most, as time at the cap: half of what a second may have too much.
const MOST: Duration = Duration::from_millis(10);
/// Time in which it is made up for.
const WITHIN: Duration = Duration::from_millis(100);

/// Thousandths of its share that the kernel may send from each socket, from moments of the last second under this cap with the
/// bytes on the network by then, oldest first.
pub(super) fn per_mille(cap_bps: u64, samples: impl Iterator<Item = (Duration, u64)>) -> u64 {
    // Nanoseconds at the cap by which what has left is ahead of the clock; only differences mean something.
    let ahead = |(time, bytes): (Duration, u64)| {
        i128::from(bytes) * 8_000_000_000 / i128::from(cap_bps.max(1)) - time.as_nanos() as i128
    };
    let mut samples = samples.map(ahead);
    let Some(first) = samples.next() else { return LEAST_PER_MILLE };
    let (least, last) = samples.fold((first, first), |(least, _), ahead| (least.min(ahead), ahead));
    let room = MOST.as_nanos() as i128 - (last - least);
    let more = (first - last).min(room) * 1000 / WITHIN.as_nanos() as i128;
    let wanted = i128::from(LEAST_PER_MILLE) + more;
    // Never below the share: the gate sees to what was too much.
    wanted.clamp(1000, i128::from(MOST_PER_MILLE)) as u64
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Bucket;
    use super::super::meter::Meter;
    use super::super::LOOK;
    use super::*;

    #[test]
    fn what_the_last_second_lacks_is_made_up_for_unless_a_second_would_get_too_much() {
        // At 8 Gb/s a million bytes take a millisecond.
        let cap_bps = 8_000_000_000;
        type Case = (&'static str, &'static [(u64, u64)], u64);
        let cases: [Case; 9] = [
            ("nothing is known", &[], 1008),
            ("the first look", &[(5, 7)], 1008),
            ("as much as it may be", &[(0, 0), (500, 500), (1000, 1000)], 1008),
            ("2 ms short", &[(0, 0), (500, 500), (1000, 998)], 1028),
            ("2 ms short at the start", &[(0, 0), (500, 498), (1000, 998)], 1028),
            ("nothing to send, or no way", &[(0, 0), (1000, 0)], 1108),
            ("a pause of 50 ms, of which 4 are made up for", &[(0, 0), (500, 450), (600, 554)], 1068),
            ("of which 10 are made up for", &[(0, 0), (500, 450), (600, 560)], 1008),
            ("too much", &[(0, 0), (500, 500), (600, 620)], 1000),
        ];
        for (name, samples, expected) in cases {
            let samples = samples.iter().map(|(ms, mb)| (Duration::from_millis(*ms), mb * 1_000_000));
            assert_eq!(per_mille(cap_bps, samples), expected, "{name}");
        }
        for cap_bps in [0, 1, u64::MAX] {
            let samples = [(Duration::ZERO, 0), (Duration::from_secs(1), u64::MAX)];
            assert!((1000..=MOST_PER_MILLE).contains(&per_mille(cap_bps, samples.into_iter())), "{cap_bps}");
        }
    }

    /// Time between two moments of a simulation.
    const STEP: Duration = Duration::from_micros(100);
    const STEPS_PER_SECOND: usize = 10_000;

    /// A sender through the gate's bucket and the kernel's pacing. What may happen is asked at each step.
    #[derive(Clone, Copy)]
    struct Path {
        cap_bps: u64,
        /// What the kernel holds unsent, as time at the cap.
        queue: Duration,
        /// Whether the sender has something to send and runs.
        writes: fn(usize) -> bool,
        /// Whether the path takes packets.
        carries: fn(usize) -> bool,
        /// Thousandths of its time that the kernel loses by late timers.
        lost_per_mille: u64,
        /// A constant allowance in place of the loop.
        constant: Option<u64>,
    }

    /// One stream at 5 Gb/s, of which the kernel holds 512 KiB unsent.
    const FAST: Path = Path {
        cap_bps: 5_000_000_000,
        queue: Duration::from_micros(800),
        writes: |_| true,
        carries: |_| true,
        lost_per_mille: 0,
        constant: None,
    };
    /// 32 streams of 10 Mb/s together, of each of which the kernel holds 16 KiB unsent.
    const SLOW: Path = Path { cap_bps: 10_000_000, queue: Duration::from_millis(400), ..FAST };

    impl Path {
        /// The lowest and the highest rate of all seconds but the first, as a share of the cap less one.
        fn errors(&self, seconds: usize) -> (f64, f64) {
            let bytes_in = |time: Duration| self.cap_bps as f64 / 8.0 * time.as_secs_f64();
            let piece = bytes_in(Duration::from_micros(400)).max(1448.0) as u64;
            let room = bytes_in(self.queue).max(2.0 * piece as f64);
            let (mut bucket, mut meter) = (Bucket::new(self.cap_bps), Meter::default());
            let (mut queue, mut allowance, mut sent) = (0.0f64, LEAST_PER_MILLE, vec![0.0f64]);
            for step in 0..seconds * STEPS_PER_SECOND {
                let now = STEP * step as u32;
                if now.as_nanos() % LOOK.as_nanos() == 0 {
                    meter.sample(now, sent[step] as u64);
                    allowance = self.constant.unwrap_or_else(|| per_mille(self.cap_bps, meter.samples(Duration::ZERO)));
                }
                while (self.writes)(step) && queue + piece as f64 <= room && bucket.take(now, piece).is_ok() {
                    queue += piece as f64;
                }
                let pace = bytes_in(STEP) * (allowance * (1000 - self.lost_per_mille)) as f64 / 1e6;
                let leaves = if (self.carries)(step) { pace.min(queue) } else { 0.0 };
                queue -= leaves;
                sent.push(sent[step] + leaves);
            }
            let error =
                |end: usize| (sent[end] - sent[end - STEPS_PER_SECOND]) / bytes_in(Duration::from_secs(1)) - 1.0;
            let all = (2 * STEPS_PER_SECOND..sent.len()).map(error);
            all.fold((f64::MAX, f64::MIN), |(low, high), error| (low.min(error), high.max(error)))
        }
    }

    #[test]
    fn late_timers_cost_nothing_that_is_not_made_up_for() {
        for path in [FAST, SLOW] {
            for lost_per_mille in [0, 10, 22, 40, 60] {
                let (low, high) = Path { lost_per_mille, ..path }.errors(6);
                assert!(low > -0.01 && high < 0.02, "{} bps, {lost_per_mille}: {low} to {high}", path.cap_bps);
            }
        }
        let (low, _) = Path { lost_per_mille: 40, constant: Some(1012), ..FAST }.errors(6);
        assert!(low < -0.025, "without the loop a second lacks what its timers cost: {low}");
    }

    #[test]
    fn a_pause_takes_from_a_second_what_the_gate_forgets_and_gives_none_too_much() {
        type Pause = (fn(usize) -> bool, f64);
        let of_20_ms: Pause = (|step| !(25_000..25_200).contains(&step), -0.0225);
        let of_50_ms: Pause = (|step| !(25_000..25_500).contains(&step), -0.0525);
        for path in [FAST, SLOW] {
            for (runs, least) in [of_20_ms, of_50_ms] {
                for paused in [Path { writes: runs, ..path }, Path { carries: runs, ..path }] {
                    let (low, high) = paused.errors(6);
                    assert!(low > least && high < 0.02, "{} bps: {low} to {high}, at least {least}", path.cap_bps);
                }
            }
        }
    }

    #[test]
    fn pauses_again_and_again_are_made_up_for() {
        let (low, high) = Path { writes: |step| step % 1000 >= 50, ..FAST }.errors(6);
        assert!(low > -0.01 && high < 0.02, "5 ms in every 100 ms: {low} to {high}");
    }

    #[test]
    fn a_sender_that_had_nothing_to_send_gives_no_second_too_much() {
        for path in [FAST, SLOW] {
            let (_, high) = Path { writes: |step| step / STEPS_PER_SECOND % 3 == 2, ..path }.errors(9);
            assert!(high < 0.02, "{} bps: {high}", path.cap_bps);
        }
    }
}
