//! The sender: from the command line to the verdict.

mod control_link;
mod packs;
mod source_work;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::index::{FileIndex, PathIndex};
use fairlead_protocol::kept::BlockRun;
use fairlead_protocol::listing::{Kind, Listing, Totals};
use fairlead_protocol::message::{Body, ListingEnd};
use fairlead_protocol::sender::{Sender, SenderEffect};
use fairlead_protocol::{Fault, Reason};

use self::control_link::ControlLink;
use self::packs::SourcePacks;
use super::session::{check_resent, PeerWatch, Session, TransferEvent, RECEIVER, SENDER, TICK};
use super::TransferContext;
use crate::cli::SendArguments;
use crate::control::http::{EndpointPlace, MoverEndpoint};
use crate::control::socket::{self, Peer, TransportBounds, TransportControl};
use crate::fs::block_source::BlockSource;
use crate::net::connect::dial::{self, Dialer, Greeted, Resumed};
use crate::net::control_connection::ConnectionEvent;
use crate::net::engine::tcp::TcpLink;
use crate::net::interface::{self, Interface};
use crate::net::pacing::{file, Pacer};
use crate::net::paths::{PathEnds, Paths};
use crate::net::send_buffer::SendBuffer;
use crate::net::streams::{DataConnections, Pool, PoolParts, Transport};
use crate::net::tcp::Binding;
use crate::net::{affinity, wire};
use crate::preflight::own_end::{check_sender, engine_of};
use crate::preflight::path::PathChecks;
use crate::progress::{Check, Stage};
use crate::report::output;
use crate::report::verdict::Success;
use crate::threads::{lock, spawn};

/// What the other threads report to the sender's own.
enum Event {
    Connection(ConnectionEvent),
    /// The path was checked: the source is to be listed, and the advisor may probe.
    PathChecked(Result<(BlockSource, Peer), Fault>),
    Listed(Result<(Arc<BlockSource>, Listing), Fault>),
    Hashed(Vec<(FileIndex, Digest)>),
    Rechecked(Result<(), Fault>),
    /// Another control connection, or why there is none.
    Resumed(Result<Box<Resumed>, String>),
    Fault(Fault),
}

impl From<ConnectionEvent> for Event {
    fn from(event: ConnectionEvent) -> Self {
        Self::Connection(event)
    }
}

impl TransferEvent for Event {
    fn into_connection(self) -> Option<ConnectionEvent> {
        match self {
            Self::Connection(event) => Some(event),
            _ => None,
        }
    }
}

/// Checks everything that can be checked alone, then transfers.
pub(crate) fn run(args: &SendArguments, context: &TransferContext) -> Result<Success, Fault> {
    let prepared = Prepared::new(args, context)?;
    let greeted = prepared.connect()?;
    prepared.begin(greeted)?.drive()
}

/// A sender that is ready to connect.
struct Prepared<'a> {
    args: &'a SendArguments,
    context: &'a TransferContext,
    source: BlockSource,
    pacer: Arc<Pacer>,
    dialer: Arc<Dialer>,
    control: Arc<TransportControl>,
    /// Set once the transport is decided.
    released: Arc<AtomicBool>,
}

impl<'a> Prepared<'a> {
    fn new(args: &'a SendArguments, context: &'a TransferContext) -> Result<Self, Fault> {
        let (ends, source) = check_sender(args, &context.progress)?;
        let internal = |error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
        let pacer = Pacer::start(&context.progress, args.connect.len()).map_err(internal)?;
        let paths = Paths::start(ends, &context.progress).map_err(internal)?;
        let released = Arc::new(AtomicBool::new(args.await_transport.is_none()));
        let control = open_control(args, context, &pacer, &released)?;
        let dialer = Arc::new(Dialer {
            paths,
            encryption: args.common.encryption.on_the_wire(),
            protocol: engine_of(&args.common).on_the_wire(),
            source_is_memory: source.is_memory(),
            check_only: args.common.check,
            identity: Arc::clone(&context.identity),
            progress: Arc::clone(&context.progress),
        });
        Ok(Self { args, context, source, pacer, dialer, control, released })
    }

    /// Connects to the receiver and greets it.
    fn connect(&self) -> Result<Greeted, Fault> {
        let stop = self.context.stop.clone();
        let patience = Duration::from_secs(self.args.common.peer_timeout);
        let greeted = self.dialer.control(patience, &move || stop.signal().is_some());
        if greeted.is_ok() {
            self.context.progress.note_check(Check::passed("Peer", "the receiver is authenticated"));
        }
        greeted.or_else(|fault| self.context.stop.check().and(Err(fault)))
    }

