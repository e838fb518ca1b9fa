//! A connection: packets in, packets out, bytes in order at both ends.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::connect::Established;
use crate::estimate::{Arrivals, RttEstimate, PAIR_EVERY};
use crate::packet::{Ack, AckPath, AckRates, Losses, Packet, PacketKind, HEADER_BYTES, IP_UDP_BYTES};
use crate::rate::{RateControl, RatePolicy, Seen};
use crate::receive::{PacketArrival, ReceiveQueue};
use crate::send::SendQueue;
use crate::sequence::Sequence;
use crate::SYN;

/// Time and packets by which a sender that comes late may catch up in one burst, whichever is more. A slow one that could not would send
/// less than its rate on a busy machine, and a policy that goes by what arrives would slow it down for that.
const CATCH_UP: Duration = Duration::from_millis(2);
const CATCH_UP_PACKETS: u32 = 8;
/// Packets after which there is a light acknowledgement without waiting for the next full one.
const LIGHT_EVERY: u64 = 64;
/// Acknowledgements of which the number is remembered until they are acknowledged themselves.
const ACKS: usize = 256;
/// Least time without acknowledgement after which something is sent again. The draft has 0.5 s.
const LEAST_EXPIRY: Duration = Duration::from_millis(100);
/// Expiries in a row that make the time longer.
const EXPIRIES: u32 = 16;
/// Expiries in a row after which the idle timeout holds for acknowledgements too.
const FRUITLESS_EXPIRIES: u32 = 3;
/// Time without a packet of ours after which there is one that keeps the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Reports of one loss that make the time to the next one longer.
const REPORTS: u32 = 8;
/// Shortest bound on the time for which new data go before what was lost. The reader waits for that, for minutes where the sender is slow.
const BLAST: Duration = Duration::from_secs(1);
/// Shortest time over which a delivery rate is measured.
const LEAST_SPAN: Duration = Duration::from_millis(10);
/// Times that the end is told: nobody acknowledges it.
const FAREWELLS: u32 = 3;

/// What a connection may do.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The rate policy of what is sent here.
    pub policy: RatePolicy,
    /// Bytes of a packet that are needed for something else than UDT, beside the headers of IPv4 and UDP.
    pub reserved_bytes: usize,
    /// Packets that are held until they are read.
    pub receive_packets: usize,
    /// Bytes that are taken to be sent until they are acknowledged.
    pub send_bytes: usize,
    /// Bytes of them that may wait to be sent for the first time.
    pub unsent_bytes: usize,
    /// Time without a packet of the other end, or without an answer to data that were sent again, after which the connection is over.
    pub idle_timeout: Duration,
    /// The round-trip time, if it was measured already.
    pub rtt: Option<Duration>,
    /// Anything random.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: RatePolicy::Udt,
            reserved_bytes: 0,
            receive_packets: 8192,
            send_bytes: 8192 * 1456,
            unsent_bytes: usize::MAX,
            idle_timeout: Duration::from_secs(10),
            rtt: None,
            seed: 0,
        }
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// By this end.
    #[error("it was closed here")]
    Here,
    /// By the other end.
    #[error("the other end closed it")]
    There,
    /// Nothing was heard for the idle timeout, or nothing of the data that were sent.
    #[error("the other end has fallen silent")]
    Silent,
}

/// What a connection counts and knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// All packets sent, and their bytes with the header of UDT.
    pub packets_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Packets of data among them that were sent again.
    pub packets_resent: u64,
    /// Payload of those.
    pub bytes_resent: u64,
    /// Payload that was acknowledged.
    pub bytes_acked: u64,
    /// Payload that was sent and not acknowledged.
    pub bytes_in_flight: u64,
    /// Payload that was not sent yet.
    pub bytes_unsent: u64,
    /// Payload of a full packet.
    pub payload_bytes: usize,
    /// Smoothed.
    pub rtt: Duration,
    /// Nothing before the first measurement.
    pub least_rtt: Option<Duration>,
    /// In bytes of payload per second.
    pub delivery_rate: f64,
    /// Packets per second that the policy lets go; infinite without a bound.
    pub rate: f64,
    /// Packets that may be under way by the policy, or by the receiver if that is less.
    pub window_packets: f64,
    /// Packets that the receiver has room for beyond what it has.
    pub peer_free_packets: u64,
    /// Capacity of the link in packets per second; 0 if it is not known.
    pub capacity: f64,
    /// For how long something was under way in all.
    pub busy: Duration,
    /// For how long nothing that is under way was acknowledged.
    pub silence: Duration,
    /// Bytes wait, nothing is under way, and the receiver has no room.
    pub window_closed: bool,
}

