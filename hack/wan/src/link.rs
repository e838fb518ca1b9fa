//! One direction of the path: a drop-tail queue drained at a rate, random loss, then a delay line.
//!
//! The queue is virtual: the link remembers only until when it is busy, and the backlog is what it sends in that
//! time. No clock is read here; every call takes the time in nanoseconds since any fixed moment, never running back.

use std::collections::VecDeque;

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::parameters::DirectionParameters;

/// Most bytes that one direction holds, so that a fast sender on a long unlimited path cannot take the machine's memory.
pub const MAX_HELD_BYTES: u64 = 1 << 30;

/// What became of a packet offered to the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    /// It arrives at the other end at that time, in nanoseconds.
    Due(u64),
    /// The buffer had no room for it.
    DroppedByBuffer,
    /// It was lost at random, after using its share of the rate.
    DroppedByLoss,
    /// The link is down.
    DroppedByDown,
    /// The link holds [`MAX_HELD_BYTES`] already.
    DroppedByMemory,
}

/// A number of packets and the bytes in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

impl Volume {
    /// Counts one packet more.
    pub fn add(&mut self, size_bytes: usize) {
        self.packets += 1;
        self.bytes += size_bytes as u64;
    }
}

/// Everything that went in, and where it went: `offered` is the sum of the others and of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that entered.
    pub offered: Volume,
    /// Packets handed out at the far end.
    pub delivered: Volume,
    /// See [`PacketFate::DroppedByBuffer`].
    pub dropped_by_buffer: Volume,
    /// See [`PacketFate::DroppedByLoss`].
    pub dropped_by_loss: Volume,
    /// See [`PacketFate::DroppedByDown`]; also what was under way when the link went down.
    pub dropped_by_down: Volume,
    /// See [`PacketFate::DroppedByMemory`].
    pub dropped_by_memory: Volume,
}

/// A packet at the far end of the link.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// When it was due, in nanoseconds.
    pub due_ns: u64,
    /// What was offered.
    pub payload: P,
}

struct Held<P> {
    departure_ns: u64,
    due_ns: u64,
    size_bytes: usize,
    payload: P,
}

/// One direction of the path, holding packets of type `P` until they are due.
pub struct Link<P> {
    parameters: DirectionParameters,
    loss_below: u128,
    random: Pcg64,
    busy_until_ns: u64,
    // Bits × 10⁹ of the last packet that did not fill a nanosecond; keeps the long-run rate exact.
    remainder: u64,
    last_due_ns: u64,
    held: VecDeque<Held<P>>,
    held_bytes: u64,
    queue_peak_bytes: u64,
    counters: Counters,
}

impl<P> Link<P> {
    /// An idle link; `random` decides the random losses, one draw for each packet offered.
    pub fn new(parameters: DirectionParameters, random: Pcg64) -> Self {
        Self {
            loss_below: loss_threshold(parameters.loss),
            parameters,
            random,
            busy_until_ns: 0,
            remainder: 0,
            last_due_ns: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            queue_peak_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Takes a packet of `size_bytes` at `now_ns`, and says when it arrives or why it does not.
    pub fn offer(&mut self, now_ns: u64, size_bytes: usize, payload: P) -> PacketFate {
        self.counters.offered.add(size_bytes);
        // Drawn before anything else: the n-th packet meets the n-th draw, whatever the queue was like.
        let lost = u128::from(self.random.next_u64()) < self.loss_below;
        if self.parameters.down {
            self.counters.dropped_by_down.add(size_bytes);
            return PacketFate::DroppedByDown;
        }
        let size = size_bytes as u64;
        if self.held_bytes + size > MAX_HELD_BYTES {
            self.counters.dropped_by_memory.add(size_bytes);
            return PacketFate::DroppedByMemory;
        }
        let backlog_bytes = self.queue_bytes(now_ns);
        if self.parameters.rate_bps.is_some()
            && self.parameters.buffer_bytes.is_some_and(|room| backlog_bytes + size > room)
        {
            self.counters.dropped_by_buffer.add(size_bytes);
            return PacketFate::DroppedByBuffer;
        }
        let departure_ns = self.transmit(now_ns, size);
        if lost {
            self.counters.dropped_by_loss.add(size_bytes);
            return PacketFate::DroppedByLoss;
        }
        // A delay cut short on a live link must not let a packet overtake another.
        let due_ns = (departure_ns + self.parameters.delay_ns).max(self.last_due_ns);
        self.last_due_ns = due_ns;
        self.held_bytes += size;
        self.held.push_back(Held { departure_ns, due_ns, size_bytes, payload });
        PacketFate::Due(due_ns)
    }

    /// The next packet that is due by `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Arrival<P>> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let held = self.held.pop_front()?;
        self.held_bytes -= held.size_bytes as u64;
        self.counters.delivered.add(held.size_bytes);
        Some(Arrival { due_ns: held.due_ns, payload: held.payload })
    }

    /// When the next packet is due, in nanoseconds.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.held.front().map(|first| first.due_ns)
    }

