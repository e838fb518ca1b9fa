//! What a transfer counts, and all of it at one moment, as pages, events and metrics show it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

use super::{Bandwidth, Preflight, Progress, Stage, Wire};
use crate::threads::lock;

/// Live counters.
#[derive(Default)]
pub(crate) struct TransferCounters {
    /// Whether the totals are known.
    listed: AtomicBool,
    pub(crate) bytes_total: AtomicU64,
    pub(crate) bytes_transferred: AtomicU64,
    pub(crate) bytes_skipped: AtomicU64,
    pub(crate) files_total: AtomicU64,
    pub(crate) files_transferred: AtomicU64,
    pub(crate) files_skipped: AtomicU64,
    /// Packs that had to be sent again: a block of theirs failed its check or came back damaged from the disk, or their connection
    /// was given up since its bytes were not the sender's. The sender counts those that the receiver reported.
    pub(crate) packs_damaged: AtomicU64,
    /// Bytes of blocks that earlier attempts left; `bytes_transferred` includes them.
    pub(crate) bytes_resumed: AtomicU64,
    /// Bytes that were sent in vain: at the receiver in all attempts, at the sender in this one.
    pub(crate) bytes_resent: AtomicU64,
    /// Bytes that this attempt made durable at the receiver.
    pub(crate) bytes_durable: AtomicU64,
    /// Bytes that the verify phase is done with: read back if that was asked for, else made durable.
    pub(crate) bytes_verified: AtomicU64,
    pub(crate) streams: AtomicU64,
    /// Bytes on sockets and disks in either direction: grows as long as anything happens.
    pub(crate) work: AtomicU64,
}

/// The counters at one moment; totals are null until the listing is complete.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) stage: Stage,
    pub(crate) bytes_total: Option<u64>,
    pub(crate) bytes_transferred: u64,
    pub(crate) bytes_skipped: u64,
    pub(crate) files_total: Option<u64>,
    pub(crate) files_transferred: u64,
    pub(crate) files_skipped: u64,
    pub(crate) rate_bytes_per_second: u64,
    pub(crate) seconds_since_progress: f64,
    /// For how long data has been held back on purpose so far.
    pub(crate) quiet_seconds: f64,
    pub(crate) streams: u64,
    /// What carries the data; at the sender, once it is to flow.
    pub(crate) protocol: Option<&'static str>,
    pub(crate) congestion_control: Option<String>,
    #[serde(rename = "blocks_damaged")]
    pub(crate) packs_damaged: u64,
    pub(crate) bytes_resumed: u64,
    pub(crate) bytes_resent: u64,
    pub(crate) bytes_durable: u64,
    pub(crate) bytes_verified: u64,
    /// At the sender.
    pub(crate) bandwidth: Option<Bandwidth>,
    /// At the sender, for the metrics alone.
    #[serde(skip)]
    pub(crate) wire: Option<Wire>,
    /// Null until every check before the data has passed.
    pub(crate) preflight: Option<Preflight>,
}

impl TransferCounters {
    /// The totals are known from now on.
    pub(crate) fn set_totals(&self, files: u64, bytes: u64) {
        self.files_total.store(files, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
        self.listed.store(true, Ordering::Release);
    }
}

impl Progress {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let listed = counters.listed.load(Ordering::Acquire);
        let congestion_control = lock(&self.congestion_control).clone();
        Snapshot {
            stage: self.stage(),
            bytes_total: listed.then(|| get(&counters.bytes_total)),
            bytes_transferred: get(&counters.bytes_transferred),
            bytes_skipped: get(&counters.bytes_skipped),
            files_total: listed.then(|| get(&counters.files_total)),
            files_transferred: get(&counters.files_transferred),
            files_skipped: get(&counters.files_skipped),
            rate_bytes_per_second: self.rate.bytes_per_second(),
            seconds_since_progress: self.clock.now().saturating_sub(lock(&self.last_work).1).as_secs_f64(),
            quiet_seconds: self.clock.quiet_total().as_secs_f64(),
            streams: get(&counters.streams),
            protocol: *lock(&self.protocol),
            congestion_control: (!congestion_control.is_empty()).then_some(congestion_control),
            packs_damaged: get(&counters.packs_damaged),
            bytes_resumed: get(&counters.bytes_resumed),
            bytes_resent: get(&counters.bytes_resent),
            bytes_durable: get(&counters.bytes_durable),
            bytes_verified: get(&counters.bytes_verified),
            bandwidth: *lock(&self.bandwidth),
            wire: *lock(&self.wire),
            preflight: self.preflight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_packs_keep_the_field_name_that_users_know() {
        let progress = Progress::new();
        progress.counters.packs_damaged.store(3, Ordering::Relaxed);
        let shown = serde_json::to_value(progress.snapshot()).unwrap();
        assert_eq!((&shown["blocks_damaged"], shown.get("packs_damaged")), (&serde_json::json!(3), None));
    }
}
