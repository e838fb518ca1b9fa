//! UDT (draft-gg-udt-03) by the crate `fairlead-udt`, each datagram sealed: a connection for each stream, over UDP to the receiver's data
//! port, which the echo shares. Keys come from the control connection's TLS, where both ends have shown the job's certificates; whoever
//! has not made that connection can neither open a data connection nor change one, and gets no answer.

mod flow;
mod link;
mod opening;
mod service;
mod socket;
mod stream;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::keyed::Secret;
use fairlead_protocol::message::{Encryption, Hello, Purpose};
use fairlead_protocol::opening::NONCE_BYTES;
use fairlead_protocol::sealed::{DatagramKeys, DatagramOpening, ID_BYTES};
use fairlead_protocol::{Fault, Reason};
use fairlead_udt::{Config, Connection, RatePolicy};
use socket2::{Domain, SockRef, Socket, Type};

use self::flow::{EndsFlow, Flow};
use self::link::{MOST_BUFFER_BYTES, UNSENT_BYTES};
use self::opening::{datagram_sizes, OpeningTerms};
use self::service::Service;
use self::socket::{Batch, Buffers, DatagramSocket, Waker};
use self::stream::{UdtPackSender, UdtStream};
use super::{DataCall, DataService, Protocol, TransportEngine};
use crate::net::connect::dial::{greet, DialError, Dialer};
use crate::net::connect::identity::random;
use crate::net::paths::PathEnds;
use crate::net::wire::PackSender;

/// Time for a connection to be made and greeted.
const DIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Time between two openings, and how many there are of each length before a shorter one is tried.
const OPENING_REPEAT: Duration = Duration::from_millis(200);
const OPENINGS_PER_SIZE: u32 = 3;
/// Time without a datagram of the other end after which a connection is over.
const IDLE_TIMEOUT: Duration = Duration::from_secs(6);
/// Socket buffers that are asked for; the kernel grants no more than `net.core.rmem_max` and `wmem_max`.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// What the sender holds of what the receiver says: greetings and one last word.
const SENDER_WINDOW_PACKETS: u32 = 256;
/// Shortest sleep: what is due meanwhile leaves in one batch.
const LEAST_SLEEP: Duration = Duration::from_micros(250);
/// Longest sleep.
const MOST_SLEEP: Duration = Duration::from_millis(100);

/// The engine.
pub(crate) struct Udt;

/// What is said of a congestion control that there is none of.
fn unknown_control(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
    format!(
        "UDT has no congestion control {name}; choose one of {}, or the protocol TCP for those of the kernel",
        RatePolicy::ALL.map(RatePolicy::name).join(", ")
    )
}

impl TransportEngine for Udt {
    fn protocol(&self) -> Protocol {
        Protocol::Udt
    }

    fn connect(&self, dialer: &Dialer, call: DataCall<'_>) -> Result<Box<dyn PackSender>, DialError> {
        if dialer.encryption == Encryption::None {
            return Err(DialError::Refused("UDT always encrypts; use the protocol TCP for data in the clear".into()));
        }
        let DataCall { path, admission, stream, congestion_control } = call;
        let policy = RatePolicy::of(congestion_control)
            .ok_or_else(|| DialError::Refused(unknown_control(congestion_control)))?;
        let deadline = Instant::now() + DIAL_TIMEOUT;
        let PathEnds { binding, peer } = dialer.paths.ends(path);
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = bind(SocketAddr::new(binding.address.unwrap_or(any), 0), binding.interface.as_deref())?;
        let (socket, waker) = (DatagramSocket::new(socket)?, Arc::new(Waker::new()?));
        let opening = Dialled { secret: &admission.secret, peer: *peer, policy };
        let (connection, keys, started) = opening.open(&socket, &waker, deadline)?;
        let flow = Flow::new(connection, keys, (*peer, None), started, waker);
        let moved = Arc::clone(&flow);
        std::thread::Builder::new().name("udt".into()).spawn(move || move_datagrams(&socket, moved))?;
        let mut opened = UdtStream::new(Arc::clone(&flow), Arc::clone(&dialer.progress), deadline);
        let hello = Hello { token: admission.token(), stream: u32::from(stream), ..dialer.hello(Purpose::Data) };
        if let Err(error) = greet(&mut opened, &hello) {
            flow.give_up("it was not greeted");
            return Err(error);
        }
        Ok(Box::new(UdtPackSender::new(opened)))
    }

