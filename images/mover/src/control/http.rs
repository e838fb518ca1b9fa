//! Read-only HTTP: health, metrics, endpoint, progress.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use fairlead_protocol::index::PathIndex;
use fairlead_protocol::Fault;
use serde::Serialize;
use serde_json::json;

use super::{metrics, server};
use crate::net::affinity::{self, Affinity};
use crate::net::connect::accept::address_fault;
use crate::net::connect::identity::Role;
use crate::net::interface::{self, Carried};
use crate::net::paths::Paths;
use crate::progress::{Progress, Snapshot};
use crate::threads::lock;

/// Where this end of a path is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EndpointPlace {
    pub(crate) interface: Option<String>,
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) numa_node: Option<u32>,
}

impl EndpointPlace {
    pub(crate) fn new(interface: Option<String>, address: Option<IpAddr>, port: u16) -> Self {
        let numa_node = interface.as_deref().and_then(affinity::numa_node);
        Self { interface, address: address.map(|address| address.to_string()).unwrap_or_default(), port, numa_node }
    }
}

/// Where this end carries its data: on one of its paths, and on all of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MoverEndpoint {
    role: &'static str,
    #[serde(flatten)]
    first: EndpointPlace,
    /// CPUs that the threads are pinned to.
    cpus: Option<String>,
    endpoints: Vec<EndpointPlace>,
}

impl MoverEndpoint {
    /// Of at least one place; `first` is the one that whoever knows of one only is told of.
    pub(crate) fn new(role: &'static str, endpoints: Vec<EndpointPlace>, first: PathIndex, affinity: Affinity) -> Self {
        Self { role, first: endpoints[first.as_usize()].clone(), cpus: affinity.cpus, endpoints }
    }
}

/// What the pages show.
pub(crate) struct Pages {
    pub(crate) role: Role,
    pub(crate) job: String,
    pub(crate) attempt: u32,
    pub(crate) progress: Arc<Progress>,
    pub(crate) endpoint: Mutex<Option<MoverEndpoint>>,
    /// The sender's paths, once it is connected.
    pub(crate) paths: OnceLock<Weak<Paths>>,
}

/// What an interface has carried since it came up, everybody's traffic included.
#[derive(Serialize)]
struct InterfaceCarried {
    interface: String,
    /// Nothing where the kernel has no counter, or the interface is gone.
    bytes_sent: Option<u64>,
    bytes_received: Option<u64>,
    /// Whether the path from it is in use; nothing where there is one path, and at the receiver.
    up: Option<bool>,
    /// Of this transfer alone, at a sender with several paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ProgressPage<'a> {
    role: &'static str,
    job: &'a str,
    attempt: u32,
    interface_bytes_sent: Option<u64>,
    interface_bytes_received: Option<u64>,
    interfaces: Vec<InterfaceCarried>,
    #[serde(flatten)]
    now: Snapshot,
}

impl Pages {
    /// What each of this end's interfaces has carried, as far as it is known which ones they are.
    fn carried(&self) -> Vec<InterfaceCarried> {
        let endpoint = lock(&self.endpoint).clone();
        let paths = self.paths.get().and_then(Weak::upgrade).filter(|paths| paths.are_several());
        let carried = |(place, path): (&EndpointPlace, PathIndex)| {
            let interface = place.interface.clone()?;
            let (bytes_sent, bytes_received) = interface::carried(&interface).map(|it| (it.sent, it.received)).unzip();
            let up = paths.as_ref().map(|paths| paths.is_up(path));
            let wire_bytes = paths.as_ref().and_then(|_| self.progress.path_wire_bytes(path));
            Some(InterfaceCarried { interface, bytes_sent, bytes_received, up, wire_bytes })
        };
        endpoint
            .iter()
            .flat_map(|endpoint| endpoint.endpoints.iter().zip((0..).map(PathIndex)))
            .filter_map(carried)
            .collect()
    }

    /// The interfaces of this end's paths with what each has carried. Several paths may share one, which is there once; one without
    /// counters is left out.
    fn interfaces_carried(&self) -> Vec<(String, Carried)> {
        let endpoint = lock(&self.endpoint).clone();
        let places = endpoint.iter().flat_map(|endpoint| &endpoint.endpoints);
        let names: BTreeSet<&String> = places.filter_map(|place| place.interface.as_ref()).collect();
        names.into_iter().filter_map(|name| Some((name.clone(), interface::carried(name)?))).collect()
    }

    /// What the interface has carried that whoever knows of one only is told of.
    fn first_carried(&self) -> Option<Carried> {
        let name = lock(&self.endpoint).as_ref().and_then(|endpoint| endpoint.first.interface.clone());
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
    metrics::text(&pages.progress.snapshot(), &pages.interfaces_carried())
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
    let carried = pages.first_carried();
    let page = ProgressPage {
        role: pages.role.name(),
        job: &pages.job,
        attempt: pages.attempt,
        interface_bytes_sent: carried.map(|carried| carried.sent),
        interface_bytes_received: carried.map(|carried| carried.received),
        interfaces: pages.carried(),
        now: pages.progress.snapshot(),
    };
    Json(page).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_several_paths_is_counted_once_and_one_without_counters_not_at_all() {
        let pages = Pages {
            role: Role::Sender,
            job: String::new(),
            attempt: 1,
            progress: Arc::new(Progress::new()),
            endpoint: Mutex::new(None),
            paths: OnceLock::new(),
        };
        assert!(pages.interfaces_carried().is_empty(), "nothing is known yet");
        let places = [Some("lo"), None, Some("lo"), Some("gone")];
        let endpoints = places.map(|name| EndpointPlace::new(name.map(str::to_owned), None, 0)).to_vec();
        let endpoint = MoverEndpoint::new(pages.role.name(), endpoints, PathIndex(0), Affinity::default());
        *lock(&pages.endpoint) = Some(endpoint);
        let names: Vec<String> = pages.interfaces_carried().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["lo"]);
    }
}
