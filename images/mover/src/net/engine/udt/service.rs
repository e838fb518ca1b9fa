//! The receiver's end: one thread for each UDP socket moves the datagrams of all connections there and answers the echo's requests, which
//! come to the same port. They cannot be taken for each other: no connection here has the number that a request begins with.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::opening::{Nonce, SeenOpenings, NONCE_BYTES};
use fairlead_protocol::sealed::ID_BYTES;
use fairlead_udt::{Config, Connection};

use super::flow::{EndsFlow, Flow};
use super::opening::OpeningTerms;
use super::socket::{Batch, Buffers, DatagramSocket, Waker};
use super::stream::{UdtPackReceiver, UdtStream};
use super::{widen, IDLE_TIMEOUT, LEAST_SLEEP, MOST_SLEEP};
use crate::net::connect::accept::{ConnectionHandler, DataGreeter};
use crate::net::connect::door::HANDSHAKE_TIMEOUT;
use crate::net::connect::identity::random;
use crate::net::echo::Answerer;
use crate::net::engine::DataService;
use crate::progress::Progress;

/// What a connection may send before it is read, for as long as it lives: twice 2.5 Gb/s x 100 ms at most. A new one has a quarter of
/// what is left of that for all, which is memory of this process and bounded by the pod's limit, or the least.
const MOST_WINDOW_BYTES: usize = 64 << 20;
const LEAST_WINDOW_BYTES: usize = 4 << 20;
const WINDOWS_BYTES: usize = 256 << 20;
/// Connections that may be in their handshake, all of holders of the control connection's secret.
const HANDSHAKES: usize = 2 * STREAMS as usize;
/// Longest sleep while there are connections: a reader does not wake the thread for the room that it made.
const LOOK: Duration = Duration::from_millis(10);
/// What the receiver has to say: greetings and one last word.
const SEND_BYTES: usize = 64 << 10;

/// What the threads of all sockets share.
pub(super) struct Service {
    greeter: Arc<DataGreeter>,
    handler: Arc<dyn ConnectionHandler>,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    /// Bytes of the windows of all connections.
    granted: Arc<AtomicUsize>,
}

/// A connection's window; given back when dropped.
struct GrantedWindow {
    granted: Arc<AtomicUsize>,
    bytes: usize,
}

impl GrantedWindow {
    fn new(granted: &Arc<AtomicUsize>) -> Self {
        let left = WINDOWS_BYTES.saturating_sub(granted.load(Ordering::Relaxed));
        let bytes = (left / 4).clamp(LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES);
        granted.fetch_add(bytes, Ordering::Relaxed);
        Self { granted: Arc::clone(granted), bytes }
    }
}

impl Drop for GrantedWindow {
    fn drop(&mut self) {
        self.granted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A connection at the receiver.
struct Served {
    flow: EndsFlow,
    _window: GrantedWindow,
    /// Until the sender has shown that it has the answer: what it asked with, and the answer.
    handshake: Option<(Nonce, Vec<u8>)>,
    began: Instant,
}

impl Service {
    pub(super) fn start(service: DataService) -> io::Result<()> {
        let DataService { sockets, echo, greeter, handler, progress, stop } = service;
        let echo_key = *greeter.echo_key();
        let shared = Arc::new(Self { greeter, handler, progress, stop, granted: Arc::default() });
        for socket in sockets {
            widen(&socket);
            let endpoint = Endpoint {
                service: Arc::clone(&shared),
                socket: DatagramSocket::new(socket)?,
                waker: Arc::new(Waker::new()?),
                echo: echo.answerer(&echo_key),
                seen: SeenOpenings::default(),
                connections: HashMap::new(),
            };
            std::thread::Builder::new().name("udt".into()).spawn(move || endpoint.run())?;
        }
        Ok(())
    }

    /// Runs one connection to its end.
    fn serve(&self, flow: &Arc<Flow>, deadline: Instant) {
        let peer = flow.peer.ip();
        let mut stream = UdtStream::new(Arc::clone(flow), Arc::clone(&self.progress), deadline);
        // Only the end that showed its certificate on the control connection can have sealed what comes.
        match self.greeter.greet(&mut stream, Ok(())) {
            Ok(number) => {
                self.handler.authenticated(peer);
                self.handler.data(Box::new(UdtPackReceiver::new(stream)), number);
            }
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection was turned away");
                // The refusal is on its way.
                let _ = flow.wait(Some(deadline), |state| {
                    (state.connection.is_flushed() || state.connection.ended().is_some()).then_some(Ok(()))
                });
                flow.give_up("it was turned away");
            }
        }
    }
}

/// One socket with its connections.
struct Endpoint {
    service: Arc<Service>,
    socket: DatagramSocket,
    waker: Arc<Waker>,
    echo: Answerer,
    seen: SeenOpenings,
    connections: HashMap<u32, Served>,
}

impl Endpoint {
    fn run(mut self) {
        let mut buffers = Buffers::new();
        let mut within = MOST_SLEEP;
        while !self.service.stop.load(Ordering::Relaxed) {
            self.socket.wait(&self.waker, within);
            let Self { socket, .. } = &self;
            let mut come: Vec<(SocketAddr, Option<IpAddr>, Vec<u8>)> = Vec::new();
            let Self { connections, .. } = &self;
            let mut confirmed = Vec::new();
            let received = buffers.receive(socket, |from, own, datagram| {
                match id_of(datagram).and_then(|id| connections.get(&id).map(|served| (id, served))) {
                    Some((id, served)) => {
                        if served.flow.0.receive(datagram) && served.handshake.is_some() {
                            confirmed.push(id);
                        }
                    }
                    None => come.push((from, own, datagram.to_vec())),
                }
            });
            if let Err(error) = received {
                tracing::error!(%error, "the socket for data broke");
                return;
            }
            confirmed.into_iter().for_each(|id| self.confirm(id));
            come.into_iter().for_each(|(from, own, datagram)| self.admit(from, own, datagram));
            within = self.transmit();
        }
        // What the last streams say of their end is told.
        self.connections.values().for_each(|served| served.flow.0.give_up("the transfer is over"));
        self.transmit();
    }

