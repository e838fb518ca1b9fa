//! How large the socket buffers of data connections should be: twice rate x RTT lets a stream fill its path through a loss.
//! Where little is enough, the receiver asks for little: what waits there unread is sent in vain if it dies, and has left the
//! processor's cache when it is read. The kernel lets it grow to its limit when the receiver is slower than the path.

use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;

use crate::net::engine::DataLink;

/// Largest buffer that is ever asked for by itself.
const CEILING_BYTES: u64 = 1 << 30;

/// What a receiver asks for as buffers of data connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread {
    /// Rate that a stream may reach.
    stream_bps: u64,
    /// Least buffer that is asked for. The kernel doubles it, and then holds that many bytes, or half of it, of a stream.
    least_bytes: u64,
}

impl Unread {
    /// Of streams into files: more than one thread decrypts, hashes and writes.
    pub(crate) const STORED: Self = Self { stream_bps: 10_000_000_000, least_bytes: 128 << 10 };
    /// Of streams into nothing: faster, and nothing is lost with them.
    pub(crate) const DISCARDED: Self = Self { stream_bps: 40_000_000_000, least_bytes: 512 << 10 };
}

/// What a process may ask for (`net.core.rmem_max`) where the kernel shows no limit.
const USUAL_ALLOWED_BYTES: u64 = 212_992;

/// Limits of the kernel in this network namespace, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelBufferLimits {
    /// To which the kernel grows a send buffer by itself (`net.ipv4.tcp_wmem`, third number).
    pub(crate) automatic: u64,
    /// What a process may ask for (`net.core.wmem_max`); the kernel doubles it for its own bookkeeping.
    pub(crate) allowed: u64,
}

/// What to do about a send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferPlan {
    /// The kernel's own growth reaches far enough, and follows the path as it changes.
    Automatic,
    /// Ask for so many bytes.
    Fixed(u32),
    /// The kernel grants less than the path needs; its own growth is still the best.
    TooSmall { needed_bytes: u64 },
}

/// Decides from the rate that is to be reached in bits per second, if one is known, and the RTT.
pub(crate) fn plan(rate_bps: Option<u64>, rtt: Duration, limits: KernelBufferLimits) -> BufferPlan {
    let Some(rate_bps) = rate_bps else { return BufferPlan::Automatic };
    let bdp = u128::from(rate_bps).saturating_mul(rtt.as_micros()) / 8_000_000;
    let needed_bytes = bdp.saturating_mul(2).min(u128::from(CEILING_BYTES)) as u64;
    if needed_bytes <= limits.automatic {
        BufferPlan::Automatic
    } else if needed_bytes <= limits.allowed {
        BufferPlan::Fixed(needed_bytes as u32)
    } else if limits.allowed > limits.automatic {
        BufferPlan::Fixed(limits.allowed.min(CEILING_BYTES) as u32)
    } else {
        BufferPlan::TooSmall { needed_bytes }
    }
}

/// The receive buffer that a stream needs on a path of this RTT; nothing if that is more than may be asked for (`allowed` bytes):
/// only the kernel's own growth reaches further, and what is asked for ends it.
pub(crate) fn receive_bytes(unread: Unread, rtt: Duration, allowed: u64) -> Option<u32> {
    let bdp = u128::from(unread.stream_bps).saturating_mul(rtt.as_micros()) / 8_000_000;
    let bytes = bdp.saturating_mul(2).max(u128::from(unread.least_bytes));
    u32::try_from(bytes).ok().filter(|bytes| u64::from(*bytes) <= allowed)
}

/// Bounds what the kernel holds unread of a data connection, where its path is short. An unknown RTT bounds nothing.
pub(crate) fn bound_unread(socket: &TcpStream, unread: Unread) {
    let rtt_min_us = fairlead_sys::tcp_info(socket).map_or(0, |info| info.rtt_min_us);
    let allowed = number("/proc/sys/net/core/rmem_max", 0).unwrap_or(USUAL_ALLOWED_BYTES);
    let known = (1..u32::MAX).contains(&rtt_min_us).then(|| Duration::from_micros(rtt_min_us.into()));
    let Some(bytes) = known.and_then(|rtt| receive_bytes(unread, rtt, allowed)) else { return };
    match SockRef::from(socket).set_recv_buffer_size(bytes as usize) {
        Ok(()) => tracing::debug!(bytes, rtt_min_us, "the receive buffer is bounded"),
        Err(error) => tracing::debug!(%error, bytes, "the receive buffer was not bounded"),
    }
}

/// The plan for streams beside this connection; logs where it falls short.
pub(crate) fn for_path(link: &dyn DataLink, rate_bps: Option<u64>) -> Option<u32> {
    let rtt = link.state().map_or(Duration::ZERO, |state| Duration::from_micros(state.rtt_us.into()));
    let limits = KernelBufferLimits {
        automatic: automatic_send_bytes(),
        allowed: number("/proc/sys/net/core/wmem_max", 0).unwrap_or(0),
    };
    match plan(rate_bps, rtt, limits) {
        BufferPlan::Automatic => None,
        BufferPlan::Fixed(bytes) => Some(bytes),
        BufferPlan::TooSmall { needed_bytes } => {
            tracing::warn!(
                needed_bytes,
                granted_bytes = limits.automatic,
                rtt_ms = rtt.as_millis() as u64,
                "one stream cannot fill this path: raise net.ipv4.tcp_wmem and net.core.wmem_max (and tcp_rmem at the \
                 receiver) on the nodes, or use more streams"
            );
            None
        }
    }
}

