//! The sender's control connection on whichever path it is: when that path dies, the session goes on over another.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use fairlead_protocol::index::PathIndex;
use fairlead_protocol::{Fault, Reason};

use crate::net::connect::dial::{self, ClientStream, Dialer, Resumed};
use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::engine::tcp::TcpLink;
use crate::net::pacing::{Membership, Pacer};
use crate::net::paths::OnPath;
use crate::threads::spawn;
use crate::transfer::session::{Session, TransferEvent};

/// What the control connection needs to be made again.
pub(super) struct ControlLink {
    dialer: Arc<Dialer>,
    pacer: Arc<Pacer>,
    /// Shows the receiver that a connection belongs to the session.
    token: Vec<u8>,
    over: Arc<AtomicBool>,
    place: Option<(Membership, OnPath)>,
}

fn internal(error: std::io::Error) -> Fault {
    Fault::new(Reason::InternalError, format!("the control connection: {error}"))
}

impl ControlLink {
    pub(super) fn new(dialer: Arc<Dialer>, pacer: Arc<Pacer>, token: Vec<u8>, over: Arc<AtomicBool>) -> Self {
        Self { dialer, pacer, token, over, place: None }
    }

    /// Starts the first control connection of a session.
    pub(super) fn start<E: TransferEvent>(
        &mut self,
        session: &mut Session<E>,
        stream: ClientStream,
        path: PathIndex,
    ) -> Result<(), Fault> {
        let socket = self.join(&stream, path)?;
        let (connection, _) = stream.into_parts();
        session.connect(connection.into(), socket, self.dialer.paths.are_several()).map_err(internal)?;
        Ok(())
    }

    /// Whether a session goes on that lost its connection like this.
    pub(super) fn outlives(&self, event: &ConnectionEvent) -> bool {
        matches!(event, ConnectionEvent::Closed { in_order: false, .. }) && self.dialer.paths.are_several()
    }

    /// Makes another connection on a thread of its own; `done` gets it, or why there is none.
    pub(super) fn redial(
        &self,
        connection: &ControlConnection,
        done: impl FnOnce(Result<Resumed, String>) + Send + 'static,
    ) -> Result<(), Fault> {
        let (dialer, token, over) = (Arc::clone(&self.dialer), self.token.clone(), Arc::clone(&self.over));
        let connection = connection.clone();
        spawn("redial", move || {
            let received = connection.retire();
            done(dialer.resume(&token, received, &|| over.load(Ordering::Relaxed)));
        })
    }

    /// Goes on with the session over another connection, and returns the addresses of the receiver and of this end of it.
    pub(super) fn resume<E: TransferEvent>(
        &mut self,
        session: &Session<E>,
        resumed: Resumed,
    ) -> Result<(SocketAddr, SocketAddr), Fault> {
        let Resumed { stream, path, received } = resumed;
        let peer = self.dialer.paths.ends(path).peer;
        tracing::info!(path = path.0, %peer, "the session goes on over another connection");
        let socket = self.join(&stream, path)?;
        let local = socket.local_addr().map_err(internal)?;
        let (tls, _) = stream.into_parts();
        if let Some(connection) = session.connection() {
            connection.resume(tls.into(), socket, session.events(), received)?;
        }
        Ok((peer, local))
    }

    fn join(&mut self, stream: &ClientStream, path: PathIndex) -> Result<TcpStream, Fault> {
        let socket = dial::socket(stream).try_clone().map_err(internal)?;
        let link = TcpLink::new(&socket).map_err(internal)?;
        let share = self.pacer.join(Arc::<TcpLink>::clone(&link), path, false).map_err(internal)?;
        let on_path = self.dialer.paths.connected(path, link);
        self.place = Some((share, on_path));
        Ok(socket)
    }
}
