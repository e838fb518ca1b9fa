//! How large the socket buffers of data connections should be: twice rate x RTT lets a stream fill its path through a loss.

use std::net::TcpStream;
use std::time::Duration;

/// Largest buffer that is ever asked for by itself.
const CEILING_BYTES: u64 = 1 << 30;

/// Limits of the kernel in this network namespace, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// To which the kernel grows a send buffer by itself (`net.ipv4.tcp_wmem`, third number).
    pub(crate) automatic: u64,
    /// What a process may ask for (`net.core.wmem_max`); the kernel doubles it for its own bookkeeping.
    pub(crate) allowed: u64,
}

/// What to do about a send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The kernel's own growth reaches far enough, and follows the path as it changes.
    Automatic,
    /// Ask for so many bytes.
    Fixed(u32),
    /// The kernel grants less than the path needs; its own growth is still the best.
    TooSmall { needed_bytes: u64 },
}

/// Decides from the rate that is to be reached in bits per second, if one is known, and the RTT.
pub(crate) fn plan(rate_bps: Option<u64>, rtt: Duration, limits: Limits) -> Plan {
    let Some(rate_bps) = rate_bps else { return Plan::Automatic };
    let bdp = u128::from(rate_bps).saturating_mul(rtt.as_micros()) / 8_000_000;
    let needed_bytes = bdp.saturating_mul(2).min(u128::from(CEILING_BYTES)) as u64;
    if needed_bytes <= limits.automatic {
        Plan::Automatic
    } else if needed_bytes <= limits.allowed {
        Plan::Fixed(needed_bytes as u32)
    } else if limits.allowed > limits.automatic {
        Plan::Fixed(limits.allowed.min(CEILING_BYTES) as u32)
    } else {
        Plan::TooSmall { needed_bytes }
    }
}

/// The plan for streams beside this connection, told where it falls short.
pub(crate) fn for_path(control: &TcpStream, rate_bps: Option<u64>) -> Option<u32> {
    let rtt = fairlead_sys::tcp_info(control).map_or(Duration::ZERO, |info| Duration::from_micros(info.rtt_us.into()));
    let number = |path: &str, at: usize| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().nth(at).and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let limits = Limits {
        automatic: number("/proc/sys/net/ipv4/tcp_wmem", 2),
        allowed: number("/proc/sys/net/core/wmem_max", 0),
    };
    match plan(rate_bps, rtt, limits) {
        Plan::Automatic => None,
        Plan::Fixed(bytes) => Some(bytes),
        Plan::TooSmall { needed_bytes } => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_rate_and_rtt_up_to_what_the_kernel_grants() {
        let limits = |automatic, allowed| Limits { automatic, allowed };
        let usual = limits(4 << 20, 212_992);
        let tuned = limits(4 << 20, 64 << 20);
        let (ms, gigabit) = (Duration::from_millis, 1_000_000_000);
        let cases = [
            ("no rate is known", None, ms(100), usual, Plan::Automatic),
            ("a LAN", Some(10 * gigabit), ms(1), usual, Plan::Automatic),
            ("a long path", Some(gigabit), ms(100), tuned, Plan::Fixed(25_000_000)),
            ("a long path of a small cap", Some(100_000_000), ms(100), tuned, Plan::Automatic),
            ("beyond what may be asked for", Some(10 * gigabit), ms(100), tuned, Plan::Fixed(64 << 20)),
            ("an untuned host", Some(gigabit), ms(100), usual, Plan::TooSmall { needed_bytes: 25_000_000 }),
            ("nonsense", Some(u64::MAX), Duration::MAX, tuned, Plan::Fixed(64 << 20)),
        ];
        for (what, rate, rtt, limits, expected) in cases {
            assert_eq!(plan(rate, rtt, limits), expected, "{what}");
        }
    }
}
