//! Which blocks go next at the sender. Blocks are handed to whichever stream is free; what a stream loses goes to another.

use std::collections::{HashMap, VecDeque};

use crate::digest::{block_count, block_length};
use crate::index::{BlockId, BlockIndex, ConnectionId, FileIndex, PackId};
use crate::limits::{PACK_PAYLOAD_BYTES, PACK_SEGMENTS};

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
    blocks: Vec<BlockRef>,
}

/// The work left, the packs on their way, and what comes back.
pub struct Schedule {
    /// What was never sent, made as it is needed, and its first span.
    rest: Box<dyn Iterator<Item = Span> + Send>,
    front: Option<Span>,
    again: VecDeque<Vec<BlockRef>>,
    in_flight: HashMap<PackId, InFlight>,
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
            next_id: 0,
            resent_packs: 0,
            resent_bytes: 0,
        }
    }

    /// The next pack for a free stream on `connection`, or nothing when all is sent (though perhaps not stored).
    pub fn next_pack(&mut self, connection: ConnectionId) -> Option<Pack> {
        let blocks = match self.again.pop_front() {
            Some(blocks) => {
                self.resent_packs += 1;
                self.resent_bytes += blocks.iter().map(|block| u64::from(block.length)).sum::<u64>();
                blocks
            }
            None => self.gather(),
        };
        if blocks.is_empty() {
            return None;
        }
        let id = PackId(self.next_id);
        self.next_id += 1;
        self.in_flight.insert(id, InFlight { connection, blocks: blocks.clone() });
        Some(Pack { id, blocks })
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
        self.in_flight.remove(&pack).map(|flight| Pack { id: pack, blocks: flight.blocks })
    }

    /// A pack arrived damaged and goes out again; returns whether the pack was on its way at all.
    pub fn damaged(&mut self, pack: PackId) -> bool {
        let flight = self.in_flight.remove(&pack);
        let known = flight.is_some();
        self.again.extend(flight.map(|flight| flight.blocks));
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
        for id in &lost {
            self.damaged(*id);
        }
        lost.len()
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

    proptest! {
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
