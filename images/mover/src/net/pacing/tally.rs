//! What a cap is about, the whole transfer or one of its paths: the cap, what was on the network, and what the kernel makes of it.

use std::time::Duration;

use super::meter::{Meter, WINDOW};
use super::{allowance, LOOK};

/// A rate above the cap by more than this part exceeds it.
const TOLERANCE_PER_MILLE: u64 = 20;

/// A cap, and what has passed under it.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) cap_bps: Option<u64>,
    capped_at: Duration,
    /// Thousandths of its share that the kernel may send of each socket.
    pub(super) allowance_per_mille: u64,
    pub(super) wire_bytes: u64,
    pub(super) meter: Meter,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            cap_bps: None,
            capped_at: Duration::ZERO,
            allowance_per_mille: allowance::LEAST_PER_MILLE,
            wire_bytes: 0,
            meter: Meter::default(),
        }
    }

    pub(super) fn set_cap(&mut self, cap_bps: Option<u64>, now: Duration) {
        self.cap_bps = cap_bps;
        (self.capped_at, self.allowance_per_mille) = (now, allowance::LEAST_PER_MILLE);
    }

    /// Notes what is on the network by now, and how far the kernel falls short of the cap.
    pub(super) fn sample(&mut self, now: Duration) {
        self.meter.sample(now, self.wire_bytes);
        if let Some(cap_bps) = self.cap_bps {
            self.allowance_per_mille = allowance::per_mille(cap_bps, self.meter.samples(self.capped_at));
        }
    }

    /// Whether the rate is above a cap that has held for as long as the rate is measured over.
    pub(super) fn is_exceeded(&self, now: Duration) -> bool {
        self.cap_bps.is_some_and(|cap_bps| {
            let has_held = now.saturating_sub(self.capped_at) > WINDOW + LOOK;
            has_held && self.meter.rate_bps() > cap_bps.saturating_add(cap_bps / 1000 * TOLERANCE_PER_MILLE)
        })
    }
}
