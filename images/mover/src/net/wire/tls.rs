//! Packs in TLS: the records protect every byte, and `close_notify` of both ends is the end.

use std::io;
use std::sync::Arc;

use fairlead_protocol::pack::Header;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use super::{read_head, PackReceiver, PackSender, Payload, Records, WireError, FAREWELL, LINGER};
use crate::net::engine::tcp::TcpLink;
use crate::net::engine::DataLink;
use crate::net::pacing::gate::Gate;

/// The sender's end.
pub(crate) struct TlsPackSender(Records<UnbufferedClientConnection>);

impl TlsPackSender {
    /// Takes over a greeted connection.
    pub(crate) fn new(mut records: Records<UnbufferedClientConnection>) -> io::Result<Self> {
        records.widen_outgoing();
        records.socket_mut().authenticated(None)?;
        Ok(Self(records))
    }
}

impl PackSender for TlsPackSender {
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()> {
        self.0.send(head)?;
        payload.pieces().try_for_each(|piece| self.0.send(piece))?;
        self.0.flush()
    }

    fn check(&mut self) -> io::Result<()> {
        self.0.check()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.send(&Header::End.encode())?;
        self.0.close()?;
        self.0.socket_mut().authenticated(Some(LINGER))?;
        self.0.await_close()
    }

    fn pace(&mut self, gate: Arc<Gate>) {
        self.0.socket_mut().paced(gate);
    }

    fn link(&self) -> io::Result<Arc<dyn DataLink>> {
        Ok(TcpLink::new(self.0.socket().socket())?)
    }
}

/// The receiver's end.
pub(crate) struct TlsPackReceiver(Records<UnbufferedServerConnection>);

impl TlsPackReceiver {
    /// Takes over a greeted connection.
    pub(crate) fn new(mut records: Records<UnbufferedServerConnection>) -> io::Result<Self> {
        records.widen_incoming();
        records.socket_mut().authenticated(None)?;
        Ok(Self(records))
    }
}

impl PackReceiver for TlsPackReceiver {
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
        Ok(read_head(table, |bytes| self.0.read_exact(bytes))?.1)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes)
    }

    fn skim(&mut self, bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.0.pull(bytes, sink)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.socket_mut().authenticated(Some(FAREWELL))?;
        // Read first: to close with bytes unread would reset the connection, and the farewell with it.
        self.0.await_close()?;
        self.0.close()
    }
}
