//! The sender's data streams: one blocking thread each, added and removed while blocks flow. What they carry comes from a
//! [`PackSource`].

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlead_protocol::index::ConnectionId;
use fairlead_protocol::{Fault, Reason};
use serde::{Serialize, Serializer};

use super::connect::dial::{Admission, DialError, Dialer};
use super::pacing::Pacer;
use super::send_buffer::{self, SendBuffer};
use super::tcp;
use super::wire::PackSender;
use crate::progress::Progress;
use crate::threads::lock;

/// Connections a stream may lose in a row without a block in between.
const FAILURES: u32 = 5;
/// Time before a stream connects again after its first failure; twice that after the second, and so on.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// What data streams send.
pub(crate) trait PackSource: Send + Sync {
    /// Sends packs on a connection while `wanted` says so, and counts them in `sent`.
    fn send_packs(
        &self,
        connection: ConnectionId,
        stream: &mut dyn PackSender,
        wanted: &dyn Fn() -> bool,
        sent: &mut u64,
    ) -> Result<(), StreamEnd>;
    /// A connection ended early. Returns how many packs have to go out again.
    fn connection_lost(&self, connection: ConnectionId) -> usize;
    /// Wakes streams that wait for a pack.
    fn wake(&self);
}

/// Why a connection ended early.
pub(crate) enum StreamEnd {
    /// The connection broke: another one may go on.
    Broken(String),
    /// The transfer cannot go on.
    Fault(Fault),
}

impl From<io::Error> for StreamEnd {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Fault> for StreamEnd {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What `PATCH /v1/transport` changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Transport {
    pub(crate) congestion_control: String,
    pub(crate) streams: u16,
    #[serde(rename = "socket_buffer_bytes", serialize_with = "bytes")]
    pub(crate) send_buffer: SendBuffer,
}

fn bytes<S: Serializer>(buffer: &SendBuffer, serializer: S) -> Result<S::Ok, S::Error> {
    buffer.bytes.serialize(serializer)
}

/// One stream as the kernel sees it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamStats {
    id: u16,
    bytes_sent: u64,
    delivery_rate_bytes_per_second: u64,
    rtt_seconds: f64,
    rtt_min_seconds: f64,
    retransmits: u32,
    congestion_window_segments: u32,
    congestion_control: String,
    pacing_rate_bytes_per_second: u64,
    send_buffer_bytes: u64,
    receive_window_bytes: u32,
    busy_seconds: f64,
    receive_window_limited_seconds: f64,
    send_buffer_limited_seconds: f64,
}

/// A connected stream.
struct Live {
    slot: u16,
    socket: TcpStream,
}

struct State {
    transport: Transport,
    running: Vec<u16>,
    live: Vec<Live>,
}

/// The streams of a transfer.
pub(crate) struct Pool {
    connections: DataConnections,
    packs: Arc<dyn PackSource>,
    progress: Arc<Progress>,
    pacer: Arc<Pacer>,
    state: Mutex<State>,
    started: AtomicBool,
    finished: AtomicBool,
    next_connection: AtomicU64,
    failed: Box<dyn Fn(Fault) + Send + Sync>,
}

/// How a pool makes its connections.
pub(crate) struct DataConnections {
    pub(crate) dialer: Arc<Dialer>,
    /// What was agreed with the receiver on the control connection.
    pub(crate) admission: Admission,
}

/// What a pool needs.
pub(crate) struct PoolParts {
    pub(crate) connections: DataConnections,
    pub(crate) packs: Arc<dyn PackSource>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) transport: Transport,
    /// Called with a fault that ends the transfer.
    pub(crate) failed: Box<dyn Fn(Fault) + Send + Sync>,
}

impl Pool {
    pub(crate) fn new(parts: PoolParts) -> Arc<Self> {
        let PoolParts { connections, packs, progress, pacer, transport, failed } = parts;
        progress.set_congestion_control(&transport.congestion_control);
        Arc::new(Self {
            connections,
            packs,
            progress,
            pacer,
            state: Mutex::new(State { transport, running: Vec::new(), live: Vec::new() }),
            started: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            next_connection: AtomicU64::new(1),
            failed,
        })
    }

    /// Opens the streams, again if they were ended; data flows from now on.
    pub(crate) fn start(self: &Arc<Self>) {
        self.finished.store(false, Ordering::Release);
        self.started.store(true, Ordering::Release);
        self.spawn_missing(&mut lock(&self.state));
    }

    /// Blocks may be waiting: wakes idle streams.
    pub(crate) fn wake(&self) {
        self.packs.wake();
    }

