//! A connection of UDT with its keys, between the thread that moves its datagrams and the one that reads or writes its bytes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairlead_protocol::sealed::{DatagramKeys, ROOM_BYTES};
use fairlead_udt::{Connection, Ended};

use super::socket::{Batch, Waker};
use crate::fault_injection::panic_point;
use crate::threads::lock;

/// What of one flow goes into a batch before another one has its turn.
const MOST_PACKETS: usize = 256;

/// A connection in use.
pub(super) struct Flow {
    started: Instant,
    pub(super) peer: SocketAddr,
    /// The address here that the other end knows.
    pub(super) own: Option<IpAddr>,
    state: Mutex<FlowState>,
    changed: Condvar,
    waker: Arc<Waker>,
}

/// What both threads change.
pub(super) struct FlowState {
    pub(super) connection: Connection,
    keys: DatagramKeys,
    /// Why nothing more moves, beside what the connection says.
    broken: Option<&'static str>,
}

impl Flow {
    pub(super) fn new(
        connection: Connection,
        keys: DatagramKeys,
        (peer, own): (SocketAddr, Option<IpAddr>),
        started: Instant,
        waker: Arc<Waker>,
    ) -> Arc<Self> {
        let state = Mutex::new(FlowState { connection, keys, broken: None });
        Arc::new(Self { started, peer, own, state, changed: Condvar::new(), waker })
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FlowState> {
        lock(&self.state)
    }

    /// Opens a datagram of the other end and takes it in; whether it was one.
    pub(super) fn receive(&self, datagram: &mut [u8]) -> bool {
        let mut state = self.lock();
        let FlowState { connection, keys, .. } = &mut *state;
        let Ok(packet) = keys.opener.open(datagram) else { return false };
        connection.handle(self.now(), packet);
        true
    }

    /// Hands on what is due, and wakes whoever waits. When to come back; nothing once the flow is over.
    pub(super) fn transmit(&self, batch: &mut Batch<'_>) -> io::Result<Option<Duration>> {
        let mut state = self.lock();
        panic_point("DATAGRAMS");
        for _ in 0..MOST_PACKETS {
            let FlowState { connection, keys, .. } = &mut *state;
            let sealed = batch.add(self.peer, self.own, |bytes| {
                let start = bytes.len();
                bytes.extend([0; ROOM_BYTES]);
                if !connection.poll_transmit(self.now(), bytes) {
                    bytes.truncate(start);
                    return Ok(false);
                }
                keys.sealer.seal(bytes, start).map(|()| true)
            });
            match sealed {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    state.connection.close();
                    return Err(io::Error::other(error));
                }
            }
        }
        let FlowState { connection, .. } = &*state;
        if connection.ended().is_some()
            || connection.is_readable()
            || connection.write_room() > 0
            || connection.is_flushed()
        {
            self.changed.notify_all();
        }
        let timeout = connection.timeout();
        Ok(timeout.map(|at| at.saturating_sub(self.now())))
    }

    /// Nothing moves any more, whatever the other end does.
    pub(super) fn give_up(&self, why: &'static str) {
        let mut state = self.lock();
        state.broken.get_or_insert(why);
        state.connection.close();
        drop(state);
        self.changed.notify_all();
        self.waker.wake();
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Something waits for the thread that moves datagrams.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Waits until `done` gives something, or an error at the deadline. The end of the connection is for `done` to tell.
    pub(super) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut FlowState) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(result) = done(&mut state) {
                return result;
            }
            state = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the other end took too long"));
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl FlowState {
    /// Why nothing more comes or goes.
    pub(super) fn end(&self) -> Option<io::Error> {
        let ended = self.connection.ended()?;
        let kind = match ended {
            Ended::Silent => io::ErrorKind::TimedOut,
            Ended::Here | Ended::There => io::ErrorKind::ConnectionAborted,
        };
        Some(match self.broken {
            Some(why) => io::Error::new(kind, why),
            None => io::Error::new(kind, ended),
        })
    }
}

/// Ends a flow when the thread that moves its datagrams ends, however that happens.
pub(super) struct EndsFlow(pub(super) Arc<Flow>);

impl Drop for EndsFlow {
    fn drop(&mut self) {
        self.0.give_up("the thread that moved its datagrams has ended");
    }
}