    /// Starts the control connection and the listing of the source.
    fn begin(self, greeted: Greeted) -> Result<Transfer<'a>, Fault> {
        let internal =
            |error: std::io::Error| Fault::new(Reason::InternalError, format!("the control connection: {error}"));
        let Self { args, context, source, pacer, dialer, control, released } = self;
        let Greeted { stream, path, mut admission, echo_key, echo_port, discards, clock_ahead_ms } = greeted;
        let undigested = admission.undigested;
        let local = dial::socket(&stream).local_addr().map_err(internal)?;
        let interfaces = interface::list();
        let place = |at: PathIndex| sender_place(dialer.paths.ends(at), &interfaces, (at == path).then_some(local));
        let name = place(path).interface;
        let endpoints: Vec<EndpointPlace> = dialer.paths.all().map(place).collect();
        let names: Vec<&str> = endpoints.iter().filter_map(|place| place.interface.as_deref()).collect();
        let affinity = affinity::pin_beside(&names, args.common.is_pinned());
        let _ = context.pages.paths.set(Arc::downgrade(&dialer.paths));
        *lock(&context.pages.endpoint) = Some(MoverEndpoint::new("sender", endpoints, path, affinity));
        // Without a cap the interface bounds the rate.
        let speed_bps = || name.as_deref().and_then(interface::speed_bps);
        let link = TcpLink::new(dial::socket(&stream)).map_err(internal)?;
        let buffers = || wire::buffers::for_path(&*link, args.bandwidth.or_else(speed_bps));
        admission.buffer_bytes = args.common.socket_buffer.or_else(buffers);
        control.plan_buffer(SendBuffer::before_data(args.common.socket_buffer, admission.buffer_bytes));
        let ends = dialer.paths.ends(path);
        tracing::info!(peer = %ends.peer, local = %local, "the receiver is authenticated");
        output::event(args.common.json, "connected", &serde_json::json!({"peer": ends.peer, "local": local}));
        let (address, source_address) = (ends.peer.ip().to_string(), local.ip().to_string());
        let shown_key = echo_key.iter().map(|byte| format!("{byte:02x}")).collect();
        let peer = Peer { address, source_address, echo_port, echo_key: shown_key };
        let admission = Arc::new(admission);
        let path_checks = PathChecks {
            dialer: Arc::clone(&dialer),
            admission: Arc::clone(&admission),
            congestion_control: args.congestion_control().to_owned(),
            control: (path, link),
            echo_port: echo_port as u16,
            echo_key: echo_key.try_into().map_err(|_| Fault::protocol("the echo key has a wrong length"))?,
            clock_ahead_ms,
        };
        let over = Arc::new(AtomicBool::new(false));
        let mut link = ControlLink::new(Arc::clone(&dialer), Arc::clone(&pacer), admission.token(), Arc::clone(&over));
        let mut session = Session::new(SENDER, RECEIVER);
        link.start(&mut session, stream, path)?;
        apply_caps(args, &pacer, &over)?;
        // Long frames are sent from the listing on, which a path that is too small for them would not let through.
        let progress = Arc::clone(&context.progress);
        session.spawn("path", move || Event::PathChecked(path_checks.run(&progress).map(|()| (source, peer))))?;
        Ok(Transfer {
            args,
            context,
            session,
            protocol: Arc::default(),
            listing: Arc::default(),
            source: None,
            discards,
            undigested,
            connections: Some(DataConnections { protocol: engine_of(&args.common), dialer, admission }),
            pool: None,
            control,
            released,
            held_since: None,
            pacer,
            link,
            over,
        })
    }
}

/// Where this end of a path is. The port is known of the path that the control connection takes.
fn sender_place(ends: &PathEnds, interfaces: &[Interface], local: Option<SocketAddr>) -> EndpointPlace {
    let Binding { interface, address } = &ends.binding;
    let chosen =
        || interface::choose(interfaces, interface.as_deref(), *address, None).ok().map(|(_, address)| address);
    let address = local.map(|local| local.ip()).or_else(chosen);
    let holding = || address.and_then(|address| interface::holding(interfaces, address));
    EndpointPlace::new(interface.clone().or_else(holding), address, local.map_or(0, |local| local.port()))
}

