//! Connections at the receiver: strangers cost a bounded number of short-lived sockets and touch no state of the job.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlead_protocol::frame::{check_preamble, encode, preamble, PREAMBLE_BYTES};
use fairlead_protocol::limits::{ECHO_KEY_BYTES, STREAMS, TOKEN_BYTES};
use fairlead_protocol::message::{Hello, Purpose, Welcome};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::{Fault, Reason};
use rustls::{ServerConnection, StreamOwned};
use socket2::{Domain, Protocol, Socket, Type};

use super::dial::read_frame;
use super::identity::Identity;
use super::tcp::{tune, Metered};
use crate::report::progress::Progress;

/// Time a stranger has to become the authenticated sender.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that may be in their handshake; beyond, the oldest gives way. Twice the streams leaves room beside strangers.
const HANDSHAKES: usize = 2 * STREAMS as usize;
/// Stack of a handshake's thread.
const STACK_BYTES: usize = 1 << 20;
const POLL: Duration = Duration::from_millis(100);

/// A greeted connection of the sender.
pub(crate) type ServerStream = StreamOwned<ServerConnection, Metered>;

/// What the sender's connections are joined by.
pub(crate) struct Secrets {
    pub(crate) token: [u8; TOKEN_BYTES],
    pub(crate) echo_key: [u8; ECHO_KEY_BYTES],
}

impl Secrets {
    pub(crate) fn new() -> Result<Self, Fault> {
        let mut secrets = Self { token: [0; TOKEN_BYTES], echo_key: [0; ECHO_KEY_BYTES] };
        let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
        random
            .fill(&mut secrets.token)
            .and_then(|()| random.fill(&mut secrets.echo_key))
            .map_err(|_| Fault::new(Reason::InternalError, "the system yields no random bytes"))?;
        Ok(secrets)
    }

    fn has_token(&self, token: &[u8]) -> bool {
        // Hashes compare in constant time.
        blake3::hash(&self.token) == blake3::hash(token)
    }
}

/// Where greeted connections go.
pub(crate) trait Reception: Send + Sync + 'static {
    /// The control connection, once.
    fn control(&self, stream: ServerStream, peer: SocketAddr);
    /// A data connection; runs until the stream ends.
    fn data(&self, stream: ServerStream, number: u32);
}

/// Binds the listening socket.
pub(crate) fn listen(address: IpAddr, port: u16) -> Result<TcpListener, Fault> {
    let place = SocketAddr::new(address, port);
    let bind = || {
        let socket = Socket::new(Domain::for_address(place), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&place.into())?;
        socket.listen(256)?;
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
pub(crate) struct Acceptor<R> {
    pub(crate) listener: TcpListener,
    pub(crate) echo_port: u16,
    pub(crate) identity: Arc<Identity>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reception: R,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<R: Reception> Acceptor<R> {
    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<()> {
        let shared = Arc::new(Shared { acceptor: self, handshakes: Mutex::default(), greeted: AtomicBool::new(false) });
        std::thread::Builder::new().name("accept".into()).spawn(move || shared.run())?;
        Ok(())
    }
}

struct Shared<R> {
    acceptor: Acceptor<R>,
    handshakes: Mutex<VecDeque<(u64, TcpStream)>>,
    greeted: AtomicBool,
}

impl<R: Reception> Shared<R> {
    fn run(self: &Arc<Self>) {
        let mut number = 0u64;
        while !self.acceptor.stop.load(Ordering::Relaxed) {
            match self.acceptor.listener.accept() {
                Ok((socket, peer)) => {
                    number += 1;
                    self.admit(number, socket, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    std::thread::sleep(POLL);
                }
            }
        }
    }

    fn wait(&self) {
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(POLL.subsec_nanos()) };
        let mut polled = [rustix::event::PollFd::new(&self.acceptor.listener, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
    }

    fn admit(self: &Arc<Self>, number: u64, socket: TcpStream, peer: SocketAddr) {
        let Ok(watched) = socket.try_clone() else { return };
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
            let greeted = shared.handshake(socket);
            shared.forget(number);
            match greeted {
                Ok((stream, hello)) => shared.receive(stream, &hello, peer),
                Err(error) => tracing::debug!(%peer, %error, "a connection was turned away"),
            }
        });
        if spawned.is_err() {
            self.forget(number);
        }
    }

    fn forget(&self, number: u64) {
        lock(&self.handshakes).retain(|(other, _)| *other != number);
    }

    fn handshake(&self, socket: TcpStream) -> io::Result<(ServerStream, Hello)> {
        socket.set_nonblocking(false)?;
        tune(&socket)?;
        let connection = self.acceptor.identity.accept().map_err(io::Error::other)?;
        let deadline = Some(Instant::now() + HANDSHAKE_TIMEOUT);
        let metered = Metered::new(socket, Arc::clone(&self.acceptor.progress), deadline);
        let mut tls = StreamOwned::new(connection, metered);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        if let Err(why) = self.acceptor.identity.check_peer(tls.conn.peer_certificates()) {
            self.refuse(&mut tls, &why);
            return Err(io::Error::other(why));
        }
        let mut start = [0; PREAMBLE_BYTES];
        tls.read_exact(&mut start)?;
        if let Err(error) = check_preamble(&start) {
            self.refuse(&mut tls, &error.to_string());
            return Err(io::Error::other(error));
        }
        let hello: Hello = read_frame(&mut tls)?;
        if let Err(why) = self.check(&hello) {
            self.refuse(&mut tls, &why);
            return Err(io::Error::other(why));
        }
        let secrets = &self.acceptor.secrets;
        let welcome = Welcome {
            refusal: String::new(),
            token: secrets.token.to_vec(),
            echo_key: secrets.echo_key.to_vec(),
            echo_port: u32::from(self.acceptor.echo_port),
        };
        answer(&mut tls, &welcome)?;
        Ok((tls, hello))
    }

    fn check(&self, hello: &Hello) -> Result<(), String> {
        let identity = &self.acceptor.identity;
        if hello.job != identity.job || hello.attempt != identity.attempt {
            return Err(format!("this receiver is of job {}, attempt {}", identity.job, identity.attempt));
        }
        match hello.purpose() {
            Purpose::Control if self.greeted.swap(true, Ordering::AcqRel) => {
                Err("the job's sender is connected already".into())
            }
            Purpose::Control => Ok(()),
            Purpose::Data if hello.stream >= u32::from(STREAMS) => Err(format!("streams are numbered below {STREAMS}")),
            Purpose::Data if self.acceptor.secrets.has_token(&hello.token) => Ok(()),
            Purpose::Data => Err("the data connection belongs to no control connection".into()),
            Purpose::Unknown => Err("the connection's purpose is unknown".into()),
        }
    }

    fn refuse(&self, tls: &mut ServerStream, why: &str) {
        let _ = answer(tls, &Welcome { refusal: why.to_owned(), ..Welcome::default() });
    }

    fn receive(&self, mut stream: ServerStream, hello: &Hello, peer: SocketAddr) {
        if stream.sock.authenticated(None).is_err() {
            return;
        }
        match hello.purpose() {
            Purpose::Control => self.acceptor.reception.control(stream, peer),
            _ => self.acceptor.reception.data(stream, hello.stream),
        }
    }
}

fn answer(tls: &mut ServerStream, welcome: &Welcome) -> io::Result<()> {
    tls.write_all(&[&preamble()[..], &encode(welcome)].concat())?;
    tls.flush()
}
