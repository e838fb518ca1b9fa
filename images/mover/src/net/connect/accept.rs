//! Connections at the receiver. Whose opening is right gets a handshake; strangers cost a bounded number of short-lived sockets and
//! touch no state of the job.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fairlead_protocol::frame::{check_preamble, encode, preamble, PREAMBLE_BYTES};
use fairlead_protocol::keyed::{Secret, EXPORTER_LABEL, KEY_BYTES};
use fairlead_protocol::limits::{ECHO_KEY_BYTES, PATHS, STREAMS, TOKEN_BYTES};
use fairlead_protocol::message::{DataProtocol, Encryption, Hello, Purpose, Welcome};
use fairlead_protocol::opening::Opening;
use fairlead_protocol::{Fault, Reason};
use rustls::{ServerConnection, StreamOwned};
use socket2::{Domain, Protocol, Socket, Type};

use super::dial::{read_frame, wall_ms};
use super::door::{Door, Opened};
use super::identity::{clock_refusal, random, Identity};
use crate::fault_injection::break_point;
use crate::net::engine::tcp;
use crate::net::strangers::ConnectionSource;
use crate::net::tcp::{set_buffers, tune, Metered};
use crate::net::wire::buffers::{self, Unread};
use crate::net::wire::PackReceiver;
use crate::progress::Progress;
use crate::threads::lock;

/// Connections that may be in their handshake, all of holders of credentials; beyond, the oldest gives way. Twice the streams leaves
/// room for those that are made again.
const HANDSHAKES: usize = 2 * STREAMS as usize;
/// Connections that the kernel holds until they are taken in; it grants less where `net.core.somaxconn` is less.
const BACKLOG: i32 = 4096;
/// Stack of a handshake's thread.
const STACK_BYTES: usize = 1 << 20;

/// A greeted control connection of the sender.
pub(crate) type ServerStream = StreamOwned<ServerConnection, Metered>;

/// What the sender's connections have to agree to, and what joins them.
pub(crate) struct Terms {
    token: [u8; TOKEN_BYTES],
    pub(crate) echo_key: [u8; ECHO_KEY_BYTES],
    pub(crate) encryption: Encryption,
    protocol: DataProtocol,
    /// Nothing is stored here.
    discards: bool,
    /// Both ends check what they can and move nothing.
    check_only: bool,
    /// Of the control connection, once there is one; and whether blocks carry no digests.
    agreed: Mutex<Option<(Secret, bool)>>,
    /// Why the sender was turned away last.
    refused: Mutex<Option<String>>,
}

