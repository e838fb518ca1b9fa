//! What was received: packets until those before them have come, and what is missing.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::ranges::Ranges;

/// When a loss was reported last, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossReport {
    pub(crate) at: Duration,
    pub(crate) times: u32,
}

/// The buffer of one direction.
pub(crate) struct ReceiveQueue {
    room: usize,
    /// The packet at the front, and the packets from there on.
    front: u64,
    packets: VecDeque<Option<Vec<u8>>>,
    pub(crate) missing: Ranges<LossReport>,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PacketArrival {
    /// It is new; those between it and the ones before are missing.
    New { gap: Range<u64> },
    /// It was here already, or has no room.
    Dropped,
}

impl ReceiveQueue {
    /// Holds so many packets.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, front: 0, packets: VecDeque::new(), missing: Ranges::default() }
    }

    /// The packet behind the last one that came.
    pub(crate) fn next(&self) -> u64 {
        self.front + self.packets.len() as u64
    }

    /// The first packet that has not come.
    pub(crate) fn complete(&self) -> u64 {
        self.missing.first().unwrap_or_else(|| self.next())
    }

    /// Packets that there is room for from the first one on that has not come.
    pub(crate) fn free(&self) -> usize {
        self.room.saturating_sub((self.complete() - self.front) as usize)
    }

    pub(crate) fn insert(&mut self, now: Duration, number: u64, payload: &[u8]) -> PacketArrival {
        let next = self.next();
        if number < self.front || number >= self.front + self.room.max(self.packets.len()) as u64 {
            return PacketArrival::Dropped;
        }
        if number >= next {
            let gap = next..number;
            self.missing.insert(gap.clone(), LossReport { at: now, times: 1 });
            self.packets.extend(gap.clone().map(|_| None));
            self.packets.push_back(Some(payload.to_vec()));
            return PacketArrival::New { gap };
        }
        let place = &mut self.packets[(number - self.front) as usize];
        if place.is_some() {
            return PacketArrival::Dropped;
        }
        *place = Some(payload.to_vec());
        self.missing.remove(number);
        PacketArrival::New { gap: next..next }
    }

    /// The next bytes in order.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        self.packets.front()?.as_ref()?;
        self.front += 1;
        self.packets.pop_front().flatten()
    }

    /// Whether there are bytes in order.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.packets.front(), Some(Some(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_in_order_and_gaps_are_known() {
        let (mut buffer, now) = (ReceiveQueue::new(4), Duration::ZERO);
        assert_eq!(buffer.insert(now, 0, b"a"), PacketArrival::New { gap: 0..0 });
        assert_eq!(buffer.insert(now, 3, b"d"), PacketArrival::New { gap: 1..3 });
        assert_eq!((buffer.complete(), buffer.next(), buffer.free()), (1, 4, 3));
        assert_eq!(buffer.insert(now, 4, b"e"), PacketArrival::Dropped, "no room");
        assert_eq!(buffer.insert(now, 3, b"d"), PacketArrival::Dropped, "again");
        assert_eq!((buffer.pop(), buffer.pop()), (Some(b"a".to_vec()), None));
        assert_eq!(buffer.insert(now, 0, b"a"), PacketArrival::Dropped, "read already");
        assert_eq!(buffer.insert(now, 1, b"b"), PacketArrival::New { gap: 4..4 });
        assert_eq!(buffer.insert(now, 2, b"c"), PacketArrival::New { gap: 4..4 });
        assert_eq!((buffer.complete(), buffer.missing.is_empty()), (4, true));
        assert_eq!([buffer.pop(), buffer.pop(), buffer.pop(), buffer.pop()].concat_all(), b"bcd");
        assert_eq!(buffer.free(), 4);
    }

    trait ConcatAll {
        fn concat_all(self) -> Vec<u8>;
    }

    impl<const N: usize> ConcatAll for [Option<Vec<u8>>; N] {
        fn concat_all(self) -> Vec<u8> {
            self.into_iter().flatten().flatten().collect()
        }
    }
}
