//! Packets in the order of their coming.

use std::collections::VecDeque;

use crate::packet::FlowKey;

/// A packet in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPacket<P> {
    /// When it entered the queue, in nanoseconds.
    pub queued_ns: u64,
    /// Its size from the IP header on.
    pub size_bytes: usize,
    /// Its flow; packets without one share a queue.
    pub flow: Option<FlowKey>,
    /// Whether it will be lost at random once sent.
    pub lost: bool,
    /// What was offered.
    pub payload: P,
}

pub(crate) struct Fifo<P> {
    packets: VecDeque<QueuedPacket<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    pub(crate) fn push(&mut self, packet: QueuedPacket<P>) {
        self.bytes += packet.size_bytes as u64;
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedPacket<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size_bytes as u64;
        Some(packet)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