impl Terms {
    pub(crate) fn new(
        encryption: Encryption,
        protocol: DataProtocol,
        discards: bool,
        check_only: bool,
    ) -> Result<Self, Fault> {
        let failed = |error: io::Error| Fault::new(Reason::InternalError, error.to_string());
        Ok(Self {
            token: random().map_err(failed)?,
            echo_key: random().map_err(failed)?,
            encryption,
            protocol,
            discards,
            check_only,
            agreed: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// The secret of the control connection, once there is one, and whether blocks carry no digests.
    pub(crate) fn agreed(&self) -> Option<(Secret, bool)> {
        lock(&self.agreed).clone()
    }

    /// Why a sender with credentials of the job was turned away, if one was.
    pub(crate) fn refused(&self) -> Option<String> {
        lock(&self.refused).clone()
    }

    fn turn_away(&self, why: String) {
        tracing::warn!("{why}");
        *lock(&self.refused) = Some(why);
    }

    /// Nobody may take a check for a transfer.
    fn check_purpose(&self, check_only: bool) -> Result<(), String> {
        let said = |check_only: bool| if check_only { "--check" } else { "no --check" };
        if check_only == self.check_only {
            return Ok(());
        }
        let (sender, receiver) = (said(check_only), said(self.check_only));
        Err(format!("the sender has {sender}, this receiver {receiver}; set the same at both ends"))
    }

    fn has_token(&self, token: &[u8]) -> bool {
        // Hashes compare in constant time.
        blake3::hash(&self.token) == blake3::hash(token)
    }

    /// A sender of the job must use the same protocol.
    fn check_protocol(&self, wanted: DataProtocol) -> Result<(), String> {
        if wanted == self.protocol {
            return Ok(());
        }
        let name = |protocol| format!("{protocol:?}").to_uppercase();
        let (sender, receiver) = (name(wanted), name(self.protocol));
        Err(format!("the sender has --protocol {sender}, this receiver {receiver}; set the same at both ends"))
    }

    /// A sender of the job must want the same of data connections.
    fn check_encryption(&self, wanted: Encryption) -> Result<(), String> {
        if wanted == self.encryption {
            return Ok(());
        }
        Err(format!(
            "the sender has --encryption {wanted:?}, this receiver {:?}; set the same at both ends",
            self.encryption
        ))
    }
}

/// Why a greeting is not answered with a welcome.
struct Refusal {
    why: String,
    is_final: bool,
}

impl Refusal {
    fn for_now(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: false }
    }
}

/// Where greeted connections go.
pub(crate) trait ConnectionHandler: Send + Sync + 'static {
    /// The sender has shown who it is over a connection from this address.
    fn authenticated(&self, sender: IpAddr);
    /// The control connection, once; `undigested`: blocks will carry no digests.
    fn control(&self, stream: ServerStream, peer: SocketAddr, undigested: bool);
    /// The sender makes another control connection: ends the one in use and returns how many messages came over it. Nothing if the
    /// session ends with its connection.
    fn suspend(&self) -> Option<u64>;
    /// The other control connection after `suspend`, and how many messages the sender has received; or why it is not to be.
    fn resume(&self, stream: io::Result<(ServerStream, SocketAddr)>, received: u64);
    /// A data connection; runs until the stream ends.
    fn data(&self, incoming: Box<dyn PackReceiver>, number: u16);
}

/// A connection that passed its handshake.
enum Greeted {
    Control(Box<ServerStream>, bool),
    /// A control connection that went on with the session.
    Resumed,
    Data(Box<dyn PackReceiver>, u16),
}

/// Binds the listening socket; accepted ones inherit its buffers, and its interface if one is named.
pub(crate) fn listen(
    place: SocketAddr,
    interface: Option<&str>,
    buffer_bytes: Option<u32>,
) -> Result<TcpListener, Fault> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(place), Type::STREAM, Some(Protocol::TCP))?;
        interface.map_or(Ok(()), |name| socket.bind_device(Some(name.as_bytes())))?;
        socket.set_reuse_address(true)?;
        set_buffers(&socket, buffer_bytes)?;
        socket.bind(&place.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    bind().map_err(|error| address_fault(place, &error))
}

/// The fault for an address that cannot be bound.
pub(crate) fn address_fault(place: SocketAddr, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            Fault::new(Reason::AddressInUse, format!("{place} is in use by another process; choose another port"))
        }
        io::ErrorKind::AddrNotAvailable => Fault::new(
            Reason::InterfaceNotFound,
            format!("{place} is no address of this host; name an interface or address it has"),
        ),
        _ => Fault::new(Reason::AddressInUse, format!("{place} cannot be bound: {error}")),
    }
}

/// Accepts connections until `stop` is set.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) echo_port: u16,
    pub(crate) greeter: Arc<DataGreeter>,
    pub(crate) progress: Arc<Progress>,
    /// How much data connections hold unread; nothing leaves it to the kernel.
    pub(crate) unread: Option<Unread>,
    pub(crate) handler: Arc<dyn ConnectionHandler>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Acceptor {
    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<()> {
        let shared = Arc::new(Shared {
            acceptor: self,
            handshakes: Mutex::default(),
            greeted: AtomicBool::new(false),
            resuming: Mutex::default(),
            senders: Mutex::default(),
        });
        std::thread::Builder::new().name("accept".into()).spawn(move || shared.run())?;
        Ok(())
    }
}

struct Shared {
    acceptor: Acceptor,
    handshakes: Mutex<VecDeque<(u64, TcpStream)>>,
    /// Whether there is a control connection, or one is about to be welcome.
    greeted: AtomicBool,
    /// Held while another control connection takes the place of the one in use.
    resuming: Mutex<()>,
    /// Where the sender connects from, once it is authenticated.
    senders: Mutex<Vec<ConnectionSource>>,
}

impl Shared {
    fn run(self: &Arc<Self>) {
        let door = match Door::new(&self.acceptor.listeners, self.acceptor.greeter.identity()) {
            Ok(door) => door,
            Err(error) => {
                tracing::error!(%error, "connections cannot be awaited");
                return;
            }
        };
        let mut number = 0u64;
        let known = || lock(&self.senders).clone();
        door.serve(&self.acceptor.stop, known, |opened| {
            number += 1;
            self.admit(number, opened);
        });
    }

