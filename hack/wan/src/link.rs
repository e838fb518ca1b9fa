//! One direction of the path: policing, thinning of acknowledgements, a queue drained at a rate, random loss, a delay line on which a packet
//! may come late or with other content, then the queue of a slow receiver.
//!
//! No clock is read here; every call takes the time in nanoseconds since any fixed moment, never running back. What happened since the
//! last call is worked out first, each event at its own time: the result does not depend on how late or how often the link is asked.

use std::collections::VecDeque;

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::packet::PacketFacts;
use crate::parameters::DirectionParameters;
use crate::police::{Policing, TokenBucket};
use crate::queue::{Backlog, Pulled, Queue, QueuedPacket};
use crate::receiver::InputQueue;
use crate::thin::AckThinner;

/// Most bytes that one direction holds, so that a fast sender on a long unlimited path cannot take the machine's memory.
pub const MAX_HELD_BYTES: u64 = 1 << 30;

/// What became of a packet offered to the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    /// It is on its way; CoDel, a fair queue, thinning, random loss or a slow receiver may still drop it.
    Taken,
    /// The buffer had no room for it.
    DroppedByBuffer,
    /// It was over the rate that everything is held to.
    DroppedByPolicing,
    /// It was over the rate that UDP is held to.
    DroppedByUdpPolicing,
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

/// Everything that went in, and where it went: `offered` is the sum of `delivered`, of all `dropped_by` and of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that entered.
    pub offered: Volume,
    /// Packets handed out at the far end.
    pub delivered: Volume,
    /// Packets for which the buffer had no room, or that a fair queue gave up for others.
    pub dropped_by_buffer: Volume,
    /// Packets that CoDel dropped.
    pub dropped_by_codel: Volume,
    /// See [`PacketFate::DroppedByPolicing`].
    pub dropped_by_police: Volume,
    /// See [`PacketFate::DroppedByUdpPolicing`].
    pub dropped_by_police_udp: Volume,
    /// Acknowledgements of which a newer one said more.
    pub dropped_by_thinning: Volume,
    /// Packets lost at random, after using their share of the rate.
    pub dropped_by_loss: Volume,
    /// Packets that found the slow receiver's queue full, after the whole path.
    pub dropped_by_receiver: Volume,
    /// See [`PacketFate::DroppedByDown`]; also what was under way when the link went down.
    pub dropped_by_down: Volume,
    /// See [`PacketFate::DroppedByMemory`].
    pub dropped_by_memory: Volume,
    /// Packets that were sent on later than the others.
    pub reordered: Volume,
}

/// A packet that the host at the far end of the link has taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// When it was due, in nanoseconds.
    pub due_ns: u64,
    /// Where its content becomes another one: the draw that says which.
    pub corruption: Option<u64>,
    /// What was offered.
    pub payload: P,
}

struct UnderWay<P> {
    due_ns: u64,
    corruption: Option<u64>,
    size_bytes: usize,
    payload: P,
}

/// One direction of the path, holding packets of type `P` until they are due.
pub struct Link<P> {
    parameters: DirectionParameters,
    loss_below: u128,
    random: Pcg64,
    mishaps: Pcg64,
    salt: u64,
    police: Option<TokenBucket>,
    police_udp: Option<TokenBucket>,
    thinner: AckThinner<QueuedPacket<P>>,
    queue: Queue<P>,
    // Its last bit leaves at `busy_until_ns`.
    sending: Option<QueuedPacket<P>>,
    busy_until_ns: u64,
    // Bits × 10⁹ of the last packet that did not fill a nanosecond; keeps the long-run rate exact.
    remainder: u64,
    delay_line: VecDeque<UnderWay<P>>,
    input_queue: Option<InputQueue<UnderWay<P>>>,
    last_due_ns: u64,
    held_bytes: u64,
    queue_peak_bytes: u64,
    counters: Counters,
}

