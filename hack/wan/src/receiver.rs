//! A slow receiver: a host that has work to do for each packet, and a short queue in which packets wait for it.

use std::collections::VecDeque;

use crate::quantity::{self, FieldError};

/// How many packets the queue holds if nothing else is said: Linux's default of `net.core.netdev_max_backlog`.
const DEFAULT_ROOM_PACKETS: usize = 1_000;
const MAX_ROOM_PACKETS: usize = 1_000_000;
const MAX_COST_NS: u64 = 1_000_000_000;

/// How fast a receiver takes packets, and how many may wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowReceiver {
    /// What a packet of any size takes it, in nanoseconds; 1 at least.
    pub cost_ns: u64,
    /// Packets in its queue at most, the one at work included.
    pub room_packets: usize,
}

/// Parses `COST[,PACKETS]`, such as `120us` or `120us,64`; `0` is `None`: packets are taken as they come.
pub fn parse_receiver(field: &str, text: &str) -> Result<Option<SlowReceiver>, FieldError> {
    let (cost, room) = text.split_once(',').map_or((text, None), |(cost, room)| (cost, Some(room)));
    let cost_ns = quantity::parse_delay_ns(field, cost)?;
    if cost_ns > MAX_COST_NS {
        return Err(FieldError::new(field, format!("{text:?} takes over 1s for a packet")));
    }
    let room_packets = match room {
        None => DEFAULT_ROOM_PACKETS,
        Some(room) => whole_packets(field, text, room)?,
    };
    match (cost_ns, room) {
        (0, Some(_)) => Err(FieldError::new(field, format!("{text:?} has a queue for packets that take no time"))),
        (0, None) => Ok(None),
        _ => Ok(Some(SlowReceiver { cost_ns, room_packets })),
    }
}

fn whole_packets(field: &str, text: &str, room: &str) -> Result<usize, FieldError> {
    let packets = room.trim().parse().ok().filter(|packets| (1..=MAX_ROOM_PACKETS).contains(packets));
    packets.ok_or_else(|| {
        FieldError::new(
            field,
            format!("{text:?} does not end with a whole number of packets from 1 to {MAX_ROOM_PACKETS}"),
        )
    })
}

struct Accepted<T> {
    taken_ns: u64,
    packet: T,
}

/// The receiver's input queue: first in, first out, and a packet that finds it full is dropped.
///
/// When each packet will have been taken is known from its coming, so that nothing need happen in between.
pub struct InputQueue<T> {
    receiver: SlowReceiver,
    accepted: VecDeque<Accepted<T>>,
}

impl<T> InputQueue<T> {
    /// An empty queue.
    pub fn new(receiver: SlowReceiver) -> Self {
        Self { receiver, accepted: VecDeque::new() }
    }

    /// Lets a packet through that was taken at `taken_ns`, when there was no queue yet.
    pub fn pass(&mut self, taken_ns: u64, packet: T) {
        self.accepted.push_back(Accepted { taken_ns, packet });
    }

    /// Takes a packet that comes at `now_ns`, no earlier than the one before; gives it back if the queue is full then.
    pub fn offer(&mut self, now_ns: u64, packet: T) -> Option<T> {
        if self.accepted.len() - self.taken_by(now_ns) >= self.receiver.room_packets {
            return Some(packet);
        }
        let free_ns = self.accepted.back().map_or(now_ns, |last| last.taken_ns.max(now_ns));
        self.accepted.push_back(Accepted { taken_ns: free_ns + self.receiver.cost_ns, packet });
        None
    }

    /// When the next packet has been taken, in nanoseconds.
    pub fn next_taken_ns(&self) -> Option<u64> {
        self.accepted.front().map(|first| first.taken_ns)
    }

    /// The next packet that was taken by `now_ns`, with the moment.
    pub fn pop_taken(&mut self, now_ns: u64) -> Option<(u64, T)> {
        if self.next_taken_ns()? > now_ns {
            return None;
        }
        self.accepted.pop_front().map(|first| (first.taken_ns, first.packet))
    }

    /// Takes packets as `receiver` says from now on: the one at work keeps its time, those that wait take the new one, and none is dropped.
    pub fn change(&mut self, now_ns: u64, receiver: SlowReceiver) {
        let at_work = self.taken_by(now_ns);
        let mut free_ns = self.accepted.get(at_work).map_or(now_ns, |packet| packet.taken_ns);
        for packet in self.accepted.iter_mut().skip(at_work + 1) {
            free_ns += receiver.cost_ns;
            packet.taken_ns = free_ns;
        }
        self.receiver = receiver;
    }

    /// Takes everything out, each with the moment when it was taken, `now_ns` at the latest.
    pub fn drain(&mut self, now_ns: u64) -> impl DoubleEndedIterator<Item = (u64, T)> + '_ {
        self.accepted.drain(..).map(move |accepted| (accepted.taken_ns.min(now_ns), accepted.packet))
    }

    /// Packets in it, those included that were taken and not popped.
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty()
    }

    fn taken_by(&self, now_ns: u64) -> usize {
        self.accepted.partition_point(|packet| packet.taken_ns <= now_ns)
    }
}
