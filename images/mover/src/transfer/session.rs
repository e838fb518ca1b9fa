//! What both ends' drivers share: telling the peer of a failure, heartbeats, patience.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::limits::QUIET;
use fairlead_protocol::liveness::{Evidence, Liveness};
use fairlead_protocol::message::{Body, Failure, Heartbeat};
use fairlead_protocol::{Fault, Reason};

use crate::net::control_connection::ControlConnection;
use crate::report::progress::Progress;

/// Time between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Time between looks at clocks and signals.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Keeps the peer informed that this end lives, and watches that the peer does.
pub(crate) struct PeerWatch {
    liveness: Liveness,
    progress: Arc<Progress>,
    last_beat: Option<Duration>,
    /// End of the quiet period that both ends know of.
    told_quiet: Duration,
}

impl PeerWatch {
    /// `own` and `peer` are the ends' roles; after `patience` without progress the transfer counts as stalled.
    pub(crate) fn new(own: &'static str, peer: &'static str, progress: Arc<Progress>, patience: Duration) -> Self {
        let liveness = Liveness::new(own, peer, progress.now(), patience);
        Self { liveness, progress, last_beat: None, told_quiet: Duration::ZERO }
    }

    /// A message came. Hands back what is not a heartbeat.
    pub(crate) fn on_message(&mut self, body: Body) -> Option<Body> {
        let now = self.progress.now();
        match body {
            Body::Heartbeat(Heartbeat { work, waiting, disk_ms, bytes_verified, quiet_ms }) => {
                if let Some(quiet_ms) = quiet_ms {
                    self.progress.hold(Duration::from_millis(quiet_ms).min(QUIET));
                    self.told_quiet = self.progress.quiet_until();
                }
                if bytes_verified > 0 {
                    self.progress.bytes_verified.store(bytes_verified, Ordering::Relaxed);
                }
                self.liveness.heartbeat(now, work, waiting, Duration::from_millis(disk_ms));
                None
            }
            other => {
                self.liveness.heard(now);
                Some(other)
            }
        }
    }

    /// Beats if it is time, and judges the peer. `waiting`: this end holds still on purpose or works without moving bytes.
    /// `streams` adds what this end sees of the streams that it sends on.
    pub(crate) fn tick(
        &mut self,
        link: &ControlConnection,
        waiting: bool,
        streams: impl FnOnce(Evidence) -> Evidence,
    ) -> Result<(), Fault> {
        let (now, work) = (self.progress.now(), self.progress.work.load(Ordering::Relaxed));
        let quiet_until = self.progress.quiet_until();
        let changed = quiet_until != self.told_quiet;
        if changed || self.last_beat.is_none_or(|last| now.saturating_sub(last) >= HEARTBEAT) {
            self.last_beat = Some(now);
            self.told_quiet = quiet_until;
            let quiet_ms = changed.then(|| self.progress.quiet_left().as_millis() as u64);
            let disk_ms = self.progress.disk.oldest().as_millis() as u64;
            let bytes_verified = self.progress.bytes_verified.load(Ordering::Relaxed);
            link.send(Body::Heartbeat(Heartbeat { work, waiting, disk_ms, bytes_verified, quiet_ms }));
        }
        let evidence = || {
            let control_retransmissions = link.tcp_info().map_or(0, |info| u32::from(info.fruitless));
            streams(Evidence { disk: self.progress.disk.oldest(), control_retransmissions, ..Evidence::default() })
        };
        self.liveness.check(now, work, waiting, evidence)
    }
}

/// Bytes that may be sent in vain beside twice the total.
const RESEND_ALLOWANCE_BYTES: u64 = 1 << 30;

/// A fault once more was sent in vain than `budget_bytes`, or than twice the total and an allowance.
pub(crate) fn check_resent(progress: &Progress, budget_bytes: Option<u64>) -> Result<(), Fault> {
    let (resent, total) = (progress.bytes_resent.load(Ordering::Relaxed), progress.bytes_total.load(Ordering::Relaxed));
    let budget = budget_bytes.unwrap_or(total.saturating_mul(2).saturating_add(RESEND_ALLOWANCE_BYTES));
    if resent <= budget {
        return Ok(());
    }
    let text = format!(
        "{resent} bytes were sent in vain, more than the budget of {budget}; find out what breaks the transfer, or raise --resend-budget"
    );
    Err(Fault::new(Reason::ResendBudgetExceeded, text))
}

/// The message that tells the peer of a fault found here; a fault that came from the peer is not sent back.
pub(crate) fn failure(fault: &Fault) -> Option<Body> {
    let told = fault.reason == Reason::PeerFailed;
    (!told).then(|| {
        Body::Failure(Failure { reason: fault.reason.name(), message: fault.message.clone(), retry: fault.retry })
    })
}
