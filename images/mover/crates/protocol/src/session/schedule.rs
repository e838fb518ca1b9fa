//! Which blocks go next at the sender. Blocks are handed to whichever stream is free, on whichever path; what a stream loses goes
//! to another.
//!
//! Once everything is on its way, a free stream of a path that would be done before the others takes copies of what is on its way
//! there, the last first. Which of the two arrives first counts, and the other is forgotten.

use std::collections::{HashMap, VecDeque};

use crate::digest::{block_count, block_length};
use crate::index::{BlockId, BlockIndex, ConnectionId, FileIndex, PackId, PathIndex};
use crate::limits::{PACK_PAYLOAD_BYTES, PACK_SEGMENTS};
use crate::path_loads::PathLoads;

/// A block to be read and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// The file.
    pub file: FileIndex,
    /// The block in the file.
    pub block: BlockIndex,
    /// Bytes of the block.
    pub length: u32,
}

/// Consecutive blocks of a file that are still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: FileIndex,
    /// Size of the file in bytes.
    pub size: u64,
    /// The next block.
    pub next: BlockIndex,
    /// The block after the last.
    pub end: BlockIndex,
}

/// Blocks that travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Number of the pack; a pack sent again has a new one.
    pub id: PackId,
    /// Its blocks in the order of their bytes.
    pub blocks: Vec<BlockRef>,
}

impl BlockRef {
    /// Which block it is.
    pub fn id(&self) -> BlockId {
        BlockId::new(self.file, self.block)
    }
}

impl Pack {
    /// Bytes of all its blocks.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.length)).sum()
    }
}

struct InFlight {
    connection: ConnectionId,
    path: PathIndex,
    blocks: Vec<BlockRef>,
    bytes: u64,
    /// The pack with the same blocks on another path.
    twin: Option<PackId>,
    /// Whether its path's load has it: a copy is expected before the original.
    is_awaited: bool,
}

/// The work left, the packs on their way, and what comes back.
pub struct Schedule {
    /// What was never sent, made as it is needed, and its first span.
    rest: Box<dyn Iterator<Item = Span> + Send>,
    front: Option<Span>,
    again: VecDeque<Vec<BlockRef>>,
    in_flight: HashMap<PackId, InFlight>,
    /// The paths of connections; those that are not named are on the first.
    paths: HashMap<ConnectionId, PathIndex>,
    loads: PathLoads,
    next_id: u64,
    resent_packs: u64,
    resent_bytes: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self::of_spans(std::iter::empty())
    }
}

impl Schedule {
    /// Work for whole files, given as index in the listing and size in bytes. Empty files need no pack.
    pub fn new<I>(files: I) -> Self
    where
        I: IntoIterator<Item = (FileIndex, u64)>,
        I::IntoIter: Send + 'static,
    {
        let whole = |(file, size)| Span { file, size, next: BlockIndex(0), end: BlockIndex(block_count(size) as u32) };
        Self::of_spans(files.into_iter().map(whole))
    }

    /// Work for these spans, in this order.
    pub fn of_spans(spans: impl Iterator<Item = Span> + Send + 'static) -> Self {
        let mut rest = Box::new(spans.filter(|span| span.next < span.end));
        Self {
            front: rest.next(),
            rest,
            again: VecDeque::new(),
            in_flight: HashMap::new(),
            paths: HashMap::new(),
            loads: PathLoads::default(),
            next_id: 0,
            resent_packs: 0,
            resent_bytes: 0,
        }
    }

    /// A connection is on this path.
    pub fn connection_made(&mut self, connection: ConnectionId, path: PathIndex) {
        self.paths.insert(connection, path);
    }

    /// The next pack for a free stream on `connection`, or nothing when all is sent (though perhaps not stored).
    pub fn next_pack(&mut self, connection: ConnectionId) -> Option<Pack> {
        let path = self.paths.get(&connection).copied().unwrap_or_default();
        let blocks = match self.again.pop_front() {
            Some(blocks) => {
                self.count_resent(&blocks);
                blocks
            }
            None => self.gather(),
        };
        if blocks.is_empty() {
            return self.copy(connection, path);
        }
        Some(self.send(connection, path, blocks, None))
    }

