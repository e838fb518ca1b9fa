//! The sender's control socket: what the advisor reads and changes.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::receiver::lock;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::http::run;
use crate::net::pool::{Pool, Transport};
use crate::net::tcp;
use crate::report::progress::Progress;

/// The authenticated receiver.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) source_address: String,
    pub(crate) echo_port: u32,
    pub(crate) echo_key: String,
}

/// What the socket shows and changes.
pub(crate) struct Control {
    pub(crate) progress: Arc<Progress>,
    /// What the command line asked for, in force until the streams exist.
    pub(crate) transport: Mutex<Transport>,
    pub(crate) peer: Mutex<Option<Peer>>,
    pub(crate) pool: Mutex<Option<Arc<Pool>>>,
    /// Called after each accepted change; the first one releases the data.
    pub(crate) released: Box<dyn Fn() + Send + Sync>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    congestion_control: Option<String>,
    streams: Option<u64>,
}

/// Serves the socket on a thread of its own; a stale socket of that name is replaced.
pub(crate) fn serve(path: &Path, control: Arc<Control>) -> io::Result<()> {
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
        .with_state(control);
    run("control-socket", move |runtime| {
        runtime.block_on(async move { axum::serve(tokio::net::UnixListener::from_std(listener)?, router).await })
    })
}

async fn peer(State(control): State<Arc<Control>>) -> Response {
    match &*lock(&control.peer) {
        Some(peer) => Json(peer).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"message": "the receiver is not connected yet"})))
            .into_response(),
    }
}

async fn stats(State(control): State<Arc<Control>>) -> Response {
    let streams = lock(&control.pool).as_ref().map(|pool| pool.stats()).unwrap_or_default();
    Json(json!({
        "stage": control.progress.stage(),
        "available_congestion_controls": tcp::available_congestion_controls(),
        "bandwidth": control.progress.snapshot().bandwidth,
        "streams": streams,
    }))
    .into_response()
}

async fn transport(State(control): State<Arc<Control>>, body: Bytes) -> Response {
    let change: Change = match serde_json::from_slice(&body) {
        Ok(change) => change,
        Err(error) => return refusal("", "Malformed", &error.to_string()),
    };
    if let Some(streams) = change.streams.filter(|streams| !(1..=u64::from(STREAMS)).contains(streams)) {
        return refusal("streams", "OutOfRange", &format!("{streams} streams are not between 1 and {STREAMS}"));
    }
    if let Some(Err(fault)) = change.congestion_control.as_deref().map(tcp::check_congestion_control) {
        return refusal("congestion_control", &fault.reason.name(), &fault.message);
    }
    let in_force = {
        let mut transport = lock(&control.transport);
        if let Some(name) = change.congestion_control {
            transport.congestion_control = name;
        }
        if let Some(streams) = change.streams {
            transport.streams = streams as u16;
        }
        match &*lock(&control.pool) {
            Some(pool) => pool.set_transport(transport.clone()),
            None => transport.clone(),
        }
    };
    (control.released)();
    Json(in_force).into_response()
}

fn refusal(field: &str, reason: &str, message: &str) -> Response {
    let body = Json(json!({"field": field, "reason": reason, "message": message}));
    (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
}