fn open_control(
    args: &SendArguments,
    context: &TransferContext,
    pacer: &Arc<Pacer>,
    released: &Arc<AtomicBool>,
) -> Result<Arc<TransportControl>, Fault> {
    let released = Arc::clone(released);
    let transport = Transport {
        congestion_control: args.congestion_control().to_owned(),
        streams: args.streams,
        send_buffer: SendBuffer::before_data(args.common.socket_buffer, None),
    };
    let control = Arc::new(TransportControl {
        progress: Arc::clone(&context.progress),
        pacer: Arc::clone(pacer),
        transports: Mutex::new(vec![transport; args.connect.len()]),
        peer: Mutex::new(None),
        pool: Mutex::new(None),
        bounds: TransportBounds::new(args),
        engine: engine_of(&args.common).engine(),
        released: Box::new(move || released.store(true, Ordering::Release)),
    });
    if let Some(path) = &args.control_socket {
        socket::serve(path, Arc::clone(&control)).map_err(|error| {
            Fault::new(
                Reason::InternalError,
                format!("the control socket {} cannot be served: {error}", path.display()),
            )
        })?;
    }
    Ok(control)
}

struct Transfer<'a> {
    args: &'a SendArguments,
    context: &'a TransferContext,
    session: Session<Event>,
    protocol: Arc<Mutex<Sender>>,
    /// Empty until the source is listed.
    listing: Arc<Listing>,
    source: Option<Arc<BlockSource>>,
    discards: bool,
    undigested: bool,
    /// Until there is a pool.
    connections: Option<DataConnections>,
    pool: Option<Arc<Pool>>,
    control: Arc<TransportControl>,
    released: Arc<AtomicBool>,
    held_since: Option<Instant>,
    pacer: Arc<Pacer>,
    link: ControlLink,
    over: Arc<AtomicBool>,
}

