//! The few system calls that no library offers safely.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// `TCPI_OPT_TIMESTAMPS` of the kernel's `tcp.h`.
const TIMESTAMPS: u8 = 1;

/// The kernel's state of a TCP connection (`struct tcp_info`, tcp(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload bytes the peer acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Least round-trip time in microseconds.
    pub rtt_min_us: u32,
    /// Most recent delivery rate in bytes per second.
    pub delivery_rate_bytes_per_second: u64,
    /// Segments sent again.
    pub retransmits: u32,
    /// Congestion window in segments.
    pub congestion_window_segments: u32,
    /// Pacing rate in bytes per second.
    pub pacing_rate_bytes_per_second: u64,
    /// Bytes in the send buffer that were never sent.
    pub unsent_bytes: u32,
    /// Payload bytes sent, those sent again included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Packets sent, modulo 2^32.
    pub packets_sent: u32,
    /// Payload bytes of a full segment.
    pub segment_bytes: u32,
    /// Whether every packet carries TCP timestamps, which take 12 bytes.
    pub timestamps: bool,
    /// Segments sent and not acknowledged.
    pub unacknowledged: u32,
    /// Retransmissions, or probes of a full window, since anything was acknowledged.
    pub fruitless: u8,
    /// Probes of a full window since it last opened.
    pub probes: u8,
    /// Milliseconds since the last acknowledgement came.
    pub last_ack_ms: u32,
    /// Bytes the receiver allows in flight.
    pub window_bytes: u32,
    /// Microseconds in which something was under way.
    pub busy_us: u64,
    /// Of those, held back by the receiver's window alone.
    pub receive_window_limited_us: u64,
    /// Of those, held back by the send buffer alone.
    pub send_buffer_limited_us: u64,
}

/// Reads `TCP_INFO`. Kernels that know fewer fields leave the rest zero.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    // SAFETY: all-zero bytes are a valid `tcp_info`, which holds only integers.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, both of which outlive the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo {
        bytes_acked: info.tcpi_bytes_acked,
        bytes_received: info.tcpi_bytes_received,
        rtt_us: info.tcpi_rtt,
        rtt_min_us: info.tcpi_min_rtt,
        delivery_rate_bytes_per_second: info.tcpi_delivery_rate,
        retransmits: info.tcpi_total_retrans,
        congestion_window_segments: info.tcpi_snd_cwnd,
        pacing_rate_bytes_per_second: info.tcpi_pacing_rate,
        unsent_bytes: info.tcpi_notsent_bytes,
        bytes_sent: info.tcpi_bytes_sent,
        bytes_retransmitted: info.tcpi_bytes_retrans,
        packets_sent: info.tcpi_segs_out,
        segment_bytes: info.tcpi_snd_mss,
        timestamps: info.tcpi_options & TIMESTAMPS != 0,
        unacknowledged: info.tcpi_unacked,
        fruitless: info.tcpi_retransmits,
        probes: info.tcpi_probes,
        last_ack_ms: info.tcpi_last_ack_recv,
        window_bytes: info.tcpi_snd_wnd,
        busy_us: info.tcpi_busy_time,
        receive_window_limited_us: info.tcpi_rwnd_limited,
        send_buffer_limited_us: info.tcpi_sndbuf_limited,
    })
}

/// Sets `SO_MAX_PACING_RATE` in bytes per second; `u64::MAX` lifts the limit.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    // Eight bytes on purpose: the four-byte form ends at 34 Gb/s.
    // SAFETY: the kernel reads `size_of::<u64>()` bytes from a value that outlives the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_second).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reads `SO_MAX_PACING_RATE` in bytes per second; `u64::MAX` means no limit.
pub fn max_pacing_rate(socket: impl AsFd) -> io::Result<u64> {
    let mut rate = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `rate`, both of which outlive the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut rate).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(rate)
}

/// Has every datagram of a UDP socket sent as it is: with "don't fragment", and up to the interface's MTU even where the kernel
/// knows of a smaller path MTU (`IP_PMTUDISC_PROBE`). `ipv6` tells the socket's family.
pub fn probe_path_mtu(socket: impl AsFd, ipv6: bool) -> io::Result<()> {
    let (level, name, value) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    };
    // SAFETY: the kernel reads `size_of::<c_int>()` bytes from a value that outlives the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The path MTU in bytes that the kernel knows of for a connected socket: the interface's, or less where a router has said so.
pub fn known_path_mtu(socket: impl AsFd, ipv6: bool) -> io::Result<u32> {
    let (level, name) = if ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`, both of which outlive the call.
    let status =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_connected_socket_knows_the_mtu_of_its_interface() -> io::Result<()> {
        let peer = UdpSocket::bind("127.0.0.1:0")?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(peer.local_addr()?)?;
        probe_path_mtu(&socket, false)?;
        assert!(known_path_mtu(&socket, false)? >= 16_384);
        Ok(())
    }

    #[test]
    fn options_of_a_connection_are_read_back() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        assert!(tcp_info(&stream)?.congestion_window_segments > 0);
        for rate in [125_000, 1 << 40] {
            set_max_pacing_rate(&stream, rate)?;
            assert_eq!(max_pacing_rate(&stream)?, rate);
        }
        Ok(())
    }
}