    fn admit(self: &Arc<Self>, number: u64, opened: Opened) {
        let Ok(watched) = opened.socket.try_clone() else { return };
        let mut handshakes = lock(&self.handshakes);
        if handshakes.len() >= HANDSHAKES {
            if let Some((_, oldest)) = handshakes.pop_front() {
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        handshakes.push_back((number, watched));
        drop(handshakes);
        let shared = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("stream".into()).stack_size(STACK_BYTES).spawn(move || {
            let peer = opened.peer;
            let greeted = shared.handshake(opened);
            shared.forget(number);
            if greeted.is_ok() {
                shared.note_sender(peer.ip().into());
                shared.acceptor.handler.authenticated(peer.ip());
            }
            match greeted {
                Ok(Greeted::Control(stream, undigested)) => {
                    shared.acceptor.handler.control(*stream, peer, undigested);
                }
                Ok(Greeted::Resumed) => {}
                Ok(Greeted::Data(incoming, number)) => shared.acceptor.handler.data(incoming, number),
                Err(error) => tracing::debug!(%peer, %error, "a connection was turned away"),
            }
        });
        if spawned.is_err() {
            self.forget(number);
        }
    }

    fn note_sender(&self, source: ConnectionSource) {
        let mut senders = lock(&self.senders);
        if senders.len() < PATHS && !senders.contains(&source) {
            senders.push(source);
        }
    }

    fn forget(&self, number: u64) {
        lock(&self.handshakes).retain(|(other, _)| *other != number);
    }

    fn handshake(&self, opened: Opened) -> io::Result<Greeted> {
        let Opened { socket, opening, deadline, peer } = opened;
        tune(&socket)?;
        let metered = Metered::new(socket, Arc::clone(&self.acceptor.progress), Some(deadline));
        let socket = metered.socket().try_clone()?;
        if opening == Opening::Control {
            return self.control(metered, peer);
        }
        let (incoming, number) = tcp::accept(opening, metered, &self.acceptor.greeter)?;
        // Not before: the greeting has taken the path's RTT several times.
        if let Some(unread) = self.acceptor.unread {
            buffers::bound_unread(&socket, unread);
        }
        Ok(Greeted::Data(incoming, number))
    }

    fn control(&self, metered: Metered, address: SocketAddr) -> io::Result<Greeted> {
        let DataGreeter { terms, identity } = &*self.acceptor.greeter;
        let connection = identity.accept().map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, metered);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).inspect_err(|error| {
                if let Some(why) = clock_refusal(error) {
                    terms.turn_away(why);
                }
            })?;
        }
        let peer = identity.check_peer(tls.conn.peer_certificates());
        let hello = hear(&mut tls, peer, |hello| self.check_control(hello))?;
        if let Some(received) = hello.received {
            return self.resume(tls, address, received);
        }
        let undigested = hello.source_is_memory && terms.discards;
        // A sender whose connection broke before it was welcome comes again.
        self.welcome(&mut tls, undigested).inspect_err(|_| self.greeted.store(false, Ordering::Release))?;
        Ok(Greeted::Control(Box::new(tls), undigested))
    }

    /// Tells the sender that it is the one, and what holds for its other connections.
    fn welcome(&self, tls: &mut ServerStream, undigested: bool) -> io::Result<()> {
        let terms = &self.acceptor.greeter.terms;
        let exported = tls.conn.export_keying_material([0; KEY_BYTES], EXPORTER_LABEL, None);
        *lock(&terms.agreed) = Some((Secret::new(exported.map_err(io::Error::other)?), undigested));
        let welcome = Welcome {
            token: terms.token.to_vec(),
            echo_key: terms.echo_key.to_vec(),
            echo_port: u32::from(self.acceptor.echo_port),
            undigested,
            discards: terms.discards,
            protocol: terms.protocol as i32,
            wall_ms: wall_ms(),
            ..Welcome::default()
        };
        break_point("WELCOME")?;
        answer(tls, &welcome)?;
        tls.sock.authenticated(None)
    }

    /// Goes on with the session over another control connection.
    fn resume(&self, mut tls: ServerStream, address: SocketAddr, received: u64) -> io::Result<Greeted> {
        let _alone = lock(&self.resuming);
        let handler = &self.acceptor.handler;
        let Some(own) = handler.suspend() else {
            let why = "there is no session to go on with".to_owned();
            let _ = answer(&mut tls, &Welcome { refusal: why.clone(), ..Welcome::default() });
            return Err(io::Error::other(why));
        };
        let answered = answer(&mut tls, &Welcome { received: own, ..Welcome::default() });
        let answered = answered.and_then(|()| tls.sock.authenticated(None));
        handler.resume(answered.map(|()| (tls, address)), received);
        Ok(Greeted::Resumed)
    }

    fn check_control(&self, hello: &Hello) -> Result<(), Refusal> {
        let DataGreeter { terms, .. } = &*self.acceptor.greeter;
        self.acceptor.greeter.check_job(hello, Purpose::Control)?;
        if hello.received.is_some() {
            let is_own = terms.has_token(&hello.token);
            return is_own.then_some(()).ok_or_else(|| Refusal::for_now("the connection belongs to no session here"));
        }
        if let Err(why) = terms.check_encryption(hello.encryption()) {
            terms.turn_away(why.clone());
            return Err(Refusal { why, is_final: true });
        }
        if let Err(why) = terms.check_protocol(hello.protocol()) {
            terms.turn_away(why.clone());
            return Err(Refusal { why, is_final: true });
        }
        if let Err(why) = terms.check_purpose(hello.check_only) {
            terms.turn_away(why.clone());
            return Err(Refusal { why, is_final: true });
        }
        if self.greeted.swap(true, Ordering::AcqRel) {
            return Err(Refusal::for_now("the job's sender is connected already"));
        }
        Ok(())
    }
}

