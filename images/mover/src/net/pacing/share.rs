//! Divides caps over streams by what each can use: max-min fairness by progressive filling [Bertsekas 1992, section 6.5.2].

/// A stream that uses this part of its share could use more.
const HUNGRY_PERCENT: u64 = 85;
/// What is set aside of the cap for a stream that uses less, relative to what it uses.
const SET_ASIDE_PERCENT: u64 = 103;
/// What such a stream may use until the next sample: room to find that its path has opened. The gate holds the sum meanwhile.
const HEADROOM_PERCENT: u64 = 120;
/// Least part of an equal share that is set aside for a stream that was idle.
const LEAST_PART: u64 = 64;

/// A stream's part of the cap and what it made of it, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) share_bps: u64,
    pub(crate) used_bps: u64,
}

/// New shares of streams, each with the number of its path, under the cap of all and those of the paths. A path's cap is divided over
/// its streams, and what is then a stream's bounds its part of the whole: what one path cannot use of that is the others'. Nothing for
/// streams that no cap is about.
pub(crate) fn divide_within(
    total_bps: Option<u64>,
    path_caps_bps: &[Option<u64>],
    streams: &[(usize, Usage)],
) -> Vec<Option<u64>> {
    let mut shares = vec![None; streams.len()];
    for (path, cap_bps) in path_caps_bps.iter().enumerate().filter_map(|(path, cap)| Some((path, (*cap)?))) {
        let of_path: Vec<usize> = (0..streams.len()).filter(|at| streams[*at].0 == path).collect();
        let usage: Vec<Usage> = of_path.iter().map(|at| streams[*at].1).collect();
        for (at, share_bps) in of_path.into_iter().zip(divide(cap_bps, &usage, &[])) {
            shares[at] = Some(share_bps);
        }
    }
    let Some(total_bps) = total_bps else { return shares };
    let usage: Vec<Usage> = streams.iter().map(|(_, usage)| *usage).collect();
    divide(total_bps, &usage, &shares).into_iter().map(Some).collect()
}

/// New shares, in the order of the streams, each at least 1. They add up to the cap, and the headroom of streams that use less. Those
/// with a bound in `most_bps` have no more than that.
fn divide(cap_bps: u64, streams: &[Usage], most_bps: &[Option<u64>]) -> Vec<u64> {
    let count = streams.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let most = |index: usize| most_bps.get(index).copied().flatten().unwrap_or(u64::MAX);
    let least = (cap_bps / count / LEAST_PART).max(1);
    let want = |stream: &Usage| {
        let hungry = stream.share_bps == 0
            || u128::from(stream.used_bps) * 100 >= u128::from(stream.share_bps) * u128::from(HUNGRY_PERCENT);
        if hungry {
            u64::MAX
        } else {
            percent(stream.used_bps, SET_ASIDE_PERCENT).max(least)
        }
    };
    let mut order: Vec<(u64, usize)> =
        streams.iter().zip(0..).map(|(stream, index)| (want(stream).min(most(index)), index)).collect();
    order.sort_unstable();
    let (mut shares, mut left) = (vec![0; streams.len()], cap_bps);
    for (position, (wanted, index)) in order.iter().enumerate() {
        shares[*index] = (*wanted).min(left / (count - position as u64));
        left -= shares[*index];
    }
    // When nobody can use it all, what is left over is room for everyone.
    let whole = |((share, stream), index): ((u64, &Usage), usize)| {
        let share = (share + left / count).max(1);
        let room = percent(stream.used_bps, HEADROOM_PERCENT).min(percent(share, HEADROOM_PERCENT));
        let share = if want(stream) == u64::MAX { share } else { share.max(room) };
        share.min(most(index).max(1))
    };
    shares.into_iter().zip(streams).zip(0..).map(whole).collect()
}