    fn count_resent(&mut self, blocks: &[BlockRef]) {
        self.resent_packs += 1;
        self.resent_bytes += blocks.iter().map(|block| u64::from(block.length)).sum::<u64>();
    }

    fn send(&mut self, connection: ConnectionId, path: PathIndex, blocks: Vec<BlockRef>, twin: Option<PackId>) -> Pack {
        let pack = Pack { id: PackId(self.next_id), blocks };
        self.next_id += 1;
        let bytes = pack.bytes();
        self.loads.sent(path, bytes);
        let flight = InFlight { connection, path, blocks: pack.blocks.clone(), bytes, twin, is_awaited: true };
        self.in_flight.insert(pack.id, flight);
        pack
    }

    /// A copy of the last pack on its way on another path that this one would deliver first.
    fn copy(&mut self, connection: ConnectionId, path: PathIndex) -> Option<Pack> {
        if !self.loads.has_several() {
            return None;
        }
        let overtakes = |flight: &InFlight| {
            flight.twin.is_none() && flight.path != path && self.loads.overtakes(path, flight.path, flight.bytes)
        };
        let last = self.in_flight.iter().filter(|(_, flight)| overtakes(flight)).map(|(id, _)| *id).max()?;
        let original = self.in_flight.get_mut(&last)?;
        let (other, bytes, blocks) = (original.path, original.bytes, original.blocks.clone());
        original.twin = Some(PackId(self.next_id));
        original.is_awaited = false;
        self.loads.gone(other, bytes);
        self.count_resent(&blocks);
        Some(self.send(connection, path, blocks, Some(last)))
    }

    /// Takes a pack off its way, with its twin if `whole`. Otherwise the twin carries its blocks alone.
    fn take(&mut self, pack: PackId, whole: bool) -> Option<InFlight> {
        let flight = self.in_flight.remove(&pack)?;
        if flight.is_awaited {
            self.loads.gone(flight.path, flight.bytes);
        }
        if let Some(twin) = flight.twin {
            if whole {
                if let Some(twin) = self.in_flight.remove(&twin).filter(|twin| twin.is_awaited) {
                    self.loads.gone(twin.path, twin.bytes);
                }
            } else if let Some(twin) = self.in_flight.get_mut(&twin) {
                twin.twin = None;
                if !std::mem::replace(&mut twin.is_awaited, true) {
                    self.loads.sent(twin.path, twin.bytes);
                }
            }
        }
        Some(flight)
    }

    fn gather(&mut self) -> Vec<BlockRef> {
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        while let Some(span) = &mut self.front {
            let length = block_length(span.size, span.next);
            let full = bytes + length > PACK_PAYLOAD_BYTES || blocks.len() >= usize::from(PACK_SEGMENTS);
            if full {
                break;
            }
            blocks.push(BlockRef { file: span.file, block: span.next, length });
            bytes += length;
            span.next = span.next.next();
            if span.next == span.end {
                self.front = self.rest.next();
            }
        }
        blocks
    }

    /// A pack is stored at the receiver: its blocks, or nothing if that was known.
    pub fn stored(&mut self, pack: PackId) -> Option<Pack> {
        let flight = self.take(pack, true)?;
        self.loads.stored(flight.path, flight.bytes);
        Some(Pack { id: pack, blocks: flight.blocks })
    }

    /// A pack arrived damaged and goes out again, unless a copy is on its way; returns whether the pack was on its way at all.
    pub fn damaged(&mut self, pack: PackId) -> bool {
        let flight = self.take(pack, false);
        let known = flight.is_some();
        self.again.extend(flight.filter(|flight| flight.twin.is_none()).map(|flight| flight.blocks));
        known
    }

    /// A block that was stored once goes out again.
    pub fn again(&mut self, block: BlockRef) {
        self.again.push_back(vec![block]);
    }

    /// A connection ended: what it had not yet delivered goes out again. Returns how many packs that are.
    pub fn connection_lost(&mut self, connection: ConnectionId) -> usize {
        let mut lost: Vec<PackId> =
            self.in_flight.iter().filter(|(_, flight)| flight.connection == connection).map(|(id, _)| *id).collect();
        lost.sort_unstable();
        let waiting = self.again.len();
        for id in &lost {
            self.damaged(*id);
        }
        self.paths.remove(&connection);
        self.again.len() - waiting
    }

