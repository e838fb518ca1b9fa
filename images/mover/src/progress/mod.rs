//! How far a transfer is: counted by all threads, read by whoever reports it.

mod checks;
mod clock;
mod counters;
mod disk_watch;
mod rate;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use fairlead_protocol::index::PathIndex;
use serde::Serialize;

pub(crate) use self::checks::{Check, CheckResult, Preflight};
pub(crate) use self::clock::TransferClock;
pub(crate) use self::counters::{Snapshot, TransferCounters};
pub(crate) use self::disk_watch::DiskWatch;
use self::rate::{BulkInterval, RateMeter};
use crate::threads::lock;

/// Where the transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[repr(u8)]
pub(crate) enum Stage {
    Waiting,
    Listing,
    AwaitingTransport,
    Transferring,
    Verifying,
    Publishing,
    Done,
}

const STAGES: [Stage; 7] = [
    Stage::Waiting,
    Stage::Listing,
    Stage::AwaitingTransport,
    Stage::Transferring,
    Stage::Verifying,
    Stage::Publishing,
    Stage::Done,
];

/// The cap and what becomes of it, in bits per second on the network: IP packets with TCP, TLS and retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Bandwidth {
    /// The cap that was asked for; nothing without one.
    pub(crate) asked_bps: Option<u64>,
    /// What the sockets are really held to; nothing without a cap.
    pub(crate) in_force_bps: Option<u64>,
    /// Rate over the last second.
    pub(crate) measured_bps: u64,
    /// Bytes on the network so far.
    pub(crate) wire_bytes: u64,
}

/// What the sender's sockets do on the network beside the rate, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wire {
    /// Payload that was sent again.
    pub(crate) retransmitted_bytes: u64,
    /// For how long the rate over a second was above a cap that held for that second.
    pub(crate) cap_exceeded: Duration,
    /// Nothing without streams.
    pub(crate) rtt: Option<Rtt>,
}

/// Round-trip times of the streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rtt {
    /// Mean of the smoothed ones.
    pub(crate) mean_seconds: f64,
    /// The least that any has seen.
    pub(crate) minimum_seconds: f64,
}

/// The progress of one transfer at one end.
pub(crate) struct Progress {
    pub(crate) clock: TransferClock,
    pub(crate) counters: TransferCounters,
    pub(crate) disk: DiskWatch,
    stage: AtomicU8,
    rate: RateMeter,
    bulk: BulkInterval,
    /// `counters.work` when it last changed, and when that was.
    last_work: Mutex<(u64, Duration)>,
    protocol: Mutex<Option<&'static str>>,
    congestion_control: Mutex<String>,
    bandwidth: Mutex<Option<Bandwidth>>,
    wire: Mutex<Option<Wire>>,
    /// Bytes on the network over each path so far.
    path_wire_bytes: Mutex<Vec<u64>>,
    checks: Mutex<Vec<Check>>,
    /// Whether every check before the data passed.
    checked: AtomicBool,
}

impl Progress {
    /// Nothing is done yet; the clock starts now.
    pub(crate) fn new() -> Self {
        Self {
            clock: TransferClock::start(),
            counters: TransferCounters::default(),
            disk: DiskWatch::default(),
            stage: AtomicU8::new(0),
            rate: RateMeter::default(),
            bulk: BulkInterval::default(),
            last_work: Mutex::default(),
            protocol: Mutex::default(),
            congestion_control: Mutex::default(),
            bandwidth: Mutex::default(),
            wire: Mutex::default(),
            path_wire_bytes: Mutex::default(),
            checks: Mutex::default(),
            checked: AtomicBool::new(false),
        }
    }

    pub(crate) fn enter(&self, stage: Stage) {
        let before = self.stage.swap(stage as u8, Ordering::Relaxed);
        if stage == Stage::Verifying && before != stage as u8 {
            // The rate is that of the verify phase from now on.
            self.rate.restart();
        }
        tracing::debug!(?stage, "stage");
    }

