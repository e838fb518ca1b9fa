//! A TCP connection as the kernel shows it and lets it be steered.

use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fairlead_sys::TcpInfo;
use socket2::SockRef;

use super::super::{ip_header_bytes, DataLink, LinkState};
use crate::net::send_buffer::{self, SendBuffer};
use crate::net::tcp;

const HEADER_BYTES: u64 = 20;
const TIMESTAMPS_BYTES: u64 = 12;

/// A handle to a connected socket.
pub(crate) struct TcpLink {
    socket: TcpStream,
    peer: IpAddr,
}

impl TcpLink {
    /// Shares the socket.
    pub(crate) fn new(socket: &TcpStream) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { socket: socket.try_clone()?, peer: socket.peer_addr()?.ip() }))
    }
}

/// Headers of every packet of a connection: IP, TCP, and timestamps where they are in use. Headers of the link layer are not counted.
fn header_bytes(peer: IpAddr, timestamps: bool) -> u64 {
    ip_header_bytes(peer) + HEADER_BYTES + if timestamps { TIMESTAMPS_BYTES } else { 0 }
}

fn link_state(peer: IpAddr, info: &TcpInfo) -> LinkState {
    let probes_window = info.probes > 0 || info.window_bytes < info.segment_bytes;
    LinkState {
        header_bytes: header_bytes(peer, info.timestamps),
        segment_bytes: info.segment_bytes,
        bytes_sent: info.bytes_sent,
        bytes_acked: info.bytes_acked,
        bytes_retransmitted: info.bytes_retransmitted,
        packets_sent: info.packets_sent,
        retransmits: info.retransmits,
        rtt_us: info.rtt_us,
        rtt_min_us: info.rtt_min_us,
        delivery_rate_bytes_per_second: info.delivery_rate_bytes_per_second,
        pacing_rate_bytes_per_second: info.pacing_rate_bytes_per_second,
        congestion_window_segments: info.congestion_window_segments,
        window_bytes: info.window_bytes,
        awaits_acknowledgement: info.unacknowledged > 0,
        sends_again: info.unacknowledged > 0 && info.fruitless > 0,
        window_closed: info.unsent_bytes > 0 && info.unacknowledged == 0 && probes_window,
        busy: Duration::from_micros(info.busy_us),
        receive_window_limited: Duration::from_micros(info.receive_window_limited_us),
        send_buffer_limited: Duration::from_micros(info.send_buffer_limited_us),
    }
}

impl DataLink for TcpLink {
    fn state(&self) -> io::Result<LinkState> {
        Ok(link_state(self.peer, &fairlead_sys::tcp_info(&self.socket)?))
    }

    fn congestion_control(&self) -> io::Result<String> {
        tcp::congestion_control(&self.socket)
    }

    fn set_congestion_control(&self, name: &str) -> io::Result<String> {
        tcp::set_congestion_control(&self.socket, name)
    }

    fn set_send_buffer(&self, buffer: SendBuffer) -> io::Result<()> {
        send_buffer::apply(&self.socket, buffer)
    }

    fn send_buffer_bytes(&self) -> u64 {
        send_buffer::in_force_bytes(&self.socket)
    }

    fn pace(&self, rate_bps: Option<u64>, unsent_bytes: Option<u64>) -> io::Result<()> {
        tcp::pace(&self.socket, rate_bps)?;
        tcp::bound_unsent(&self.socket, unsent_bytes)
    }

    fn pacing_limit_bytes_per_second(&self) -> io::Result<u64> {
        fairlead_sys::max_pacing_rate(&self.socket)
    }

    fn abort(&self) {
        // What waits in the buffers is sent elsewhere, and must not take the path's time when it is back.
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    #[cfg(test)]
    fn socket(&self) -> Option<TcpStream> {
        self.socket.try_clone().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_ip_version_with_timestamps_where_they_are_in_use() {
        let (v4, v6) = ("198.18.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        for (peer, timestamps, bytes) in [(v4, true, 52), (v4, false, 40), (v6, false, 60), (v6, true, 72)] {
            assert_eq!(header_bytes(peer, timestamps), bytes, "{peer}");
        }
    }

    #[test]
    fn a_window_is_closed_when_bytes_wait_for_it_and_nothing_is_under_way() {
        let waits = TcpInfo { unsent_bytes: 9, segment_bytes: 1448, window_bytes: 100, ..TcpInfo::default() };
        let cases = [
            (waits, true, false),
            (TcpInfo { window_bytes: 1448, ..waits }, false, false),
            (TcpInfo { window_bytes: 1448, probes: 1, ..waits }, true, false),
            (TcpInfo { unsent_bytes: 0, ..waits }, false, false),
            (TcpInfo { unacknowledged: 1, fruitless: 1, ..waits }, false, true),
        ];
        for (info, closed, again) in cases {
            let state = link_state([198, 18, 0, 1].into(), &info);
            assert_eq!((state.window_closed, state.sends_again), (closed, again), "{info:?}");
        }
    }
}
