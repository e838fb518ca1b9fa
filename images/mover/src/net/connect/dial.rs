//! Connections from the sender: TCP, TLS, identity, greeting.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairlead_protocol::fault::cut;
use fairlead_protocol::frame::{self, check_preamble, preamble, PREAMBLE_BYTES};
use fairlead_protocol::index::PathIndex;
use fairlead_protocol::keyed::{Secret, EXPORTER_LABEL, KEY_BYTES};
use fairlead_protocol::limits::{ECHO_KEY_BYTES, HELLO_FRAME_BYTES, TOKEN_BYTES};
use fairlead_protocol::message::{DataProtocol, Encryption, Hello, Purpose, Welcome};
use fairlead_protocol::opening::Opening;
use fairlead_protocol::{Fault, Reason};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};

use super::identity::{clock_refusal, refusal, Identity};
use crate::net::paths::{PathEnds, Paths};
use crate::net::tcp::{self, Metered};
use crate::progress::Progress;

/// Time for one connection to be made and greeted.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for one to be connected where there are other paths: one that is down is asked again soon.
const PATH_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long a session is without a control connection before its receiver counts as lost.
const RESUME_PATIENCE: Duration = Duration::from_secs(10);

/// A greeted control connection.
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
    /// A certificate does not hold by the clock of one end.
    #[error("{0}")]
    Clocks(String),
    /// The peer does not want us, whenever we ask.
    #[error("{0}")]
    Refused(String),
}

/// What data connections need to be let in.
pub(crate) struct Admission {
    token: Vec<u8>,
    pub(crate) secret: Secret,
    /// Blocks carry no digests.
    pub(crate) undigested: bool,
    /// Buffers of their sockets; the kernel's own growth if nothing.
    pub(crate) buffer_bytes: Option<u32>,
}

impl Admission {
    /// Shows that a connection belongs to the session.
    pub(crate) fn token(&self) -> Vec<u8> {
        self.token.clone()
    }
}

/// A control connection that goes on with a session.
pub(crate) struct Resumed {
    pub(crate) stream: ClientStream,
    pub(crate) path: PathIndex,
    /// Messages of the session that the receiver has received.
    pub(crate) received: u64,
}

/// A control connection with what both ends agreed on.
pub(crate) struct Greeted {
    pub(crate) stream: ClientStream,
    pub(crate) path: PathIndex,
    pub(crate) admission: Admission,
    pub(crate) echo_key: Vec<u8>,
    pub(crate) echo_port: u32,
    /// The receiver stores nothing.
    pub(crate) discards: bool,
    /// How far the receiver's clock is ahead of ours, in milliseconds, if it said.
    pub(crate) clock_ahead_ms: Option<i64>,
}

/// What every connection of a transfer shares.
pub(crate) struct Dialer {
    pub(crate) paths: Arc<Paths>,
    pub(crate) encryption: Encryption,
    pub(crate) protocol: DataProtocol,
    pub(crate) source_is_memory: bool,
    /// Nothing is to be moved.
    pub(crate) check_only: bool,
    pub(crate) identity: Arc<Identity>,
    pub(crate) progress: Arc<Progress>,
}