    /// Sends what is due on all connections, and forgets those that are over. How long to sleep.
    fn transmit(&mut self) -> Duration {
        let mut batch = Batch::new(&self.socket);
        let mut within = if self.connections.is_empty() { MOST_SLEEP } else { LOOK };
        self.connections.retain(|_, served| {
            if served.handshake.is_some() && served.began.elapsed() > HANDSHAKE_TIMEOUT {
                return false;
            }
            match served.flow.0.transmit(&mut batch) {
                Ok(Some(next)) => within = within.min(next),
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!(%error, "a connection is given up");
                    return false;
                }
            }
            true
        });
        batch.flush();
        within.max(LEAST_SLEEP)
    }

    /// A datagram of no connection: the echo's, an opening, or a stranger's.
    fn admit(&mut self, from: SocketAddr, own: Option<IpAddr>, mut datagram: Vec<u8>) {
        if Answerer::may_be_asked(&datagram) {
            if let Some(answer) = self.echo.answer(from, &datagram) {
                // One that is too long for the path, or finds the buffer full, is lost like any datagram.
                self.socket.send(from, own, &answer, answer.len());
            }
            return;
        }
        if id_of(&datagram) != Some(0) {
            return;
        }
        match self.open(from, own, &mut datagram) {
            Ok(Some(answer)) => self.socket.send(from, own, &answer, answer.len()),
            Ok(None) => tracing::debug!(peer = %from, "a connection was turned away"),
            Err(error) => tracing::warn!(%error, "a connection could not be opened"),
        }
    }

    /// The answer to an opening; nothing if it is none of the sender's, or an old one.
    fn open(&mut self, from: SocketAddr, own: Option<IpAddr>, datagram: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
        let Some((secret, _)) = self.service.greeter.terms().agreed() else { return Ok(None) };
        let Ok((nonce, body)) = secret.open_opening(datagram) else { return Ok(None) };
        let shaking = || self.connections.values().filter_map(|served| served.handshake.as_ref());
        if let Some((_, answer)) = shaking().find(|(asked, _)| *asked == nonce) {
            return Ok(Some(answer.clone()));
        }
        let Some(theirs) = OpeningTerms::decode(&body) else { return Ok(None) };
        if shaking().count() >= HANDSHAKES || self.seen.note(nonce).is_err() {
            return Ok(None);
        }
        let payload = theirs.datagram_bytes as usize;
        let granted = GrantedWindow::new(&self.service.granted);
        let window = granted.bytes / payload;
        let terms = OpeningTerms {
            id: self.free_id()?,
            first_sequence: u32::from_be_bytes(random()?) >> 1,
            datagram_bytes: theirs.datagram_bytes,
            window_packets: window as u32,
        };
        let body = terms.encode(from.ip());
        let answered = secret.answer_opening(&nonce, &random::<NONCE_BYTES>()?, theirs.id, &body);
        let (answer, keys) = answered.map_err(io::Error::other)?;
        let config = Config {
            reserved_bytes: OpeningTerms::RESERVED_BYTES,
            receive_packets: window,
            send_bytes: SEND_BYTES,
            idle_timeout: IDLE_TIMEOUT,
            ..Config::default()
        };
        let connection = Connection::new(config, &terms.with(&theirs), Duration::ZERO);
        let now = Instant::now();
        let flow = Flow::new(connection, keys, (from, own), now, Arc::clone(&self.waker));
        let handshake = Some((nonce, answer.clone()));
        self.connections.insert(terms.id, Served { flow: EndsFlow(flow), _window: granted, handshake, began: now });
        Ok(Some(answer))
    }

    /// A number that no connection has, that is no opening's, and that no request of the echo begins with.
    fn free_id(&self) -> io::Result<u32> {
        loop {
            let id = u32::from_be_bytes(random()?);
            if id != 0 && !self.connections.contains_key(&id) && !Answerer::may_be_asked(&id.to_be_bytes()) {
                return Ok(id);
            }
        }
    }

    /// The sender has shown that it has the answer: the stream begins.
    fn confirm(&mut self, id: u32) {
        let Some(served) = self.connections.get_mut(&id) else { return };
        if served.handshake.take().is_none() {
            return;
        }
        let (service, flow, deadline) =
            (Arc::clone(&self.service), Arc::clone(&served.flow.0), served.began + HANDSHAKE_TIMEOUT);
        let stream = move || service.serve(&flow, deadline);
        if let Err(error) = std::thread::Builder::new().name("stream".into()).spawn(stream) {
            tracing::warn!(%error, "a stream could not be started");
            served.flow.0.give_up("its thread could not be started");
        }
    }
}

fn id_of(datagram: &[u8]) -> Option<u32> {
    let bytes = datagram.get(..ID_BYTES)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_all_connections_fit_into_the_memory_of_a_pod() {
        let granted = Arc::default();
        let windows: Vec<GrantedWindow> = (0..STREAMS).map(|_| GrantedWindow::new(&granted)).collect();
        assert_eq!((windows[0].bytes, windows[63].bytes), (MOST_WINDOW_BYTES, LEAST_WINDOW_BYTES));
        let all = windows.iter().map(|window| window.bytes).sum::<usize>();
        assert!(all < 2 * WINDOWS_BYTES, "{all}");
        drop(windows);
        assert_eq!(granted.load(Ordering::Relaxed), 0);
    }
}