    fn serve(&self, service: DataService) -> io::Result<()> {
        Service::start(service)
    }

    fn check_congestion_control(&self, name: &str) -> Result<(), Fault> {
        match RatePolicy::of(name) {
            Some(_) => Ok(()),
            None => Err(Fault::new(Reason::CongestionControlUnavailable, unknown_control(name))),
        }
    }

    fn gives_way(&self, _name: &str) -> bool {
        false
    }

    fn congestion_controls(&self) -> Vec<String> {
        RatePolicy::ALL.map(|policy| policy.name().to_owned()).to_vec()
    }
}

/// A connection that is to be opened.
struct Dialled<'a> {
    secret: &'a Secret,
    peer: SocketAddr,
    policy: RatePolicy,
}

impl Dialled<'_> {
    /// Opens the connection with the longest datagrams that get through. Returns it with its keys and the start of its time.
    fn open(
        &self,
        socket: &DatagramSocket,
        waker: &Waker,
        deadline: Instant,
    ) -> Result<(Connection, DatagramKeys, Instant), DialError> {
        let mut buffers = Buffers::new();
        let (mut tried, sizes) = (Vec::new(), datagram_sizes(self.peer.ip()));
        for attempt in 0.. {
            let datagram_bytes = sizes[(attempt / OPENINGS_PER_SIZE) as usize % sizes.len()];
            let own = OpeningTerms {
                id: u32::from_be_bytes(random()?),
                first_sequence: u32::from_be_bytes(random()?) >> 1,
                datagram_bytes,
                window_packets: SENDER_WINDOW_PACKETS,
            };
            let opening = DatagramOpening::new(self.secret, random::<NONCE_BYTES>()?);
            let datagram = opening.seal(&own.encode(self.peer.ip())).map_err(io::Error::other)?;
            tried.push((own, opening, Instant::now()));
            socket.send(self.peer, None, &datagram, datagram.len());
            let until = (Instant::now() + OPENING_REPEAT).min(deadline);
            while Instant::now() < until {
                socket.wait(waker, until.saturating_duration_since(Instant::now()));
                let mut made = None;
                buffers.receive(socket, |from, _, datagram| {
                    if from == self.peer && made.is_none() {
                        made = self.answered(&tried, datagram);
                    }
                })?;
                if let Some(made) = made {
                    return Ok(made);
                }
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        let text = format!("no answer of UDT from {}: let UDP through to that port, both ways", self.peer);
        Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
    }

    fn answered(
        &self,
        tried: &[(OpeningTerms, DatagramOpening, Instant)],
        datagram: &[u8],
    ) -> Option<(Connection, DatagramKeys, Instant)> {
        let id = u32::from_be_bytes(datagram.get(..ID_BYTES)?.try_into().ok()?);
        let (own, opening, sent) = tried.iter().find(|(own, ..)| own.id == id)?;
        let (body, keys) = opening.answer(&mut datagram.to_vec()).ok()?;
        let theirs = OpeningTerms::decode(&body)?;
        let config = Config {
            policy: self.policy,
            reserved_bytes: OpeningTerms::RESERVED_BYTES,
            receive_packets: SENDER_WINDOW_PACKETS as usize,
            send_bytes: MOST_BUFFER_BYTES,
            unsent_bytes: UNSENT_BYTES,
            idle_timeout: IDLE_TIMEOUT,
            rtt: Some(sent.elapsed()),
            seed: u64::from(own.id),
        };
        let now = Instant::now();
        Some((Connection::new(config, &own.with(&theirs), Duration::ZERO), keys, now))
    }
}

/// Moves the datagrams of the sender's connection until it is over.
fn move_datagrams(socket: &DatagramSocket, flow: Arc<Flow>) {
    let ends = EndsFlow(flow);
    let flow = &ends.0;
    let mut buffers = Buffers::new();
    loop {
        let received = buffers.receive(socket, |_, _, datagram| {
            // A stranger's is left aside.
            flow.receive(datagram);
        });
        if received.is_err() {
            return flow.give_up("its socket broke");
        }
        let mut batch = Batch::new(socket);
        let next = flow.transmit(&mut batch);
        batch.flush();
        match next {
            Ok(Some(next)) => socket.wait(flow.waker(), next.clamp(LEAST_SLEEP, MOST_SLEEP)),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a connection is given up");
                return flow.give_up("its datagrams cannot be sealed");
            }
        }
    }
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
