//! QUIC (RFC 9000) by quinn: a connection for each stream, with one stream of its own in it, so that a stream is one flow to the path
//! as with TCP. Always in TLS 1.3, with the job's certificates at both ends and no data before the handshake is over. Connections come
//! to the receiver's UDP port, which the echo shares. The first packet carries a tag of the job's key as its connection ID: whoever has no
//! credentials gets no answer.

mod controller;
mod ledbat;
mod link;
mod socket;
mod stream;
mod windows;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::message::{Encryption, Hello, Purpose};
use fairlead_protocol::opening::SeenOpenings;
use fairlead_protocol::{Fault, Reason};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionId, Endpoint, EndpointConfig, IdleTimeout,
    Incoming, MtuDiscoveryConfig, RecvStream, Runtime as _, SendStream, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use rustls::pki_types::CertificateDer;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::runtime::{Builder, Handle, Runtime};

use self::controller::{Algorithm, SteeredFactory, Steering};
use self::link::QuicLink;
use self::socket::{EchoingSocket, OwnIds};
use self::stream::{QuicPackReceiver, QuicPackSender, QuicStream};
use self::windows::{UnreadWindow, UnreadWindows, FIRST_BYTES, MOST_BYTES};
use super::{DataCall, DataService, Protocol, TransportEngine};
use crate::net::connect::accept::{ConnectionHandler, DataGreeter};
use crate::net::connect::dial::{greet, DialError, Dialer};
use crate::net::connect::door::HANDSHAKE_TIMEOUT;
use crate::net::paths::PathEnds;
use crate::net::wire::PackSender;
use crate::progress::Progress;
use crate::threads::lock;

/// Time for a connection to be made and greeted.
const DIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Time without a packet of the other end after which a connection is over, and between packets that keep it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(6);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Largest datagram that is tried for: a packet of 9,000 bytes.
const DATAGRAM_BYTES: u16 = 9000 - 40 - 8;
/// Socket buffers that are asked for; the kernel grants no more than `net.core.rmem_max` and `wmem_max`.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Connections that may be in their handshake, all of holders of credentials.
const HANDSHAKES: usize = 2 * STREAMS as usize;
/// Packets that the receiver acknowledges at a time: fewer than fly in a first window, which would wait for the delay otherwise.
const PACKETS_PER_ACKNOWLEDGEMENT: u32 = 8;
/// For how long fewer wait for theirs: the end of a window, and all of a small one. No longer than the slack of a limited rate.
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(5);
/// Time between looks whether the transfer is over.
const POLL: Duration = Duration::from_millis(100);
/// Threads that encrypt and decrypt, at most.
const THREADS: usize = 8;

/// The engine.
pub(crate) struct Quic;

/// What is said of a congestion control that there is none of.
fn unknown_control(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
    format!(
        "QUIC has no congestion control {name} here; choose one of {}, or the protocol TCP for those of the kernel",
        Algorithm::names().join(", ")
    )
}

impl TransportEngine for Quic {
    fn protocol(&self) -> Protocol {
        Protocol::Quic
    }

    fn connect(&self, dialer: &Dialer, call: DataCall<'_>) -> Result<Box<dyn PackSender>, DialError> {
        if dialer.encryption == Encryption::None {
            return Err(DialError::Refused("QUIC always encrypts; use the protocol TCP for data in the clear".into()));
        }
        let DataCall { path, admission, stream, congestion_control } = call;
        let algorithm =
            Algorithm::of(congestion_control).ok_or_else(|| DialError::Refused(unknown_control(congestion_control)))?;
        let (runtime, steering) = (runtime()?, Arc::new(Steering::new(algorithm)));
        let deadline = Instant::now() + DIAL_TIMEOUT;
        let PathEnds { binding, peer } = dialer.paths.ends(path);
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = bind(SocketAddr::new(binding.address.unwrap_or(any), 0), binding.interface.as_deref())?;
        let config = client_config(dialer, &steering)?;
        let connected = runtime.block_on(async {
            let endpoint = Endpoint::new(endpoint_config()?, None, socket, Arc::new(TokioRuntime))?;
            let connecting = endpoint.connect_with(config, *peer, &dialer.identity.receiver_name());
            let connecting = connecting.map_err(io::Error::other)?;
            let connected = async {
                let connection = connecting.await?;
                let ways = connection.open_bi().await?;
                Ok((connection, ways))
            };
            let late = |_| Err(ConnectionError::TimedOut);
            Ok::<_, io::Error>(tokio::time::timeout_at(deadline.into(), connected).await.unwrap_or_else(late))
        });
        let (connection, ways) = connected?.map_err(|error| refused(&error, *peer))?;
        dialer.check_peer(certificates(&connection).as_deref())?;
        let progress = Arc::clone(&dialer.progress);
        let mut opened = QuicStream::new(runtime.clone(), connection.clone(), ways, progress, deadline);
        let link = QuicLink::new(connection, steering);
        let token = admission.token();
        greet(&mut opened, &Hello { token, stream: u32::from(stream), ..dialer.hello(Purpose::Data) })?;
        Ok(Box::new(QuicPackSender::new(opened, link)))
    }

