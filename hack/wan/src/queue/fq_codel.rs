//! FQ-CoDel: flows are served in turn, each from a queue under CoDel of its own (RFC 8290).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::codel::{CoDelParameters, CoDelQueue};
use super::fifo::QueuedPacket;
use super::Pulled;
use crate::packet::FlowKey;

/// How flows are told apart and served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCoDelParameters {
    /// Of every flow's queue.
    pub codel: CoDelParameters,
    /// Queues; flows whose hashes collide share one.
    pub flows: u32,
    /// Bytes that a flow may send in its turn.
    pub quantum_bytes: u32,
}

impl Default for FqCoDelParameters {
    /// RFC 8290, sections 5.2.4 and 5.2.5; the quantum without a link-layer header, which is not counted here.
    fn default() -> Self {
        Self { codel: CoDelParameters::default(), flows: 1024, quantum_bytes: 1500 }
    }
}

struct FlowQueue<P> {
    queue: CoDelQueue<P>,
    deficit_bytes: i64,
    listed: bool,
}

/// The scheduler with all its queues.
pub(crate) struct FqCoDel<P> {
    parameters: FqCoDelParameters,
    salt: u64,
    flows: Vec<FlowQueue<P>>,
    // Queues by their index: those that have just become busy are served first, and once.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl<P> FqCoDel<P> {
    pub(crate) fn new(parameters: FqCoDelParameters, salt: u64) -> Self {
        let flow = || FlowQueue { queue: CoDelQueue::new(parameters.codel), deficit_bytes: 0, listed: false };
        let flows = std::iter::repeat_with(flow).take(parameters.flows as usize).collect();
        Self { parameters, salt, flows, new: VecDeque::new(), old: VecDeque::new() }
    }

    /// RFC 8290, section 4.1.
    pub(crate) fn push(&mut self, packet: QueuedPacket<P>) {
        let index = flow_index(self.salt, packet.flow.as_ref(), self.parameters.flows) as usize;
        let flow = &mut self.flows[index];
        flow.queue.packets.push(packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit_bytes = self.parameters.quantum_bytes.into();
            self.new.push_back(index);
        }
    }

    /// Takes the packet at the head of the queue with most bytes, to be dropped (RFC 8290, section 4.1).
    pub(crate) fn evict(&mut self) -> Option<QueuedPacket<P>> {
        let busy = self.new.iter().chain(&self.old);
        let fattest = busy.copied().max_by_key(|index| self.flows[*index].queue.packets.bytes())?;
        self.flows[fattest].queue.packets.pop()
    }

    /// RFC 8290, section 4.2.
    pub(crate) fn pull(&mut self, now_ns: u64) -> Pulled<QueuedPacket<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(index) = list.front().copied() else { return Pulled::Empty };
            let flow = &mut self.flows[index];
            if flow.deficit_bytes <= 0 {
                flow.deficit_bytes += i64::from(self.parameters.quantum_bytes);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            match flow.queue.pull(now_ns) {
                Pulled::Sent(packet) => {
                    flow.deficit_bytes -= packet.size_bytes as i64;
                    return Pulled::Sent(packet);
                }
                Pulled::Dropped(packet) => return Pulled::Dropped(packet),
                Pulled::Empty => {
                    list.pop_front();
                    // A flow that was new waits for its next turn all the same, or it would always come first.
                    if is_new {
                        self.old.push_back(index);
                    } else {
                        flow.listed = false;
                    }
                }
            }
        }
    }

    /// Everything that waits, flow by flow.
    pub(crate) fn drain(&mut self) -> Vec<QueuedPacket<P>> {
        self.new.clear();
        self.old.clear();
        let mut all = vec![];
        for flow in &mut self.flows {
            all.extend(std::iter::from_fn(|| flow.queue.packets.pop()));
            flow.listed = false;
        }
        all
    }
}

/// Which of `flows` queues a flow has, by a hash of its 5-tuple and a salt (RFC 8290, section 4.1).
pub fn flow_index(salt: u64, flow: Option<&FlowKey>, flows: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    (salt, flow).hash(&mut hasher);
    (hasher.finish() % u64::from(flows)) as u32
}
