//! What each path of a transfer has to carry, and how its rate compares with the others'. Without a clock: rates are in proportion
//! to what was stored of late.

use crate::index::PathIndex;

/// Bytes of all paths that count as stored of late: enough packs to compare by, few enough to follow a path that changes.
const RECENT_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Bytes on their way that are expected there first.
    outstanding: u64,
    recent: u64,
}

/// The loads of all paths, by their index.
#[derive(Debug, Default)]
pub(crate) struct PathLoads(Vec<Load>);

impl PathLoads {
    /// Whether more than one path was used.
    pub(crate) fn has_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Bytes went out on a path.
    pub(crate) fn sent(&mut self, path: PathIndex, bytes: u64) {
        self.load(path).outstanding += bytes;
    }

    /// Bytes are expected on a path no more.
    pub(crate) fn gone(&mut self, path: PathIndex, bytes: u64) {
        let load = self.load(path);
        load.outstanding = load.outstanding.saturating_sub(bytes);
    }

    /// Bytes that came over a path were stored.
    pub(crate) fn stored(&mut self, path: PathIndex, bytes: u64) {
        self.load(path).recent += bytes;
        if self.0.iter().map(|load| load.recent).sum::<u64>() > RECENT_BYTES {
            self.0.iter_mut().for_each(|load| load.recent /= 2);
        }
    }

    /// Whether so many bytes more would arrive on `path` before the last that are on their way on `other`.
    pub(crate) fn overtakes(&self, path: PathIndex, other: PathIndex, bytes: u64) -> bool {
        let of = |path: PathIndex| self.0.get(path.as_usize()).copied().unwrap_or_default();
        let (own, other) = (of(path), of(other));
        u128::from(own.outstanding + bytes) * u128::from(other.recent)
            < u128::from(other.outstanding) * u128::from(own.recent)
    }

    fn load(&mut self, path: PathIndex) -> &mut Load {
        if self.0.len() <= path.as_usize() {
            self.0.resize(path.as_usize() + 1, Load::default());
        }
        &mut self.0[path.as_usize()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PathIndex = PathIndex(0);
    const SECOND: PathIndex = PathIndex(1);

    #[test]
    fn a_path_overtakes_where_it_is_done_sooner_at_the_rates_of_late() {
        // Stored of late and on their way, of the first and of the second; whether one byte more overtakes on the first.
        for (stored, outstanding, overtakes) in [
            ((0, 0), (0, 9), false),
            ((1, 0), (0, 9), true),
            ((0, 1), (0, 9), false),
            ((1, 1), (7, 9), true),
            ((1, 1), (8, 9), false),
            ((3, 1), (20, 9), true),
            ((3, 1), (26, 9), false),
            ((9, 1), (0, 0), false),
        ] {
            let mut loads = PathLoads::default();
            for (path, stored, outstanding) in [(FIRST, stored.0, outstanding.0), (SECOND, stored.1, outstanding.1)] {
                loads.sent(path, outstanding);
                loads.stored(path, stored);
            }
            assert!(loads.has_several());
            assert_eq!(loads.overtakes(FIRST, SECOND, 1), overtakes, "{stored:?} {outstanding:?}");
        }
    }

    #[test]
    fn what_was_stored_long_ago_counts_less_and_less() {
        let mut loads = PathLoads::default();
        loads.stored(SECOND, RECENT_BYTES);
        loads.sent(FIRST, 10);
        loads.sent(SECOND, 10);
        assert!(!loads.overtakes(FIRST, SECOND, 1));
        for _ in 0..64 {
            loads.stored(FIRST, RECENT_BYTES / 16);
        }
        assert!(loads.overtakes(FIRST, SECOND, 1), "the second has stored nothing for long");
    }
}