/// A full acknowledgement that was sent.
#[derive(Clone, Copy, Debug)]
struct SentAck {
    number: u32,
    at: Duration,
}

/// One end of a connection.
pub struct Connection {
    config: Config,
    peer_id: u32,
    own: Sequence,
    peers: Sequence,
    packet_bytes: f64,
    started: Duration,
    ended: Option<Ended>,
    farewells: u32,

    send: SendQueue,
    control: RateControl,
    limit: Option<f64>,
    next_send: Duration,
    /// The packet behind the first of a pair goes at once.
    pair: bool,
    /// A blast ends before this packet, or at this time.
    blast_ends: u64,
    blast_until: Duration,
    /// The receiver has room for packets before this one.
    window_ends: u64,
    /// Behind the last packet that was reported lost.
    lost_until: u64,
    peer_free: u64,
    peer_room: u64,
    rtt: RttEstimate,
    arrival_rate: f64,
    capacity: f64,
    ack2s: VecDeque<u32>,
    /// When something was acknowledged or reported lost, or began to be under way.
    answered: Duration,
    /// Expiries since then, and when the last one was.
    expiries: u32,
    expired: Duration,
    data_packets: u64,
    lost_packets: u64,
    packets_resent: u64,
    bytes_resent: u64,
    bytes_acked: u64,
    packets_sent: u64,
    bytes_sent: u64,
    busy: Duration,
    /// Since when the delivery rate is measured, what was acknowledged then, and the rate.
    measured: (Duration, u64),
    delivery_rate: f64,

    receive: ReceiveQueue,
    arrivals: Arrivals,
    heard: Duration,
    spoke: Duration,
    acks: VecDeque<SentAck>,
    last_ack: Option<SentAck>,
    /// What the last acknowledgement said: the first missing packet, and the free room.
    told: (u64, usize),
    /// The last light acknowledgement, likewise.
    told_light: u64,
    is_confirmed: bool,
    gaps: Vec<Range<u64>>,
    next_report: Duration,
    scratch: Vec<u8>,
}

impl Connection {
    /// Starts with what a handshake agreed on.
    pub fn new(config: Config, agreed: &Established, now: Duration) -> Self {
        let whole = (agreed.packet_bytes - IP_UDP_BYTES) as usize - HEADER_BYTES;
        let mut rtt = RttEstimate::new();
        config.rtt.into_iter().for_each(|sample| rtt.update(now, sample));
        let room = u64::from(agreed.window_packets);
        Self {
            config,
            peer_id: agreed.peer_id,
            own: Sequence::new(agreed.own_first),
            peers: Sequence::new(agreed.peer_first),
            packet_bytes: f64::from(agreed.packet_bytes),
            started: now,
            ended: None,
            farewells: 0,
            send: SendQueue::new(whole.saturating_sub(config.reserved_bytes).max(1)),
            control: RateControl::new(config.policy, config.seed),
            limit: None,
            next_send: now,
            pair: false,
            blast_ends: 0,
            blast_until: now,
            window_ends: room,
            lost_until: 0,
            peer_free: room,
            peer_room: room,
            rtt,
            arrival_rate: 0.0,
            capacity: 0.0,
            ack2s: VecDeque::new(),
            answered: now,
            expiries: 0,
            expired: now,
            data_packets: 0,
            lost_packets: 0,
            packets_resent: 0,
            bytes_resent: 0,
            bytes_acked: 0,
            packets_sent: 0,
            bytes_sent: 0,
            busy: Duration::ZERO,
            measured: (now, 0),
            delivery_rate: 0.0,
            receive: ReceiveQueue::new(config.receive_packets),
            arrivals: Arrivals::default(),
            heard: now,
            spoke: now,
            acks: VecDeque::new(),
            last_ack: None,
            told: (0, config.receive_packets),
            told_light: 0,
            is_confirmed: true,
            gaps: Vec::new(),
            next_report: now,
            scratch: Vec::new(),
        }
    }