fn percent(value: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_follow_what_streams_can_use() {
        let usage = |share_bps, used_bps| Usage { share_bps, used_bps };
        type Case = (&'static str, u64, Vec<Usage>, Vec<u64>);
        let cases: [Case; 7] = [
            ("nobody", 100, vec![], vec![]),
            ("one", 100, vec![usage(100, 3)], vec![100]),
            ("new streams share alike", 100, vec![usage(0, 0), usage(0, 0)], vec![50, 50]),
            ("all hungry", 120, vec![usage(40, 40), usage(40, 36), usage(40, 39)], vec![40, 40, 40]),
            (
                "one held back by its path",
                3000,
                vec![usage(1000, 80), usage(1000, 990), usage(1000, 1000)],
                vec![96, 1459, 1459],
            ),
            (
                "its path has opened",
                3000,
                vec![usage(100, 100), usage(1450, 1450), usage(1450, 1450)],
                vec![1000, 1000, 1000],
            ),
            ("an idle one keeps a little", 3200, vec![usage(1600, 0), usage(1600, 1600)], vec![25, 3175]),
        ];
        for (name, cap, streams, expected) in cases {
            assert_eq!(divide(cap, &streams, &[]), expected, "{name}");
        }
    }

    #[test]
    fn a_path_s_cap_bounds_its_streams_and_what_it_cannot_use_of_the_whole_is_the_others() {
        let usage = |path, share_bps, used_bps| (path, Usage { share_bps, used_bps });
        type Case = (&'static str, Option<u64>, [Option<u64>; 2], Vec<(usize, Usage)>, Vec<Option<u64>>);
        let new = vec![usage(0, 0, 0), usage(0, 0, 0), usage(1, 0, 0), usage(1, 0, 0)];
        let cases: [Case; 6] = [
            ("no cap", None, [None, None], new.clone(), vec![None; 4]),
            ("the whole", Some(80), [None, None], new.clone(), vec![Some(20); 4]),
            ("one path", None, [Some(20), None], new.clone(), vec![Some(10), Some(10), None, None]),
            ("both paths", Some(80), [Some(20), Some(60)], new.clone(), vec![Some(10), Some(10), Some(30), Some(30)]),
            ("the whole is less", Some(50), [Some(20), Some(60)], new, vec![Some(10), Some(10), Some(15), Some(15)]),
            (
                "a stream of a path is slow",
                Some(8000),
                [Some(2000), None],
                vec![usage(0, 1000, 100), usage(0, 1000, 1000), usage(1, 3000, 3000)],
                vec![Some(120), Some(1897), Some(6000)],
            ),
        ];
        for (name, total_bps, path_caps_bps, streams, expected) in cases {
            assert_eq!(divide_within(total_bps, &path_caps_bps, &streams), expected, "{name}");
        }
    }

    #[test]
    fn the_smallest_and_largest_caps_are_divided() {
        let streams = [Usage { share_bps: u64::MAX, used_bps: u64::MAX }; 64];
        for cap in [0, 1, 63, u64::from(u32::MAX) + 1, u64::MAX] {
            let shares = divide(cap, &streams, &[]);
            assert!(shares.iter().all(|share| *share >= 1 && *share <= (cap / 64).max(1) + 1), "{cap}");
        }
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_cap(
            cap in 1_000u64..100_000_000_000,
            streams in proptest::collection::vec((0u64..10_000_000_000, 0u64..10_000_000_000), 1..65),
        ) {
            let streams: Vec<Usage> = streams.into_iter().map(|(share_bps, used_bps)| Usage { share_bps, used_bps }).collect();
            let sum: u64 = divide(cap, &streams, &[]).iter().sum();
            prop_assert!(sum + 2 * streams.len() as u64 > cap, "{sum} of {cap}");
            prop_assert!(sum <= cap / 100 * 120 + 200, "{sum} of {cap}");
        }

        /// Streams whose paths carry less than an equal share leave the rest to the others within a few samples.
        #[test]
        fn nothing_is_wasted_on_slow_paths(limits in proptest::collection::vec(1_000u64..2_000_000, 2..33)) {
            let cap = 10_000_000;
            let mut streams: Vec<Usage> = limits.iter().map(|_| Usage { share_bps: 0, used_bps: 0 }).collect();
            for _ in 0..40 {
                let use_of = |(share_bps, limit): (u64, &u64)| Usage { share_bps, used_bps: share_bps.min(*limit) };
                streams = divide(cap, &streams, &[]).into_iter().zip(&limits).map(use_of).collect();
            }
            let used = streams.iter().map(|stream| stream.used_bps).sum::<u64>().min(cap);
            let possible = limits.iter().sum::<u64>().min(cap);
            prop_assert!(used * 100 >= possible * 90, "{used} of {possible}");
        }
    }
}