    fn serve(&self, service: DataService) -> io::Result<()> {
        let DataService { sockets, echo, greeter, handler, progress, stop } = service;
        let (runtime, config) = (runtime()?, server_config(&greeter)?);
        let (seen, handshakes, windows) = (Mutex::default(), AtomicUsize::new(0), Arc::default());
        let runtime_of = runtime.clone();
        let own = Service { runtime: runtime_of, greeter, handler, progress, stop, seen, handshakes, windows };
        let own = Arc::new(own);
        for socket in sockets {
            let _inside = runtime.enter();
            widen(&socket);
            socket.set_nonblocking(true)?;
            let echo = Mutex::new(echo.answerer(own.greeter.echo_key()));
            let (inner, greeter, ids) =
                (TokioRuntime.wrap_udp_socket(socket)?, Arc::clone(&own.greeter), OwnIds::new()?);
            let socket = Arc::new(EchoingSocket { inner, echo, greeter, ids });
            let (config, runtime_of, mut ends) = (Some(config.clone()), Arc::new(TokioRuntime), endpoint_config()?);
            ends.cid_generator(move || Box::new(ids.generator()));
            let endpoint = Endpoint::new_with_abstract_socket(ends, config, socket, runtime_of)?;
            runtime.spawn(Arc::clone(&own).accept(endpoint));
        }
        Ok(())
    }

    fn check_congestion_control(&self, name: &str) -> Result<(), Fault> {
        match Algorithm::of(name) {
            Some(_) => Ok(()),
            None => Err(Fault::new(Reason::CongestionControlUnavailable, unknown_control(name))),
        }
    }

    fn gives_way(&self, name: &str) -> bool {
        Algorithm::of(name).is_some_and(Algorithm::gives_way)
    }

    fn congestion_controls(&self) -> Vec<String> {
        Algorithm::names()
    }
}

/// What takes the sender's connections at the receiver.
struct Service {
    runtime: Handle,
    greeter: Arc<DataGreeter>,
    handler: Arc<dyn ConnectionHandler>,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    seen: Mutex<SeenOpenings>,
    handshakes: AtomicUsize,
    windows: Arc<UnreadWindows>,
}

impl Service {
    async fn accept(self: Arc<Self>, endpoint: Endpoint) {
        while !self.stop.load(Ordering::Relaxed) {
            match tokio::time::timeout(POLL, endpoint.accept()).await {
                Ok(Some(incoming)) => self.admit(incoming),
                Ok(None) => return,
                Err(_) => {}
            }
        }
        endpoint.close(VarInt::from_u32(0), b"the transfer is over");
    }

    /// Lets a connection begin that holders of the job's credentials make, and answers no other.
    fn admit(self: &Arc<Self>, incoming: Incoming) {
        let is_known = self.greeter.identity().check_connection_id(&incoming.orig_dst_cid());
        let is_full = self.handshakes.load(Ordering::Relaxed) >= HANDSHAKES;
        // One that finds no place is not noted: it comes again.
        if is_known.is_ok_and(|nonce| !is_full && lock(&self.seen).note(nonce).is_ok()) {
            self.handshakes.fetch_add(1, Ordering::Relaxed);
            self.runtime.spawn(Arc::clone(self).shake_hands(incoming));
        } else {
            tracing::debug!(peer = %incoming.remote_address(), "a connection was turned away");
            incoming.ignore();
        }
    }