    pub(crate) fn stage(&self) -> Stage {
        STAGES[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    /// So much more work is done at this end: bytes moved or read, names looked at.
    pub(crate) fn work(&self, amount: u64) {
        self.counters.work.fetch_add(amount, Ordering::Relaxed);
    }

    /// Blocks of earlier attempts count as transferred, though not in the rate.
    pub(crate) fn resumed(&self, bytes: u64, files: u64) {
        self.counters.bytes_resumed.store(bytes, Ordering::Relaxed);
        self.counters.bytes_transferred.fetch_add(bytes, Ordering::Relaxed);
        self.counters.files_transferred.fetch_add(files, Ordering::Relaxed);
        self.rate.restart();
    }

    /// Blocks that counted as transferred are missing again. None of them changes nothing, also of the rate.
    pub(crate) fn reopened(&self, bytes: u64, files: u64) {
        if (bytes, files) == (0, 0) {
            return;
        }
        self.counters.bytes_transferred.fetch_sub(bytes, Ordering::Relaxed);
        self.counters.files_transferred.fetch_sub(files, Ordering::Relaxed);
        self.rate.restart();
    }

    /// What carries the data from now on.
    pub(crate) fn set_protocol(&self, name: &'static str) {
        *lock(&self.protocol) = Some(name);
    }

    pub(crate) fn set_congestion_control(&self, name: &str) {
        name.clone_into(&mut lock(&self.congestion_control));
    }

    pub(crate) fn set_bandwidth(&self, bandwidth: Bandwidth) {
        *lock(&self.bandwidth) = Some(bandwidth);
    }

    pub(crate) fn set_wire(&self, wire: Wire) {
        *lock(&self.wire) = Some(wire);
    }

    pub(crate) fn set_path_wire_bytes(&self, bytes: Vec<u64>) {
        *lock(&self.path_wire_bytes) = bytes;
    }

    /// Bytes on the network over a path so far; nothing at the receiver.
    pub(crate) fn path_wire_bytes(&self, path: PathIndex) -> Option<u64> {
        lock(&self.path_wire_bytes).get(path.as_usize()).copied()
    }

    /// Notes what a check found. Of several results of one check, as with several interfaces, a failure stays before a warning, and that
    /// before what passed.
    pub(crate) fn note_check(&self, check: Check) {
        match check.result {
            CheckResult::Passed => tracing::debug!(check = check.check, "{}", check.message),
            CheckResult::Warning => tracing::warn!(check = check.check, reason = ?check.reason, "{}", check.message),
            // The verdict has it.
            CheckResult::Failed => {}
        }
        let mut checks = lock(&self.checks);
        match checks.iter_mut().find(|known| known.check == check.check) {
            Some(known) if known.result > check.result => {}
            Some(known) => *known = check,
            None => checks.push(check),
        }
    }

    /// What was checked so far.
    pub(crate) fn checks(&self) -> Vec<Check> {
        lock(&self.checks).clone()
    }

    /// Every check of this end before the data has passed.
    pub(crate) fn checks_passed(&self) {
        self.checked.store(true, Ordering::Release);
    }

    /// Whether every check of this end before the data has passed.
    pub(crate) fn has_passed_checks(&self) -> bool {
        self.checked.load(Ordering::Acquire)
    }

    /// Whether the checks are done, with their warnings; nothing before.
    fn preflight(&self) -> Option<Preflight> {
        let passed = self.has_passed_checks();
        let warnings =
            || lock(&self.checks).iter().filter(|check| check.result == CheckResult::Warning).cloned().collect();
        passed.then(|| Preflight { passed, warnings: warnings() })
    }

    /// The first data byte is about to be sent or was received.
    pub(crate) fn bulk_started(&self) {
        if self.bulk.has_started() {
            return;
        }
        let now = self.clock.now();
        self.rate.set_start(self.clock.flowing(now));
        self.bulk.set_start(now);
    }

    /// The last block is durable, or known to be stored.
    pub(crate) fn bulk_ended(&self) {
        self.bulk.set_end(self.clock.now());
    }

    /// Seconds from the first data byte to the last block; 0 without data.
    pub(crate) fn bulk_seconds(&self) -> f64 {
        self.bulk.seconds()
    }

    /// Takes a sample for the rate; to be called a few times a second.
    pub(crate) fn sample(&self) {
        let counters = &self.counters;
        let verifying = self.stage() == Stage::Verifying;
        let bytes = if verifying { &counters.bytes_verified } else { &counters.bytes_transferred };
        let (now, bytes) = (self.clock.now(), bytes.load(Ordering::Relaxed));
        self.rate.sample(self.clock.flowing(now), bytes);
        let work = counters.work.load(Ordering::Relaxed);
        let mut last = lock(&self.last_work);
        if last.0 != work {
            *last = (work, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_not_missing_again_leaves_the_rate_as_it_was() {
        let progress = Progress::new();
        progress.bulk_started();
        progress.sample();
        std::thread::sleep(Duration::from_millis(20));
        progress.counters.bytes_transferred.store(1 << 20, Ordering::Relaxed);
        progress.sample();
        progress.reopened(0, 0);
        assert!(progress.snapshot().rate_bytes_per_second > 0);
        progress.reopened(1 << 20, 0);
        assert_eq!(progress.snapshot().rate_bytes_per_second, 0);
    }
}
