//! The sender's control socket: what the advisor reads and changes.

use std::io;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use fairlead_protocol::limits::{QUIET, STREAMS};
use fairlead_protocol::{Fault, Reason};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use super::server;
use crate::cli::{SendArguments, SOCKET_BUFFER_BYTES};
use crate::net::engine::{Protocol, TransportEngine};
use crate::net::pacing::Pacer;
use crate::net::send_buffer::{self, SendBuffer, SetBy};
use crate::net::strangers::ConnectionSource;
use crate::net::streams::{Pool, Transport};
use crate::progress::Progress;
use crate::threads::lock;

/// Most bytes that may be asked for in send buffers of all streams together: twice what 80 Gb/s have in flight over 100 ms.
const BUFFERS_BYTES: u64 = 2 << 30;
/// Largest body of a request.
const REQUEST_BYTES: usize = 4096;

/// The authenticated receiver.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) source_address: String,
    pub(crate) echo_port: u32,
    pub(crate) echo_key: String,
}

/// What may be asked of the socket; the user's, whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct TransportBounds {
    /// On each path.
    streams: RangeInclusive<u16>,
    paths: usize,
    /// Empty: whatever the kernel offers.
    congestion_controls: Vec<String>,
}

impl TransportBounds {
    pub(crate) fn new(args: &SendArguments) -> Self {
        let mut congestion_controls = args.congestion_controls.clone();
        if !congestion_controls.is_empty() {
            congestion_controls.push(args.congestion_control().to_owned());
        }
        let most = args.streams_max.min(STREAMS / args.connect.len() as u16);
        Self { streams: args.streams_min..=most, paths: args.connect.len(), congestion_controls }
    }

    fn check_congestion_control(&self, name: &str) -> Result<(), Refusal> {
        if self.congestion_controls.is_empty() || self.congestion_controls.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        let name: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
        let text = format!(
            "{name} is not among the congestion controls of this transfer: {}",
            self.congestion_controls.join(", ")
        );
        Err(Refusal::new("congestion_control", "NotAllowed", text))
    }
}

/// What the socket shows and changes.
pub(crate) struct TransportControl {
    pub(crate) progress: Arc<Progress>,
    pub(crate) pacer: Arc<Pacer>,
    /// Of each path; what the command line asked for is in force until the streams exist.
    pub(crate) transports: Mutex<Vec<Transport>>,
    pub(crate) peer: Mutex<Option<Peer>>,
    pub(crate) pool: Mutex<Option<Arc<Pool>>>,
    pub(crate) bounds: TransportBounds,
    pub(crate) engine: &'static dyn TransportEngine,
    /// Called after each accepted change; the first one releases the data.
    pub(crate) released: Box<dyn Fn() + Send + Sync>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    path: Option<Value>,
    congestion_control: Option<Value>,
    streams: Option<Value>,
    socket_buffer_bytes: Option<Value>,
    quiet_for_ms: Option<Value>,
}

/// What a request asks for, found to be possible.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    /// All of them without one.
    path: Option<usize>,
    congestion_control: Option<String>,
    streams: Option<u16>,
    buffer_bytes: Option<u32>,
    quiet: Option<Duration>,
}

/// Why a request changes nothing.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Refusal {
    /// The field to correct; empty if it is the request as a whole.
    field: &'static str,
    reason: String,
    message: String,
}

/// What is in force after a change: on the path that it was for, or on the first, and on each.
#[derive(Serialize)]
struct InForce {
    #[serde(flatten)]
    transport: Transport,
    quiet_for_ms: u64,
    paths: Vec<Transport>,
}

/// The send buffers of data connections, as the statistics show them.
#[derive(Serialize)]
struct SocketBuffer {
    bytes: Option<u32>,
    set_by: SetBy,
    #[serde(flatten)]
    limits: send_buffer::SendBufferLimits,
}

