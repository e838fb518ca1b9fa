//! What both ends' drivers share: telling the peer of a failure, heartbeats, patience.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::liveness::Liveness;
use fairlead_protocol::message::{Body, Failure, Heartbeat};
use fairlead_protocol::{Fault, Reason};

use crate::net::link::Link;
use crate::report::progress::Progress;

/// Time between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Time between looks at clocks and signals.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Keeps the peer informed that this end lives, and watches that the peer does.
pub(crate) struct Pulse {
    liveness: Liveness,
    progress: Arc<Progress>,
    last_beat: Option<Duration>,
}

impl Pulse {
    pub(crate) fn new(peer: &'static str, progress: Arc<Progress>) -> Self {
        Self { liveness: Liveness::new(peer, progress.now()), progress, last_beat: None }
    }

    /// A message came. Hands back what is not a heartbeat.
    pub(crate) fn on_message(&mut self, body: Body) -> Option<Body> {
        let now = self.progress.now();
        match body {
            Body::Heartbeat(Heartbeat { work, waiting }) => {
                self.liveness.heartbeat(now, work, waiting);
                None
            }
            other => {
                self.liveness.heard(now);
                Some(other)
            }
        }
    }

    /// Beats if it is time, and judges the peer. `waiting`: this end holds still on purpose or works without moving bytes.
    pub(crate) fn tick(&mut self, link: &Link, waiting: bool) -> Result<(), Fault> {
        let (now, work) = (self.progress.now(), self.progress.work.load(Ordering::Relaxed));
        if self.last_beat.is_none_or(|last| now.saturating_sub(last) >= HEARTBEAT) {
            self.last_beat = Some(now);
            link.send(Body::Heartbeat(Heartbeat { work, waiting }));
        }
        self.liveness.check(now, work, waiting)
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
