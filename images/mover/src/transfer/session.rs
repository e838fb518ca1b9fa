//! What the sender and the receiver do alike: they exchange messages, send heartbeats and judge the peer by its own, start long
//! work on threads, tell the peer of a failure, and wait for the last messages to leave.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::limits::QUIET;
use fairlead_protocol::liveness::{Evidence, Liveness};
use fairlead_protocol::message::{Body, Failure, Heartbeat};
use fairlead_protocol::{Fault, Reason};
use rustls::Connection;

use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::interface;
use crate::progress::Progress;
use crate::threads::spawn;

/// The roles of the ends, as messages name them.
pub(super) const SENDER: &str = "sender";
pub(super) const RECEIVER: &str = "receiver";

/// Time between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Time between checks of clocks and signals.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Events that may wait for the end's own thread.
const INBOX: usize = 256;
/// Longest wait for the last messages to leave and be read.
const FAREWELL: Duration = Duration::from_secs(1);

/// An event for one end's own thread, of which some come from the control connection.
pub(super) trait TransferEvent: From<ConnectionEvent> + Send + 'static {
    /// The event of the control connection, if it is one.
    fn into_connection(self) -> Option<ConnectionEvent>;
}

/// One end's events and its control connection.
pub(super) struct Session<E> {
    own: &'static str,
    peer: &'static str,
    events: SyncSender<E>,
    inbox: Receiver<E>,
    connection: Option<ControlConnection>,
}

impl<E: TransferEvent> Session<E> {
    /// `own` and `peer` are the ends' roles. There is no control connection yet.
    pub(super) fn new(own: &'static str, peer: &'static str) -> Self {
        let (events, inbox) = sync_channel(INBOX);
        Self { own, peer, events, inbox, connection: None }
    }

    /// Where other threads send events.
    pub(super) fn events(&self) -> SyncSender<E> {
        self.events.clone()
    }

    /// Starts the thread of the control connection. `resumable`: another one may take its place.
    pub(super) fn connect(
        &mut self,
        connection: Connection,
        socket: TcpStream,
        resumable: bool,
    ) -> std::io::Result<ControlConnection> {
        let started = ControlConnection::start(connection, socket, self.events(), resumable)?;
        self.connection = Some(started.clone());
        Ok(started)
    }

    /// The control connection, once there is one.
    pub(super) fn connection(&self) -> Option<&ControlConnection> {
        self.connection.as_ref()
    }

    /// Queues a message for the peer, if there is one.
    pub(super) fn send(&self, body: Body) {
        if let Some(connection) = self.connection() {
            connection.send(body);
        }
    }

    /// Watches over the peer from now on; after `patience` without progress the transfer counts as stalled.
    pub(super) fn watch(&self, progress: &Arc<Progress>, patience: Duration) -> PeerWatch {
        PeerWatch::new(self.own, self.peer, Arc::clone(progress), patience)
    }

    /// The next event; nothing after `patience`.
    pub(super) fn next(&self, patience: Duration) -> Result<Option<E>, Fault> {
        match self.inbox.recv_timeout(patience) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Fault::new(Reason::InternalError, "the inbox is gone")),
        }
    }

    /// The next event, if there is one already.
    pub(super) fn next_waiting(&self) -> Option<E> {
        self.inbox.try_recv().ok()
    }

    /// The message that an event of the control connection brought, unless it is a heartbeat. The end of the connection and a
    /// failure of the peer are faults.
    pub(super) fn message(&self, event: ConnectionEvent, watch: &mut PeerWatch) -> Result<Option<Body>, Fault> {
        match event {
            ConnectionEvent::Closed { why, .. } => Err(self.lost(&why)),
            ConnectionEvent::Message(body) => match watch.on_message(body) {
                Some(Body::Failure(failure)) => Err(self.peer_fault(&failure)),
                other => Ok(other),
            },
        }
    }

    /// The fault of a peer whose connection ended.
    pub(super) fn lost(&self, why: &str) -> Fault {
        Fault::new(Reason::PeerLost, format!("the connection to the {} ended: {why}", self.peer))
    }

    fn peer_fault(&self, failure: &Failure) -> Fault {
        Fault::from_peer(self.peer, &failure.reason, &failure.message, failure.retry)
    }

    /// Does long work on a thread of its own and sends the event that it ends with.
    pub(super) fn spawn(&self, name: &str, work: impl FnOnce() -> E + Send + 'static) -> Result<(), Fault> {
        let events = self.events();
        spawn(name, move || {
            let _ = events.send(work());
        })
    }

    /// Tells the peer of a fault that was found here. Returns that fault, or one that the peer sent meanwhile and that explains more. The
    /// fault of a lost peer is that of this end's interface, where that is down.
    pub(super) fn report(&self, fault: Fault) -> Fault {
        let fault = match self.connection().and_then(ControlConnection::own_address) {
            Some(own) => interface::explained(fault, &interface::list(), own),
            None => fault,
        };
        if fault.reason != Reason::PeerFailed {
            let (reason, message, retry) = (fault.reason.name(), fault.message.clone(), fault.retry);
            self.send(Body::Failure(Failure { reason, message, retry }));
        }
        let mut fault = fault;
        while let Some(event) = self.next_waiting() {
            if let Some(ConnectionEvent::Message(Body::Failure(failure))) = event.into_connection() {
                fault = fault.more_telling(self.peer_fault(&failure));
            }
        }
        fault
    }

    /// Ends the control connection and waits a moment for the last messages to leave. False if there was no connection.
    pub(super) fn close(&mut self) -> bool {
        let Some(connection) = self.connection.take() else { return false };
        connection.close();
        let deadline = Instant::now() + FAREWELL;
        while !connection.is_over() && Instant::now() < deadline {
            let _ = self.inbox.recv_timeout(Duration::from_millis(10));
        }
        true
    }

    /// Discards events for `time` at most, so that the threads that send them can go on.
    pub(super) fn discard_events(&self, time: Duration) {
        let _ = self.inbox.recv_timeout(time);
    }
}