/// Serves the socket on a thread of its own; a stale socket of that name is replaced.
pub(crate) fn serve(path: &Path, control: Arc<TransportControl>) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let router = Router::new()
        .route("/v1/peer", get(peer))
        .route("/v1/stats", get(stats))
        .route("/v1/transport", patch(transport))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(control);
    let source = |_: &tokio::net::unix::SocketAddr| ConnectionSource::Local;
    server::start("control-socket", move || tokio::net::UnixListener::from_std(listener), source, router)
}

async fn peer(State(control): State<Arc<TransportControl>>) -> Response {
    match &*lock(&control.peer) {
        Some(peer) => Json(peer).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"message": "the receiver is not connected yet"})))
            .into_response(),
    }
}

async fn stats(State(control): State<Arc<TransportControl>>) -> Response {
    let (streams, paths) = lock(&control.pool).as_ref().map(|pool| pool.stats()).unwrap_or_default();
    let read_at = control.progress.clock.now();
    let engine = control.engine();
    let buffer = lock(&control.transports).first().map_or(SendBuffer::AUTOMATIC, |first| first.send_buffer);
    Json(json!({
        "stage": control.progress.stage(),
        "read_at_seconds": read_at.as_secs_f64(),
        "protocol": engine.protocol().name(),
        "available_congestion_controls": engine.congestion_controls(),
        "bandwidth": control.progress.snapshot().bandwidth,
        "quiet_for_ms": quiet_for_ms(&control.pacer),
        // Those of the kernel's sockets.
        "socket_buffer": (engine.protocol() == Protocol::Tcp)
            .then(|| SocketBuffer { bytes: buffer.bytes, set_by: buffer.set_by, limits: send_buffer::limits() }),
        "streams": streams,
        "paths": paths,
    }))
    .into_response()
}

async fn transport(State(control): State<Arc<TransportControl>>, body: Bytes) -> Response {
    match check(&body, &control.bounds, control.engine()).and_then(|change| control.allow(change)) {
        Ok(change) => Json(control.apply(change)).into_response(),
        Err(refusal) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refusal)).into_response(),
    }
}

impl TransportControl {
    /// What carries the data: another one than was asked for where that does not get through.
    fn engine(&self) -> &'static dyn TransportEngine {
        lock(&self.pool).as_ref().map_or(self.engine, |pool| pool.protocol().engine())
    }

    /// Sets the send buffer that the mover chose, unless somebody else chose one.
    pub(crate) fn plan_buffer(&self, planned: SendBuffer) {
        for transport in &mut *lock(&self.transports) {
            if transport.send_buffer.set_by == SetBy::Kernel {
                transport.send_buffer = planned;
            }
        }
    }

    fn allow(&self, change: Change) -> Result<Change, Refusal> {
        let before = lock(&self.transports).clone();
        let user = before.iter().find(|transport| transport.send_buffer.set_by == SetBy::User);
        if let (Some(_), Some(SendBuffer { bytes: Some(bytes), .. })) =
            (change.buffer_bytes, user.map(|user| user.send_buffer))
        {
            let text = format!("the user's --socket-buffer {bytes} stays; leave it out to have the buffers chosen");
            return Err(Refusal::new("socket_buffer_bytes", "UserChoice", text));
        }
        let mut after = before;
        change.make(&mut after);
        check_streams(&after)?;
        check_buffers(&after)?;
        check_quiet(change.quiet.unwrap_or_default(), self.pacer.quiet_allowed())?;
        Ok(change)
    }

    fn apply(&self, change: Change) -> InForce {
        if let Some(time) = change.quiet {
            self.pacer.set_quiet(time);
        }
        let paths = {
            let mut transports = lock(&self.transports);
            change.make(&mut transports);
            if let Some(pool) = &*lock(&self.pool) {
                pool.set_transports(transports.clone());
            }
            transports.clone()
        };
        (self.released)();
        let transport = paths[change.path.unwrap_or(0)].clone();
        InForce { transport, quiet_for_ms: quiet_for_ms(&self.pacer), paths }
    }
}

