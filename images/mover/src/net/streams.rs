//! The sender's data streams: one blocking thread each, added and removed while blocks flow, as many on each path as its transport
//! says. What they carry comes from one [`PackSource`]: a path has what its streams can take.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlead_protocol::index::{ConnectionId, PathIndex};
use fairlead_protocol::{Fault, Reason};
use serde::{Serialize, Serializer};

use super::connect::dial::{Admission, DialError, Dialer};
use super::engine::tcp::GIVES_WAY;
use super::engine::{DataCall, DataLink, Protocol};
use super::interface;
use super::pacing::Pacer;
use super::paths::Paths;
use super::send_buffer::{SendBuffer, SetBy};
use super::tcp;
use super::wire::{buffers, PackSender};
use crate::progress::{Check, Progress};
use crate::threads::lock;

/// Connections a stream may lose in a row without a block in between.
const FAILURES: u32 = 5;
/// Time before a stream connects again after its first failure; twice that after the second, and so on.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);
/// Longest such time where there are other paths: one that comes back is noticed soon.
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// Time between checks whether a stream that waits for its path is still wanted.
const PATH_LOOK: Duration = Duration::from_millis(250);

/// Connections in a row after which a protocol counts as blocked.
const UNDIALLED: u32 = 2;
/// The congestion control that every kernel allows to everybody.
const ALWAYS_ALLOWED: &str = "reno";

/// What data streams send.
pub(crate) trait PackSource: Send + Sync {
    /// A connection was made on a path.
    fn connection_made(&self, connection: ConnectionId, path: PathIndex);
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

/// What `PATCH /v1/transport` changes: of one path.
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

/// One stream as its engine sees it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamStats {
    id: u16,
    path: u8,
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

/// One path as its streams see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathStats {
    path: u8,
    interface: Option<String>,
    peer: String,
    up: bool,
    streams: usize,
    delivery_rate_bytes_per_second: u64,
    /// The longest of its streams.
    rtt_seconds: Option<f64>,
    rtt_min_seconds: Option<f64>,
    retransmits: u32,
    congestion_control: String,
}

/// A stream's place: its path, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    path: PathIndex,
    number: u16,
}

/// A connected stream.
struct Live {
    slot: Slot,
    id: u16,
    link: Arc<dyn DataLink>,
}

struct State {
    /// What carries the data.
    protocol: Protocol,
    /// Connections in a row that could not be made while there was none.
    undialled: u32,
    /// Of each path.
    transports: Vec<Transport>,
    running: Vec<Slot>,
    live: Vec<Live>,
    /// Streams that failed too often in a row.
    failing: Vec<Slot>,
}

impl State {
    fn streams(&self, path: PathIndex) -> u16 {
        self.transports[path.as_usize()].streams
    }

    /// Whether no stream is left that has not failed too often, or waits for one of its path that has.
    fn is_lost(&self) -> bool {
        let asks = |slot: &Slot| Slot { number: 0, ..*slot };
        self.running.iter().all(|slot| self.failing.contains(slot) || self.failing.contains(&asks(slot)))
    }
}

/// A time in which data flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round(u64);

/// The rounds of a transfer: the second begins when the receiver's disk damaged blocks of the first, whose connections the receiver
/// reads no more. An odd number is of a round under way.
#[derive(Default)]
struct Rounds(AtomicU64);

impl Rounds {
    fn begin(&self) {
        self.0.fetch_or(1, Ordering::AcqRel);
    }