    async fn shake_hands(self: Arc<Self>, incoming: Incoming) {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let shaken = async {
            let connection = incoming.accept()?.await?;
            let ways = connection.accept_bi().await?;
            Ok::<_, ConnectionError>((connection, ways))
        };
        let shaken = tokio::time::timeout_at(deadline.into(), shaken).await;
        self.handshakes.fetch_sub(1, Ordering::Relaxed);
        let (connection, ways) = match shaken {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(error)) => return tracing::debug!(%error, "a connection was turned away"),
            Err(_) => return tracing::debug!("a handshake took too long"),
        };
        let service = Arc::clone(&self);
        let stream = move || service.serve(connection, ways, deadline);
        if let Err(error) = std::thread::Builder::new().name("stream".into()).spawn(stream) {
            tracing::warn!(%error, "a stream could not be started");
        }
    }

    /// Runs one connection to its end.
    fn serve(&self, connection: Connection, ways: (SendStream, RecvStream), deadline: Instant) {
        let peer = connection.remote_address().ip();
        let certificates = certificates(&connection);
        let known = self.greeter.identity().check_peer(certificates.as_deref());
        let progress = Arc::clone(&self.progress);
        let mut stream = QuicStream::new(self.runtime.clone(), connection.clone(), ways, progress, deadline);
        let number = match self.greeter.greet(&mut stream, known) {
            Ok(number) => number,
            Err(error) => return tracing::debug!(%peer, %error, "a connection was turned away"),
        };
        self.handler.authenticated(peer);
        let window = UnreadWindow::new(&self.windows, connection);
        self.handler.data(Box::new(QuicPackReceiver::new(stream, window)), number);
    }
}

/// The threads that move datagrams, made once.
fn runtime() -> io::Result<Handle> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let mut builder = Builder::new_multi_thread();
        let built = builder.worker_threads(threads).thread_name("quic").enable_io().enable_time().build();
        built.map_err(|error| format!("the threads of QUIC could not be started: {error}"))
    });
    made.as_ref().map(|runtime| runtime.handle().clone()).map_err(|why| io::Error::other(why.clone()))
}

fn endpoint_config() -> io::Result<EndpointConfig> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(DATAGRAM_BYTES).map_err(io::Error::other)?;
    Ok(config)
}

/// What both ends set alike.
fn transport_config() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).ok();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(DATAGRAM_BYTES);
    let window = |bytes| VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
    transport
        .max_idle_timeout(idle)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(window(MOST_BYTES))
        .receive_window(window(FIRST_BYTES))
        .mtu_discovery_config(Some(mtu));
    transport
}

fn client_config(dialer: &Dialer, steering: &Arc<Steering>) -> io::Result<ClientConfig> {
    let crypto = dialer.identity.quic_client().map_err(io::Error::other)?;
    let crypto = QuicClientConfig::try_from(crypto).map_err(io::Error::other)?;
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements
        .ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACKNOWLEDGEMENT - 1))
        .max_ack_delay(Some(ACKNOWLEDGEMENT_DELAY));
    let mut transport = transport_config();
    transport
        .congestion_controller_factory(Arc::new(SteeredFactory(Arc::clone(steering))))
        .ack_frequency_config(Some(acknowledgements));
    let mut config = ClientConfig::new(Arc::new(crypto));
    let id = ConnectionId::new(&dialer.identity.connection_id()?);
    config.transport_config(Arc::new(transport)).initial_dst_cid_provider(Arc::new(move || id));
    Ok(config)
}

fn server_config(greeter: &DataGreeter) -> io::Result<ServerConfig> {
    let crypto = greeter.identity().quic_server().map_err(io::Error::other)?;
    let crypto = QuicServerConfig::try_from(crypto).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport_config())).migration(false).max_incoming(HANDSHAKES);
    Ok(config)
}

fn bind(place: SocketAddr, interface: Option<&str>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(place), Type::DGRAM, None)?;
    if let Some(name) = interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    socket.bind(&place.into())?;
    let socket = UdpSocket::from(socket);
    widen(&socket);
    Ok(socket)
}

/// Asks for large buffers: a burst that finds none is lost.
fn widen(socket: &UdpSocket) {
    let socket = SockRef::from(socket);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
}

fn certificates(connection: &Connection) -> Option<Vec<CertificateDer<'static>>> {
    connection.peer_identity()?.downcast().ok().map(|certificates| *certificates)
}

/// Why a connection was not made, with the remedy.
fn refused(error: &ConnectionError, peer: SocketAddr) -> DialError {
    match error {
        ConnectionError::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer of QUIC from {peer}: let UDP through to that port, both ways"),
        )
        .into(),
        ConnectionError::VersionMismatch => DialError::Refused(
            "it speaks other versions of QUIC than this mover; use the same version of the mover at both ends".into(),
        ),
        ConnectionError::TransportError(error) => DialError::Rejected(format!("the handshake of QUIC failed: {error}")),
        other => io::Error::new(io::ErrorKind::ConnectionAborted, other.to_string()).into(),
    }
}
