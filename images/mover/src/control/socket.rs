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
use fairlead_protocol::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use super::server;
use crate::cli::SOCKET_BUFFER_BYTES;
use crate::net::pacing::Pacer;
use crate::net::send_buffer::{self, SendBuffer, SetBy};
use crate::net::strangers::ConnectionSource;
use crate::net::streams::{Pool, Transport};
use crate::net::tcp;
use crate::progress::Progress;
use crate::threads::lock;

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

/// What the socket shows and changes.
pub(crate) struct TransportControl {
    pub(crate) progress: Arc<Progress>,
    pub(crate) pacer: Arc<Pacer>,
    /// What the command line asked for, in force until the streams exist.
    pub(crate) transport: Mutex<Transport>,
    pub(crate) peer: Mutex<Option<Peer>>,
    pub(crate) pool: Mutex<Option<Arc<Pool>>>,
    /// Called after each accepted change; the first one releases the data.
    pub(crate) released: Box<dyn Fn() + Send + Sync>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    congestion_control: Option<Value>,
    streams: Option<Value>,
    socket_buffer_bytes: Option<Value>,
    quiet_for_ms: Option<Value>,
}

/// What a request asks for, found to be possible.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
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

/// What is in force after a change.
#[derive(Serialize)]
struct InForce {
    #[serde(flatten)]
    transport: Transport,
    quiet_for_ms: u64,
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
    let streams = lock(&control.pool).as_ref().map(|pool| pool.stats()).unwrap_or_default();
    let buffer = lock(&control.transport).send_buffer;
    Json(json!({
        "stage": control.progress.stage(),
        "available_congestion_controls": tcp::available_congestion_controls(),
        "bandwidth": control.progress.snapshot().bandwidth,
        "quiet_for_ms": quiet_for_ms(&control.pacer),
        "socket_buffer": SocketBuffer { bytes: buffer.bytes, set_by: buffer.set_by, limits: send_buffer::limits() },
        "streams": streams,
    }))
    .into_response()
}

async fn transport(State(control): State<Arc<TransportControl>>, body: Bytes) -> Response {
    match check(&body).and_then(|change| control.allow(change)) {
        Ok(change) => Json(control.apply(change)).into_response(),
        Err(refusal) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refusal)).into_response(),
    }
}

impl TransportControl {
    /// Sets the send buffer that the mover chose, unless somebody else chose one.
    pub(crate) fn plan_buffer(&self, planned: SendBuffer) {
        let mut transport = lock(&self.transport);
        if transport.send_buffer.set_by == SetBy::Kernel {
            transport.send_buffer = planned;
        }
    }

    fn allow(&self, change: Change) -> Result<Change, Refusal> {
        let buffer = lock(&self.transport).send_buffer;
        match (change.buffer_bytes, buffer) {
            (Some(_), SendBuffer { bytes: Some(bytes), set_by: SetBy::User }) => {
                let text = format!("the user's --socket-buffer {bytes} stays; leave it out to have the buffers chosen");
                Err(Refusal::new("socket_buffer_bytes", "UserChoice", text))
            }
            _ => Ok(change),
        }
    }

    fn apply(&self, change: Change) -> InForce {
        if let Some(time) = change.quiet {
            self.pacer.set_quiet(time);
        }
        let transport = {
            let mut transport = lock(&self.transport);
            if let Some(name) = change.congestion_control {
                transport.congestion_control = name;
            }
            if let Some(streams) = change.streams {
                transport.streams = streams;
            }
            if let Some(bytes) = change.buffer_bytes {
                transport.send_buffer = SendBuffer { bytes: Some(bytes), set_by: SetBy::Advisor };
            }
            match &*lock(&self.pool) {
                Some(pool) => pool.set_transport(transport.clone()),
                None => transport.clone(),
            }
        };
        (self.released)();
        InForce { transport, quiet_for_ms: quiet_for_ms(&self.pacer) }
    }
}

/// What is left of a quiet period, rounded up: 0 means that there is none.
fn quiet_for_ms(pacer: &Pacer) -> u64 {
    pacer.gate().quiet_left().as_micros().div_ceil(1000) as u64
}

/// Checks all of a request before any of it is done.
fn check(body: &[u8]) -> Result<Change, Refusal> {
    let malformed = |error: serde_json::Error| Refusal::new("", "Malformed", error.to_string());
    let Request { congestion_control, streams, socket_buffer_bytes, quiet_for_ms } =
        serde_json::from_slice(body).map_err(malformed)?;
    let congestion_control = match congestion_control {
        None => None,
        Some(Value::String(name)) => {
            let unusable = |fault: Fault| Refusal::new("congestion_control", fault.reason.name(), fault.message);
            tcp::check_congestion_control(&name).map_err(unusable)?;
            Some(name)
        }
        Some(other) => {
            return Err(Refusal::new("congestion_control", "Malformed", format!("{other} is not a name in quotes")))
        }
    };
    let streams = number("streams", streams, 1..=u64::from(STREAMS), "streams")?;
    let buffer_bytes = number("socket_buffer_bytes", socket_buffer_bytes, SOCKET_BUFFER_BYTES, "bytes")?;
    let quiet_ms = number("quiet_for_ms", quiet_for_ms, 0..=QUIET.as_millis() as u64, "ms (0 ends a quiet period)")?;
    Ok(Change {
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

    #[test]
    fn a_request_is_taken_whole() {
        assert_eq!(check(b"{}"), Ok(Change::default()));
        let all =
            check(br#"{"congestion_control":"reno","streams":64,"socket_buffer_bytes":4096,"quiet_for_ms":15000}"#);
        let quiet = Some(Duration::from_secs(15));
        let reno = Some("reno".into());
        assert_eq!(all, Ok(Change { congestion_control: reno, streams: Some(64), buffer_bytes: Some(4096), quiet }));
        assert_eq!(check(br#"{"quiet_for_ms":0}"#), Ok(Change { quiet: Some(Duration::ZERO), ..Change::default() }));
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
