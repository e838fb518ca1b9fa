//! Token buckets.

use fairlead_wan::police::{parse_policing, Policing, TokenBucket};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[test]
fn a_bucket_passes_its_burst_and_then_the_rate_to_the_nanosecond() {
    // A byte each microsecond.
    let mut bucket = TokenBucket::new(Policing { rate_bps: 8_000_000, burst_bytes: 3_000 }, 0);
    for (now_ns, size, passes, level) in [
        (0, 1500, true, 1500),
        (0, 1500, true, 0),
        (0, 1, false, 0),
        (999_999, 1000, false, 999),
        (MS, 1000, true, 0),
        (2 * MS, 1500, false, 1000),
        (2 * MS, 600, true, 400),
        // Never more than the burst, however long nothing came.
        (1000 * MS, 3001, false, 3000),
        (1000 * MS, 3000, true, 0),
    ] {
        assert_eq!(bucket.admits(now_ns, size), passes, "{size} bytes at {now_ns}");
        assert_eq!(bucket.level_bytes(), level, "after {size} bytes at {now_ns}");
    }
}

#[test]
fn a_change_keeps_what_the_bucket_holds_as_far_as_it_fits() {
    let mut bucket = TokenBucket::new(Policing { rate_bps: 8_000_000, burst_bytes: 3_000 }, 0);
    bucket.change(0, Policing { rate_bps: 8_000_000, burst_bytes: 2_000 });
    assert_eq!(bucket.level_bytes(), 2_000);
    assert!(bucket.admits(0, 2_000));
    // Half a millisecond at the old rate, half at the new one.
    bucket.change(MS / 2, Policing { rate_bps: 4_000_000, burst_bytes: 5_000 });
    assert!(!bucket.admits(MS, 751));
    assert!(bucket.admits(MS, 750));
}

#[test]
fn policers_are_a_rate_and_a_burst() {
    for (text, expected) in [
        ("10M", Some((10_000_000, 15_000))),
        ("100M", Some((100_000_000, 125_000))),
        ("10M,64kB", Some((10_000_000, 64_000))),
        ("10M, 3000", Some((10_000_000, 3_000))),
        ("unlimited", None),
    ] {
        let expected = expected.map(|(rate_bps, burst_bytes)| Policing { rate_bps, burst_bytes });
        assert_eq!(parse_policing("police", text), Ok(expected), "{text}");
    }
}

#[test]
fn a_bad_policer_is_refused_with_its_field() {
    for text in ["", "fast", "10M,", "10M,1BDP", "10M,100", "unlimited,3kB", "10M,3kB,4kB", "0"] {
        assert_eq!(parse_policing("police-udp-ab", text).expect_err(text).field, "police-udp-ab");
    }
}

proptest! {
    #[test]
    fn no_time_span_passes_more_than_the_burst_and_its_share_of_the_rate(
        rate_bps in 1_000u64..10_000_000_000,
        burst_bytes in 1_500u64..1_000_000,
        packets in prop::collection::vec((0u64..20_000_000, 1usize..9_000), 1..300),
    ) {
        let mut bucket = TokenBucket::new(Policing { rate_bps, burst_bytes }, 0);
        let (mut now_ns, mut passed, mut refused) = (0u64, vec![], 0u64);
        for (after_ns, size) in packets {
            now_ns += after_ns;
            let before = bucket.level_bytes();
            if bucket.admits(now_ns, size) {
                passed.push((now_ns, size as u64));
            } else {
                refused += 1;
                prop_assert!(before < size as u64, "refused what it had tokens for");
            }
            prop_assert!(bucket.level_bytes() <= burst_bytes);
        }
        for (first, (from_ns, _)) in passed.iter().enumerate() {
            let mut sum = 0u128;
            for (at_ns, size) in &passed[first..] {
                sum += u128::from(*size) * 8_000_000_000;
                let allowed = u128::from(burst_bytes) * 8_000_000_000 + u128::from(at_ns - from_ns) * u128::from(rate_bps);
                prop_assert!(sum <= allowed);
            }
        }
        prop_assert!(refused as usize + passed.len() > 0);
    }
}