    /// Takes bytes to be sent, as many as there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let room = self.write_room().min(bytes.len());
        self.send.push(&bytes[..room]);
        room
    }

    /// How many bytes would be taken now.
    pub fn write_room(&self) -> usize {
        if self.ended.is_some() {
            return 0;
        }
        let unsent = usize::try_from(self.send.unsent_bytes()).unwrap_or(usize::MAX);
        self.config
            .send_bytes
            .saturating_sub(self.send.kept_bytes())
            .min(self.config.unsent_bytes.saturating_sub(unsent))
    }

    /// How many bytes are taken until they are acknowledged, and how many of them may wait to be sent.
    pub fn set_send_bytes(&mut self, kept: usize, unsent: usize) {
        (self.config.send_bytes, self.config.unsent_bytes) = (kept, unsent);
    }

    /// The next bytes in order, if they are there. What came before the end can still be read after it.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        self.receive.pop()
    }

    /// Whether `read` would give something.
    pub fn is_readable(&self) -> bool {
        self.receive.is_readable()
    }

    /// Whether everything that was written has been acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.send.kept_bytes() == 0
    }

    /// Bounds what is sent in bytes of payload per second, or lifts the bound.
    pub fn set_limit(&mut self, bytes_per_second: Option<f64>) {
        self.limit = bytes_per_second.map(|limit| limit.max(1.0));
    }

    /// The bound in force.
    pub fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// Goes on with another policy.
    pub fn set_policy(&mut self, policy: RatePolicy) {
        self.control.switch(policy);
    }

    /// The policy in force.
    pub fn policy(&self) -> RatePolicy {
        self.control.policy()
    }

    /// Ends the connection; what waits is forgotten.
    pub fn close(&mut self) {
        self.end(Ended::Here);
    }

    fn end(&mut self, why: Ended) {
        if self.ended.is_none() {
            self.ended = Some(why);
            self.farewells = if why == Ended::There { 0 } else { FAREWELLS };
        }
    }

    /// Why the connection is over, if it is.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What the connection counts and knows.
    pub fn stats(&self, now: Duration) -> Stats {
        let pace = self.control.pace();
        let silence = self.silence(now);
        let window_closed =
            self.packets_in_flight() == 0 && self.send.unsent_bytes() > 0 && self.send.next() >= self.window_ends;
        Stats {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            packets_resent: self.packets_resent,
            bytes_resent: self.bytes_resent,
            bytes_acked: self.bytes_acked,
            bytes_in_flight: self.send.in_flight_bytes(),
            bytes_unsent: self.send.unsent_bytes(),
            payload_bytes: self.payload_bytes(),
            rtt: self.rtt.smoothed,
            least_rtt: self.rtt.least(),
            delivery_rate: self.delivery_rate,
            rate: 1.0 / pace.interval,
            window_packets: self.window_packets().min(self.window_ends.saturating_sub(self.send.acked()) as f64),
            peer_free_packets: self.peer_free,
            capacity: self.capacity,
            busy: self.busy + silence,
            silence,
            window_closed,
        }
    }

    fn packets_in_flight(&self) -> u64 {
        self.send.next() - self.send.acked()
    }

    /// For how long nothing that is under way was acknowledged.
    fn silence(&self, now: Duration) -> Duration {
        if self.packets_in_flight() > 0 {
            now.saturating_sub(self.answered)
        } else {
            Duration::ZERO
        }
    }

    /// Payload of a full packet.
    pub fn payload_bytes(&self) -> usize {
        (self.packet_bytes as usize - IP_UDP_BYTES as usize - HEADER_BYTES)
            .saturating_sub(self.config.reserved_bytes)
            .max(1)
    }

    fn seen(&self, now: Duration) -> Seen {
        Seen {
            now,
            rtt: self.rtt.smoothed,
            least_rtt: self.rtt.least().unwrap_or(self.rtt.smoothed),
            is_measured: self.rtt.least().is_some(),
            arrival_rate: self.arrival_rate,
            capacity: self.capacity,
            packet_bytes: self.packet_bytes,
            next: self.send.next(),
            in_flight: self.packets_in_flight(),
            sent: self.data_packets,
            lost: self.lost_packets,
            free: self.peer_free as f64,
            room: self.peer_room as f64,
            limit: self.limit.map(|limit| limit / self.payload_bytes() as f64),
        }
    }

    /// Takes a packet of the other end in. Bytes that are none, or not for this connection's time, change nothing.
    pub fn handle(&mut self, now: Duration, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else { return };
        if self.ended.is_some() {
            return;
        }
        self.heard = now;
        match packet.kind {
            PacketKind::Data { sequence, payload } => self.on_data(now, sequence, payload),
            PacketKind::Ack(ack) => self.on_ack(now, &ack),
            PacketKind::Ack2(number) => self.on_ack2(now, number),
            PacketKind::Nak(losses) => self.on_nak(now, losses),
            PacketKind::Shutdown => self.end(Ended::There),
            PacketKind::Handshake(_) | PacketKind::KeepAlive | PacketKind::Other(_) => {}
        }
    }

    fn on_data(&mut self, now: Duration, sequence: u32, payload: &[u8]) {
        let Some(number) = self.peers.number(sequence, self.receive.next()) else { return };
        if payload.is_empty() {
            return;
        }
        let is_overtaken = number < self.receive.next();
        if let PacketArrival::New { gap } = self.receive.insert(now, number, payload) {
            self.arrivals.note(now, number, sequence, is_overtaken);
            if !gap.is_empty() {
                self.gaps.push(gap);
                self.next_report = self.next_report.max(now + SYN);
            }
        } else {
            // Whoever sends again what has come has missed the acknowledgement.
            self.is_confirmed = false;
        }
    }

    fn on_ack(&mut self, now: Duration, ack: &Ack) {
        let Some(number) = self.own.number(ack.sequence, self.send.acked()) else { return };
        if number > self.send.next() {
            return;
        }
        if ack.path.is_some() {
            self.ack2s.push_back(ack.number);
        }
        if number < self.send.acked() {
            return;
        }
        let was_in_flight = self.send.next() > self.send.acked();
        let (packets, bytes) = self.send.acknowledge(number);
        if packets > 0 {
            if was_in_flight {
                self.busy += now.saturating_sub(self.answered);
            }
            (self.answered, self.expiries) = (now, 0);
            self.bytes_acked += bytes;
            let span = now.saturating_sub(self.measured.0);
            if span >= LEAST_SPAN.max(self.rtt.smoothed) {
                self.delivery_rate = (self.bytes_acked - self.measured.1) as f64 / span.as_secs_f64();
                self.measured = (now, self.bytes_acked);
            }
        }
        let Some(path) = ack.path else {
            // The room that it had less what has come.
            return;
        };
        self.note_path(now, &path);
        self.peer_free = u64::from(path.free_packets);
        self.peer_room = self.peer_room.max(self.peer_free);
        self.window_ends = number + self.peer_free;
        if let Some(rates) = ack.rates {
            let smooth = |old: &mut f64, new: u32, is_first: bool| match new {
                0 => {}
                new if is_first || *old == 0.0 => *old = f64::from(new),
                new => *old = (*old * 7.0 + f64::from(new)) / 8.0,
            };
            // A mean would be far behind a rate that doubles.
            smooth(&mut self.arrival_rate, rates.arrival_packets_per_second, self.control.is_starting());
            smooth(&mut self.capacity, rates.capacity_packets_per_second, false);
        }
        let seen = self.seen(now);
        self.control.on_ack(&seen, packets);
    }

    fn note_path(&mut self, now: Duration, path: &AckPath) {
        let unknown = RttEstimate::new();
        let sample = Duration::from_micros(path.rtt_us.into());
        let variation = Duration::from_micros(path.rtt_variation_us.into());
        // What an end says that has measured nothing yet.
        if sample != unknown.smoothed || variation != unknown.variation {
            self.rtt.update(now, sample);
        }
    }

    fn on_ack2(&mut self, now: Duration, number: u32) {
        let Some(at) = self.acks.iter().position(|ack| ack.number == number) else { return };
        self.rtt.update(now, now.saturating_sub(self.acks[at].at));
        self.acks.drain(..=at);
        if self.last_ack.is_some_and(|last| last.number == number) {
            self.is_confirmed = true;
        }
    }

    fn on_nak(&mut self, now: Duration, losses: Losses<'_>) {
        let since = now.saturating_sub(self.rtt.smoothed);
        let (mut first, mut lost, mut is_answer) = (None, 0, false);
        for range in losses.ranges() {
            let near = self.send.acked();
            let numbers = (self.own.number(*range.start(), near), self.own.number(*range.end(), near));
            let (Some(start), Some(end)) = numbers else { continue };
            let known = start.max(self.send.acked())..end.saturating_add(1).min(self.send.next());
            if known.is_empty() {
                continue;
            }
            is_answer = true;
            self.lost_until = self.lost_until.max(known.end);
            if let Some((told, more)) = self.send.report_lost(known, since) {
                first.get_or_insert(told);
                lost += more;
            }
        }
        if is_answer {
            self.note_answer(now);
        }
        let Some(first) = first else { return };
        self.lost_packets += lost;
        let seen = self.seen(now);
        self.control.on_loss(&seen, first);
    }

    fn note_answer(&mut self, now: Duration) {
        self.busy += now.saturating_sub(self.answered);
        (self.answered, self.expiries) = (now, 0);
    }

    /// Appends the next packet that is due; whether there was one. To be called until there is none.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let kind_is_some = self.poll(now, out);
        if kind_is_some {
            self.spoke = now;
            self.packets_sent += 1;
            self.bytes_sent += (out.len() - before) as u64;
        }
        kind_is_some
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let is_silent = now >= self.heard + self.config.idle_timeout;
        if self.ended.is_none() && (is_silent || self.is_fruitless(now)) {
            self.end(Ended::Silent);
        }
        if self.ended.is_some() {
            let due = self.farewells > 0;
            self.farewells = self.farewells.saturating_sub(1);
            return due && self.put(now, PacketKind::Shutdown, out);
        }
        if let Some(number) = self.ack2s.pop_front() {
            return self.put(now, PacketKind::Ack2(number), out);
        }
        if self.ack_at().is_some_and(|at| now >= at) {
            return self.put_ack(now, out);
        }
        if self.receive.complete() >= self.told_light + LIGHT_EVERY {
            self.told_light = self.receive.complete();
            let sequence = self.peers.on_wire(self.told_light);
            return self.put(now, PacketKind::Ack(Ack { sequence, ..Ack::default() }), out);
        }
        if self.put_nak(now, out) {
            return true;
        }
        if self.expiry_at().is_some_and(|at| now >= at) {
            self.expire(now);
        }
        if self.may_send(now) && self.put_data(now, out) {
            return true;
        }
        now >= self.spoke + KEEP_ALIVE && self.put(now, PacketKind::KeepAlive, out)
    }

    fn put(&mut self, now: Duration, kind: PacketKind<'_>, out: &mut Vec<u8>) -> bool {
        let time_us = now.saturating_sub(self.started).as_micros() as u32;
        Packet { kind, time_us, destination: self.peer_id }.encode(out);
        true
    }

    /// The room has grown much beyond what the other end knows of.
    fn has_opened(&self) -> bool {
        let (_, told) = self.told;
        told < self.config.receive_packets / 2 && self.receive.free() >= 2 * told.max(1)
    }

    /// When the next full acknowledgement is due.
    fn ack_at(&self) -> Option<Duration> {
        let is_new = self.receive.complete() != self.told.0 || self.has_opened();
        match (self.last_ack, is_new) {
            (None, true) => Some(Duration::ZERO),
            (Some(last), true) => Some(last.at + SYN),
            // Nobody has said that it came.
            (Some(last), false) if !self.is_confirmed => Some(last.at + (self.rtt.smoothed * 2).max(SYN)),
            _ => None,
        }
    }

    fn put_ack(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let (complete, free) = (self.receive.complete(), self.receive.free());
        // Number 0 is for light ones.
        let number = self.last_ack.map_or(1, |last| last.number.wrapping_add(1).max(1));
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let ack = Ack {
            number,
            sequence: self.peers.on_wire(complete),
            path: Some(AckPath {
                rtt_us: us(self.rtt.smoothed),
                rtt_variation_us: us(self.rtt.variation),
                free_packets: u32::try_from(free).unwrap_or(u32::MAX),
            }),
            rates: Some(AckRates {
                arrival_packets_per_second: self.arrivals.arrival_rate() as u32,
                capacity_packets_per_second: self.arrivals.capacity() as u32,
            }),
        };
        let sent = SentAck { number, at: now };
        if self.acks.len() == ACKS {
            self.acks.pop_front();
        }
        self.acks.push_back(sent);
        (self.last_ack, self.told, self.told_light, self.is_confirmed) =
            (Some(sent), (complete, free), complete, false);
        self.put(now, PacketKind::Ack(ack), out)
    }

    /// Reports new gaps, and after some round trips those that are still there.
    fn put_nak(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let most = self.payload_bytes();
        let wire = |peers: Sequence, range: &Range<u64>| peers.on_wire(range.start)..=peers.on_wire(range.end - 1);
        self.scratch.clear();
        if !self.gaps.is_empty() {
            let peers = self.peers;
            let written = Losses::write(self.gaps.iter().map(|gap| wire(peers, gap)), most, &mut self.scratch);
            self.gaps.drain(..written);
        } else if now >= self.next_report && !self.receive.missing.is_empty() {
            let (rtt, peers) = (self.rtt.smoothed, self.peers);
            self.next_report = now + SYN;
            for (range, reported) in self.receive.missing.iter_mut() {
                // Twice the round trip after the first report, and one more after each further one (draft, section 3).
                if now < reported.at + rtt * (reported.times + 1) + SYN {
                    continue;
                }
                if Losses::write(
                    std::iter::once(wire(peers, &range)),
                    most.saturating_sub(self.scratch.len()),
                    &mut self.scratch,
                ) == 0
                {
                    self.next_report = now;
                    break;
                }
                (reported.at, reported.times) = (now, (reported.times + 1).min(REPORTS));
            }
        }
        if self.scratch.is_empty() {
            return false;
        }
        let losses = std::mem::take(&mut self.scratch);
        self.put(now, PacketKind::Nak(Losses::from(&losses[..])), out);
        self.scratch = losses;
        true
    }

    /// When what is under way counts as lost for want of an answer.
    fn expiry_at(&self) -> Option<Duration> {
        let waits = self.send.next() > self.send.acked() && self.send.lost.is_empty();
        let one = (self.rtt.smoothed * 4 + self.rtt.variation + SYN).max(LEAST_EXPIRY);
        waits.then(|| self.answered.max(self.expired) + one * (1 << self.expiries.min(4)))
    }

    fn expire(&mut self, now: Duration) {
        self.expired = now;
        let (acked, next) = (self.send.acked(), self.send.next());
        if self.expiries == 0 {
            // Where only the last packets were lost, one of them makes the receiver report the others.
            self.send.lost.insert(acked..acked + 1, ());
            self.send.lost.insert(next - 1..next, ());
        } else {
            self.send.lost.insert(acked..next, ());
        }
        self.expiries = (self.expiries + 1).min(EXPIRIES);
    }

    /// Whether data get no answer for the idle timeout, however often they are sent: the path may carry short packets alone.
    fn is_fruitless(&self, now: Duration) -> bool {
        self.expiries >= FRUITLESS_EXPIRIES && self.silence(now) >= self.config.idle_timeout
    }

    fn may_send(&self, now: Duration) -> bool {
        now >= self.next_send || self.pair
    }

    /// Packets that may be unacknowledged by the policy. One that was lost holds the acknowledgement of all behind it back for the round
    /// trip in which it is sent again: what comes meanwhile is not under way any more.
    fn window_packets(&self) -> f64 {
        let is_held = self.send.acked() < self.lost_until;
        let round_trip = self.rtt.least().unwrap_or(self.rtt.smoothed);
        let held = if is_held { self.arrival_rate * round_trip.as_secs_f64() } else { 0.0 };
        self.control.pace().window + held
    }

    /// Whether a new packet may go, by both windows.
    fn may_send_new(&self) -> bool {
        let (next, acked) = (self.send.next(), self.send.acked());
        self.send.unsent_bytes() > 0 && next < self.window_ends && ((next - acked) as f64) < self.window_packets()
    }

    fn put_data(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        self.pair = false;
        let in_blast = self.send.next() < self.blast_ends && now < self.blast_until;
        let fills_now = !(in_blast && self.control.fills_last() && self.may_send_new());
        let again = if fills_now { self.send.take_lost(now) } else { None };
        let number = match again {
            Some(number) => number,
            None if !self.may_send_new() => return false,
            None => {
                if !in_blast {
                    self.blast_ends = self.send.next() + (self.peer_room / 2).max(1);
                    self.blast_until = now + BLAST.max(self.rtt.smoothed * 4);
                }
                if self.send.next() == self.send.acked() {
                    self.answered = now;
                }
                let Some((number, _)) = self.send.take_new() else { return false };
                self.pair = u64::from(self.own.on_wire(number)) % PAIR_EVERY == 0;
                number
            }
        };
        let sequence = self.own.on_wire(number);
        self.put(now, PacketKind::Data { sequence, payload: &[] }, out);
        let Some(bytes) = self.send.copy(number, out) else { return false };
        self.data_packets += 1;
        if again.is_some() {
            self.packets_resent += 1;
            self.bytes_resent += bytes as u64;
        }
        let by_limit = self.limit.map_or(0.0, |limit| bytes as f64 / limit);
        let interval = Duration::from_secs_f64(self.control.pace().interval.max(by_limit).min(1e6));
        let catch_up = CATCH_UP.max(interval.saturating_mul(CATCH_UP_PACKETS));
        self.next_send = self.next_send.max(now.saturating_sub(catch_up)) + interval;
        true
    }

    /// When to call `poll_transmit` again, if no packet comes before.
    pub fn timeout(&self) -> Option<Duration> {
        if self.ended.is_some() {
            return (self.farewells > 0).then_some(Duration::ZERO);
        }
        let acks = self.receive.complete() >= self.told_light + LIGHT_EVERY;
        if acks || !self.ack2s.is_empty() || !self.gaps.is_empty() {
            return Some(Duration::ZERO);
        }
        let sends = !self.send.lost.is_empty() || self.may_send_new();
        let data = sends.then_some(if self.pair { Duration::ZERO } else { self.next_send });
        let reports = (!self.receive.missing.is_empty()).then_some(self.next_report);
        let lasting = (self.spoke + KEEP_ALIVE).min(self.heard + self.config.idle_timeout);
        [data, reports, self.ack_at(), self.expiry_at(), Some(lasting)].into_iter().flatten().min()
    }
}