impl Dialer {
    /// Makes the control connection over the first path that is up, trying again until `patience` is over or `stopped`.
    pub(crate) fn control(&self, patience: Duration, stopped: &dyn Fn() -> bool) -> Result<Greeted, Fault> {
        let deadline = Instant::now() + patience;
        loop {
            let refused = |why: &str, retry: bool| {
                let text = format!("{} at {}: {why}", self.receiver_name(), self.peers());
                Fault { retry, ..Fault::new(Reason::PeerRejected, text) }
            };
            let mut failed = None;
            for path in self.paths.all() {
                let error = match self.dial_control(path) {
                    Ok(greeted) => return Ok(greeted),
                    Err(DialError::Clocks(why)) => {
                        let text =
                            format!("{} at {}: {why}; synchronise both clocks", self.receiver_name(), self.peers());
                        return Err(Fault::new(Reason::ClocksDiffer, text));
                    }
                    Err(DialError::Rejected(why)) => return Err(refused(&why, true)),
                    Err(DialError::Refused(why)) => return Err(refused(&why, false)),
                    Err(DialError::Io(error)) => error,
                };
                failed.get_or_insert(error);
            }
            if Instant::now() + RETRY_PAUSE >= deadline || stopped() {
                let text = format!(
                    "no connection to {} at {} within {} s: {}; check that the receiver runs and that the network lets TCP through",
                    self.receiver_name(),
                    self.peers(),
                    patience.as_secs(),
                    failed.map_or_else(|| "there is no path".to_owned(), |error| error.to_string())
                );
                return Err(Fault::new(Reason::PeerUnreachable, text));
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Goes on with a session whose control connection is gone, over any path, until that works, the receiver is known to be gone, or
    /// `stopped`. `received`: messages of the session that came here.
    pub(crate) fn resume(&self, token: &[u8], received: u64, stopped: &dyn Fn() -> bool) -> Result<Resumed, String> {
        let deadline = Instant::now() + RESUME_PATIENCE;
        loop {
            let (mut failed, mut listens) = (None, false);
            for path in self.paths.usable_first() {
                let hello = Hello { token: token.to_vec(), received: Some(received), ..self.control_hello() };
                match self.greet_control(path, &hello) {
                    Ok((stream, welcome)) => return Ok(Resumed { stream, path, received: welcome.received }),
                    Err(DialError::Io(error)) => {
                        listens |= error.kind() != io::ErrorKind::ConnectionRefused;
                        failed.get_or_insert(error.to_string());
                    }
                    Err(DialError::Rejected(why) | DialError::Refused(why) | DialError::Clocks(why)) => {
                        return Err(why)
                    }
                }
            }
            if !listens || stopped() || Instant::now() >= deadline {
                return Err(failed.unwrap_or_default());
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    fn peers(&self) -> String {
        self.paths.all().map(|path| self.paths.ends(path).peer.to_string()).collect::<Vec<_>>().join(" and ")
    }

    fn receiver_name(&self) -> String {
        format!("the receiver of job {}, attempt {},", self.identity.job, self.identity.attempt)
    }

    fn dial_control(&self, path: PathIndex) -> Result<Greeted, DialError> {
        let hello = self.control_hello();
        let (stream, welcome) = self.greet_control(path, &hello)?;
        let clock_ahead_ms = ahead_ms(hello.wall_ms, welcome.wall_ms, wall_ms());
        check_welcome(&welcome, self.source_is_memory, self.check_only, self.protocol)?;
        let exported = stream.conn.export_keying_material([0; KEY_BYTES], EXPORTER_LABEL, None);
        let exported = exported.map_err(|error| DialError::Rejected(error.to_string()))?;
        let Welcome { token, echo_key, echo_port, discards, undigested, .. } = welcome;
        let admission = Admission { token, secret: Secret::new(exported), undigested, buffer_bytes: None };
        Ok(Greeted { stream, path, admission, echo_key, echo_port, discards, clock_ahead_ms })
    }

    fn control_hello(&self) -> Hello {
        Hello {
            encryption: self.encryption as i32,
            protocol: self.protocol as i32,
            source_is_memory: self.source_is_memory,
            check_only: self.check_only,
            wall_ms: wall_ms(),
            ..self.hello(Purpose::Control)
        }
    }

    fn greet_control(&self, path: PathIndex, hello: &Hello) -> Result<(ClientStream, Welcome), DialError> {
        let metered = self.open(path, Opening::Control, None, None)?;
        let connection = self.identity.connect().map_err(|fault| DialError::Rejected(fault.message))?;
        let mut tls = StreamOwned::new(connection, metered);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(broken)?;
        }
        self.check_peer(tls.conn.peer_certificates())?;
        let welcome = greet(&mut tls, hello)?;
        tls.sock.authenticated(None)?;
        Ok((tls, welcome))
    }

    /// Makes a TCP connection over a path, and says what it is for.
    pub(crate) fn open(
        &self,
        path: PathIndex,
        opening: Opening,
        congestion_control: Option<&str>,
        buffer_bytes: Option<u32>,
    ) -> io::Result<Metered> {
        let PathEnds { binding, peer } = self.paths.ends(path);
        let timeout = if self.paths.are_several() { PATH_TIMEOUT } else { DIAL_TIMEOUT };
        let socket = tcp::connect(*peer, binding, congestion_control, buffer_bytes, timeout)?;
        let deadline = Some(Instant::now() + DIAL_TIMEOUT);
        let mut metered = Metered::new(socket, Arc::clone(&self.progress), deadline);
        metered.write_all(&self.identity.open(opening)?)?;
        Ok(metered)
    }

    pub(crate) fn hello(&self, purpose: Purpose) -> Hello {
        let (job, attempt) = (self.identity.job.clone(), self.identity.attempt);
        Hello { job, attempt, purpose: purpose as i32, ..Hello::default() }
    }

    pub(crate) fn check_peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<(), DialError> {
        self.identity.check_peer(certificates).map_err(DialError::Rejected)
    }
}

/// Checks what the receiver answers to a control connection that asks for a transfer, or for its checks only.
fn check_welcome(
    welcome: &Welcome,
    source_is_memory: bool,
    check_only: bool,
    protocol: DataProtocol,
) -> Result<(), DialError> {
    let complete = welcome.token.len() == TOKEN_BYTES
        && welcome.echo_key.len() == ECHO_KEY_BYTES
        && welcome.echo_port <= 65_535
        && (source_is_memory || !welcome.undigested);
    if !complete {
        return Err(DialError::Rejected("its welcome is malformed".into()));
    }
    // The version that came with checks says what time it is; an older one would go on to the transfer.
    if check_only && welcome.wall_ms == 0 {
        return Err(DialError::Refused("its version has no --check; use the same version at both ends".into()));
    }
    if welcome.protocol() != protocol {
        return Err(DialError::Refused("its version has no --protocol; use the same version at both ends".into()));
    }
    Ok(())
}

/// This host's clock, in milliseconds of Unix time.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// How far the receiver's clock was ahead when it read `theirs`, which was between `asked` and `answered` of ours.
fn ahead_ms(asked: u64, theirs: u64, answered: u64) -> Option<i64> {
    let middle = asked / 2 + answered / 2;
    (theirs > 0).then(|| (theirs as i64).saturating_sub(middle as i64))
}

/// Tells what is wrong with certificates and clocks from a connection that broke.
pub(crate) fn broken(error: io::Error) -> DialError {
    if let Some(why) = clock_refusal(&error) {
        return DialError::Clocks(why);
    }
    match refusal(&error) {
        Some(why) => DialError::Rejected(format!("the certificates do not fit: {why}")),
        None => error.into(),
    }
}

/// Sends what the connection is for and reads whether the receiver accepts it.
pub(crate) fn greet(stream: &mut (impl Read + Write), hello: &Hello) -> Result<Welcome, DialError> {
    let welcome = ask(stream, hello).map_err(broken)?;
    if welcome.refusal.is_empty() {
        return Ok(welcome);
    }
    let why: String = welcome.refusal.chars().filter(|c| !c.is_control()).collect();
    let why = format!("it refused: {}", cut(why, 256));
    Err(if welcome.is_final { DialError::Refused(why) } else { DialError::Rejected(why) })
}

fn ask(stream: &mut (impl Read + Write), hello: &Hello) -> io::Result<Welcome> {
    stream.write_all(&[&preamble()[..], &frame::encode(hello)].concat())?;
    stream.flush()?;
    let mut answer = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut answer)?;
    check_preamble(&answer).map_err(io::Error::other)?;
    read_frame(stream)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_not_begun_with_a_receiver_of_a_version_that_would_take_it_for_a_transfer() {
        let welcome = |wall_ms| Welcome {
            token: vec![0; TOKEN_BYTES],
            echo_key: vec![0; ECHO_KEY_BYTES],
            wall_ms,
            ..Welcome::default()
        };
        for (wall_ms, check_only, is_begun) in [(0, false, true), (0, true, false), (1, true, true)] {
            let checked = check_welcome(&welcome(wall_ms), false, check_only, DataProtocol::Tcp);
            assert_eq!(checked.is_ok(), is_begun, "{checked:?}");
            assert!(matches!(checked, Ok(()) | Err(DialError::Refused(_))), "no attempt with the same versions helps");
        }
        assert!(matches!(
            check_welcome(&Welcome::default(), false, false, DataProtocol::Tcp),
            Err(DialError::Rejected(_))
        ));
        let asked = check_welcome(&welcome(1), false, false, DataProtocol::Quic);
        assert!(matches!(asked, Err(DialError::Refused(why)) if why.contains("--protocol")));
    }
}
