//! The verdict: one JSON object, at most 4,096 bytes, written exactly once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use fairlead_protocol::fault::cut;
use fairlead_protocol::{Fault, Reason};
use serde::Serialize;

use crate::progress::{Check, Progress};

/// Bound of a termination message in Kubernetes.
const VERDICT_BYTES: usize = 4096;
/// To what the messages of checks are cut, one after the other, before the verdict's own is.
const CHECK_BYTES: [usize; 3] = [100, 40, 4];

/// How a mover ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    Stopped,
}

/// What a mover reports at its end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    version: u8,
    role: &'static str,
    job: String,
    attempt: u32,
    pub(crate) verdict: Outcome,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) retry: bool,
    bytes_total: u64,
    bytes_transferred: u64,
    bytes_skipped: u64,
    files_total: u64,
    files_transferred: u64,
    files_skipped: u64,
    #[serde(rename = "blocks_damaged")]
    packs_damaged: u64,
    bytes_resumed: u64,
    bytes_resent: u64,
    root_digest: Option<String>,
    verified: Vec<&'static str>,
    seconds: f64,
    bulk_seconds: f64,
    /// Payload that the transport sent again; at the sender, once data were to flow.
    retransmitted_bytes: Option<u64>,
    /// Processor time of the process, its own and the kernel's on its behalf.
    cpu_seconds: f64,
    /// What carried the data; at the sender, once they were to flow.
    protocol: Option<&'static str>,
    /// What was checked before the data.
    checks: Vec<Check>,
}

/// Success: the reason, a message and the tree's digest if there is one.
pub(crate) struct Success {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) root: Option<[u8; 32]>,
    /// Whether anything was transferred at all: the wire is always verified.
    pub(crate) wire: bool,
    /// Whether the receiver read everything again from its disk.
    pub(crate) disk: bool,
    /// What is to be done once the verdict is written.
    pub(crate) epilogue: Option<Box<dyn FnOnce() + Send>>,
}

impl Success {
    /// A success without a digest, and with nothing left to do.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            root: None,
            wire: reason == Reason::Verified,
            disk: false,
            epilogue: None,
        }
    }
}

impl Verdict {
    /// The verdict of a role of a job attempt.
    pub(crate) fn new(
        role: &'static str,
        job: &str,
        attempt: u32,
        progress: &Progress,
        result: &Result<Success, Fault>,
    ) -> Self {
        let now = progress.snapshot();
        let (verdict, reason, message, retry) = match result {
            Ok(success) => (Outcome::Succeeded, success.reason, success.message.clone(), false),
            Err(fault) if fault.reason == Reason::StoppedBySignal => {
                (Outcome::Stopped, fault.reason, fault.message.clone(), fault.retry)
            }
            Err(fault) => (Outcome::Failed, fault.reason, fault.message.clone(), fault.retry),
        };
        let root = result.as_ref().ok().and_then(|success| success.root);
        let wire = result.as_ref().is_ok_and(|success| success.wire);
        let disk = result.as_ref().is_ok_and(|success| success.disk);
        Self {
            version: 1,
            role,
            job: job.to_owned(),
            attempt,
            verdict,
            reason,
            message,
            retry,
            bytes_total: now.bytes_total.unwrap_or(0),
            bytes_transferred: now.bytes_transferred,
            bytes_skipped: now.bytes_skipped,
            files_total: now.files_total.unwrap_or(0),
            files_transferred: now.files_transferred,
            files_skipped: now.files_skipped,
            packs_damaged: now.packs_damaged,
            bytes_resumed: now.bytes_resumed,
            bytes_resent: now.bytes_resent,
            root_digest: root.map(|root| format!("blake3:{}", blake3::Hash::from(root).to_hex())),
            verified: [(wire, "Wire"), (root.is_some(), "Block"), (disk, "Disk")]
                .into_iter()
                .filter_map(|(done, level)| done.then_some(level))
                .collect(),
            seconds: progress.clock.now().as_secs_f64(),
            bulk_seconds: progress.bulk_seconds(),
            retransmitted_bytes: now.wire.map(|wire| wire.retransmitted_bytes),
            cpu_seconds: cpu_seconds(),
            protocol: now.protocol,
            checks: progress.checks(),
        }
    }