impl<P> Link<P> {
    /// An idle link; `random` decides the random losses, one draw for each packet offered, and what else is random.
    pub fn new(parameters: DirectionParameters, random: Pcg64) -> Self {
        // From a copy: the draws for the losses stay what they are.
        let salt = random.clone().next_u64();
        Self {
            loss_below: threshold(parameters.loss),
            random,
            mishaps: Pcg64::new(u128::from(salt), 0),
            salt,
            police: parameters.police.map(|policing| TokenBucket::new(policing, 0)),
            police_udp: parameters.police_udp.map(|policing| TokenBucket::new(policing, 0)),
            thinner: AckThinner::new(parameters.thin_acks),
            queue: Queue::new(parameters.queue, salt),
            input_queue: parameters.receiver.map(InputQueue::new),
            parameters,
            sending: None,
            busy_until_ns: 0,
            remainder: 0,
            delay_line: VecDeque::new(),
            last_due_ns: 0,
            held_bytes: 0,
            queue_peak_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Takes a packet of `size_bytes` at `now_ns`, or says why not.
    pub fn offer(&mut self, now_ns: u64, size_bytes: usize, facts: &PacketFacts, payload: P) -> PacketFate {
        self.counters.offered.add(size_bytes);
        // Drawn before anything else: the n-th packet meets the n-th draw, whatever the queue was like.
        let lost = u128::from(self.random.next_u64()) < self.loss_below;
        self.advance(now_ns);
        if self.parameters.down {
            self.counters.dropped_by_down.add(size_bytes);
            return PacketFate::DroppedByDown;
        }
        if self.held_bytes + size_bytes as u64 > MAX_HELD_BYTES {
            self.counters.dropped_by_memory.add(size_bytes);
            return PacketFate::DroppedByMemory;
        }
        if facts.is_udp() && self.police_udp.as_mut().is_some_and(|bucket| !bucket.admits(now_ns, size_bytes)) {
            self.counters.dropped_by_police_udp.add(size_bytes);
            return PacketFate::DroppedByUdpPolicing;
        }
        if self.police.as_mut().is_some_and(|bucket| !bucket.admits(now_ns, size_bytes)) {
            self.counters.dropped_by_police.add(size_bytes);
            return PacketFate::DroppedByPolicing;
        }
        self.held_bytes += size_bytes as u64;
        let packet = QueuedPacket { queued_ns: now_ns, size_bytes, flow: facts.flow, lost, payload };
        let thinned = self.thinner.offer(now_ns, facts, packet);
        if let Some(superseded) = thinned.superseded {
            self.held_bytes -= superseded.size_bytes as u64;
            self.counters.dropped_by_thinning.add(superseded.size_bytes);
        }
        // The packet itself is the last of those that go on.
        thinned.passed.into_iter().flatten().fold(PacketFate::Taken, |_, packet| self.enqueue(now_ns, packet))
    }

    /// The next packet that is due by `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Arrival<P>> {
        self.advance(now_ns);
        let (due_ns, taken) = match &mut self.input_queue {
            Some(input_queue) => input_queue.pop_taken(now_ns)?,
            None => {
                let arrived = pop_arrived(&mut self.delay_line, now_ns)?;
                (arrived.due_ns, arrived)
            }
        };
        self.held_bytes -= taken.size_bytes as u64;
        self.counters.delivered.add(taken.size_bytes);
        Some(Arrival { due_ns, corruption: taken.corruption, payload: taken.payload })
    }

    /// The earliest time at which a packet may be due, in nanoseconds: until then nobody need ask.
    pub fn next_due_ns(&self) -> Option<u64> {
        let taken = self.input_queue.as_ref().and_then(InputQueue::next_taken_ns);
        // What is taken comes in order: nothing on the path is sooner than what is there.
        taken
            .or_else(|| Some(self.next_arrival_ns()? + self.parameters.receiver.map_or(0, |receiver| receiver.cost_ns)))
    }

    /// The earliest time at which a packet may come to the far end.
    fn next_arrival_ns(&self) -> Option<u64> {
        let under_way = self.delay_line.front().map(|first| first.due_ns);
        let sending = self.sending.as_ref().map(|_| self.due_ns(self.busy_until_ns));
        let held = self.thinner.next_release_ns().map(|release_ns| self.due_ns(release_ns));
        [under_way, sending, held].into_iter().flatten().min()
    }

    /// Puts `parameters` in force at `now_ns`.
    ///
    /// What is queued leaves at the new rate and then meets the new delay; what has left the queue keeps its time.
    /// A smaller buffer drops nothing that it holds, and another queue takes over what waits. Going down loses all that is under way, not
    /// what waits in the receiver, which takes it at its new cost.
    pub fn set_parameters(&mut self, now_ns: u64, parameters: DirectionParameters) {
        self.advance(now_ns);
        let before = std::mem::replace(&mut self.parameters, parameters);
        self.loss_below = threshold(self.parameters.loss);
        if self.parameters.down {
            self.lose_everything(now_ns);
        }
        if before.rate_bps != self.parameters.rate_bps {
            self.rescale(now_ns, before.rate_bps);
        }
        if before.queue != self.parameters.queue {
            let waiting = self.queue.drain();
            self.queue = Queue::new(self.parameters.queue, self.salt);
            waiting.into_iter().for_each(|packet| self.queue.push(packet));
        }
        change_bucket(&mut self.police, self.parameters.police, now_ns);
        change_bucket(&mut self.police_udp, self.parameters.police_udp, now_ns);
        if before.thin_acks != self.parameters.thin_acks {
            while let Some(packet) = self.thinner.release() {
                self.enqueue(now_ns, packet);
            }
            self.thinner.change(self.parameters.thin_acks);
        }
        self.change_receiver(now_ns);
        self.transmit(now_ns);
    }

    /// Bytes waiting at `now_ns`, the rest of the packet being sent included.
    pub fn queue_bytes(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        self.backlog(now_ns).bytes
    }

    /// How long the link is busy with what waits at `now_ns`, in nanoseconds: with a first-in, first-out queue what a packet would wait.
    pub fn queue_delay_ns(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        let Some(rate_bps) = self.parameters.rate_bps else { return 0 };
        let bits_e9 = u128::from(self.queue.waiting().bytes) * 8_000_000_000 + u128::from(self.remainder);
        self.busy_until_ns.saturating_sub(now_ns) + (bits_e9 / u128::from(rate_bps)) as u64
    }

    /// The most bytes that ever waited.
    pub fn queue_peak_bytes(&self) -> u64 {
        self.queue_peak_bytes
    }

    /// Packets held back, queued, being sent, on the delay line or in the receiver's queue.
    pub fn held_packets(&self) -> usize {
        let queued = self.queue.waiting().packets as usize + usize::from(self.sending.is_some());
        self.thinner.len() + queued + self.delay_line.len() + self.input_queue.as_ref().map_or(0, InputQueue::len)
    }

    /// Their bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// What came and where it went.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The parameters in force.
    pub fn parameters(&self) -> &DirectionParameters {
        &self.parameters
    }

    /// Does everything that was to happen by `now_ns`, in its order.
    fn advance(&mut self, now_ns: u64) {
        while let Some(release_ns) = self.thinner.next_release_ns().filter(|release_ns| *release_ns <= now_ns) {
            self.transmit(release_ns);
            if let Some(packet) = self.thinner.release() {
                self.enqueue(release_ns, packet);
            }
        }
        self.transmit(now_ns);
        self.receive(now_ns);
    }

    /// Puts a packet in the queue, where all was done up to `now_ns`.
    fn enqueue(&mut self, now_ns: u64, mut packet: QueuedPacket<P>) -> PacketFate {
        if self.sending.is_none() {
            self.busy_until_ns = now_ns;
            self.remainder = 0;
        }
        packet.queued_ns = now_ns;
        let size_bytes = packet.size_bytes;
        if !self.queue.makes_room() && !self.fits(self.backlog(now_ns).and(size_bytes as u64)) {
            self.held_bytes -= size_bytes as u64;
            self.counters.dropped_by_buffer.add(size_bytes);
            return PacketFate::DroppedByBuffer;
        }
        self.queue.push(packet);
        while !self.fits(self.backlog(now_ns)) {
            let Some(evicted) = self.queue.evict() else { break };
            self.held_bytes -= evicted.size_bytes as u64;
            self.counters.dropped_by_buffer.add(evicted.size_bytes);
        }
        self.queue_peak_bytes = self.queue_peak_bytes.max(self.backlog(now_ns).bytes);
        self.transmit(now_ns);
        PacketFate::Taken
    }

    /// Sends what the link has had time for by `now_ns`.
    fn transmit(&mut self, now_ns: u64) {
        while self.busy_until_ns <= now_ns {
            if let Some(sent) = self.sending.take() {
                self.depart(sent);
            }
            match self.queue.pull(self.busy_until_ns) {
                Pulled::Sent(packet) => {
                    self.occupy(packet.size_bytes as u64);
                    self.sending = Some(packet);
                }
                Pulled::Dropped(packet) => {
                    self.held_bytes -= packet.size_bytes as u64;
                    self.counters.dropped_by_codel.add(packet.size_bytes);
                }
                Pulled::Empty => return,
            }
        }
    }

    /// Occupies the link with `size` bytes from the moment when it was free.
    fn occupy(&mut self, size: u64) {
        let Some(rate_bps) = self.parameters.rate_bps else { return };
        let bits_e9 = u128::from(size) * 8_000_000_000 + u128::from(self.remainder);
        self.busy_until_ns += (bits_e9 / u128::from(rate_bps)) as u64;
        self.remainder = (bits_e9 % u128::from(rate_bps)) as u64;
    }

    /// Passes on what has just been sent.
    fn depart(&mut self, sent: QueuedPacket<P>) {
        if sent.lost {
            self.held_bytes -= sent.size_bytes as u64;
            self.counters.dropped_by_loss.add(sent.size_bytes);
            return;
        }
        self.last_due_ns = self.due_ns(self.busy_until_ns);
        let due_ns = self.last_due_ns + self.extra_ns(sent.size_bytes);
        let corruption = self.happens(self.parameters.corrupt).then(|| self.mishaps.next_u64());
        let place = self.delay_line.partition_point(|other| other.due_ns <= due_ns);
        self.delay_line
            .insert(place, UnderWay { due_ns, corruption, size_bytes: sent.size_bytes, payload: sent.payload });
    }

    /// How much later than its turn a packet comes that has just been sent.
    fn extra_ns(&mut self, size_bytes: usize) -> u64 {
        let Some(reordering) = self.parameters.reorder else { return 0 };
        if !self.happens(reordering.share) {
            return 0;
        }
        self.counters.reordered.add(size_bytes);
        reordering.extra_ns
    }

    /// Whether something happens to a packet that happens to this share of them. What happens to none takes no draw.
    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && u128::from(self.mishaps.next_u64()) < threshold(share)
    }