/// Sends heartbeats to the peer, and judges the peer by what comes from it.
pub(super) struct PeerWatch {
    liveness: Liveness,
    /// Whether the peer is the receiver.
    peer_verifies: bool,
    progress: Arc<Progress>,
    last_heartbeat: Option<Duration>,
    /// End of the quiet period that both ends know of.
    known_quiet_end: Duration,
}

impl PeerWatch {
    fn new(own: &'static str, peer: &'static str, progress: Arc<Progress>, patience: Duration) -> Self {
        let liveness = Liveness::new(own, peer, progress.clock.now(), patience);
        let peer_verifies = peer == RECEIVER;
        Self { liveness, peer_verifies, progress, last_heartbeat: None, known_quiet_end: Duration::ZERO }
    }

    /// Takes a message of the peer. Returns what is not a heartbeat.
    fn on_message(&mut self, body: Body) -> Option<Body> {
        let now = self.progress.clock.now();
        match body {
            Body::Heartbeat(Heartbeat { work, waiting, disk_ms, bytes_verified, quiet_ms, .. }) => {
                if let Some(quiet_ms) = quiet_ms {
                    self.progress.clock.hold(Duration::from_millis(quiet_ms).min(QUIET));
                    self.known_quiet_end = self.progress.clock.quiet_until();
                }
                // Only the receiver verifies; the sender's number is what it was told.
                if bytes_verified > 0 && self.peer_verifies {
                    self.progress.counters.bytes_verified.store(bytes_verified, Ordering::Relaxed);
                }
                self.liveness.heartbeat(now, work, waiting, Duration::from_millis(disk_ms));
                None
            }
            other => {
                self.liveness.message_received(now);
                Some(other)
            }
        }
    }

    /// Sends a heartbeat if one is due, and judges the peer. `waiting`: this end holds data back on purpose, or works without moving
    /// bytes. `streams` adds the kernel's state of the streams that this end sends on.
    pub(super) fn tick(
        &mut self,
        connection: &ControlConnection,
        waiting: bool,
        streams: impl FnOnce(Evidence) -> Evidence,
    ) -> Result<(), Fault> {
        self.beat(connection, waiting);
        let evidence = || {
            let control_retransmissions = connection.tcp_info().map_or(0, |info| u32::from(info.fruitless));
            streams(Evidence { disk: self.progress.disk.oldest(), control_retransmissions, ..Evidence::default() })
        };
        self.liveness.check(self.progress.clock.now(), self.work(), waiting, evidence)
    }

    /// As `tick`, for an end that can go on without its peer, which is not judged any more.
    pub(super) fn tick_alone(&mut self, connection: &ControlConnection) -> Result<(), Fault> {
        self.beat(connection, true);
        self.liveness.check_alone(self.progress.clock.now(), self.work(), self.progress.disk.oldest())
    }

    fn work(&self) -> u64 {
        self.progress.counters.work.load(Ordering::Relaxed)
    }

    /// Sends a heartbeat if one is due.
    fn beat(&mut self, connection: &ControlConnection, waiting: bool) {
        let (now, work) = (self.progress.clock.now(), self.work());
        let quiet_until = self.progress.clock.quiet_until();
        let changed = quiet_until != self.known_quiet_end;
        if changed || self.last_heartbeat.is_none_or(|last| now.saturating_sub(last) >= HEARTBEAT) {
            self.last_heartbeat = Some(now);
            self.known_quiet_end = quiet_until;
            let quiet_ms = changed.then(|| self.progress.clock.quiet_left().as_millis() as u64);
            let disk_ms = self.progress.disk.oldest().as_millis() as u64;
            let bytes_verified = self.progress.counters.bytes_verified.load(Ordering::Relaxed);
            let received = connection.received();
            connection.send(Body::Heartbeat(Heartbeat { work, waiting, disk_ms, bytes_verified, quiet_ms, received }));
        }
    }
}

/// Bytes that may be sent in vain beside twice the total.
const RESEND_ALLOWANCE_BYTES: u64 = 1 << 30;

/// A fault once more was sent in vain than `budget_bytes`, or than twice the total and an allowance.
pub(super) fn check_resent(progress: &Progress, budget_bytes: Option<u64>) -> Result<(), Fault> {
    let (resent, total) =
        (progress.counters.bytes_resent.load(Ordering::Relaxed), progress.counters.bytes_total.load(Ordering::Relaxed));
    let budget = budget_bytes.unwrap_or(total.saturating_mul(2).saturating_add(RESEND_ALLOWANCE_BYTES));
    if resent <= budget {
        return Ok(());
    }
    let text = format!(
        "{resent} bytes were sent in vain, more than the budget of {budget}; find out what breaks the transfer, or raise --resend-budget"
    );
    Err(Fault::new(Reason::ResendBudgetExceeded, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_verified_is_told_by_the_receiver_alone() {
        for (own, peer, expected) in [(RECEIVER, SENDER, 7), (SENDER, RECEIVER, 5)] {
            let progress = Arc::new(Progress::new());
            progress.counters.bytes_verified.store(7, Ordering::Relaxed);
            let mut watch = PeerWatch::new(own, peer, Arc::clone(&progress), Duration::from_secs(30));
            assert_eq!(
                watch.on_message(Body::Heartbeat(Heartbeat { bytes_verified: 5, ..Heartbeat::default() })),
                None
            );
            assert_eq!(progress.counters.bytes_verified.load(Ordering::Relaxed), expected, "{own}");
        }
    }
}
