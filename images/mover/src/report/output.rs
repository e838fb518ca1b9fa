//! What a person or a program sees while the mover runs: a progress line on a terminal, JSON events on standard output.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::verdict::Verdict;
use crate::progress::{Progress, Snapshot, Stage};

const INTERVAL: Duration = Duration::from_millis(500);

/// Intervals between lines of progress in a log.
const LOG_BEATS: u32 = 120;

/// Prints an event as one line of JSON.
pub(crate) fn event(json_events: bool, kind: &str, fields: &serde_json::Value) {
    if json_events {
        let _ = writeln!(std::io::stdout(), "{}", json!({"event": kind, "data": fields}));
    }
}

/// Prints the verdict for people (standard error) and programs (standard output).
pub(crate) fn verdict(json_events: bool, verdict: &Verdict) {
    if json_events {
        event(true, "verdict", &serde_json::to_value(verdict).unwrap_or_default());
    }
    let (outcome, reason) = (verdict.verdict, verdict.reason);
    match outcome {
        super::verdict::Outcome::Succeeded => tracing::info!(?reason, "{}", verdict.message),
        _ => tracing::error!(?outcome, ?reason, retry = verdict.retry, "{}", verdict.message),
    }
}

/// Samples the rate and shows progress until dropped.
pub(crate) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(progress: Arc<Progress>, json_events: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let terminal = std::io::stderr().is_terminal();
        let thread = std::thread::Builder::new().name("ticker".into()).spawn(move || {
            let mut beat = 0u32;
            while !stopped.load(Ordering::Relaxed) {
                progress.sample();
                let now = progress.snapshot();
                if terminal {
                    let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(&now));
                }
                if json_events && beat % 2 == 0 {
                    event(true, "progress", &serde_json::to_value(&now).unwrap_or_default());
                }
                beat = beat.wrapping_add(1);
                if !terminal && !json_events && beat % LOG_BEATS == 0 {
                    tracing::info!("{}", line(&now));
                }
                std::thread::park_timeout(INTERVAL);
            }
            if terminal {
                let _ = writeln!(std::io::stderr());
            }
        });
        Self { stop, thread: thread.ok() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The progress line: bytes, per cent, rate, time left, files.
fn line(now: &Snapshot) -> String {
    let stage = match now.stage {
        Stage::Transferring => String::new(),
        stage => format!("{stage:?}: "),
    };
    let Some(total) = now.bytes_total else { return stage };
    let moved = if now.stage == Stage::Verifying { now.bytes_verified } else { now.bytes_transferred };
    let done = moved + now.bytes_skipped;
    let percent = (done.min(total) * 100).checked_div(total).unwrap_or(100);
    let eta = match (total.saturating_sub(done)).checked_div(now.rate_bytes_per_second) {
        Some(seconds) => clock(seconds),
        None => "-".into(),
    };
    format!(
        "{stage}{} / {}, {percent}%, {}/s, ETA {eta}, files {} / {}",
        bytes(done),
        bytes(total),
        bytes(now.rate_bytes_per_second),
        now.files_transferred + now.files_skipped,
        now.files_total.unwrap_or(0),
    )
}

fn bytes(value: u64) -> String {
    let mut value = value as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

fn clock(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_bytes_percent_rate_and_time_left() {
        let progress = Progress::new();
        progress.enter(Stage::Transferring);
        progress.counters.set_totals(10, 2_000_000);
        progress.counters.bytes_transferred.store(1_000_000, Ordering::Relaxed);
        let mut now = progress.snapshot();
        now.rate_bytes_per_second = 100_000;
        assert_eq!(line(&now), "1.0 MB / 2.0 MB, 50%, 100.0 kB/s, ETA 10s, files 0 / 10");
        assert_eq!(clock(3700), "1h01m");
    }

    #[test]
    fn the_verify_phase_has_a_line_of_the_same_kind() {
        let progress = Progress::new();
        progress.counters.set_totals(1, 4_000_000);
        progress.counters.bytes_transferred.store(4_000_000, Ordering::Relaxed);
        progress.enter(Stage::Verifying);
        progress.counters.bytes_verified.store(1_000_000, Ordering::Relaxed);
        let mut now = progress.snapshot();
        now.rate_bytes_per_second = 1_000_000;
        assert_eq!(line(&now), "Verifying: 1.0 MB / 4.0 MB, 25%, 1.0 MB/s, ETA 3s, files 0 / 1");
    }
}