    /// The JSON text within the bound.
    pub(crate) fn to_json(&self) -> String {
        let text = |verdict: &Self| serde_json::to_string(verdict).unwrap_or_default();
        let mut verdict = self.clone();
        let mut json = text(&verdict);
        for bytes in CHECK_BYTES {
            if json.len() > VERDICT_BYTES {
                verdict.checks = verdict.checks.into_iter().map(|check| check.shortened(bytes)).collect();
                json = text(&verdict);
            }
        }
        while json.len() > VERDICT_BYTES && verdict.message.len() > 8 {
            let shorter = verdict.message.len() / 2;
            verdict.message = cut(std::mem::take(&mut verdict.message), shorter.max(4));
            json = text(&verdict);
        }
        json
    }

    /// The process's exit code by contract; `signal` is the one that stopped it.
    pub(crate) fn exit_code(&self, signal: Option<i32>) -> u8 {
        match (self.verdict, signal) {
            (Outcome::Succeeded, _) => 0,
            (Outcome::Stopped, Some(signal)) => 128 + signal as u8,
            (Outcome::Stopped, None) => 143,
            (Outcome::Failed, _) if self.retry => 1,
            (Outcome::Failed, _) => 3,
        }
    }
}

/// Processor time that the process has used so far.
fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Writes the first verdict it is given and ignores later ones.
pub(crate) struct VerdictWriter {
    path: Option<PathBuf>,
    written: OnceLock<Verdict>,
    writing: Mutex<()>,
}

impl VerdictWriter {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned), written: OnceLock::new(), writing: Mutex::new(()) }
    }

    /// Settles the verdict and returns the one that holds.
    pub(crate) fn settle(&self, verdict: Verdict) -> Verdict {
        let _guard = crate::threads::lock(&self.writing);
        if let Some(first) = self.written.get() {
            return first.clone();
        }
        if let Some(path) = &self.path {
            // One write: the kubelet may read the file at any moment.
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(verdict.to_json().as_bytes())) {
                tracing::error!(path = %path.display(), %error, "the verdict could not be written");
            }
        }
        self.written.get_or_init(|| verdict).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::progress::Wire;

    fn verdict(result: &Result<Success, Fault>) -> Verdict {
        Verdict::new("receiver", "local", 1, &Progress::new(), result)
    }

    #[test]
    fn exit_codes_follow_the_contract() {
        let failed = |reason| Err(Fault::new(reason, "x"));
        let success = Ok(Success { root: Some([7; 32]), ..Success::new(Reason::Verified, "") });
        for (result, signal, code) in [
            (success, None, 0),
            (failed(Reason::PeerLost), None, 1),
            (failed(Reason::SourceMissing), None, 3),
            (failed(Reason::StoppedBySignal), Some(15), 143),
            (failed(Reason::StoppedBySignal), Some(2), 130),
        ] {
            assert_eq!(verdict(&result).exit_code(signal), code);
        }
    }

    #[test]
    fn a_verdict_tells_what_the_transfer_cost_in_processor_time_and_in_payload_sent_again() {
        let progress = Progress::new();
        let wire = Wire { retransmitted_bytes: 7, cap_exceeded: Duration::ZERO, rtt: None };
        progress.set_wire(wire);
        let success = Ok(Success::new(Reason::Verified, ""));
        let shown = serde_json::to_value(Verdict::new("sender", "local", 1, &progress, &success)).unwrap();
        assert_eq!(shown["retransmitted_bytes"], 7);
        assert!(shown["cpu_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{shown}");
        let receiver = serde_json::to_value(verdict(&success)).unwrap();
        assert!(receiver["retransmitted_bytes"].is_null(), "{receiver}");
    }

    #[test]
    fn a_verdict_of_hostile_text_stays_within_the_bound() {
        let json = verdict(&Err(Fault::new(Reason::InternalError, "\u{1}".repeat(5000)))).to_json();
        assert!(json.len() <= VERDICT_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }

    #[test]
    fn only_the_first_verdict_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let writer = VerdictWriter::new(Some(&path));
        writer.settle(verdict(&Err(Fault::new(Reason::PeerLost, "first"))));
        let held = writer.settle(verdict(&Err(Fault::new(Reason::Stalled, "second"))));
        assert_eq!(held.reason, Reason::PeerLost);
        assert!(std::fs::read_to_string(path).unwrap().contains("first"));
    }
}
