//! Connections from the sender: TCP, TLS, identity, greeting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::fault::cut;
use fairlead_protocol::frame::{self, check_preamble, preamble, PREAMBLE_BYTES};
use fairlead_protocol::limits::{ECHO_KEY_BYTES, HELLO_FRAME_BYTES, TOKEN_BYTES};
use fairlead_protocol::message::{Hello, Purpose, Welcome};
use fairlead_protocol::{Fault, Reason};
use rustls::{ClientConnection, StreamOwned};

use super::identity::{refusal, Identity};
use super::tcp::{self, Metered};
use crate::report::progress::Progress;

/// Time for one connection to be made and greeted.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A greeted connection.
pub(crate) type ClientStream = StreamOwned<ClientConnection, Metered>;

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// Trying again may help.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer is not the right one, or does not want us.
    #[error("{0}")]
    Rejected(String),
}

/// What every connection of a transfer shares.
pub(crate) struct Dialer {
    pub(crate) peer: SocketAddr,
    pub(crate) interface: Option<String>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) progress: Arc<Progress>,
}

impl Dialer {
    /// Makes the control connection, trying again until `patience` is over or `stopped`.
    pub(crate) fn control(
        &self,
        patience: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(ClientStream, Welcome), Fault> {
        let deadline = Instant::now() + patience;
        loop {
            let error = match self.dial(Purpose::Control, &[], 0, None) {
                Ok(greeted) => return Ok(greeted),
                Err(DialError::Rejected(why)) => {
                    let text = format!("{} at {}: {why}", self.receiver_name(), self.peer);
                    return Err(Fault::new(Reason::PeerRejected, text));
                }
                Err(DialError::Io(error)) => error,
            };
            if Instant::now() + RETRY_PAUSE >= deadline || stopped() {
                let text = format!(
                    "no connection to {} at {} within {} s: {error}; check that the receiver runs and that the network lets TCP through",
                    self.receiver_name(),
                    self.peer,
                    patience.as_secs()
                );
                return Err(Fault::new(Reason::PeerUnreachable, text));
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Makes a data connection.
    pub(crate) fn data(&self, token: &[u8], stream: u32, congestion_control: &str) -> Result<ClientStream, DialError> {
        self.dial(Purpose::Data, token, stream, Some(congestion_control)).map(|(stream, _)| stream)
    }

    fn receiver_name(&self) -> String {
        format!("the receiver of job {}, attempt {},", self.identity.job, self.identity.attempt)
    }

    fn dial(
        &self,
        purpose: Purpose,
        token: &[u8],
        stream: u32,
        congestion_control: Option<&str>,
    ) -> Result<(ClientStream, Welcome), DialError> {
        let socket = tcp::connect(self.peer, self.interface.as_deref(), congestion_control, DIAL_TIMEOUT)?;
        let connection = self.identity.connect().map_err(|fault| DialError::Rejected(fault.message))?;
        let metered = Metered::new(socket, Arc::clone(&self.progress), Some(Instant::now() + DIAL_TIMEOUT));
        let mut tls = StreamOwned::new(connection, metered);
        let hello = Hello {
            job: self.identity.job.clone(),
            attempt: self.identity.attempt,
            purpose: purpose as i32,
            token: token.to_vec(),
            stream,
        };
        let broken = |error: io::Error| match refusal(&error) {
            Some(why) => DialError::Rejected(format!("the certificates do not fit: {why}")),
            None => error.into(),
        };
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(broken)?;
        }
        self.identity.check_peer(tls.conn.peer_certificates()).map_err(DialError::Rejected)?;
        let welcome = self.greet(&mut tls, &hello).map_err(broken)?;
        if !welcome.refusal.is_empty() {
            let why: String = welcome.refusal.chars().filter(|c| !c.is_control()).collect();
            return Err(DialError::Rejected(format!("it refused: {}", cut(why, 256))));
        }
        let complete = purpose == Purpose::Data
            || (welcome.token.len() == TOKEN_BYTES
                && welcome.echo_key.len() == ECHO_KEY_BYTES
                && welcome.echo_port <= 65_535);
        if !complete {
            return Err(DialError::Rejected("its welcome is malformed".into()));
        }
        tls.sock.authenticated(None)?;
        Ok((tls, welcome))
    }

    fn greet(&self, tls: &mut ClientStream, hello: &Hello) -> io::Result<Welcome> {
        tls.write_all(&[&preamble()[..], &frame::encode(hello)].concat())?;
        tls.flush()?;
        let mut answer = [0; PREAMBLE_BYTES];
        tls.read_exact(&mut answer)?;
        check_preamble(&answer).map_err(io::Error::other)?;
        read_frame(tls)
    }
}

/// Reads one bounded greeting frame.
pub(crate) fn read_frame<M: prost::Message + Default>(stream: &mut impl Read) -> io::Result<M> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let length = frame::length(prefix, HELLO_FRAME_BYTES).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    frame::decode(&body).map_err(io::Error::other)
}

/// The socket beneath a greeted connection.
pub(crate) fn socket(stream: &ClientStream) -> &TcpStream {
    stream.sock.socket()
}