    fn end(&self) {
        let next = |number: u64| Some(number.next_multiple_of(2));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    fn under_way(&self) -> Option<Round> {
        let number = self.0.load(Ordering::Acquire);
        (number % 2 == 1).then_some(Round(number))
    }
}

/// The streams of a transfer.
pub(crate) struct Pool {
    connections: DataConnections,
    packs: Arc<dyn PackSource>,
    progress: Arc<Progress>,
    pacer: Arc<Pacer>,
    state: Mutex<State>,
    rounds: Rounds,
    next_connection: AtomicU64,
    failed: Box<dyn Fn(Fault) + Send + Sync>,
}

/// How a pool makes its connections.
pub(crate) struct DataConnections {
    /// Until it turns out not to get through; then TCP.
    pub(crate) protocol: Protocol,
    pub(crate) dialer: Arc<Dialer>,
    /// What was agreed with the receiver on the control connection.
    pub(crate) admission: Arc<Admission>,
}

/// What a pool needs.
pub(crate) struct PoolParts {
    pub(crate) connections: DataConnections,
    pub(crate) packs: Arc<dyn PackSource>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pacer: Arc<Pacer>,
    /// Of each path.
    pub(crate) transports: Vec<Transport>,
    /// Called with a fault that ends the transfer.
    pub(crate) failed: Box<dyn Fn(Fault) + Send + Sync>,
}

impl Pool {
    pub(crate) fn new(parts: PoolParts) -> Arc<Self> {
        let PoolParts { connections, packs, progress, pacer, transports, failed } = parts;
        transports.iter().take(1).for_each(|first| progress.set_congestion_control(&first.congestion_control));
        let protocol = connections.protocol;
        progress.set_protocol(protocol.name());
        let (running, live, failing) = (Vec::new(), Vec::new(), Vec::new());
        let state = State { protocol, undialled: 0, transports, running, live, failing };
        Arc::new(Self {
            connections,
            packs,
            progress,
            pacer,
            state: Mutex::new(state),
            rounds: Rounds::default(),
            next_connection: AtomicU64::new(1),
            failed,
        })
    }

    /// What carries the data.
    pub(crate) fn protocol(&self) -> Protocol {
        lock(&self.state).protocol
    }

    /// Opens the streams, again if they were ended; data flows from now on.
    pub(crate) fn start(self: &Arc<Self>) {
        self.rounds.begin();
        self.spawn_missing(&mut lock(&self.state));
    }

    /// Blocks may be waiting: wakes idle streams.
    pub(crate) fn wake(&self) {
        self.packs.wake();
    }

    /// Ends all streams in order.
    pub(crate) fn finish(&self) {
        self.rounds.end();
        self.packs.wake();
    }

    fn paths(&self) -> &Arc<Paths> {
        &self.connections.dialer.paths
    }

    /// Changes congestion control, send buffer and number of streams of every path, on open and later connections. The congestion
    /// controls were checked.
    pub(crate) fn set_transports(self: &Arc<Self>, mut wanted: Vec<Transport>) {
        let mut state = lock(&self.state);
        if state.protocol != self.connections.protocol {
            // What was asked for is for the protocol that was replaced.
            for transport in &mut wanted {
                if let Ok(name) = self.control_over_tcp(&transport.congestion_control) {
                    transport.congestion_control = name;
                }
            }
        }
        state.transports = wanted;
        for live in &state.live {
            let transport = &state.transports[live.slot.path.as_usize()];
            if let Err(error) = live.link.set_congestion_control(&transport.congestion_control) {
                tracing::warn!(stream = live.id, %error, "the congestion control was not switched");
            }
            if let Err(error) = live.link.set_send_buffer(transport.send_buffer) {
                tracing::warn!(stream = live.id, %error, "the send buffer was not set");
            }
        }
        if let Some(first) = state.transports.first() {
            self.progress.set_congestion_control(&first.congestion_control);
        }
        if self.rounds.under_way().is_some() {
            self.spawn_missing(&mut state);
        }
        self.packs.wake();
    }

    /// Every live stream as its engine sees it, and every path.
    pub(crate) fn stats(&self) -> (Vec<StreamStats>, Vec<PathStats>) {
        let state = lock(&self.state);
        let streams: Vec<StreamStats> = state.live.iter().filter_map(stats).collect();
        let paths = self.paths().all().map(|path| self.path_stats(path, &state, &streams)).collect();
        (streams, paths)
    }