impl Change {
    /// Makes the change on the path that it is for, or on all.
    fn make(&self, transports: &mut [Transport]) {
        for (_, transport) in
            transports.iter_mut().enumerate().filter(|(at, _)| self.path.is_none_or(|path| path == *at))
        {
            if let Some(name) = &self.congestion_control {
                transport.congestion_control.clone_from(name);
            }
            if let Some(streams) = self.streams {
                transport.streams = streams;
            }
            if let Some(bytes) = self.buffer_bytes {
                transport.send_buffer = SendBuffer { bytes: Some(bytes), set_by: SetBy::Advisor };
            }
        }
    }
}

/// What is left of a quiet period, rounded up: 0 means that there is none.
fn quiet_for_ms(pacer: &Pacer) -> u64 {
    pacer.quiet_left().as_micros().div_ceil(1000) as u64
}

/// Streams of all paths together are bounded.
fn check_streams(transports: &[Transport]) -> Result<(), Refusal> {
    let streams: u64 = transports.iter().map(|transport| u64::from(transport.streams)).sum();
    if streams <= u64::from(STREAMS) {
        return Ok(());
    }
    let text = format!("streams: {streams} on all paths together are more than {STREAMS}");
    Err(Refusal::new("streams", "OutOfRange", text))
}

/// Buffers of all streams together are bounded, as far as they were asked for here.
fn check_buffers(transports: &[Transport]) -> Result<(), Refusal> {
    let asked = |transport: &Transport| match transport.send_buffer {
        SendBuffer { bytes: Some(bytes), set_by: SetBy::Advisor } => u64::from(transport.streams) * u64::from(bytes),
        _ => 0,
    };
    let bytes: u64 = transports.iter().map(asked).sum();
    if bytes <= BUFFERS_BYTES {
        return Ok(());
    }
    let streams: u16 = transports.iter().map(|transport| transport.streams).sum();
    let text = format!("{streams} streams have {bytes} bytes, more than {BUFFERS_BYTES} bytes together");
    Err(Refusal::new("socket_buffer_bytes", "OutOfRange", text))
}

/// A transfer is quiet for no more than its part of the time, however often it is asked to be.
fn check_quiet(asked: Duration, allowed: Duration) -> Result<(), Refusal> {
    if asked <= allowed {
        return Ok(());
    }
    let text =
        format!("quiet_for_ms: the transfer may be quiet for {} ms now; ask for less, or later", allowed.as_millis());
    Err(Refusal::new("quiet_for_ms", "QuietBudget", text))
}

/// Checks all of a request that does not depend on the transfer's state before any of it is done.
fn check(body: &[u8], bounds: &TransportBounds, engine: &dyn TransportEngine) -> Result<Change, Refusal> {
    let malformed = |error: serde_json::Error| Refusal::new("", "Malformed", error.to_string());
    let Request { path, congestion_control, streams, socket_buffer_bytes, quiet_for_ms } =
        serde_json::from_slice(body).map_err(malformed)?;
    let path = number("path", path, 0..=bounds.paths as u64 - 1, "(the paths by their position)")?;
    let congestion_control = match congestion_control {
        None => None,
        Some(Value::String(name)) => {
            bounds.check_congestion_control(&name)?;
            let unusable = |fault: Fault| Refusal::new("congestion_control", fault.reason.name(), fault.message);
            engine.check_congestion_control(&name).map_err(unusable)?;
            // A person may name what is not to be chosen.
            let offered = engine.congestion_controls();
            if !offered.contains(&name) {
                let text = format!("{name} is not among those to choose from here: {}", offered.join(", "));
                let reason = Reason::CongestionControlUnavailable.name();
                return Err(Refusal::new("congestion_control", reason, text));
            }
            Some(name)
        }
        Some(other) => {
            return Err(Refusal::new("congestion_control", "Malformed", format!("{other} is not a name in quotes")))
        }
    };
    let (fewest, most) = (u64::from(*bounds.streams.start()), u64::from(*bounds.streams.end()));
    let streams = number("streams", streams, fewest..=most, "streams")?;
    let buffer_bytes = number("socket_buffer_bytes", socket_buffer_bytes, SOCKET_BUFFER_BYTES, "bytes")?;
    let quiet_ms = number("quiet_for_ms", quiet_for_ms, 0..=QUIET.as_millis() as u64, "ms (0 ends a quiet period)")?;
    Ok(Change {
        path: path.map(|path| path as usize),
        congestion_control,
        streams: streams.map(|streams| streams as u16),
        buffer_bytes: buffer_bytes.map(|bytes| bytes as u32),
        quiet: quiet_ms.map(Duration::from_millis),
    })
}