    /// Ends all streams in order.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.packs.wake();
    }

    /// What is in force.
    pub(crate) fn transport(&self) -> Transport {
        lock(&self.state).transport.clone()
    }

    /// Changes congestion control, send buffer and number of streams on open and later connections. The congestion control was checked.
    pub(crate) fn set_transport(self: &Arc<Self>, wanted: Transport) -> Transport {
        let mut state = lock(&self.state);
        state.transport = wanted;
        for live in &state.live {
            if let Err(error) = tcp::set_congestion_control(&live.socket, &state.transport.congestion_control) {
                tracing::warn!(stream = live.slot, %error, "the congestion control was not switched");
            }
            if let Err(error) = send_buffer::apply(&live.socket, state.transport.send_buffer) {
                tracing::warn!(stream = live.slot, %error, "the send buffer was not set");
            }
        }
        self.progress.set_congestion_control(&state.transport.congestion_control);
        if self.started.load(Ordering::Acquire) {
            self.spawn_missing(&mut state);
        }
        self.packs.wake();
        state.transport.clone()
    }

    /// Every live stream as the kernel sees it.
    pub(crate) fn stats(&self) -> Vec<StreamStats> {
        lock(&self.state).live.iter().filter_map(stats).collect()
    }

    fn spawn_missing(self: &Arc<Self>, state: &mut State) {
        for slot in 0..state.transport.streams {
            if state.running.contains(&slot) {
                continue;
            }
            let pool = Arc::clone(self);
            match std::thread::Builder::new().name(format!("stream-{slot}")).spawn(move || pool.run(slot)) {
                Ok(_) => state.running.push(slot),
                Err(error) => tracing::warn!(slot, %error, "a stream could not be started"),
            }
        }
    }

    fn wanted(&self, slot: u16) -> bool {
        !self.finished.load(Ordering::Acquire) && slot < lock(&self.state).transport.streams
    }

    fn run(self: Arc<Self>, slot: u16) {
        let mut failures = 0;
        loop {
            while self.wanted(slot) && failures < FAILURES {
                match self.serve(slot, &mut failures) {
                    Ok(()) => {}
                    // Everything is stored: the receiver closes what it no longer needs.
                    Err(StreamEnd::Broken(_)) if self.finished.load(Ordering::Acquire) => {}
                    Err(StreamEnd::Broken(why)) => {
                        failures += 1;
                        tracing::warn!(stream = slot, %why, failures, "a data connection broke");
                        std::thread::sleep(RECONNECT_DELAY * failures);
                    }
                    Err(StreamEnd::Fault(fault)) => {
                        (self.failed)(fault);
                        failures = FAILURES;
                    }
                }
            }
            let mut state = lock(&self.state);
            let needed =
                !self.finished.load(Ordering::Acquire) && slot < state.transport.streams && failures < FAILURES;
            if !needed {
                state.running.retain(|other| *other != slot);
                let last = state.running.is_empty();
                drop(state);
                if failures >= FAILURES && last && !self.finished.load(Ordering::Acquire) {
                    let text = format!("every data stream failed {FAILURES} times in a row");
                    (self.failed)(Fault::new(Reason::PeerLost, text));
                }
                return;
            }
        }
    }

    /// Runs one connection to its end.
    fn serve(&self, slot: u16, failures: &mut u32) -> Result<(), StreamEnd> {
        let congestion_control = self.transport().congestion_control;
        let DataConnections { dialer, admission } = &self.connections;
        let mut stream = dialer.data(admission, slot, &congestion_control).map_err(|error| match error {
            DialError::Io(error) => StreamEnd::Broken(error.to_string()),
            DialError::Rejected(why) | DialError::Refused(why) | DialError::Clocks(why) => StreamEnd::Broken(why),
        })?;
        let connection = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
        let _share = self.pacer.join(stream.socket(), true)?;
        stream.pace(self.pacer.gate());
        self.register(slot, stream.socket()).map_err(StreamEnd::from)?;
        let mut sent = 0;
        let result = self.packs.send_packs(connection, &mut *stream, &|| self.wanted(slot), &mut sent);
        if sent > 0 {
            *failures = 0;
        }
        let result = result.and_then(|()| Ok(stream.finish()?));
        self.unregister(slot);
        if result.is_err() {
            match self.packs.connection_lost(connection) {
                // It carried what it was given: to lose it while idle speaks against the path, not against the receiver.
                0 => *failures = 0,
                _ => self.packs.wake(),
            }
        }
        result
    }

    fn register(&self, slot: u16, stream: &TcpStream) -> io::Result<()> {
        let socket = stream.try_clone()?;
        let mut state = lock(&self.state);
        // The transport may have changed while this stream was being connected.
        let effective = tcp::set_congestion_control(&socket, &state.transport.congestion_control)?;
        self.progress.set_congestion_control(&effective);
        send_buffer::apply(&socket, state.transport.send_buffer)?;
        state.live.push(Live { slot, socket });
        self.progress.counters.streams.store(state.live.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn unregister(&self, slot: u16) {
        let mut state = lock(&self.state);
        state.live.retain(|live| live.slot != slot);
        self.progress.counters.streams.store(state.live.len() as u64, Ordering::Relaxed);
    }
}

fn stats(live: &Live) -> Option<StreamStats> {
    let info = fairlead_sys::tcp_info(&live.socket).ok()?;
    Some(StreamStats {
        id: live.slot,
        bytes_sent: info.bytes_acked,
        delivery_rate_bytes_per_second: info.delivery_rate_bytes_per_second,
        rtt_seconds: f64::from(info.rtt_us) / 1e6,
        rtt_min_seconds: f64::from(info.rtt_min_us) / 1e6,
        retransmits: info.retransmits,
        congestion_window_segments: info.congestion_window_segments,
        congestion_control: tcp::congestion_control(&live.socket).unwrap_or_default(),
        pacing_rate_bytes_per_second: info.pacing_rate_bytes_per_second,
        send_buffer_bytes: send_buffer::in_force_bytes(&live.socket),
        receive_window_bytes: info.window_bytes,
        busy_seconds: seconds(info.busy_us),
        receive_window_limited_seconds: seconds(info.receive_window_limited_us),
        send_buffer_limited_seconds: seconds(info.send_buffer_limited_us),
    })
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