/// Greets whoever connects for data.
pub(crate) struct DataGreeter {
    identity: Arc<Identity>,
    terms: Arc<Terms>,
}

impl DataGreeter {
    pub(crate) fn new(identity: Arc<Identity>, terms: Arc<Terms>) -> Self {
        Self { identity, terms }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn echo_key(&self) -> &[u8; ECHO_KEY_BYTES] {
        &self.terms.echo_key
    }

    /// Hears what a connection is for and answers it; `peer` says whether its certificates are right. The stream's number.
    pub(crate) fn greet(&self, stream: &mut (impl Read + Write), peer: Result<(), String>) -> io::Result<u16> {
        let hello = hear(stream, peer, |hello| self.check_data(hello))?;
        answer(stream, &Welcome::default())?;
        Ok(hello.stream as u16)
    }

    fn check_data(&self, hello: &Hello) -> Result<(), Refusal> {
        self.check_job(hello, Purpose::Data)?;
        if hello.stream >= u32::from(STREAMS) {
            return Err(Refusal::for_now(format!("streams are numbered below {STREAMS}")));
        }
        if !self.terms.has_token(&hello.token) {
            return Err(Refusal::for_now("the data connection belongs to no control connection"));
        }
        Ok(())
    }

    fn check_job(&self, hello: &Hello, purpose: Purpose) -> Result<(), Refusal> {
        let identity = &self.identity;
        if hello.job != identity.job || hello.attempt != identity.attempt {
            let text = format!("this receiver is of job {}, attempt {}", identity.job, identity.attempt);
            return Err(Refusal::for_now(text));
        }
        if hello.purpose() != purpose {
            return Err(Refusal::for_now("the connection is for something else than it began as"));
        }
        Ok(())
    }
}

/// Reads the greeting of a peer, known or not, and turns it away with the reason if it is not welcome.
fn hear(
    tls: &mut (impl Read + Write),
    peer: Result<(), String>,
    check: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> io::Result<Hello> {
    let listen = || -> io::Result<Result<Hello, Refusal>> {
        if let Err(why) = peer {
            return Ok(Err(Refusal::for_now(why)));
        }
        let mut start = [0; PREAMBLE_BYTES];
        tls.read_exact(&mut start)?;
        if let Err(error) = check_preamble(&start) {
            return Ok(Err(Refusal::for_now(error.to_string())));
        }
        let hello: Hello = read_frame(tls)?;
        Ok(check(&hello).map(|()| hello))
    };
    match listen()? {
        Ok(hello) => Ok(hello),
        Err(Refusal { why, is_final }) => {
            let _ = answer(tls, &Welcome { refusal: why.clone(), is_final, ..Welcome::default() });
            Err(io::Error::other(why))
        }
    }
}

fn answer(tls: &mut impl Write, welcome: &Welcome) -> io::Result<()> {
    tls.write_all(&[&preamble()[..], &encode(welcome)].concat())?;
    tls.flush()
}