/// A whole number of `unit` within the bounds, if the field is there.
fn number(
    field: &'static str,
    value: Option<Value>,
    bounds: RangeInclusive<u64>,
    unit: &str,
) -> Result<Option<u64>, Refusal> {
    let Some(value) = value else { return Ok(None) };
    match value.as_u64() {
        Some(number) if bounds.contains(&number) => Ok(Some(number)),
        _ => {
            let (least, most) = bounds.into_inner();
            let text = format!("{field} is {value}; give a whole number from {least} to {most} {unit}");
            Err(Refusal::new(field, "OutOfRange", text))
        }
    }
}

impl Refusal {
    fn new(field: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field, reason: reason.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: TransportBounds = TransportBounds { streams: 1..=64, paths: 1, congestion_controls: Vec::new() };

    fn check(body: &[u8]) -> Result<Change, Refusal> {
        super::check(body, &WIDE, Protocol::Tcp.engine())
    }

    #[test]
    fn a_request_beyond_the_bounds_of_the_transfer_is_refused() {
        let bounds = TransportBounds { streams: 2..=4, paths: 2, congestion_controls: vec!["reno".into()] };
        let check = |body: &str| super::check(body.as_bytes(), &bounds, Protocol::Tcp.engine());
        for (body, field, reason, said) in [
            (r#"{"streams":5}"#, "streams", "OutOfRange", "from 2 to 4 streams"),
            (r#"{"streams":1}"#, "streams", "OutOfRange", "from 2 to 4 streams"),
            (r#"{"streams":64}"#, "streams", "OutOfRange", "streams is 64"),
            (r#"{"streams":4,"path":2}"#, "path", "OutOfRange", "path is 2; give a whole number from 0 to 1"),
            (r#"{"congestion_control":"cubic"}"#, "congestion_control", "NotAllowed", "of this transfer: reno"),
            (r#"{"bandwidth":"10G"}"#, "", "Malformed", "unknown field `bandwidth`"),
            (r#"{"asked_bps":1}"#, "", "Malformed", "unknown field"),
        ] {
            let refusal = check(body).unwrap_err();
            assert_eq!((refusal.field, &*refusal.reason), (field, reason), "{body}");
            assert!(refusal.message.contains(said), "{body}: {}", refusal.message);
        }
        for streams in [2, 4] {
            assert_eq!(check(&format!(r#"{{"streams":{streams}}}"#)).unwrap().streams, Some(streams));
        }
        assert!(check(r#"{"congestion_control":"reno"}"#).is_ok());
    }

    #[test]
    fn buffers_are_bounded_all_together_and_quiet_by_what_is_left_of_it() {
        let send_buffer = SendBuffer { bytes: Some(1 << 30), set_by: SetBy::Advisor };
        let transport = |streams| Transport { congestion_control: "reno".into(), streams, send_buffer };
        assert!(check_buffers(&[transport(2)]).is_ok());
        assert!(check_buffers(&[transport(1), transport(1)]).is_ok());
        for several in [vec![transport(3)], vec![transport(1), transport(2)]] {
            assert!(check_buffers(&several).unwrap_err().message.contains("3 streams"));
        }
        assert!(check_streams(&[transport(32), transport(32)]).is_ok());
        assert!(check_streams(&[transport(32), transport(33)]).unwrap_err().message.contains("65 on all paths"));
        let seconds = Duration::from_secs;
        assert!(check_quiet(seconds(15), seconds(15)).is_ok());
        assert!(check_quiet(Duration::ZERO, Duration::ZERO).is_ok());
        let refusal = check_quiet(seconds(15), seconds(14)).unwrap_err();
        assert_eq!((refusal.field, &*refusal.reason), ("quiet_for_ms", "QuietBudget"));
        assert!(refusal.message.contains("14000 ms"));
    }

    #[test]
    fn a_request_is_taken_whole() {
        assert_eq!(check(b"{}"), Ok(Change::default()));
        let all =
            check(br#"{"congestion_control":"reno","streams":64,"socket_buffer_bytes":4096,"quiet_for_ms":15000}"#);
        let quiet = Some(Duration::from_secs(15));
        let reno = Some("reno".into());
        let expected =
            Change { path: None, congestion_control: reno, streams: Some(64), buffer_bytes: Some(4096), quiet };
        assert_eq!(all, Ok(expected));
        assert_eq!(check(br#"{"path":0}"#), Ok(Change { path: Some(0), ..Change::default() }));
        assert_eq!(check(br#"{"quiet_for_ms":0}"#), Ok(Change { quiet: Some(Duration::ZERO), ..Change::default() }));
    }

    #[test]
    fn a_control_that_only_a_person_may_name_is_refused() {
        let check = |name: &str| {
            let body = format!(r#"{{"congestion_control":"{name}"}}"#);
            super::check(body.as_bytes(), &WIDE, Protocol::Quic.engine())
        };
        assert!(check("cubic").is_ok());
        let refusal = check("bbr").unwrap_err();
        assert_eq!((refusal.field, &*refusal.reason), ("congestion_control", "CongestionControlUnavailable"));
        assert!(refusal.message.contains("cubic, reno"), "{}", refusal.message);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_field() {
        let cases = [
            (r#"{"streams":0}"#, "streams", "OutOfRange", "streams is 0; give a whole number from 1 to 64 streams"),
            (r#"{"streams":"4"}"#, "streams", "OutOfRange", "\"4\""),
            (
                r#"{"quiet_for_ms":15001}"#,
                "quiet_for_ms",
                "OutOfRange",
                "quiet_for_ms is 15001; give a whole number from 0 to 15000 ms",
            ),
            (r#"{"quiet_for_ms":-1}"#, "quiet_for_ms", "OutOfRange", "-1"),
            (r#"{"quiet_for_ms":0.5}"#, "quiet_for_ms", "OutOfRange", "0.5"),
            (r#"{"quiet_for_ms":"soon"}"#, "quiet_for_ms", "OutOfRange", "soon"),
            (r#"{"quiet_for_ms":18446744073709551616}"#, "quiet_for_ms", "OutOfRange", "e+19"),
            (r#"{"streams":4,"quiet_for_ms":99999}"#, "quiet_for_ms", "OutOfRange", "99999"),
            (
                r#"{"socket_buffer_bytes":0}"#,
                "socket_buffer_bytes",
                "OutOfRange",
                "socket_buffer_bytes is 0; give a whole number from 4096 to 1073741824 bytes",
            ),
            (r#"{"socket_buffer_bytes":1073741825}"#, "socket_buffer_bytes", "OutOfRange", "1073741825"),
            (r#"{"congestion_control":7}"#, "congestion_control", "Malformed", "7 is not a name in quotes"),
            (r#"{"congestion_control":"nonsense"}"#, "congestion_control", "CongestionControlUnavailable", "nonsense"),
            (r#"{"quiet":1}"#, "", "Malformed", "unknown field `quiet`"),
            ("[]", "", "Malformed", ""),
            ("", "", "Malformed", ""),
        ];
        for (body, field, reason, said) in cases {
            let refusal = check(body.as_bytes()).unwrap_err();
            assert_eq!((refusal.field, &*refusal.reason), (field, reason), "{body}");
            assert!(refusal.message.contains(said), "{body}: {}", refusal.message);
        }
    }
}