/// To which the kernel grows a send buffer by itself (`net.ipv4.tcp_wmem`, third number), in bytes; 0 if not known.
pub(crate) fn automatic_send_bytes() -> u64 {
    number("/proc/sys/net/ipv4/tcp_wmem", 2).unwrap_or(0)
}

/// A number of a file of the kernel's.
fn number(path: &str, at: usize) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_path_gets_a_small_receive_buffer_and_a_long_one_the_kernels() {
        let (usual, tuned) = (USUAL_ALLOWED_BYTES, 64 << 20);
        let us = Duration::from_micros;
        let (stored, discarded) = (Unread::STORED, Unread::DISCARDED);
        let cases = [
            ("one host", stored, us(30), usual, Some(128 << 10)),
            ("a rack", stored, us(100), tuned, Some(250_000)),
            ("a rack, on a host that grants less", stored, us(100), usual, None),
            ("a campus", stored, us(2_000), tuned, Some(5_000_000)),
            ("a long path", stored, us(100_000), tuned, None),
            ("nonsense", stored, Duration::MAX, u64::MAX, None),
            ("one host, into nothing", discarded, us(30), tuned, Some(512 << 10)),
            ("into nothing, on a host that grants less", discarded, us(30), usual, None),
            ("a rack, into nothing", discarded, us(100), tuned, Some(1_000_000)),
        ];
        for (what, unread, rtt, allowed, expected) in cases {
            assert_eq!(receive_bytes(unread, rtt, allowed), expected, "{what}");
        }
    }

    #[test]
    fn a_receiver_that_stops_reading_holds_little_unread() -> std::io::Result<()> {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let deadline = std::time::Instant::now() + Duration::from_secs(240);
        // Where the machine took its time for the handshake the path counts as a longer one.
        let (sender, mut receiver) = loop {
            let sender = TcpStream::connect(listener.local_addr()?)?;
            let receiver = listener.accept()?.0;
            let rtt = Duration::from_micros(fairlead_sys::tcp_info(&receiver)?.rtt_min_us.into());
            let counted = receive_bytes(Unread::STORED, rtt, USUAL_ALLOWED_BYTES).map(u64::from);
            if !rtt.is_zero() && counted == Some(Unread::STORED.least_bytes) {
                break (sender, receiver);
            }
            assert!(std::time::Instant::now() < deadline, "no handshake took less than {rtt:?}");
        };
        bound_unread(&receiver, Unread::STORED);
        let mut writing = sender.try_clone()?;
        let writer = std::thread::spawn(move || while writing.write_all(&[0; 64 << 10]).is_ok() {});
        // So much that the kernel would make the buffer larger by itself.
        let mut piece = vec![0; 1 << 20];
        for _ in 0..256 {
            receiver.read_exact(&mut piece)?;
        }
        while fairlead_sys::tcp_info(&sender)?.window_bytes > 0 {
            assert!(std::time::Instant::now() < deadline, "the window never closed");
            std::thread::yield_now();
        }
        let unread = rustix::io::ioctl_fionread(&receiver)?;
        drop(receiver);
        assert!(unread <= 2 * Unread::STORED.least_bytes, "{unread}");
        assert!(writer.join().is_ok());
        Ok(())
    }

    #[test]
    fn buffers_follow_rate_and_rtt_up_to_what_the_kernel_grants() {
        let limits = |automatic, allowed| KernelBufferLimits { automatic, allowed };
        let usual = limits(4 << 20, 212_992);
        let tuned = limits(4 << 20, 64 << 20);
        let (ms, gigabit) = (Duration::from_millis, 1_000_000_000);
        let cases = [
            ("no rate is known", None, ms(100), usual, BufferPlan::Automatic),
            ("a LAN", Some(10 * gigabit), ms(1), usual, BufferPlan::Automatic),
            ("a long path", Some(gigabit), ms(100), tuned, BufferPlan::Fixed(25_000_000)),
            ("a long path of a small cap", Some(100_000_000), ms(100), tuned, BufferPlan::Automatic),
            ("beyond what may be asked for", Some(10 * gigabit), ms(100), tuned, BufferPlan::Fixed(64 << 20)),
            ("an untuned host", Some(gigabit), ms(100), usual, BufferPlan::TooSmall { needed_bytes: 25_000_000 }),
            ("nonsense", Some(u64::MAX), Duration::MAX, tuned, BufferPlan::Fixed(64 << 20)),
        ];
        for (what, rate, rtt, limits, expected) in cases {
            assert_eq!(plan(rate, rtt, limits), expected, "{what}");
        }
    }
}
