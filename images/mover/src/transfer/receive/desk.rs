//! Where the sender's connections go, and what the receiver's own thread hears of them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::receiver::lock;
use fairlead_protocol::Fault;

use super::receipts::Receipts;
use crate::fs::partial::recovery::Recovery;
use crate::net::connect::accept::{ConnectionHandler, ServerStream};
use crate::net::control_connection::ConnectionEvent;
use crate::net::streams::inbound::{DataPlane, StreamError};
use crate::net::wire::{PackReceiver, WireError};

/// What the receiver's thread is told.
pub(super) enum Event {
    /// The control connection, its peer, and whether blocks carry no digests.
    Control(Box<ServerStream>, SocketAddr, bool),
    Link(ConnectionEvent),
    /// There are receipts.
    Packs,
    Surveyed(Result<(Vec<u32>, Recovery), Fault>),
    Hashed(Vec<(u32, Digest)>),
    HashedAll,
    Settled(Result<Vec<(u32, u32)>, Fault>),
    Published(Result<(), Fault>),
    /// The sender was told what to send.
    Planned,
    Fault(Fault),
}

impl From<ConnectionEvent> for Event {
    fn from(event: ConnectionEvent) -> Self {
        Self::Link(event)
    }
}

/// Where connections of the sender go.
pub(super) struct Desk {
    pub(super) events: SyncSender<Event>,
    pub(super) receipts: Arc<Receipts>,
    pub(super) plane: Arc<Mutex<Option<Arc<DataPlane>>>>,
}

impl ConnectionHandler for Desk {
    fn control(&self, stream: ServerStream, peer: SocketAddr, undigested: bool) {
        let _ = self.events.send(Event::Control(Box::new(stream), peer, undigested));
    }

    fn data(&self, mut inlet: Box<dyn PackReceiver>, number: u16) {
        let Some(plane) = lock(&self.plane).clone() else { return };
        plane.progress.streams.fetch_add(1, Ordering::Relaxed);
        let result = plane.receive(&mut *inlet, |fate| {
            if self.receipts.note(fate) {
                let _ = self.events.send(Event::Packs);
            }
        });
        plane.progress.streams.fetch_sub(1, Ordering::Relaxed);
        let error = match result {
            Ok(()) => match inlet.finish() {
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
            plane.progress.blocks_damaged.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(stream = number, %error, "a data connection ended early");
    }
}
