//! Policing: what comes faster than a rate is dropped, not queued.

use crate::quantity::{self, BufferSize, FieldError};

/// So long does a bucket last at its rate if no burst is given, in seconds.
const DEFAULT_BURST_SECONDS: f64 = 0.01;
/// Least such burst, in bytes: ten full packets.
const LEAST_DEFAULT_BURST_BYTES: u64 = 15_000;

/// The rate that a policer lets through, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policing {
    /// Bits per second, in the long run.
    pub rate_bps: u64,
    /// The size of the bucket in bytes.
    pub burst_bytes: u64,
}

/// Parses `RATE[,BURST]`, such as `10M` or `10M,64kB`; `unlimited` is `None`. Without a burst it is what RATE sends in 10 ms, 15 kB at least.
pub fn parse_policing(field: &str, text: &str) -> Result<Option<Policing>, FieldError> {
    let (rate, burst) = text.split_once(',').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
    let Some(rate_bps) = quantity::parse_rate_bps(field, rate)? else {
        return match burst {
            None => Ok(None),
            Some(_) => Err(FieldError::new(field, format!("{text:?} has a burst without a rate"))),
        };
    };
    let burst_bytes = match burst.map(|burst| quantity::parse_buffer(field, burst)).transpose()? {
        Some(BufferSize::Bytes(bytes)) => bytes,
        Some(BufferSize::BandwidthDelayProducts(_)) => {
            return Err(FieldError::new(field, format!("{text:?}: give the burst in bytes, such as 64kB")))
        }
        None => ((rate_bps as f64 / 8.0 * DEFAULT_BURST_SECONDS) as u64).max(LEAST_DEFAULT_BURST_BYTES),
    };
    Ok(Some(Policing { rate_bps, burst_bytes }))
}

/// A token bucket, full at first; a packet that finds as many tokens as it has bytes takes them (RFC 2697, section 3, with one bucket).
#[derive(Debug, Clone)]
pub struct TokenBucket {
    policing: Policing,
    // Bits × 10⁹, so that no nanosecond's share is rounded away.
    tokens: u128,
    as_of_ns: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(policing: Policing, now_ns: u64) -> Self {
        Self { policing, tokens: full(policing), as_of_ns: now_ns }
    }

    /// Whether a packet of `size_bytes` passes at `now_ns`; one that does not takes nothing.
    pub fn admits(&mut self, now_ns: u64, size_bytes: usize) -> bool {
        self.fill(now_ns);
        match self.tokens.checked_sub(in_tokens(size_bytes as u64)) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Puts `policing` in force; what the bucket holds stays, as far as it fits.
    pub fn change(&mut self, now_ns: u64, policing: Policing) {
        self.fill(now_ns);
        self.policing = policing;
        self.tokens = self.tokens.min(full(policing));
    }

    /// Whole bytes that would pass at once.
    pub fn level_bytes(&self) -> u64 {
        (self.tokens / in_tokens(1)) as u64
    }

    fn fill(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.as_of_ns);
        let gained = u128::from(elapsed_ns) * u128::from(self.policing.rate_bps);
        self.tokens = (self.tokens + gained).min(full(self.policing));
        self.as_of_ns = now_ns;
    }
}

fn full(policing: Policing) -> u128 {
    in_tokens(policing.burst_bytes)
}

fn in_tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}
