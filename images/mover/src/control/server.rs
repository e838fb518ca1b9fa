//! Serves HTTP within bounds: headers and answers have deadlines, connections a number in all and for each source.
//!
//! Whoever has not sent a whole request yet is a stranger, and strangers give way to each other. Whoever has may keep the connection
//! open, as long as there are places for that; others are answered and then closed. So neither idle connections nor slow ones keep
//! anybody from an answer, and those that are served already are left alone.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{service_fn, Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::task::AbortHandle;

use crate::net::strangers::{ConnectionSource, Places, Strangers};
use crate::threads::lock;

/// Connections without a whole request.
const STRANGERS: Places = Places { total: 64, per_source: 16 };
/// Connections that are kept open between requests.
const KEPT: Places = Places { total: 64, per_source: 16 };
/// For the header of a request, and how long a kept connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// For the body of a request and the work on it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// After which a connection ends with the answer under way, and for that answer.
const LIFETIME: Duration = Duration::from_secs(60);
const LAST_ANSWER: Duration = Duration::from_secs(5);
/// Largest header, and most fields in it.
const HEADER_BYTES: usize = 8 << 10;
const HEADER_FIELDS: usize = 64;

/// The connections that there are.
struct Connections {
    strangers: Strangers<AbortHandle>,
    kept: HashMap<u64, ConnectionSource>,
}

impl Connections {
    /// A stranger sent a request. Returns whether its connection may be kept.
    fn keep(&mut self, number: u64, source: ConnectionSource) -> bool {
        if self.kept.contains_key(&number) {
            return true;
        }
        let own = self.kept.values().filter(|other| **other == source).count();
        if self.kept.len() >= KEPT.total || own >= KEPT.per_source {
            return false;
        }
        self.strangers.take(number);
        self.kept.insert(number, source);
        true
    }

    fn leave(&mut self, number: u64) {
        self.strangers.take(number);
        self.kept.remove(&number);
    }
}

/// Runs a server of `router` on a thread with a runtime of its own; `source` gives where a connection comes from.
pub(crate) fn start<L: Listener>(
    name: &str,
    listener: impl FnOnce() -> io::Result<L> + Send + 'static,
    source: impl Fn(&L::Addr) -> ConnectionSource + Send + 'static,
    router: Router,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serving = move || match runtime.block_on(async move { Ok(serve(listener()?, source, router).await) }) {
        Ok(never) => match never {},
        Err::<Infallible, io::Error>(error) => tracing::warn!(%error, "a server ended"),
    };
    std::thread::Builder::new().name(name.into()).spawn(serving)?;
    Ok(())
}

async fn serve<L: Listener>(
    mut listener: L,
    source: impl Fn(&L::Addr) -> ConnectionSource,
    router: Router,
) -> Infallible {
    let connections = Arc::new(Mutex::new(Connections { strangers: Strangers::new(STRANGERS), kept: HashMap::new() }));
    let mut number = 0u64;
    loop {
        let (socket, address) = listener.accept().await;
        number += 1;
        let source = source(&address);
        // Nothing of the task runs before this one waits again.
        let task = tokio::spawn(converse(socket, number, source, router.clone(), Arc::clone(&connections)));
        let evicted = lock(&connections).strangers.admit(number, source, task.abort_handle());
        if let Some(evicted) = evicted {
            evicted.abort();
        }
    }
}

/// One connection, from its first request to its end.
async fn converse(
    socket: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    number: u64,
    source: ConnectionSource,
    router: Router,
    connections: Arc<Mutex<Connections>>,
) {
    let pages = TowerToHyperService::new(router);
    let keeping = Arc::clone(&connections);
    let service = service_fn(move |request: Request<Incoming>| {
        let may_stay = lock(&keeping).keep(number, source);
        let answer = pages.call(request);
        async move {
            let mut response: Response<Body> = match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
            };
            if !may_stay || response.status() == StatusCode::REQUEST_TIMEOUT {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_FIELDS);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(socket), service));
    if tokio::time::timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(LAST_ANSWER, connection).await;
    }
    lock(&connections).leave(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_kept_up_to_the_places_of_all_and_of_each_source() {
        let mut connections = Connections { strangers: Strangers::new(STRANGERS), kept: HashMap::new() };
        let source = |number: u64| ConnectionSource::V4([198, 18, 0, number as u8]);
        let most = KEPT.per_source as u64;
        let kept = (0..most + 4).filter(|number| connections.keep(*number, source(0))).count();
        assert_eq!(kept, KEPT.per_source);
        assert!(connections.keep(0, source(0)), "it stays");
        let kept = (100..400).filter(|number| connections.keep(*number, source(number % 100))).count();
        assert_eq!(kept + KEPT.per_source, KEPT.total);
        connections.leave(0);
        assert!(connections.keep(500, source(9)));
    }
}
