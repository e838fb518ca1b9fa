//! Counters of one transfer, written by all threads and read by whoever reports them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fairlead_protocol::receiver::lock;
use serde::Serialize;

use super::disk_watch::DiskWatch;
use super::pause::Pause;

/// Where the transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// Time over which the reported rate is the mean.
const RATE_WINDOW: Duration = Duration::from_secs(10);

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

/// Live counters.
pub(crate) struct Progress {
    started: Instant,
    stage: AtomicU8,
    listed: AtomicBool,
    pub(crate) bytes_total: AtomicU64,
    pub(crate) bytes_transferred: AtomicU64,
    pub(crate) bytes_skipped: AtomicU64,
    pub(crate) files_total: AtomicU64,
    pub(crate) files_transferred: AtomicU64,
    pub(crate) files_skipped: AtomicU64,
    pub(crate) blocks_damaged: AtomicU64,
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
    pub(crate) disk: DiskWatch,
    bulk_started_ms: AtomicU64,
    bulk_ended_ms: AtomicU64,
    /// When the first data byte was due, by the clock of the samples.
    rate_starts_ms: AtomicU64,
    pause: Mutex<Pause>,
    /// Times are by a clock that stands still in quiet periods.
    samples: Mutex<VecDeque<(Duration, u64)>>,
    last_change: Mutex<(u64, Duration)>,
    congestion_control: Mutex<String>,
    bandwidth: Mutex<Option<Bandwidth>>,
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
    pub(crate) streams: u64,
    pub(crate) congestion_control: Option<String>,
    pub(crate) blocks_damaged: u64,
    pub(crate) bytes_resumed: u64,
    pub(crate) bytes_resent: u64,
    pub(crate) bytes_durable: u64,
    pub(crate) bytes_verified: u64,
    /// At the sender.
    pub(crate) bandwidth: Option<Bandwidth>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            started: Instant::now(),
            stage: AtomicU8::new(0),
            listed: AtomicBool::new(false),
            bytes_total: zero(),
            bytes_transferred: zero(),
            bytes_skipped: zero(),
            files_total: zero(),
            files_transferred: zero(),
            files_skipped: zero(),
            blocks_damaged: zero(),
            bytes_resumed: zero(),
            bytes_resent: zero(),
            bytes_durable: zero(),
            bytes_verified: zero(),
            streams: zero(),
            work: zero(),
            disk: DiskWatch::default(),
            bulk_started_ms: AtomicU64::new(u64::MAX),
            bulk_ended_ms: AtomicU64::new(u64::MAX),
            rate_starts_ms: AtomicU64::new(u64::MAX),
            pause: Mutex::default(),
            samples: Mutex::default(),
            last_change: Mutex::default(),
            congestion_control: Mutex::default(),
            bandwidth: Mutex::default(),
        }
    }

    /// Time since the mover started.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn enter(&self, stage: Stage) {
        let before = self.stage.swap(stage as u8, Ordering::Relaxed);
        if stage == Stage::Verifying && before != stage as u8 {
            // The rate is that of the verify phase from now on.
            lock(&self.samples).clear();
        }
        tracing::debug!(?stage, "stage");
    }

    pub(crate) fn stage(&self) -> Stage {
        STAGES[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    /// The totals are known from now on.
    pub(crate) fn set_totals(&self, files: u64, bytes: u64) {
        self.files_total.store(files, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
        self.listed.store(true, Ordering::Release);
    }

    /// Blocks of earlier attempts count as transferred, though not in the rate.
    pub(crate) fn resumed(&self, bytes: u64, files: u64) {
        self.bytes_resumed.store(bytes, Ordering::Relaxed);
        self.bytes_transferred.fetch_add(bytes, Ordering::Relaxed);
        self.files_transferred.fetch_add(files, Ordering::Relaxed);
        lock(&self.samples).clear();
    }

    /// Blocks that counted as transferred are missing again.
    pub(crate) fn reopened(&self, bytes: u64, files: u64) {
        self.bytes_transferred.fetch_sub(bytes, Ordering::Relaxed);
        self.files_transferred.fetch_sub(files, Ordering::Relaxed);
        lock(&self.samples).clear();
    }

    pub(crate) fn set_congestion_control(&self, name: &str) {
        name.clone_into(&mut lock(&self.congestion_control));
    }

    pub(crate) fn set_bandwidth(&self, bandwidth: Bandwidth) {
        *lock(&self.bandwidth) = Some(bandwidth);
    }

    /// The first data byte is about to be sent or was received.
    pub(crate) fn bulk_started(&self) {
        if self.bulk_started_ms.load(Ordering::Relaxed) != u64::MAX {
            return;
        }
        let now = self.now();
        let set = |cell: &AtomicU64, time: Duration| {
            let time = time.as_millis() as u64;
            let _ = cell.compare_exchange(u64::MAX, time, Ordering::Relaxed, Ordering::Relaxed);
        };
        set(&self.rate_starts_ms, self.flowing(now));
        set(&self.bulk_started_ms, now);
    }

    /// The sender holds all data back for so long, from now; zero ends that.
    pub(crate) fn hold(&self, time: Duration) {
        let now = self.now();
        lock(&self.pause).set(now, now + time);
    }

    /// What is left of a quiet period.
    pub(crate) fn quiet_left(&self) -> Duration {
        lock(&self.pause).left(self.now())
    }

    /// When the last quiet period ends or ended.
    pub(crate) fn quiet_until(&self) -> Duration {
        lock(&self.pause).until()
    }

    /// `now` by a clock that stands still in quiet periods.
    fn flowing(&self, now: Duration) -> Duration {
        now.saturating_sub(lock(&self.pause).total(now))
    }

    /// The last block is durable, or known to be stored.
    pub(crate) fn bulk_ended(&self) {
        self.bulk_ended_ms.store(self.now().as_millis() as u64, Ordering::Relaxed);
    }

    /// Seconds from the first data byte to the last block; 0 without data.
    pub(crate) fn bulk_seconds(&self) -> f64 {
        let (start, end) = (self.bulk_started_ms.load(Ordering::Relaxed), self.bulk_ended_ms.load(Ordering::Relaxed));
        if start == u64::MAX || end == u64::MAX {
            return 0.0;
        }
        end.saturating_sub(start) as f64 / 1000.0
    }

    /// Takes a sample for the rate; to be called a few times a second.
    pub(crate) fn sample(&self) {
        let counter = if self.stage() == Stage::Verifying { &self.bytes_verified } else { &self.bytes_transferred };
        let (now, bytes) = (self.now(), counter.load(Ordering::Relaxed));
        let flowing = self.flowing(now);
        let mut samples = lock(&self.samples);
        samples.push_back((flowing, bytes));
        while samples.len() > 2 && samples[1].0 + RATE_WINDOW <= flowing {
            samples.pop_front();
        }
        drop(samples);
        let work = self.work.load(Ordering::Relaxed);
        let mut last = lock(&self.last_change);
        if last.0 != work {
            *last = (work, now);
        }
    }

    fn rate(&self) -> u64 {
        let samples = lock(&self.samples);
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return 0 };
        // The time before the first byte says nothing about the rate.
        let began = first.0.max(Duration::from_millis(self.rate_starts_ms.load(Ordering::Relaxed)));
        let span = (last.0.saturating_sub(began)).as_secs_f64();
        if span <= 0.0 {
            return 0;
        }
        (last.1.saturating_sub(first.1) as f64 / span) as u64
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let listed = self.listed.load(Ordering::Acquire);
        let congestion_control = lock(&self.congestion_control).clone();
        Snapshot {
            stage: self.stage(),
            bytes_total: listed.then(|| get(&self.bytes_total)),
            bytes_transferred: get(&self.bytes_transferred),
            bytes_skipped: get(&self.bytes_skipped),
            files_total: listed.then(|| get(&self.files_total)),
            files_transferred: get(&self.files_transferred),
            files_skipped: get(&self.files_skipped),
            rate_bytes_per_second: self.rate(),
            seconds_since_progress: self.now().saturating_sub(lock(&self.last_change).1).as_secs_f64(),
            streams: get(&self.streams),
            congestion_control: (!congestion_control.is_empty()).then_some(congestion_control),
            blocks_damaged: get(&self.blocks_damaged),
            bytes_resumed: get(&self.bytes_resumed),
            bytes_resent: get(&self.bytes_resent),
            bytes_durable: get(&self.bytes_durable),
            bytes_verified: get(&self.bytes_verified),
            bandwidth: *lock(&self.bandwidth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_before_the_data_is_no_part_of_the_rate() {
        let progress = Progress::new();
        lock(&progress.samples).extend([(Duration::ZERO, 0), (Duration::from_secs(9), 0)]);
        assert_eq!(progress.rate(), 0);
        progress.rate_starts_ms.store(10_000, Ordering::Relaxed);
        lock(&progress.samples).push_back((Duration::from_secs(11), 1000));
        assert_eq!(progress.rate(), 1000);
    }

    #[test]
    fn the_clock_of_the_rate_stands_still_in_a_quiet_period() {
        let progress = Progress::new();
        lock(&progress.pause).set(Duration::ZERO, Duration::from_secs(3600));
        progress.bytes_transferred.store(1000, Ordering::Relaxed);
        progress.sample();
        assert_eq!(lock(&progress.samples).back(), Some(&(Duration::ZERO, 1000)));
        assert!(progress.quiet_left() > Duration::from_secs(3000));
        progress.hold(Duration::ZERO);
        assert_eq!(progress.quiet_left(), Duration::ZERO);
    }
}
