//! Read-only HTTP: health, metrics, endpoint, progress.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use fairlead_protocol::Fault;
use serde::Serialize;
use serde_json::json;

use super::{metrics, server};
use crate::net::affinity::Affinity;
use crate::net::connect::accept::address_fault;
use crate::net::connect::identity::Role;
use crate::net::interface::{self, Carried};
use crate::progress::{Progress, Snapshot};
use crate::threads::lock;

/// Where this end carries its data.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MoverEndpoint {
    pub(crate) role: &'static str,
    pub(crate) interface: Option<String>,
    pub(crate) address: String,
    pub(crate) port: u16,
    /// NUMA node and CPUs of the threads.
    #[serde(flatten)]
    pub(crate) affinity: Affinity,
}

/// What the pages show.
pub(crate) struct Pages {
    pub(crate) role: Role,
    pub(crate) job: String,
    pub(crate) attempt: u32,
    pub(crate) progress: Arc<Progress>,
    pub(crate) endpoint: Mutex<Option<MoverEndpoint>>,
}

#[derive(Serialize)]
struct ProgressPage<'a> {
    role: &'static str,
    job: &'a str,
    attempt: u32,
    interface_bytes_sent: Option<u64>,
    interface_bytes_received: Option<u64>,
    #[serde(flatten)]
    now: Snapshot,
}

impl Pages {
    /// What this end's interface has carried, as far as it is known which one that is.
    fn carried(&self) -> Option<Carried> {
        let name = lock(&self.endpoint).as_ref().and_then(|endpoint| endpoint.interface.clone());
        name.as_deref().and_then(interface::carried)
    }
}

/// Binds the port and serves it on a thread of its own.
pub(crate) fn serve(address: SocketAddr, pages: Arc<Pages>) -> Result<SocketAddr, Fault> {
    let bind = || -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        Ok((listener, local))
    };
    let (listener, local) = bind().map_err(|error| address_fault(address, &error))?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/metrics", get(metrics_page))
        .route("/v1/endpoint", get(endpoint))
        .route("/v1/progress", get(progress))
        .with_state(pages);
    let source = |peer: &SocketAddr| peer.ip().into();
    server::start("http", move || tokio::net::TcpListener::from_std(listener), source, router)
        .map_err(|error| address_fault(address, &error))?;
    Ok(local)
}

async fn metrics_page(State(pages): State<Arc<Pages>>) -> String {
    metrics::text(&pages.progress.snapshot(), pages.carried())
}

async fn endpoint(State(pages): State<Arc<Pages>>) -> Response {
    let endpoint = lock(&pages.endpoint).clone();
    match endpoint {
        Some(endpoint) => Json(endpoint).into_response(),
        None => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"message": "the endpoint is not known yet"}))).into_response()
        }
    }
}

async fn progress(State(pages): State<Arc<Pages>>) -> Response {
    let carried = pages.carried();
    let page = ProgressPage {
        role: pages.role.name(),
        job: &pages.job,
        attempt: pages.attempt,
        interface_bytes_sent: carried.map(|carried| carried.sent),
        interface_bytes_received: carried.map(|carried| carried.received),
        now: pages.progress.snapshot(),
    };
    Json(page).into_response()
}