    /// Whether every block is stored.
    pub fn is_complete(&self) -> bool {
        self.front.is_none() && self.again.is_empty() && self.in_flight.is_empty()
    }

    /// Packs sent and not yet known to be stored.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Packs that went out more than once.
    pub fn resent_packs(&self) -> u64 {
        self.resent_packs
    }

    /// Bytes of blocks that went out more than once.
    pub fn resent_bytes(&self) -> u64 {
        self.resent_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BLOCK_BYTES;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn small_files_share_a_pack_and_large_ones_do_not() {
        let mut schedule =
            Schedule::new((0..300).map(|file| (FileIndex(file), 4096)).chain([(FileIndex(300), 3 << 20)]));
        let sizes: Vec<usize> =
            std::iter::from_fn(|| schedule.next_pack(ConnectionId(0))).map(|pack| pack.blocks.len()).collect();
        assert_eq!(sizes, [256, 44, 1, 1, 1]);
    }

    #[test]
    fn a_lost_connection_gives_its_packs_to_others_and_only_its_own() {
        let mut schedule = Schedule::new([(FileIndex(0), u64::from(BLOCK_BYTES) * 3)]);
        let packs: Vec<Pack> =
            [7, 8, 7].into_iter().filter_map(|connection| schedule.next_pack(ConnectionId(connection))).collect();
        assert!(schedule.next_pack(ConnectionId(8)).is_none());
        schedule.stored(packs[0].id);
        assert_eq!(schedule.connection_lost(ConnectionId(7)), 1);
        let again = schedule.next_pack(ConnectionId(8)).unwrap();
        assert_eq!(again.blocks, packs[2].blocks);
        assert_eq!(schedule.stored(packs[2].id), None, "the lost pack's number is void");
        schedule.stored(packs[1].id);
        assert!(!schedule.is_complete());
        schedule.stored(again.id);
        assert!(schedule.is_complete());
        assert_eq!(schedule.resent_packs(), 1);
    }

    const SLOW: ConnectionId = ConnectionId(1);
    const FAST: ConnectionId = ConnectionId(2);

    /// So many blocks, and a connection on each of two paths.
    fn over_two_paths(blocks: u64) -> Schedule {
        let mut schedule = Schedule::new([(FileIndex(0), u64::from(BLOCK_BYTES) * blocks)]);
        schedule.connection_made(SLOW, PathIndex(0));
        schedule.connection_made(FAST, PathIndex(1));
        schedule
    }

    #[test]
    fn at_the_end_the_faster_path_takes_copies_of_the_last_packs_on_the_slower_one_and_the_first_arrival_counts() {
        let mut schedule = over_two_paths(8);
        let slow: Vec<Pack> = (0..5).map(|_| schedule.next_pack(SLOW).unwrap()).collect();
        let fast: Vec<Pack> = (0..3).map(|_| schedule.next_pack(FAST).unwrap()).collect();
        assert!(schedule.next_pack(FAST).is_none(), "nothing tells yet which path is faster");
        schedule.stored(slow[0].id);
        fast.iter().for_each(|pack| drop(schedule.stored(pack.id)));
        // Four packs are left on the slow path, a third as fast: three of them are sooner there by the other.
        let copies: Vec<Pack> = std::iter::from_fn(|| schedule.next_pack(FAST)).collect();
        let blocks = |packs: &[Pack]| packs.iter().map(|pack| pack.blocks.clone()).collect::<Vec<_>>();
        assert_eq!(blocks(&copies), blocks(&[slow[4].clone(), slow[3].clone(), slow[2].clone()]));
        assert!(schedule.next_pack(SLOW).is_none(), "the slower path overtakes nothing");
        assert_eq!(schedule.stored(copies[0].id).unwrap().blocks, slow[4].blocks);
        assert_eq!(schedule.stored(slow[4].id), None, "its copy was first");
        assert_eq!(schedule.stored(slow[3].id).unwrap().blocks, slow[3].blocks);
        assert_eq!(schedule.stored(copies[1].id), None, "it was first");
        for pack in [&copies[2], &slow[1]] {
            assert!(!schedule.is_complete());
            schedule.stored(pack.id);
        }
        assert!(schedule.is_complete());
        assert_eq!(schedule.resent_packs(), 3);
    }

    #[test]
    fn a_path_that_dies_leaves_to_others_what_no_copy_carries() {
        let mut schedule = over_two_paths(4);
        let [first, last, other] = [SLOW, SLOW, FAST].map(|connection| schedule.next_pack(connection).unwrap());
        let done = schedule.next_pack(FAST).unwrap();
        [other, done].iter().for_each(|pack| drop(schedule.stored(pack.id)));
        let copy = schedule.next_pack(FAST).unwrap();
        assert_eq!(copy.blocks, last.blocks);
        assert_eq!(schedule.connection_lost(SLOW), 1, "of the other there is a copy");
        assert_eq!(schedule.next_pack(FAST).unwrap().blocks, first.blocks);
        assert_eq!(schedule.connection_lost(FAST), 2, "both are lost now");
        schedule.connection_made(ConnectionId(3), PathIndex(0));
        let again: Vec<Pack> = std::iter::from_fn(|| schedule.next_pack(ConnectionId(3))).collect();
        again.iter().for_each(|pack| drop(schedule.stored(pack.id).unwrap()));
        assert_eq!(again.len(), 2);
        assert!(schedule.is_complete());
    }

    proptest! {
        #[test]
        fn over_several_paths_every_block_is_stored_once_whatever_is_lost_copied_or_late(
            blocks in 0u64..40,
            fate in proptest::collection::vec((0u8..6, 0usize..8), 1..200),
        ) {
            let mut schedule = Schedule::new([(FileIndex(0), u64::from(BLOCK_BYTES) * blocks)]);
            let connection = |number: usize| ConnectionId(number as u64 % 3);
            let path = |number: usize| PathIndex((number % 3) as u8);
            let (mut seen, mut flying) = (HashSet::new(), Vec::<(Pack, usize)>::new());
            let mut fates = fate.into_iter().chain((0..).map(|number| (number as u8 % 2, number)));
            for round in 0.. {
                if schedule.is_complete() {
                    break;
                }
                prop_assert!(round < 20_000);
                let (fate, number) = fates.next().unwrap();
                schedule.connection_made(connection(number), path(number));
                let chosen = (!flying.is_empty()).then(|| number % flying.len().max(1));
                match (fate, chosen) {
                    (0, Some(at)) => {
                        let pack = flying.swap_remove(at).0;
                        for block in schedule.stored(pack.id).into_iter().flat_map(|pack| pack.blocks) {
                            prop_assert!(seen.insert((block.file, block.block)), "twice");
                        }
                    }
                    (2, Some(at)) => { schedule.damaged(flying.swap_remove(at).0.id); }
                    (3, _) => {
                        schedule.connection_lost(connection(number));
                        schedule.connection_made(connection(number), path(number));
                        // What was on its way may still arrive: it is void, and does no harm.
                    }
                    _ => flying.extend(schedule.next_pack(connection(number)).map(|pack| (pack, number))),
                }
            }
            prop_assert_eq!(seen.len() as u64, blocks);
            prop_assert_eq!(schedule.in_flight(), 0);
        }

        #[test]
        fn every_block_is_stored_exactly_once_whatever_is_lost(
            sizes in proptest::collection::vec(0u64..(5 << 20), 0..12),
            fate in proptest::collection::vec(0u8..4, 1..60),
        ) {
            let mut schedule = Schedule::new(sizes.clone().into_iter().enumerate().map(|(i, s)| (FileIndex(i as u32), s)));
            let (mut seen, mut fates) = (HashSet::new(), fate.into_iter().chain(std::iter::repeat(0)));
            let mut rounds = 0;
            while !schedule.is_complete() {
                rounds += 1;
                prop_assert!(rounds < 10_000);
                let Some(pack) = schedule.next_pack(ConnectionId(rounds % 3)) else { continue };
                prop_assert!(pack.bytes() <= u64::from(PACK_PAYLOAD_BYTES));
                match fates.next() {
                    Some(1) => { schedule.damaged(pack.id); }
                    Some(2) => { schedule.connection_lost(ConnectionId(rounds % 3)); }
                    _ => for block in schedule.stored(pack.id).unwrap().blocks {
                        prop_assert!(seen.insert((block.file, block.block)));
                    }
                }
            }
            let blocks: u64 = sizes.iter().map(|size| block_count(*size)).sum();
            prop_assert_eq!(seen.len() as u64, blocks);
        }
    }
}
