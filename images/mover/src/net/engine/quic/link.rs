//! A QUIC connection as those see it who watch and steer it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, VarInt};

use super::controller::{Algorithm, Steering, UNLIMITED};
use super::unknown_control;
use crate::net::engine::{ip_header_bytes, DataLink, LinkState};
use crate::net::send_buffer::{SendBuffer, SetBy};

/// Headers of a packet within a datagram: flags, connection ID, packet number, tag, and those of a stream's frame (RFC 9000, sections
/// 17.3.1 and 19.8).
const PACKET_OVERHEAD_BYTES: u64 = 1 + 8 + 2 + 16 + 10;
const UDP_HEADER_BYTES: u64 = 8;
/// Silence after which what is under way counts as sent in vain, and the same in round-trip times where that is longer.
const SILENCE: Duration = Duration::from_millis(500);
const SILENCE_ROUND_TRIPS: u32 = 3;
/// What is written and not acknowledged: at least, and in windows.
const LEAST_BUFFER_BYTES: u64 = 4 << 20;
const MOST_BUFFER_BYTES: u64 = 256 << 20;
const WINDOWS: u64 = 3;

/// A handle to a connection of the sender's.
pub(super) struct QuicLink {
    connection: Connection,
    steering: Arc<Steering>,
    /// Somebody waits for room to write.
    pub(super) waiting: AtomicBool,
    /// Asked for by somebody; 0 if nobody did.
    asked_bytes: AtomicU64,
    /// Bound of what waits unsent under a limit; `u64::MAX` without one.
    unsent_bytes: AtomicU64,
    buffer_bytes: AtomicU64,
}

impl QuicLink {
    pub(super) fn new(connection: Connection, steering: Arc<Steering>) -> Self {
        connection.set_send_window(LEAST_BUFFER_BYTES);
        Self {
            connection,
            steering,
            waiting: AtomicBool::new(false),
            asked_bytes: AtomicU64::new(0),
            unsent_bytes: AtomicU64::new(u64::MAX),
            buffer_bytes: AtomicU64::new(LEAST_BUFFER_BYTES),
        }
    }

    /// Lets as much be written as the path takes while it is acknowledged, and no more than may wait under a limit.
    pub(super) fn fit_buffer(&self) {
        let window = self.steering.window_bytes();
        let wanted = match (self.unsent_bytes.load(Ordering::Relaxed), self.asked_bytes.load(Ordering::Relaxed)) {
            (u64::MAX, 0) => (WINDOWS * window).clamp(LEAST_BUFFER_BYTES, MOST_BUFFER_BYTES),
            (u64::MAX, asked) => asked,
            (unsent, _) => window.saturating_add(unsent),
        };
        let present = self.buffer_bytes.load(Ordering::Relaxed);
        if wanted.abs_diff(present) > present / 8 {
            self.connection.set_send_window(wanted);
            self.buffer_bytes.store(wanted, Ordering::Relaxed);
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl DataLink for QuicLink {
    fn state(&self) -> io::Result<LinkState> {
        let stats = self.connection.stats();
        let (path, sent) = (stats.path, stats.udp_tx);
        let ip_bytes = ip_header_bytes(self.connection.remote_address().ip());
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let (rtt, in_flight) = (path.rtt, self.steering.in_flight_bytes());
        let pacing = u128::from(self.steering.window_bytes()) * 1_250_000_000 / rtt.as_nanos().max(1);
        Ok(LinkState {
            header_bytes: ip_bytes + UDP_HEADER_BYTES + PACKET_OVERHEAD_BYTES,
            segment_bytes: u32::from(path.current_mtu).saturating_sub(PACKET_OVERHEAD_BYTES as u32),
            bytes_sent: sent.bytes.saturating_sub(sent.datagrams * PACKET_OVERHEAD_BYTES),
            bytes_acked: self.steering.acked_bytes(),
            bytes_retransmitted: path.lost_bytes,
            packets_sent: sent.datagrams as u32,
            retransmits: u32::try_from(path.lost_packets).unwrap_or(u32::MAX),
            rtt_us: us(rtt),
            rtt_min_us: us(path.min_rtt),
            delivery_rate_bytes_per_second: self.steering.delivery_rate(),
            pacing_rate_bytes_per_second: u64::try_from(pacing).unwrap_or(u64::MAX),
            congestion_window_segments: (self.steering.window_bytes() / u64::from(path.current_mtu.max(1))) as u32,
            window_bytes: 0,
            awaits_acknowledgement: in_flight > 0,
            sends_again: self.steering.silence() > SILENCE.max(rtt * SILENCE_ROUND_TRIPS),
            window_closed: self.waiting.load(Ordering::Relaxed) && in_flight == 0,
            busy: self.steering.busy(),
            // What holds a connection back is not told apart here.
            ..LinkState::default()
        })
    }

    fn congestion_control(&self) -> io::Result<String> {
        Ok(self.steering.in_force().name().to_owned())
    }

    fn set_congestion_control(&self, name: &str) -> io::Result<String> {
        let algorithm = Algorithm::of(name).ok_or_else(|| io::Error::other(unknown_control(name)))?;
        self.steering.switch(algorithm);
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
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    fn pace(&self, rate_bps: Option<u64>, unsent_bytes: Option<u64>) -> io::Result<()> {
        self.steering.set_limit(rate_bps.map_or(UNLIMITED, |rate| (rate / 8).max(1)));
        self.unsent_bytes.store(unsent_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.fit_buffer();
        Ok(())
    }

    fn pacing_limit_bytes_per_second(&self) -> io::Result<u64> {
        Ok(self.steering.limit())
    }

    fn abort(&self) {
        self.connection.close(VarInt::from_u32(1), b"the path was given up");
    }
}