    /// Puts `parameters` in force at `now_ns`.
    ///
    /// What is queued leaves at the new rate and then meets the new delay; what has left the queue keeps its time.
    /// A buffer made smaller drops nothing that it holds. Going down loses all that is under way.
    pub fn set_parameters(&mut self, now_ns: u64, parameters: DirectionParameters) {
        self.loss_below = loss_threshold(parameters.loss);
        if parameters.down {
            for held in self.held.drain(..) {
                self.counters.dropped_by_down.add(held.size_bytes);
            }
            self.held_bytes = 0;
            self.busy_until_ns = now_ns;
            self.remainder = 0;
        }
        let (old_bps, new_bps) = (self.parameters.rate_bps, parameters.rate_bps);
        let rescaled = |at_ns: u64| match (old_bps, new_bps) {
            _ if at_ns <= now_ns => at_ns,
            (Some(old), Some(new)) => now_ns + (u128::from(at_ns - now_ns) * u128::from(old) / u128::from(new)) as u64,
            (_, None) | (None, _) => now_ns,
        };
        if old_bps != new_bps {
            self.busy_until_ns = rescaled(self.busy_until_ns);
            self.remainder = 0;
        }
        let queued_from = self.held.partition_point(|held| held.departure_ns <= now_ns);
        let mut last_due_ns = queued_from.checked_sub(1).map_or(0, |last_sent| self.held[last_sent].due_ns);
        for held in self.held.range_mut(queued_from..) {
            held.departure_ns = rescaled(held.departure_ns);
            held.due_ns = (held.departure_ns + parameters.delay_ns).max(last_due_ns);
            last_due_ns = held.due_ns;
        }
        self.last_due_ns = last_due_ns;
        self.parameters = parameters;
    }

    /// Bytes waiting at `now_ns`, the rest of the packet being sent included.
    pub fn queue_bytes(&self, now_ns: u64) -> u64 {
        let busy_ns = self.queue_delay_ns(now_ns);
        match self.parameters.rate_bps {
            Some(rate_bps) if busy_ns > 0 => {
                let bits_e9 = u128::from(busy_ns) * u128::from(rate_bps) + u128::from(self.remainder);
                bits_e9.div_ceil(8_000_000_000) as u64
            }
            _ => 0,
        }
    }

    /// How long a packet offered at `now_ns` would wait before its first bit is sent, in nanoseconds.
    pub fn queue_delay_ns(&self, now_ns: u64) -> u64 {
        self.busy_until_ns.saturating_sub(now_ns)
    }

    /// The most bytes that ever waited.
    pub fn queue_peak_bytes(&self) -> u64 {
        self.queue_peak_bytes
    }

    /// Packets queued or on the delay line.
    pub fn held_packets(&self) -> usize {
        self.held.len()
    }

    /// What came and where it went.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The parameters in force.
    pub fn parameters(&self) -> &DirectionParameters {
        &self.parameters
    }

    /// Occupies the link with `size` bytes and returns when the last bit leaves.
    fn transmit(&mut self, now_ns: u64, size: u64) -> u64 {
        let Some(rate_bps) = self.parameters.rate_bps else {
            self.busy_until_ns = now_ns;
            return now_ns;
        };
        if self.busy_until_ns <= now_ns {
            self.busy_until_ns = now_ns;
            self.remainder = 0;
        }
        let bits_e9 = u128::from(size) * 8_000_000_000 + u128::from(self.remainder);
        self.busy_until_ns += (bits_e9 / u128::from(rate_bps)) as u64;
        self.remainder = (bits_e9 % u128::from(rate_bps)) as u64;
        self.queue_peak_bytes = self.queue_peak_bytes.max(self.queue_bytes(now_ns));
        self.busy_until_ns
    }
}

/// The count of 64-bit draws that mean a loss.
fn loss_threshold(loss: f64) -> u128 {
    (loss * (1u128 << 64) as f64) as u128
}