    /// Hands a slow receiver what has come by `now_ns`, each packet at the moment of its coming.
    fn receive(&mut self, now_ns: u64) {
        let Some(input_queue) = &mut self.input_queue else { return };
        while let Some(arrived) = pop_arrived(&mut self.delay_line, now_ns) {
            if let Some(refused) = input_queue.offer(arrived.due_ns, arrived) {
                self.held_bytes -= refused.size_bytes as u64;
                self.counters.dropped_by_receiver.add(refused.size_bytes);
            }
        }
    }

    /// When a packet arrives that leaves at `departure_ns`: a delay cut short on a live link must not let it overtake another.
    fn due_ns(&self, departure_ns: u64) -> u64 {
        (departure_ns + self.parameters.delay_ns).max(self.last_due_ns)
    }

    /// What takes room in the buffer; without a rate nothing does.
    fn backlog(&self, now_ns: u64) -> Backlog {
        let Some(rate_bps) = self.parameters.rate_bps else { return Backlog::default() };
        let waiting = self.queue.waiting();
        if self.sending.is_none() {
            return waiting;
        }
        let busy_ns = self.busy_until_ns.saturating_sub(now_ns);
        let rest_bits_e9 = u128::from(busy_ns) * u128::from(rate_bps) + u128::from(self.remainder);
        waiting.and(rest_bits_e9.div_ceil(8_000_000_000) as u64)
    }