    fn path_stats(&self, path: PathIndex, state: &State, streams: &[StreamStats]) -> PathStats {
        let own = || streams.iter().filter(|stream| stream.path == path.0);
        let ends = self.paths().ends(path);
        PathStats {
            path: path.0,
            interface: ends.binding.interface.clone(),
            peer: ends.peer.to_string(),
            up: self.paths().is_up(path),
            streams: own().count(),
            delivery_rate_bytes_per_second: own().map(|stream| stream.delivery_rate_bytes_per_second).sum(),
            rtt_seconds: own().map(|stream| stream.rtt_seconds).reduce(f64::max),
            rtt_min_seconds: own().map(|stream| stream.rtt_min_seconds).reduce(f64::min),
            retransmits: own().map(|stream| stream.retransmits).sum(),
            congestion_control: state.transports[path.as_usize()].congestion_control.clone(),
        }
    }

    /// The stream's number among those of all paths.
    fn id(&self, slot: Slot) -> u16 {
        slot.number * self.paths().count() as u16 + u16::from(slot.path.0)
    }

    fn spawn_missing(self: &Arc<Self>, state: &mut State) {
        for path in self.paths().all() {
            for number in 0..state.streams(path) {
                let slot = Slot { path, number };
                if state.running.contains(&slot) {
                    continue;
                }
                let (pool, id) = (Arc::clone(self), self.id(slot));
                match std::thread::Builder::new().name(format!("stream-{id}")).spawn(move || pool.run(slot)) {
                    Ok(_) => state.running.push(slot),
                    Err(error) => tracing::warn!(stream = id, %error, "a stream could not be started"),
                }
            }
        }
    }

    /// The round for which the stream is wanted.
    fn wanted(&self, slot: Slot) -> Option<Round> {
        self.rounds.under_way().filter(|_| slot.number < lock(&self.state).streams(slot.path))
    }

    fn run(self: Arc<Self>, slot: Slot) {
        let (mut failures, mut is_over) = (0, false);
        loop {
            while let Some(round) = self.wanted(slot).filter(|_| failures < FAILURES) {
                // One stream asks whether a path that is down is back.
                if slot.number > 0 && !self.paths().is_up(slot.path) {
                    self.paths().await_up(slot.path, PATH_LOOK);
                    continue;
                }
                match self.serve(slot, round, &mut failures) {
                    Ok(()) => {}
                    // Everything is stored: the receiver closes what it no longer needs.
                    Err(StreamEnd::Broken(_)) if self.rounds.under_way() != Some(round) => {}
                    Err(StreamEnd::Broken(why)) => {
                        failures += 1;
                        tracing::warn!(stream = self.id(slot), path = slot.path.0, %why, failures, "a data connection broke");
                        std::thread::sleep(RECONNECT_DELAY * failures);
                    }
                    Err(StreamEnd::Fault(fault)) => {
                        (self.failed)(fault);
                        (failures, is_over) = (FAILURES, true);
                    }
                }
            }
            if !is_over && self.goes_on(slot, failures) {
                std::thread::sleep(LONGEST_DELAY);
                failures = FAILURES - 1;
                continue;
            }
            let mut state = lock(&self.state);
            let under_way = self.rounds.under_way().is_some();
            let needed = under_way && slot.number < state.streams(slot.path) && failures < FAILURES;
            if !needed {
                state.running.retain(|other| *other != slot);
                let last = state.is_lost();
                drop(state);
                if failures >= FAILURES && last && under_way {
                    let text = format!("every data stream failed {FAILURES} times in a row");
                    (self.failed)(Fault::new(Reason::PeerLost, text));
                }
                return;
            }
        }
    }

    /// Whether a stream that failed too often is tried again: while other streams carry on, its path may come back.
    fn goes_on(&self, slot: Slot, failures: u32) -> bool {
        let mut state = lock(&self.state);
        state.failing.retain(|other| *other != slot);
        if failures < FAILURES || !self.paths().are_several() {
            return false;
        }
        state.failing.push(slot);
        !state.is_lost() && self.rounds.under_way().is_some() && slot.number < state.streams(slot.path)
    }

