//! A QUIC connection as those see it who watch and steer it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, VarInt};

use super::controller::{Algorithm, Steering, UNLIMITED};
use super::unknown_control;
use crate::net::engine::{ip_header_bytes, DataLink, LinkState};
use crate::net::send_buffer::{SendBuffer, SetBy};

/// What a packet adds within a datagram: flags, connection ID, packet number, tag, and a stream's frame but for its offset (RFC 9000,
/// sections 17.3.1 and 19.8).
const PACKET_OVERHEAD_BYTES: u64 = 1 + 8 + 2 + 16 + 2;
const UDP_HEADER_BYTES: u64 = 8;
/// What quinn keeps free for a frame's length in the packet with the last of what there is to send.
const LENGTH_BYTES: usize = 8;
/// Silence after which what is under way counts as sent in vain, and the same in round-trip times where that is longer.
const SILENCE: Duration = Duration::from_millis(500);
const SILENCE_ROUND_TRIPS: u32 = 3;
/// What is written and not acknowledged: at least, and in windows.
const LEAST_BUFFER_BYTES: u64 = 4 << 20;
const MOST_BUFFER_BYTES: u64 = 256 << 20;
const WINDOWS: u64 = 3;

/// What each full packet adds to what it carries, after so many bytes: the stream's offset takes as many as it needs (RFC 9000,
/// section 16).
fn packet_overhead_bytes(sent_bytes: u64) -> u64 {
    let offset_bytes = match sent_bytes {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    };
    PACKET_OVERHEAD_BYTES + offset_bytes
}

/// Of so many bytes those that fill packets, as far as they fill one.
fn whole(bytes: usize, segment_bytes: usize) -> usize {
    match bytes.checked_rem(segment_bytes) {
        Some(rest) if rest + LENGTH_BYTES < bytes => bytes - rest - LENGTH_BYTES,
        _ => bytes,
    }
}

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
    /// What a full packet carries, as it was when somebody looked; 0 before.
    segment_bytes: AtomicU32,
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
            segment_bytes: AtomicU32::new(0),
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

    /// Of so many bytes those that fill packets, as long as they fill one: the rest would leave in a packet of its own.
    pub(super) fn whole_packets(&self, bytes: usize) -> usize {
        whole(bytes, self.segment_bytes.load(Ordering::Relaxed) as usize)
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
        let overhead_bytes = packet_overhead_bytes(sent.bytes);
        let segment_bytes = u32::from(path.current_mtu).saturating_sub(overhead_bytes as u32);
        self.segment_bytes.store(segment_bytes, Ordering::Relaxed);
        Ok(LinkState {
            header_bytes: ip_bytes + UDP_HEADER_BYTES + overhead_bytes,
            segment_bytes,
            bytes_sent: sent.bytes.saturating_sub(sent.datagrams * overhead_bytes),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_adds_no_more_than_its_place_in_the_stream_needs() {
        for (sent_bytes, overhead_bytes) in [
            (0, 30),
            (63, 30),
            (64, 31),
            ((1 << 14) - 1, 31),
            (1 << 14, 33),
            ((1 << 30) - 1, 33),
            (1 << 30, 37),
            (u64::MAX, 37),
        ] {
            assert_eq!(packet_overhead_bytes(sent_bytes), overhead_bytes, "{sent_bytes}");
        }
    }

    #[test]
    fn a_cut_piece_is_of_whole_packets_if_it_fills_one() {
        for (bytes, segment_bytes, cut) in [
            (4344, 1439, 4309),
            (4317, 1439, 4309),
            (1439, 1439, 1431),
            (1448, 8919, 1448),
            (0, 1439, 0),
            (4344, 0, 4344),
        ] {
            assert_eq!(whole(bytes, segment_bytes), cut, "{bytes} of {segment_bytes}");
        }
    }
}