    fn fits(&self, backlog: Backlog) -> bool {
        let buffer_bytes = self.parameters.rate_bps.and(self.parameters.buffer_bytes);
        buffer_bytes.is_none_or(|buffer_bytes| self.queue.fits(backlog, buffer_bytes))
    }

    fn rescale(&mut self, now_ns: u64, old_bps: Option<u64>) {
        let left_ns = self.busy_until_ns.saturating_sub(now_ns);
        let left_ns = match (old_bps, self.parameters.rate_bps) {
            (Some(old), Some(new)) => (u128::from(left_ns) * u128::from(old) / u128::from(new)) as u64,
            (_, None) | (None, _) => 0,
        };
        self.busy_until_ns = now_ns + left_ns;
        self.remainder = 0;
    }

    /// Puts the receiver of the parameters in the place of the one so far, where all was done up to `now_ns`.
    fn change_receiver(&mut self, now_ns: u64) {
        match (self.input_queue.as_mut(), self.parameters.receiver) {
            (None, None) => {}
            (Some(input_queue), Some(receiver)) => input_queue.change(now_ns, receiver),
            (None, Some(receiver)) => {
                let mut input_queue = InputQueue::new(receiver);
                // Taken as it came, though nobody has asked for it since.
                while let Some(arrived) = pop_arrived(&mut self.delay_line, now_ns) {
                    input_queue.pass(arrived.due_ns, arrived);
                }
                self.input_queue = Some(input_queue);
            }
            (Some(input_queue), None) => {
                for (due_ns, packet) in input_queue.drain(now_ns).rev() {
                    self.delay_line.push_front(UnderWay { due_ns, ..packet });
                }
                self.input_queue = None;
            }
        }
    }