    /// Runs one connection to its end, which is the round's at the latest.
    fn serve(&self, slot: Slot, round: Round, failures: &mut u32) -> Result<(), StreamEnd> {
        let (protocol, congestion_control) = {
            let state = lock(&self.state);
            (state.protocol, state.transports[slot.path.as_usize()].congestion_control.clone())
        };
        let DataConnections { dialer, admission, .. } = &self.connections;
        let call =
            DataCall { path: slot.path, admission, stream: self.id(slot), congestion_control: &congestion_control };
        let mut stream = protocol.engine().connect(dialer, call).map_err(|error| {
            match self.falls_back(protocol, &error) {
                Ok(true) => return StreamEnd::Broken(error.to_string()),
                Ok(false) => {}
                Err(fault) => return StreamEnd::Fault(fault),
            }
            self.paths().not_connected(slot.path);
            match error {
                DialError::Io(error) => StreamEnd::Broken(error.to_string()),
                DialError::Rejected(why) | DialError::Refused(why) | DialError::Clocks(why) => StreamEnd::Broken(why),
            }
        })?;
        let connection = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
        let link = stream.link()?;
        let _on_path = self.paths().connected(slot.path, Arc::clone(&link));
        let _share = self.pacer.join(Arc::clone(&link), slot.path, true)?;
        stream.pace(self.pacer.gate(slot.path));
        self.register(slot, link).map_err(StreamEnd::from)?;
        self.packs.connection_made(connection, slot.path);
        let mut sent = 0;
        let result = self.packs.send_packs(connection, &mut *stream, &|| self.wanted(slot) == Some(round), &mut sent);
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

    /// Whether the transfer goes on over TCP from now on: no connection of its protocol is left, and no other one can be made. One that
    /// gives way must do so over TCP too, or end.
    fn falls_back(&self, protocol: Protocol, error: &DialError) -> Result<bool, Fault> {
        let mut state = lock(&self.state);
        if protocol == Protocol::Tcp || state.protocol != protocol || !state.live.is_empty() {
            return Ok(state.protocol != protocol);
        }
        state.undialled += 1;
        if state.undialled < UNDIALLED {
            return Ok(false);
        }
        for transport in &mut state.transports {
            let name =
                self.control_over_tcp(&transport.congestion_control).map_err(|why| cannot_give_way(error, &why))?;
            transport.congestion_control = name;
        }
        state.protocol = Protocol::Tcp;
        drop(state);
        self.progress.set_protocol(Protocol::Tcp.name());
        let text = format!("{error}; the transfer goes on over TCP");
        self.progress.note_check(Check::warning("Protocol", Reason::ProtocolUnavailable, text));
        Ok(true)
    }

    /// What takes a congestion control's place where its protocol does not get through.
    fn control_over_tcp(&self, name: &str) -> Result<String, Fault> {
        let gives_way = self.connections.protocol.engine().gives_way(name);
        control_over_tcp(name, gives_way, tcp::check_congestion_control)
    }

    fn register(&self, slot: Slot, link: Arc<dyn DataLink>) -> io::Result<()> {
        let mut state = lock(&self.state);
        let transport = state.transports[slot.path.as_usize()].clone();
        // The transport may have changed while this stream was being connected.
        let effective = link.set_congestion_control(&transport.congestion_control)?;
        self.progress.set_congestion_control(&effective);
        link.set_send_buffer(self.buffer(slot, &*link, transport.send_buffer))?;
        state.undialled = 0;
        state.failing.retain(|other| *other != slot);
        state.live.push(Live { slot, id: self.id(slot), link });
        self.progress.counters.streams.store(state.live.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The send buffer of a stream. What the mover chose before the data is for the path of the control connection, and is chosen again
    /// for the others by their own RTT and interface.
    fn buffer(&self, slot: Slot, link: &dyn DataLink, chosen: SendBuffer) -> SendBuffer {
        let name = self.paths().ends(slot.path).binding.interface.as_deref();
        if !self.paths().are_several() || !matches!(chosen.set_by, SetBy::Kernel | SetBy::Mover) {
            return chosen;
        }
        SendBuffer::before_data(None, buffers::for_path(link, name.and_then(interface::speed_bps)))
    }

    fn unregister(&self, slot: Slot) {
        let mut state = lock(&self.state);
        state.live.retain(|live| live.slot != slot);
        self.progress.counters.streams.store(state.live.len() as u64, Ordering::Relaxed);
    }
}

/// The congestion control over TCP in the place of `name`, by what the kernel is found to offer. For one that gives way there is one
/// that does too, or the reason why there is none.
fn control_over_tcp(name: &str, gives_way: bool, check: impl Fn(&str) -> Result<(), Fault>) -> Result<String, Fault> {
    if gives_way {
        return check(GIVES_WAY).map(|()| GIVES_WAY.to_owned());
    }
    Ok(check(name).map_or(ALWAYS_ALLOWED, |()| name).to_owned())
}

/// Why a transfer that gives way ends where its protocol does not get through. Whatever blocks it may have gone by the next attempt.
fn cannot_give_way(error: &DialError, why: &Fault) -> Fault {
    let text = format!(
        "{error}; the transfer is to give way to other traffic, and over TCP it could not: {}; let UDP through to the receiver's data port",
        why.message
    );
    Fault { retry: true, ..Fault::new(Reason::ProtocolUnavailable, text) }
}

fn stats(live: &Live) -> Option<StreamStats> {
    let state = live.link.state().ok()?;
    Some(StreamStats {
        id: live.id,
        path: live.slot.path.0,
        bytes_sent: state.bytes_acked,
        delivery_rate_bytes_per_second: state.delivery_rate_bytes_per_second,
        rtt_seconds: f64::from(state.rtt_us) / 1e6,
        rtt_min_seconds: f64::from(state.rtt_min_us) / 1e6,
        retransmits: state.retransmits,
        congestion_window_segments: state.congestion_window_segments,
        congestion_control: live.link.congestion_control().unwrap_or_default(),
        pacing_rate_bytes_per_second: state.pacing_rate_bytes_per_second,
        send_buffer_bytes: live.link.send_buffer_bytes(),
        receive_window_bytes: state.window_bytes,
        busy_seconds: state.busy.as_secs_f64(),
        receive_window_limited_seconds: state.receive_window_limited.as_secs_f64(),
        send_buffer_limited_seconds: state.send_buffer_limited.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_not_under_way_again_when_the_next_one_begins() {
        let rounds = Rounds::default();
        assert_eq!(rounds.under_way(), None);
        rounds.begin();
        let first = rounds.under_way();
        assert!(first.is_some());
        rounds.begin();
        assert_eq!(rounds.under_way(), first, "it was under way");
        rounds.end();
        rounds.end();
        assert_eq!(rounds.under_way(), None);
        rounds.begin();
        assert!(rounds.under_way().is_some());
        assert_ne!(rounds.under_way(), first);
    }

    #[test]
    fn over_tcp_a_control_stays_where_it_can_and_one_that_gives_way_never_becomes_one_that_does_not() {
        let cases: [(&str, bool, &[&str], Option<&str>); 5] = [
            ("cubic", false, &["cubic", "reno"], Some("cubic")),
            ("cubic", false, &["reno"], Some("reno")),
            ("bbr", false, &["reno", "lp"], Some("reno")),
            ("ledbat++", true, &["cubic", "reno", "lp"], Some("lp")),
            ("ledbat++", true, &["cubic", "reno"], None),
        ];
        for (name, gives_way, offered, expected) in cases {
            let check = |asked: &str| match offered.contains(&asked) {
                true => Ok(()),
                false => Err(Fault::new(Reason::CongestionControlUnavailable, format!("no {asked}"))),
            };
            let found = control_over_tcp(name, gives_way, check);
            assert_eq!(found.as_deref().ok(), expected, "{name} of {offered:?}");
        }
    }

    #[test]
    fn a_transfer_that_cannot_give_way_says_why_and_may_be_tried_again() {
        let blocked = DialError::Refused("no answer of QUIC".into());
        let fault = cannot_give_way(&blocked, &Fault::new(Reason::CongestionControlUnavailable, "no lp here"));
        assert_eq!((fault.reason, fault.retry), (Reason::ProtocolUnavailable, true));
        for part in ["no answer of QUIC", "no lp here", "let UDP through"] {
            assert!(fault.message.contains(part), "{}", fault.message);
        }
    }
}
