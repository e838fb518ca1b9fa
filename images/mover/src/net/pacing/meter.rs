//! What a connection puts on the network, as the kernel counts it, and the rate of that over the last second.

use std::collections::VecDeque;
use std::time::Duration;

use crate::net::engine::LinkState;

/// Time over which a rate is measured.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// Counts a connection's bytes on the network: payload with what encryption adds, retransmissions, and the headers of every packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WireCount {
    packets: u64,
    last_packets: u32,
    payload_bytes: u64,
    retransmitted_bytes: u64,
    wire_bytes: u64,
}

/// What changed between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) wire_bytes: u64,
    pub(crate) retransmitted_bytes: u64,
}

impl WireCount {
    /// Takes the connection's present counts; returns what they grew by.
    pub(crate) fn update(&mut self, seen: &LinkState) -> Moved {
        self.packets += u64::from(seen.packets_sent.wrapping_sub(self.last_packets));
        self.last_packets = seen.packets_sent;
        self.payload_bytes = seen.bytes_sent;
        let wire_bytes = seen.bytes_sent + self.packets * seen.header_bytes;
        let moved = Moved {
            wire_bytes: wire_bytes.saturating_sub(self.wire_bytes),
            retransmitted_bytes: seen.bytes_retransmitted.saturating_sub(self.retransmitted_bytes),
        };
        self.wire_bytes = wire_bytes;
        self.retransmitted_bytes = seen.bytes_retransmitted;
        moved
    }

    /// Thousandths of bytes on the network per byte of payload: as measured once that means something, else that of full segments.
    pub(crate) fn per_mille(&self, seen: &LinkState) -> u64 {
        let (wire, payload) = match self.payload_bytes {
            measured if measured >= 1 << 20 => (self.wire_bytes, measured),
            _ => (u64::from(seen.segment_bytes) + seen.header_bytes, u64::from(seen.segment_bytes)),
        };
        (wire.saturating_mul(1000) / payload.max(1)).clamp(1000, 2000)
    }
}

/// The rate of a growing count over the last second.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Notes the count at `now`.
    pub(crate) fn sample(&mut self, now: Duration, bytes: u64) {
        self.samples.push_back((now, bytes));
        while self.samples.len() > 2 && self.samples[1].0 + WINDOW <= now {
            self.samples.pop_front();
        }
    }

    /// Time and count of the samples over the last second that are not older than `since`, oldest first.
    pub(crate) fn samples(&self, since: Duration) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.samples.iter().copied().filter(move |(time, _)| *time >= since)
    }

    /// Bits per second over the window, or over what there is of it; 0 before the second sample.
    pub(crate) fn rate_bps(&self) -> u64 {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return 0 };
        let span = last.0.saturating_sub(first.0).as_nanos();
        let bits = u128::from(last.1.saturating_sub(first.1)) * 8 * 1_000_000_000;
        bits.checked_div(span).map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes_sent: u64, bytes_retransmitted: u64, packets_sent: u32) -> LinkState {
        let (header_bytes, segment_bytes) = (52, 1448);
        LinkState { bytes_sent, bytes_retransmitted, packets_sent, header_bytes, segment_bytes, ..LinkState::default() }
    }

    #[test]
    fn headers_and_retransmissions_are_on_the_wire() {
        let mut count = WireCount::default();
        let moved = count.update(&seen(14_480, 1448, 10));
        assert_eq!(moved, Moved { wire_bytes: 15_000, retransmitted_bytes: 1448 });
        let moved = count.update(&seen(15_928, 1448, 11));
        assert_eq!(moved, Moved { wire_bytes: 1500, retransmitted_bytes: 0 });
        assert_eq!(count.per_mille(&seen(0, 0, 0)), 1035);
    }

    #[test]
    fn the_count_of_packets_may_wrap() {
        let mut count = WireCount::default();
        count.update(&seen(0, 0, u32::MAX));
        let before = count.wire_bytes;
        assert_eq!(count.update(&seen(0, 0, 1)).wire_bytes, 104);
        assert_eq!(count.wire_bytes, before + 104);
    }

    #[test]
    fn the_overhead_is_what_was_measured() {
        let mut count = WireCount::default();
        count.update(&seen(2 << 20, 0, 4096));
        assert_eq!(count.per_mille(&seen(0, 0, 0)), 1101);
    }

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let mut meter = Meter::default();
        assert_eq!(meter.rate_bps(), 0);
        for tenth in 0..=40u64 {
            let bytes = if tenth <= 20 { 0 } else { (tenth - 20) * 100 };
            meter.sample(Duration::from_millis(tenth * 100), bytes);
        }
        assert_eq!(meter.rate_bps(), 8000);
        let at = Duration::from_millis;
        assert_eq!(meter.samples(Duration::ZERO).next(), Some((at(3000), 1000)));
        assert_eq!(meter.samples(at(3900)).collect::<Vec<_>>(), [(at(3900), 1900), (at(4000), 2000)]);
    }
}