    fn lose_everything(&mut self, now_ns: u64) {
        let held_back = std::iter::from_fn(|| self.thinner.release());
        let queued = self.queue.drain().into_iter().chain(self.sending.take());
        let sizes = held_back.chain(queued).map(|packet| packet.size_bytes);
        for size_bytes in sizes.chain(self.delay_line.drain(..).map(|packet| packet.size_bytes)) {
            self.counters.dropped_by_down.add(size_bytes);
            self.held_bytes -= size_bytes as u64;
        }
        self.busy_until_ns = now_ns;
        self.remainder = 0;
        self.last_due_ns = 0;
    }
}

/// The next packet of a delay line that has come to its end by `now_ns`.
fn pop_arrived<P>(delay_line: &mut VecDeque<UnderWay<P>>, now_ns: u64) -> Option<UnderWay<P>> {
    if delay_line.front()?.due_ns > now_ns {
        return None;
    }
    delay_line.pop_front()
}

fn change_bucket(bucket: &mut Option<TokenBucket>, policing: Option<Policing>, now_ns: u64) {
    match (bucket.as_mut(), policing) {
        (Some(bucket), Some(policing)) => bucket.change(now_ns, policing),
        (_, policing) => *bucket = policing.map(|policing| TokenBucket::new(policing, now_ns)),
    }
}

/// The count of 64-bit draws that mean what happens to this share of packets.
fn threshold(share: f64) -> u128 {
    (share * (1u128 << 64) as f64) as u128
}
