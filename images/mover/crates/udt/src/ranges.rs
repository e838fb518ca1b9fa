//! Sets of numbers as ranges, each with a note: the lists of lost packets.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers that are missing. Neighbours with different notes are different ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges<T> {
    /// By the first number: the one behind the last, and the note.
    by_start: BTreeMap<u64, (u64, T)>,
    count: u64,
}

impl<T: Copy> Ranges<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.by_start.first_key_value().map(|(start, _)| *start)
    }

    /// Adds the numbers of a range that are not there yet; returns how many.
    pub(crate) fn insert(&mut self, range: Range<u64>, note: T) -> u64 {
        let mut at = range.start;
        let before = self.count;
        while at < range.end {
            let covering = self.by_start.range(..=at).next_back().map(|(_, (end, _))| *end).filter(|end| *end > at);
            if let Some(end) = covering {
                at = end;
                continue;
            }
            let next = self.by_start.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
            let end = range.end.min(next);
            self.by_start.insert(at, (end, note));
            self.count += end - at;
            at = end;
        }
        self.count - before
    }

    /// Takes one number out; whether it was there.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let found = self.by_start.range(..=number).next_back().map(|(start, (end, note))| (*start, *end, *note));
        let Some((start, end, note)) = found.filter(|(_, end, _)| *end > number) else { return false };
        self.by_start.remove(&start);
        if start < number {
            self.by_start.insert(start, (number, note));
        }
        if number + 1 < end {
            self.by_start.insert(number + 1, (end, note));
        }
        self.count -= 1;
        true
    }

    /// Takes out all numbers below this one.
    pub(crate) fn remove_below(&mut self, number: u64) {
        while let Some((start, (end, note))) = self.by_start.first_key_value().map(|(start, range)| (*start, *range)) {
            if start >= number {
                return;
            }
            self.by_start.remove(&start);
            self.count -= end.min(number) - start;
            if end > number {
                self.by_start.insert(number, (end, note));
            }
        }
    }

    pub(crate) fn pop_first(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Every range with its note, which may be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Range<u64>, &mut T)> {
        self.by_start.iter_mut().map(|(start, (end, note))| (*start..*end, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u64, u64),
        Remove(u64),
        Below(u64),
        Pop,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0u64..200, 0u64..20).prop_map(|(start, length)| Change::Insert(start, length)),
            (0u64..220).prop_map(Change::Remove),
            (0u64..60).prop_map(Change::Below),
            Just(Change::Pop),
        ]
    }

    proptest! {
        #[test]
        fn ranges_are_a_set(changes in proptest::collection::vec(change(), 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for change in changes {
                match change {
                    Change::Insert(start, length) => {
                        let before = set.len();
                        set.extend(start..start + length);
                        prop_assert_eq!(ranges.insert(start..start + length, ()), (set.len() - before) as u64);
                    }
                    Change::Remove(number) => prop_assert_eq!(ranges.remove(number), set.remove(&number)),
                    Change::Below(number) => {
                        ranges.remove_below(number);
                        set.retain(|other| *other >= number);
                    }
                    Change::Pop => prop_assert_eq!(ranges.pop_first(), set.pop_first()),
                }
                prop_assert_eq!(ranges.count, set.len() as u64);
                let all: BTreeSet<u64> = ranges.iter_mut().flat_map(|(range, ())| range).collect();
                prop_assert_eq!(&all, &set);
            }
        }
    }
}
