//! A bounded room for connections whose peers have not shown yet who they are. When it is full, the oldest of the busiest source
//! gives way: whoever opens many connections takes the places of their own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Where connections come from: an address of IPv4, or the first half of one of IPv6, of which one host may have the whole other half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ConnectionSource {
    V4([u8; 4]),
    V6([u8; 8]),
    /// A Unix socket.
    Local,
}

impl From<IpAddr> for ConnectionSource {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// Most places in a room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) total: usize,
    pub(crate) per_source: usize,
}

/// The room; numbers of connections rise with their age.
#[derive(Debug)]
pub(crate) struct Strangers<T> {
    places: Places,
    by_number: BTreeMap<u64, (ConnectionSource, T)>,
    by_source: HashMap<ConnectionSource, BTreeSet<u64>>,
    /// Whose connections are the last to give way.
    known: Vec<ConnectionSource>,
}

impl<T> Strangers<T> {
    pub(crate) fn new(places: Places) -> Self {
        Self { places, by_number: BTreeMap::new(), by_source: HashMap::new(), known: Vec::new() }
    }

    /// From now on connections of these sources give way only if there are no others.
    pub(crate) fn prefer(&mut self, sources: Vec<ConnectionSource>) {
        self.known = sources;
    }

    /// Takes a connection in. Returns the one that had to give way for it.
    pub(crate) fn admit(&mut self, number: u64, source: ConnectionSource, connection: T) -> Option<T> {
        let own = self.by_source.get(&source).map_or(0, BTreeSet::len);
        let evicted = if own >= self.places.per_source {
            self.evict_of(source)
        } else if self.by_number.len() >= self.places.total {
            self.evict()
        } else {
            None
        };
        self.by_source.entry(source).or_default().insert(number);
        self.by_number.insert(number, (source, connection));
        evicted
    }

    /// Makes a place: the oldest connection of the source with the most.
    pub(crate) fn evict(&mut self) -> Option<T> {
        let rank = |source: &ConnectionSource, numbers: &BTreeSet<u64>| {
            (!self.known.contains(source), numbers.len(), std::cmp::Reverse(numbers.first().copied()))
        };
        let busiest =
            self.by_source.iter().max_by_key(|(source, numbers)| rank(source, numbers)).map(|(source, _)| *source);
        self.evict_of(busiest?)
    }

    fn evict_of(&mut self, source: ConnectionSource) -> Option<T> {
        let oldest = *self.by_source.get(&source)?.first()?;
        self.take(oldest)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.by_number.get_mut(&number).map(|(_, connection)| connection)
    }

    /// Takes a connection out.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let (source, connection) = self.by_number.remove(&number)?;
        if let Some(numbers) = self.by_source.get_mut(&source) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_source.remove(&source);
            }
        }
        Some(connection)
    }

    /// The oldest connection.
    pub(crate) fn oldest(&self) -> Option<(u64, &T)> {
        self.by_number.first_key_value().map(|(number, (_, connection))| (*number, connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(number: u8) -> ConnectionSource {
        ConnectionSource::V4([198, 18, 0, number])
    }

    #[test]
    fn one_host_is_one_source() {
        let source = |text: &str| ConnectionSource::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("2001:db8:1:2::3"), source("2001:db8:1:2:ffff::4"));
        assert_ne!(source("2001:db8:1:2::3"), source("2001:db8:1:3::3"));
        assert_eq!(source("198.18.0.1"), source("::ffff:198.18.0.1"));
        assert_ne!(source("198.18.0.1"), source("198.18.0.2"));
    }

    #[test]
    fn the_oldest_of_the_busiest_source_gives_way() {
        let mut room = Strangers::new(Places { total: 4, per_source: 3 });
        for (number, from) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            assert_eq!(room.admit(number, source(from), number), None);
        }
        assert_eq!(room.admit(5, source(4), 5), Some(2), "of the source with two");
        assert_eq!(room.admit(6, source(5), 6), Some(1), "the oldest of all, as each has one");
        assert_eq!(room.admit(7, source(3), 7), Some(3));
        assert_eq!(room.admit(8, source(3), 8), Some(4));
        assert_eq!(room.take(8), Some(8));
        assert_eq!(room.admit(9, source(3), 9), None);
        assert_eq!(room.admit(10, source(3), 10), Some(7));
        assert_eq!(room.oldest(), Some((5, &5)));
    }

    #[test]
    fn one_source_has_no_more_than_its_part() {
        let mut room = Strangers::new(Places { total: 100, per_source: 2 });
        let evicted: Vec<_> = (0..5).map(|number| room.admit(number, source(1), number)).collect();
        assert_eq!(evicted, [None, None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn a_known_source_gives_way_last() {
        let mut room = Strangers::new(Places { total: 3, per_source: 3 });
        room.prefer(vec![source(1)]);
        for (number, from) in [(1, 1), (2, 1), (3, 2)] {
            room.admit(number, source(from), number);
        }
        assert_eq!(room.admit(4, source(3), 4), Some(3));
        assert_eq!(room.admit(5, source(1), 5), Some(4));
        assert_eq!(room.admit(6, source(2), 6), Some(1), "nobody else is there");
    }

    proptest! {
        #[test]
        fn a_flood_of_others_evicts_no_source_that_has_one(flood in proptest::collection::vec((0u8..8, any::<bool>()), 0..400)) {
            let places = Places { total: 12, per_source: 6 };
            let mut room = Strangers::new(places);
            room.admit(0, source(100), 0);
            for (number, (from, leaves)) in (1u64..).zip(flood) {
                let evicted = room.admit(number, source(from), number);
                prop_assert_ne!(evicted, Some(0), "as long as some source has two");
                if leaves {
                    room.take(number);
                }
                prop_assert!(room.by_number.len() <= places.total);
                prop_assert!(room.by_source.values().all(|numbers| numbers.len() <= places.per_source && !numbers.is_empty()));
                prop_assert_eq!(room.by_source.values().map(BTreeSet::len).sum::<usize>(), room.by_number.len());
            }
        }
    }
}
