//! The sender's connections at the receiver, and the events that reach the receiver's own thread.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::{Fault, Reason};

use super::acknowledgements::Acknowledgements;
use super::blocks::{BlockReceiver, StreamError};
use super::destination_work::Reserved;
use crate::fs::metadata::FileState;
use crate::fs::partial::recovery::Recovery;
use crate::net::connect::accept::{ConnectionHandler, ServerStream};
use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::echo::Echo;
use crate::net::wire::{PackReceiver, WireError};
use crate::threads::lock;
use crate::transfer::session::TransferEvent;

/// What the other threads report to the receiver's own.
pub(super) enum Event {
    /// The control connection, its peer, and whether blocks carry no digests.
    Control(Box<ServerStream>, SocketAddr, bool),
    /// Another control connection took the place of the one that was.
    Resumed(SocketAddr),
    Connection(ConnectionEvent),
    /// Packs are to be acknowledged.
    Packs,
    Surveyed(Result<(Vec<FileIndex>, Recovery), Fault>),
    /// What a transfer of the listing would need is there, or not.
    Checked(Result<(), Fault>),
    Hashed(Vec<(FileIndex, Digest)>),
    /// All are hashed; what they were like then.
    HashedAll(Vec<(FileIndex, FileState)>),
    Reserved(Result<Box<Reserved>, Fault>),
    Settled(Result<Vec<BlockId>, Fault>),
    Published(Result<(), Fault>),
    /// The sender has the whole plan.
    Planned,
    Fault(Fault),
}

impl From<ConnectionEvent> for Event {
    fn from(event: ConnectionEvent) -> Self {
        Self::Connection(event)
    }
}

impl TransferEvent for Event {
    fn into_connection(self) -> Option<ConnectionEvent> {
        match self {
            Self::Connection(event) => Some(event),
            _ => None,
        }
    }
}

/// The block receiver in use, while data may flow.
pub(super) type OpenBlocks = Arc<Mutex<Option<Arc<BlockReceiver>>>>;

/// Takes the sender's connections from the acceptor.
pub(super) struct SenderConnections {
    pub(super) events: SyncSender<Event>,
    pub(super) acknowledgements: Arc<Acknowledgements>,
    pub(super) blocks: OpenBlocks,
    /// The control connection, once there is one that another may take the place of.
    pub(super) resumable: Arc<OnceLock<ControlConnection>>,
    pub(super) echo: Echo,
}

impl SenderConnections {
    fn go_on(&self, stream: ServerStream, received: u64) -> Result<(), Fault> {
        let Some(connection) = self.resumable.get() else { return Ok(()) };
        let internal = |error: std::io::Error| Fault::new(Reason::InternalError, error.to_string());
        let socket = stream.sock.socket().try_clone().map_err(internal)?;
        let (tls, _) = stream.into_parts();
        connection.resume(tls.into(), socket, self.events.clone(), received)
    }
}

impl ConnectionHandler for SenderConnections {
    fn authenticated(&self, sender: IpAddr) {
        self.echo.admit(sender);
    }

    fn control(&self, stream: ServerStream, peer: SocketAddr, undigested: bool) {
        let _ = self.events.send(Event::Control(Box::new(stream), peer, undigested));
    }

    fn suspend(&self) -> Option<u64> {
        self.resumable.get().map(ControlConnection::retire)
    }

    fn resume(&self, stream: std::io::Result<(ServerStream, SocketAddr)>, received: u64) {
        let event = match stream {
            Ok((stream, peer)) => match self.go_on(stream, received) {
                Ok(()) => Event::Resumed(peer),
                Err(fault) => Event::Fault(fault),
            },
            // The sender tries again.
            Err(error) => Event::Connection(ConnectionEvent::Closed { why: error.to_string(), in_order: false }),
        };
        let _ = self.events.send(event);
    }

    fn data(&self, mut stream: Box<dyn PackReceiver>, number: u16) {
        let Some(blocks) = lock(&self.blocks).clone() else { return };
        blocks.progress.counters.streams.fetch_add(1, Ordering::Relaxed);
        let result = blocks.receive(&mut *stream, |outcome| {
            if self.acknowledgements.add(outcome) {
                let _ = self.events.send(Event::Packs);
            }
        });
        blocks.progress.counters.streams.fetch_sub(1, Ordering::Relaxed);
        let error = match result {
            Ok(()) => match stream.finish() {
                Ok(()) => return,
                Err(error) => WireError::from(error),
            },
            Err(StreamError::Fault(fault)) => {
                let _ = self.events.send(Event::Fault(fault));
                return;
            }
            Err(StreamError::Wire(error)) => error,
        };
        if error.is_damage() {
            // The pack that was being read is lost with its connection.
            blocks.progress.counters.packs_damaged.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(stream = number, %error, "a data connection ended early");
    }
}
