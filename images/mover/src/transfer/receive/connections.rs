//! The sender's connections at the receiver, and the events that reach the receiver's own thread.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::Fault;

use super::acknowledgements::Acknowledgements;
use super::blocks::{BlockReceiver, StreamError};
use crate::fs::partial::recovery::Recovery;
use crate::net::connect::accept::{ConnectionHandler, ServerStream};
use crate::net::control_connection::ConnectionEvent;
use crate::net::wire::{PackReceiver, WireError};
use crate::threads::lock;
use crate::transfer::session::TransferEvent;

/// What the other threads report to the receiver's own.
pub(super) enum Event {
    /// The control connection, its peer, and whether blocks carry no digests.
    Control(Box<ServerStream>, SocketAddr, bool),
    Connection(ConnectionEvent),
    /// Packs are to be acknowledged.
    Packs,
    Surveyed(Result<(Vec<FileIndex>, Recovery), Fault>),
    /// What a transfer of the listing would need is there, or not.
    Checked(Result<(), Fault>),
    Hashed(Vec<(FileIndex, Digest)>),
    HashedAll,
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
}

impl ConnectionHandler for SenderConnections {
    fn control(&self, stream: ServerStream, peer: SocketAddr, undigested: bool) {
        let _ = self.events.send(Event::Control(Box::new(stream), peer, undigested));
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
