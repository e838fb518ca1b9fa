//! What waits for the link, and which of it is sent or dropped next. No clock is read here.

pub mod codel;
mod fifo;
pub mod fq_codel;
mod kind;

use codel::CoDelQueue;
use fifo::Fifo;
use fq_codel::FqCoDel;

pub use fifo::QueuedPacket;
pub use kind::{parse_queue, QueueKind};

/// A buffer of that many bytes holds so many packets under [`QueueKind::DropTailPackets`]: full ones of an Ethernet.
pub const FULL_PACKET_BYTES: u64 = 1_500;

/// What comes out of a queue when the link is free.
#[derive(Debug, PartialEq, Eq)]
pub enum Pulled<T> {
    /// This packet is sent.
    Sent(T),
    /// This one is dropped; ask again.
    Dropped(T),
    /// Nothing waits.
    Empty,
}

/// What takes room in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Packets, the one being sent included.
    pub packets: u64,
    /// Their bytes still to be sent.
    pub bytes: u64,
}

impl Backlog {
    /// With one packet of `size_bytes` more.
    pub fn and(self, size_bytes: u64) -> Self {
        Self { packets: self.packets + 1, bytes: self.bytes + size_bytes }
    }
}

enum Discipline<P> {
    Fifo(Fifo<P>),
    CoDel(CoDelQueue<P>),
    FqCoDel(FqCoDel<P>),
}

/// A queue of one kind.
pub struct Queue<P> {
    kind: QueueKind,
    discipline: Discipline<P>,
    waiting: Backlog,
}

impl<P> Queue<P> {
    /// An empty queue; `salt` says which flows share a queue of FQ-CoDel.
    pub fn new(kind: QueueKind, salt: u64) -> Self {
        let discipline = match kind {
            QueueKind::DropTail | QueueKind::DropTailPackets => Discipline::Fifo(Fifo::default()),
            QueueKind::CoDel(parameters) => Discipline::CoDel(CoDelQueue::new(parameters)),
            QueueKind::FqCoDel(parameters) => Discipline::FqCoDel(FqCoDel::new(parameters, salt)),
        };
        Self { kind, discipline, waiting: Backlog::default() }
    }

    /// Whether a buffer of `buffer_bytes` has room for `backlog`.
    pub fn fits(&self, backlog: Backlog, buffer_bytes: u64) -> bool {
        match self.kind {
            QueueKind::DropTailPackets => backlog.packets <= buffer_bytes / FULL_PACKET_BYTES,
            QueueKind::DropTail | QueueKind::CoDel(_) | QueueKind::FqCoDel(_) => backlog.bytes <= buffer_bytes,
        }
    }

    /// Whether a full buffer takes a new packet and gives up another; else it turns the new one away.
    pub fn makes_room(&self) -> bool {
        matches!(self.kind, QueueKind::FqCoDel(_))
    }

    /// Adds a packet, whatever waits.
    pub fn push(&mut self, packet: QueuedPacket<P>) {
        self.waiting.packets += 1;
        self.waiting.bytes += packet.size_bytes as u64;
        match &mut self.discipline {
            Discipline::Fifo(fifo) => fifo.push(packet),
            Discipline::CoDel(codel) => codel.packets.push(packet),
            Discipline::FqCoDel(fq) => fq.push(packet),
        }
    }

    /// Takes out the packet that is given up for others, if [`Queue::makes_room`].
    pub fn evict(&mut self) -> Option<QueuedPacket<P>> {
        let evicted = match &mut self.discipline {
            Discipline::Fifo(_) | Discipline::CoDel(_) => None,
            Discipline::FqCoDel(fq) => fq.evict(),
        }?;
        self.forget(&evicted);
        Some(evicted)
    }

    /// The next packet for the link, which is free at `now_ns`, or one to be dropped first.
    pub fn pull(&mut self, now_ns: u64) -> Pulled<QueuedPacket<P>> {
        let pulled = match &mut self.discipline {
            Discipline::Fifo(fifo) => fifo.pop().map_or(Pulled::Empty, Pulled::Sent),
            Discipline::CoDel(codel) => codel.pull(now_ns),
            Discipline::FqCoDel(fq) => fq.pull(now_ns),
        };
        if let Pulled::Sent(packet) | Pulled::Dropped(packet) = &pulled {
            self.forget(packet);
        }
        pulled
    }

    /// Takes everything out, in the order of its coming.
    pub fn drain(&mut self) -> Vec<QueuedPacket<P>> {
        self.waiting = Backlog::default();
        let mut all = match &mut self.discipline {
            Discipline::Fifo(fifo) => std::iter::from_fn(|| fifo.pop()).collect(),
            Discipline::CoDel(codel) => std::iter::from_fn(|| codel.packets.pop()).collect(),
            Discipline::FqCoDel(fq) => fq.drain(),
        };
        all.sort_by_key(|packet: &QueuedPacket<P>| packet.queued_ns);
        all
    }

    /// What waits; nothing of it is being sent.
    pub fn waiting(&self) -> Backlog {
        self.waiting
    }

    fn forget(&mut self, packet: &QueuedPacket<P>) {
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.size_bytes as u64;
    }
}
