//! The sender's data streams: one blocking thread each, added and removed while blocks flow.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fairlead_protocol::digest::Digest;
use fairlead_protocol::listing::Lookup;
use fairlead_protocol::pack::{Header, Segment, HEADER_BYTES};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::schedule::{BlockRef, Pack};
use fairlead_protocol::sender::Sender;
use fairlead_protocol::{Fault, Reason};
use serde::{Serialize, Serializer};

use crate::fs::block_source::{BlockSource, BlockSourceReader};
use crate::net::connect::dial::{Admission, DialError, Dialer};
use crate::net::pacing::Pacer;
use crate::net::send_buffer::{self, SendBuffer};
use crate::net::tcp;
use crate::net::wire::{PackSender, Payload};
use crate::report::progress::Progress;

/// Connections a stream may lose in a row without a block in between.
const FAILURES: u32 = 5;
/// Time between looks at an idle connection.
const IDLE: Duration = Duration::from_millis(100);

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
    dialer: Arc<Dialer>,
    admission: Admission,
    session: Arc<Mutex<Sender>>,
    source: Arc<BlockSource>,
    progress: Arc<Progress>,
    pacer: Arc<Pacer>,
    state: Mutex<State>,
    work: Condvar,
    started: AtomicBool,
    finished: AtomicBool,
    connections: AtomicU64,
    failed: Box<dyn Fn(Fault) + Send + Sync>,
}

/// What a pool needs.
pub(crate) struct PoolParts {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) admission: Admission,
    pub(crate) session: Arc<Mutex<Sender>>,
    pub(crate) source: Arc<BlockSource>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) transport: Transport,
    /// Told of what ends the transfer.
    pub(crate) failed: Box<dyn Fn(Fault) + Send + Sync>,
}

impl Pool {
    pub(crate) fn new(parts: PoolParts) -> Arc<Self> {
        let PoolParts { dialer, admission, session, source, progress, pacer, transport, failed } = parts;
        progress.set_congestion_control(&transport.congestion_control);
        Arc::new(Self {
            dialer,
            admission,
            session,
            source,
            progress,
            pacer,
            state: Mutex::new(State { transport, running: Vec::new(), live: Vec::new() }),
            work: Condvar::new(),
            started: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            connections: AtomicU64::new(1),
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
        self.work.notify_all();
    }

    /// Ends all streams in order.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.work.notify_all();
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
        self.work.notify_all();
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
                        std::thread::sleep(IDLE * failures);
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
        let mut outlet = self.dialer.data(&self.admission, slot, &congestion_control).map_err(|error| match error {
            DialError::Io(error) => StreamEnd::Broken(error.to_string()),
            DialError::Rejected(why) | DialError::Refused(why) => StreamEnd::Broken(why),
        })?;
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let _share = self.pacer.join(outlet.socket(), true)?;
        outlet.pace(self.pacer.gate());
        self.register(slot, outlet.socket()).map_err(StreamEnd::from)?;
        let result = self.pump(slot, connection, &mut *outlet, failures).and_then(|()| Ok(outlet.finish()?));
        self.unregister(slot);
        if result.is_err() {
            match lock(&self.session).connection_lost(connection) {
                // It carried what it was given: to lose it while idle speaks against the path, not against the receiver.
                0 => *failures = 0,
                _ => self.work.notify_all(),
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
        self.progress.streams.store(state.live.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn unregister(&self, slot: u16) {
        let mut state = lock(&self.state);
        state.live.retain(|live| live.slot != slot);
        self.progress.streams.store(state.live.len() as u64, Ordering::Relaxed);
    }

    fn pump(
        &self,
        slot: u16,
        connection: u64,
        outlet: &mut dyn PackSender,
        failures: &mut u32,
    ) -> Result<(), StreamEnd> {
        let mut work = Workspace::default();
        while self.wanted(slot) {
            let Some(pack) = self.next_pack(connection) else {
                outlet.check()?;
                continue;
            };
            self.fill(&pack, &mut work)?;
            self.progress.bulk_started();
            let payload = match *self.source {
                BlockSource::Tree(_) => Payload::Bytes(&work.payload),
                BlockSource::Zeros(_) => Payload::Zeros(pack.bytes() as usize),
            };
            outlet.send(&work.head, payload)?;
            *failures = 0;
        }
        Ok(())
    }

    fn next_pack(&self, connection: u64) -> Option<Pack> {
        let mut session = lock(&self.session);
        match session.next_pack(connection) {
            Some(pack) => Some(pack),
            None => {
                let waited = self.work.wait_timeout(session, IDLE).unwrap_or_else(PoisonError::into_inner);
                session = waited.0;
                session.next_pack(connection)
            }
        }
    }

    /// Lays out header and table, and the blocks of files, which are read straight into their place.
    fn fill(&self, pack: &Pack, work: &mut Workspace) -> Result<(), Fault> {
        let Workspace { reader, head, payload, digests } = work;
        let is_memory = self.source.is_memory();
        if !is_memory {
            payload.resize(pack.bytes() as usize, 0);
        }
        head.clear();
        head.resize(HEADER_BYTES, 0);
        digests.clear();
        let listing = lock(&self.session).listing();
        let mut entries = Lookup::new(&listing);
        let mut rest = &mut payload[..];
        for block in &pack.blocks {
            let Some(entry) = entries.get(block.file) else {
                return Err(Fault::new(Reason::InternalError, "a block of no file was to be sent"));
            };
            let _operation = self.progress.disk.begin();
            let hole = reader.hole(&self.source, &entry, block)?;
            let length = if is_memory || hole.is_some() { 0 } else { block.length as usize };
            let (bytes, after) = std::mem::take(&mut rest).split_at_mut(length);
            rest = after;
            let digest = match hole {
                _ if self.admission.undigested => Digest::default(),
                Some(digest) => digest,
                None => reader.read(&self.source, &entry, block, bytes)?,
            };
            digests.push(digest);
            let BlockRef { file, block, length } = *block;
            Segment { file, block, length, digest, is_hole: hole.is_some() }.encode_into(head);
            #[cfg(feature = "fault-injection")]
            crate::fault_injection::damage(pack.id, bytes);
        }
        let unused = rest.len();
        if !is_memory {
            payload.truncate(payload.len() - unused);
        }
        let payload_bytes = if is_memory { pack.bytes() as u32 } else { payload.len() as u32 };
        let header = Header::Data { pack: pack.id, segments: pack.blocks.len() as u16, payload_bytes };
        head[..HEADER_BYTES].copy_from_slice(&header.encode());
        let mut session = lock(&self.session);
        let mut read = pack.blocks.iter().zip(digests);
        read.try_for_each(|(block, digest)| session.read(block.file, block.block, *digest))
    }
}

/// What a stream reuses from pack to pack.
#[derive(Default)]
struct Workspace {
    reader: BlockSourceReader,
    head: Vec<u8>,
    payload: Vec<u8>,
    digests: Vec<Digest>,
}

enum StreamEnd {
    Broken(String),
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
