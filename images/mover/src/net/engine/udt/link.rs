//! A connection of UDT as those see it who watch and steer it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::sealed::SEAL_BYTES;
use fairlead_udt::packet::HEADER_BYTES;
use fairlead_udt::{RatePolicy, Stats};

use super::flow::Flow;
use super::unknown_control;
use crate::net::engine::{ip_header_bytes, DataLink, LinkState};
use crate::net::send_buffer::{SendBuffer, SetBy};

const UDP_HEADER_BYTES: u64 = 8;
/// Of a datagram, what is not the packet's payload: UDT's header and the seal.
const PACKET_OVERHEAD_BYTES: u64 = (HEADER_BYTES + SEAL_BYTES) as u64;
/// Silence after which what is under way counts as sent in vain, and the same in round-trip times where that is longer.
const SILENCE: Duration = Duration::from_millis(500);
const SILENCE_ROUND_TRIPS: u32 = 3;
/// What waits unsent without a limit, and what is kept at most until it is acknowledged.
pub(super) const UNSENT_BYTES: usize = 4 << 20;
pub(super) const MOST_BUFFER_BYTES: usize = 256 << 20;
/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// A handle to a connection of the sender's.
pub(super) struct UdtLink {
    pub(super) flow: Arc<Flow>,
    /// Asked for by somebody; 0 if nobody did.
    asked_bytes: AtomicU64,
    /// Bound of what waits unsent under a limit; `UNLIMITED` without one.
    unsent_bytes: AtomicU64,
}

impl UdtLink {
    pub(super) fn new(flow: Arc<Flow>) -> Self {
        Self { flow, asked_bytes: AtomicU64::new(0), unsent_bytes: AtomicU64::new(UNLIMITED) }
    }

    /// Sets what the connection takes before it is acknowledged.
    fn fit_buffer(&self) {
        let kept = match self.asked_bytes.load(Ordering::Relaxed) {
            0 => MOST_BUFFER_BYTES,
            asked => usize::try_from(asked).unwrap_or(MOST_BUFFER_BYTES),
        };
        let unsent =
            usize::try_from(self.unsent_bytes.load(Ordering::Relaxed)).unwrap_or(UNSENT_BYTES).min(UNSENT_BYTES);
        self.flow.lock().connection.set_send_bytes(kept, unsent);
    }
}

fn whole(value: f64) -> u64 {
    // Saturates; what is not known is 0.
    value as u64
}

fn link_state(ip_bytes: u64, stats: &Stats) -> LinkState {
    let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let payload = stats.payload_bytes as f64;
    let silence = SILENCE.max(stats.rtt * SILENCE_ROUND_TRIPS);
    LinkState {
        header_bytes: ip_bytes + UDP_HEADER_BYTES + PACKET_OVERHEAD_BYTES,
        segment_bytes: stats.payload_bytes as u32,
        bytes_sent: stats.bytes_sent.saturating_sub(stats.packets_sent * HEADER_BYTES as u64),
        bytes_acked: stats.bytes_acked,
        bytes_retransmitted: stats.bytes_resent,
        packets_sent: stats.packets_sent as u32,
        retransmits: u32::try_from(stats.packets_resent).unwrap_or(u32::MAX),
        rtt_us: stats.least_rtt.map_or(0, |_| us(stats.rtt)),
        rtt_min_us: stats.least_rtt.map_or(0, us),
        delivery_rate_bytes_per_second: whole(stats.delivery_rate),
        pacing_rate_bytes_per_second: whole(stats.rate * payload),
        congestion_window_segments: u32::try_from(whole(stats.window_packets)).unwrap_or(u32::MAX),
        window_bytes: u32::try_from(stats.peer_free_packets * stats.payload_bytes as u64).unwrap_or(u32::MAX),
        awaits_acknowledgement: stats.bytes_in_flight > 0,
        sends_again: stats.silence > silence,
        window_closed: stats.window_closed,
        busy: stats.busy,
        // What holds a connection back is not told apart here.
        ..LinkState::default()
    }
}

impl DataLink for UdtLink {
    fn state(&self) -> io::Result<LinkState> {
        let stats = self.flow.lock().connection.stats(self.flow.now());
        Ok(link_state(ip_header_bytes(self.flow.peer.ip()), &stats))
    }

    fn congestion_control(&self) -> io::Result<String> {
        Ok(self.flow.lock().connection.policy().name().to_owned())
    }

    fn set_congestion_control(&self, name: &str) -> io::Result<String> {
        let policy = RatePolicy::of(name).ok_or_else(|| io::Error::other(unknown_control(name)))?;
        self.flow.lock().connection.set_policy(policy);
        self.congestion_control()
    }

    fn set_send_buffer(&self, buffer: SendBuffer) -> io::Result<()> {
        // What others ask for is for the kernel's buffers, by its limits.
        if let SendBuffer { bytes: Some(bytes), set_by: SetBy::User } = buffer {
            self.asked_bytes.store(u64::from(bytes), Ordering::Relaxed);
            self.fit_buffer();
        }
        Ok(())
    }

    fn send_buffer_bytes(&self) -> u64 {
        match self.asked_bytes.load(Ordering::Relaxed) {
            0 => self.flow.lock().connection.stats(self.flow.now()).bytes_in_flight + UNSENT_BYTES as u64,
            asked => asked,
        }
    }

    fn pace(&self, rate_bps: Option<u64>, unsent_bytes: Option<u64>) -> io::Result<()> {
        self.flow.lock().connection.set_limit(rate_bps.map(|rate| (rate / 8).max(1) as f64));
        self.unsent_bytes.store(unsent_bytes.unwrap_or(UNLIMITED), Ordering::Relaxed);
        self.fit_buffer();
        self.flow.wake();
        Ok(())
    }

    fn pacing_limit_bytes_per_second(&self) -> io::Result<u64> {
        Ok(self.flow.lock().connection.limit().map_or(UNLIMITED, whole))
    }

    fn abort(&self) {
        self.flow.give_up("the path was given up");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_counts_as_it_is_on_the_network() {
        let stats = Stats {
            packets_sent: 10,
            bytes_sent: 10 * (16 + 1432),
            payload_bytes: 1432,
            rtt: Duration::from_millis(100),
            bytes_in_flight: 1,
            silence: Duration::from_millis(400),
            ..Stats::default()
        };
        let state = link_state(20, &stats);
        assert_eq!(state.header_bytes + u64::from(state.segment_bytes), 1500);
        assert_eq!(state.bytes_sent + 10 * state.header_bytes, 15_000);
        assert_eq!((state.rtt_us, state.awaits_acknowledgement, state.sends_again), (0, true, false));
        assert!(link_state(20, &Stats { silence: Duration::from_millis(501), ..stats }).sends_again);
    }
}