impl Transfer<'_> {
    fn drive(mut self) -> Result<Success, Fault> {
        let result = self.steps();
        self.over.store(true, Ordering::Relaxed);
        let result = match result {
            Err(fault) => Err(self.session.report(fault)),
            success => success,
        };
        if let Some(pool) = &self.pool {
            pool.finish();
        }
        if self.session.close() {
            output::event(self.args.common.json, "closed", &serde_json::json!({}));
        }
        result
    }

    fn steps(&mut self) -> Result<Success, Fault> {
        let stall = Duration::from_secs(self.args.common.stall_timeout);
        let mut watch = self.session.watch(&self.context.progress, stall);
        loop {
            let event = self.session.next(TICK)?;
            // Before anything that waits for another thread, which may have panicked.
            self.context.stop.check()?;
            if let Some(event) = event {
                if let Some(success) = self.on_event(event, &mut watch)? {
                    return Ok(success);
                }
            }
            self.release_if_due();
            self.note_counts();
            check_resent(&self.context.progress, self.args.common.resend_budget)?;
            // A cap may be so low that nothing moves for long, and a quiet period is meant to be still.
            let waiting = self.context.progress.stage() != Stage::Transferring || self.pacer.holds_back();
            if let Some(connection) = self.session.connection() {
                watch.tick(connection, waiting, |evidence| self.pacer.evidence(evidence))?;
            }
        }
    }

    /// Publishes what the session counted.
    fn note_counts(&self) {
        let counts = lock(&self.protocol).counts();
        self.context.progress.counters.bytes_resent.store(counts.resent_bytes, Ordering::Relaxed);
        self.context.progress.counters.packs_damaged.store(counts.packs_damaged, Ordering::Relaxed);
    }

    fn on_event(&mut self, event: Event, watch: &mut PeerWatch) -> Result<Option<Success>, Fault> {
        match event {
            Event::Fault(fault) => return Err(fault),
            Event::Connection(event) if self.link.outlives(&event) => {
                tracing::warn!(?event, "the control connection broke");
                let events = self.session.events();
                let done =
                    move |resumed: Result<Resumed, String>| drop(events.send(Event::Resumed(resumed.map(Box::new))));
                self.session.connection().map_or(Ok(()), |connection| self.link.redial(connection, done))?;
            }
            Event::Resumed(Ok(resumed)) => {
                let (peer, local) = self.link.resume(&self.session, *resumed)?;
                if let Some(known) = &mut *lock(&self.control.peer) {
                    known.address = peer.ip().to_string();
                    known.source_address = local.ip().to_string();
                }
            }
            Event::Resumed(Err(why)) => return Err(self.session.lost(&why)),
            Event::Connection(event) => {
                if let Some(body) = self.session.message(event, watch)? {
                    return self.on_message(body);
                }
            }
            Event::PathChecked(checked) => self.list(checked?)?,
            Event::Listed(listed) => self.on_listed(listed?)?,
            Event::Rechecked(result) => {
                result?;
                if let Some(pool) = &self.pool {
                    pool.wake();
                }
                self.complete()?;
            }
            Event::Hashed(hashed) => {
                let answer = lock(&self.protocol).hashed(&hashed)?;
                answer.into_iter().for_each(|body| self.session.send(body));
            }
        }
        Ok(None)
    }

    fn list(&mut self, (source, peer): (BlockSource, Peer)) -> Result<(), Fault> {
        *lock(&self.control.peer) = Some(peer);
        self.context.progress.enter(Stage::Listing);
        let Some(connection) = self.session.connection().cloned() else { return Ok(()) };
        let (progress, over) = (Arc::clone(&self.context.progress), Arc::clone(&self.over));
        self.session.spawn("listing", move || Event::Listed(source_work::list(source, &connection, &progress, &over)))
    }

    fn on_listed(&mut self, (source, listing): (Arc<BlockSource>, Listing)) -> Result<(), Fault> {
        let Totals { files, directories, symlinks, bytes } = listing.totals();
        self.context.progress.counters.set_totals(files, bytes);
        self.context
            .progress
            .note_check(Check::passed("Listing", format!("{files} files with {bytes} bytes can be read")));
        let (root_mtime_s, root_mtime_ns) = listing.root_mtime().unzip();
        let root_mtime_ns = root_mtime_ns.unwrap_or_default();
        self.listing = lock(&self.protocol).listed(listing)?;
        let end = ListingEnd { files, directories, symlinks, bytes, root_mtime_s, root_mtime_ns };
        self.session.send(Body::ListingEnd(end));
        let Some(connections) = self.connections.take() else { return Ok(()) };
        let events = self.session.events();
        let packs = SourcePacks::new(
            Arc::clone(&self.protocol),
            Arc::clone(&source),
            Arc::clone(&self.listing),
            Arc::clone(&self.context.progress),
            self.undigested,
        );
        // Held until the pool can be reached, so that no change is lost in between.
        let transports = lock(&self.control.transports);
        let pool = Pool::new(PoolParts {
            connections,
            packs: Arc::new(packs),
            progress: Arc::clone(&self.context.progress),
            pacer: Arc::clone(&self.pacer),
            transports: transports.clone(),
            failed: Box::new(move |fault| {
                let _ = events.try_send(Event::Fault(fault));
            }),
        });
        *lock(&self.control.pool) = Some(Arc::clone(&pool));
        drop(transports);
        self.source = Some(source);
        self.pool = Some(pool);
        Ok(())
    }

    fn on_message(&mut self, body: Body) -> Result<Option<Success>, Fault> {
        if let (Body::Checked(_), true) = (&body, self.args.common.check) {
            self.context.progress.checks_passed();
            return Ok(Some(Success::new(
                Reason::PreflightPassed,
                "every check passed at both ends; nothing was moved",
            )));
        }
        let effect = lock(&self.protocol).on_message(body)?;
        let progress = &self.context.progress;
        match effect {
            None => {}
            Some(SenderEffect::HashFiles(files)) => self.hash(files)?,
            Some(SenderEffect::Planned { skipped, kept, kept_bytes, kept_files }) => {
                progress.checks_passed();
                self.count_planned(&skipped);
                progress.resumed(kept_bytes, kept_files);
                progress.enter(Stage::AwaitingTransport);
                self.held_since = Some(Instant::now());
                if !kept.is_empty() {
                    tracing::info!(bytes = kept_bytes, "the receiver has blocks of an earlier attempt");
                    self.recheck(kept)?;
                }
            }
            Some(SenderEffect::Stored { bytes, files }) => {
                progress.counters.bytes_transferred.fetch_add(bytes, Ordering::Relaxed);
                progress.counters.files_transferred.fetch_add(files, Ordering::Relaxed);
            }
            Some(SenderEffect::Again { bytes, files }) => {
                tracing::warn!(bytes, "the receiver's disk gave damaged blocks back; they are sent again");
                progress.reopened(bytes, files);
                progress.enter(Stage::Transferring);
                if let Some(pool) = &self.pool {
                    pool.start();
                }
            }
            Some(SenderEffect::Finished { root, disk }) => {
                progress.enter(Stage::Done);
                let message = match (self.discards, self.undigested) {
                    (false, _) => "every file arrived, was verified and made durable",
                    (true, false) => "every file arrived and was verified; the receiver keeps nothing",
                    (true, true) => "every byte arrived over a protected wire; the receiver keeps nothing",
                };
                let success = Success::new(Reason::Verified, message);
                // Without digests the root says how much arrived, not what.
                let root = (!self.undigested).then_some(root);
                return Ok(Some(Success { root, disk, ..success }));
            }
        }
        self.complete()?;
        if let Some(pool) = &self.pool {
            pool.wake();
        }
        Ok(None)
    }

    /// Counts files that are not sent, and empty ones, which need no block.
    fn count_planned(&self, skipped: &[FileIndex]) {
        let (listing, progress) = (&self.listing, &self.context.progress);
        progress.counters.files_skipped.store(skipped.len() as u64, Ordering::Relaxed);
        progress.counters.bytes_skipped.store(skipped.iter().map(|file| listing.size(*file)).sum(), Ordering::Relaxed);
        let empty = listing.iter().filter(|(index, entry)| {
            entry.kind == Kind::File && entry.size == 0 && skipped.binary_search(index).is_err()
        });
        progress.counters.files_transferred.store(empty.count() as u64, Ordering::Relaxed);
    }

    /// Reads the blocks that the receiver keeps again.
    fn recheck(&self, kept: Arc<Vec<BlockRun>>) -> Result<(), Fault> {
        let Some(source) = self.source.clone() else { return Err(Fault::protocol("a plan came before the listing")) };
        let (protocol, listing) = (Arc::clone(&self.protocol), Arc::clone(&self.listing));
        let (progress, over) = (Arc::clone(&self.context.progress), Arc::clone(&self.over));
        self.session.spawn("recheck", move || {
            Event::Rechecked(source_work::recheck(&kept, &source, &listing, &protocol, &progress, &over))
        })
    }

    /// Lets data flow once the transport is decided, or once the wait for that is over.
    fn release_if_due(&mut self) {
        let Some(since) = self.held_since else { return };
        let patience = Duration::from_secs(self.args.await_transport.unwrap_or(0));
        if !self.released.load(Ordering::Acquire) && since.elapsed() < patience {
            return;
        }
        self.held_since = None;
        self.context.progress.enter(Stage::Transferring);
        lock(&self.protocol).release();
        let nothing_to_send = match self.complete() {
            Ok(complete) => complete,
            Err(fault) => {
                let _ = self.session.events().try_send(Event::Fault(fault));
                true
            }
        };
        if let (Some(pool), false) = (&self.pool, nothing_to_send) {
            pool.start();
        }
    }

    /// Sends the closing message once every block is stored.
    fn complete(&mut self) -> Result<bool, Fault> {
        let Some(body) = lock(&self.protocol).complete()? else { return Ok(false) };
        self.context.progress.bulk_ended();
        self.note_counts();
        self.context.progress.enter(Stage::Verifying);
        self.session.send(body);
        if let Some(pool) = &self.pool {
            pool.finish();
        }
        Ok(true)
    }

    fn hash(&self, files: Arc<Vec<FileIndex>>) -> Result<(), Fault> {
        let Some(source) = self.source.clone() else {
            return Err(Fault::protocol("files were compared before they were listed"));
        };
        let (events, listing) = (self.session.events(), Arc::clone(&self.listing));
        let (progress, over) = (Arc::clone(&self.context.progress), Arc::clone(&self.over));
        spawn("hash", move || {
            let report = |digests| drop(events.send(Event::Hashed(digests)));
            if let Err(fault) = source_work::hash(&files, &source, &listing, &progress, &over, report) {
                let _ = events.send(Event::Fault(fault));
            }
        })
    }
}

/// Puts the caps in force before anything is listed or sent.
fn apply_caps(args: &SendArguments, pacer: &Arc<Pacer>, over: &Arc<AtomicBool>) -> Result<(), Fault> {
    let unwatched = |error| Fault::new(Reason::InternalError, format!("the bandwidth file is not watched: {error}"));
    if args.bandwidth.is_some() {
        pacer.set_cap(args.bandwidth);
    }
    if let Some(path) = &args.bandwidth_file {
        let capped = Arc::clone(pacer);
        file::watch(path.clone(), file::read, Arc::clone(over), move |cap| capped.set_cap(*cap)).map_err(unwatched)?;
    }
    if let Some(path) = &args.path_bandwidth_file {
        let (capped, paths) = (Arc::clone(pacer), args.connect.len());
        let read = move |path: &Path| file::read_each(path, paths);
        file::watch(path.clone(), read, Arc::clone(over), move |caps: &Vec<_>| capped.set_path_caps(caps))
            .map_err(unwatched)?;
    }
    Ok(())
}
