//! The sender: from the command line to the verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver as Inbox, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::listing::{Listing, Totals};
use fairlead_protocol::message::{Body, ListingEnd};
use fairlead_protocol::receiver::lock;
use fairlead_protocol::sender::{Sender, SenderEffect};
use fairlead_protocol::{Fault, Reason};

use super::session::{check_resent, failure, PeerWatch, TICK};
use super::{reading, TransferContext};
use crate::cli::{self, SendArguments};
use crate::control::http::MoverEndpoint;
use crate::control::socket::{self, Peer, TransportControl};
use crate::fs::block_source::BlockSource;
use crate::fs::source::{Filter, SourceTree};
use crate::net::connect::dial::{self, Admission, ClientStream, Dialer, Greeted};
use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::pacing::{self, Membership, Pacer};
use crate::net::send_buffer::SendBuffer;
use crate::net::streams::outbound::{Pool, PoolParts, Transport};
use crate::net::tcp::Binding;
use crate::net::{interface, tcp, wire};
use crate::report::output;
use crate::report::progress::Stage;
use crate::report::verdict::Success;

const INBOX: usize = 256;
/// Longest wait for the last words to leave.
const FAREWELL: Duration = Duration::from_secs(1);

enum Event {
    Link(ConnectionEvent),
    Listed(Result<(Arc<BlockSource>, Listing), Fault>),
    Hashed(Vec<(u32, Digest)>),
    Rechecked(Result<(), Fault>),
    Fault(Fault),
}

impl From<ConnectionEvent> for Event {
    fn from(event: ConnectionEvent) -> Self {
        Self::Link(event)
    }
}

/// Checks everything that can be checked alone, then transfers.
pub(crate) fn run(args: &SendArguments, context: &TransferContext) -> Result<Success, Fault> {
    tcp::check_congestion_control(&args.congestion_control)?;
    let interface = match args.common.interface.as_deref() {
        None | Some("auto") => None,
        Some(name) => {
            interface::check(&interface::list(), name)?;
            Some(name.to_owned())
        }
    };
    if let Some(address) = args.common.address {
        interface::check_address(&interface::list(), address)?;
    }
    let source = open_source(args)?;
    let pacer = Pacer::start(&context.progress)
        .map_err(|error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}")))?;
    let released = Arc::new(AtomicBool::new(args.await_transport.is_none()));
    let control = open_control(args, context, &pacer, &released)?;
    let dialer = Arc::new(Dialer {
        peer: args.connect,
        binding: Binding { interface, address: args.common.address },
        encryption: args.common.encryption.on_the_wire(),
        source_is_memory: source.is_memory(),
        identity: Arc::clone(&context.identity),
        progress: Arc::clone(&context.progress),
    });
    let stop = context.stop.clone();
    let greeted = match dialer.control(Duration::from_secs(args.common.peer_timeout), &move || stop.signal().is_some())
    {
        Err(fault) => return context.stop.check().and(Err(fault)),
        Ok(greeted) => greeted,
    };
    Transfer::begin(args, context, source, control, pacer, &dialer, greeted, released)?.drive()
}

fn open_source(args: &SendArguments) -> Result<BlockSource, Fault> {
    let directory = match &args.source {
        cli::SourceArgument::Zeros(size) => return Ok(BlockSource::Zeros(*size)),
        cli::SourceArgument::Directory(directory) => directory,
    };
    let filter = Filter::new(&args.include, &args.exclude)
        .map_err(|error| Fault::new(Reason::NameNotAllowed, format!("a pattern is malformed: {error}")))?;
    SourceTree::open(directory, filter).map(BlockSource::Tree)
}

fn open_control(
    args: &SendArguments,
    context: &TransferContext,
    pacer: &Arc<Pacer>,
    released: &Arc<AtomicBool>,
) -> Result<Arc<TransportControl>, Fault> {
    let released = Arc::clone(released);
    let control = Arc::new(TransportControl {
        progress: Arc::clone(&context.progress),
        pacer: Arc::clone(pacer),
        transport: Mutex::new(Transport {
            congestion_control: args.congestion_control.clone(),
            streams: args.streams,
            send_buffer: SendBuffer::before_data(args.common.socket_buffer, None),
        }),
        peer: Mutex::new(None),
        pool: Mutex::new(None),
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
    context: &'a TransferContext,
    link: ControlConnection,
    link_thread: Option<JoinHandle<()>>,
    inbox: Inbox<Event>,
    outbox: SyncSender<Event>,
    session: Arc<Mutex<Sender>>,
    source: Option<Arc<BlockSource>>,
    discards: bool,
    undigested: bool,
    pool_parts: Option<PoolSeed>,
    pool: Option<Arc<Pool>>,
    control: Arc<TransportControl>,
    released: Arc<AtomicBool>,
    await_transport: Duration,
    held_since: Option<Instant>,
    pacer: Arc<Pacer>,
    _control_share: Membership,
    over: Arc<AtomicBool>,
    json: bool,
    patience: Duration,
    resend_budget: Option<u64>,
}

struct PoolSeed {
    dialer: Arc<Dialer>,
    admission: Admission,
}

impl<'a> Transfer<'a> {
    #[allow(clippy::too_many_arguments)]
    fn begin(
        args: &SendArguments,
        context: &'a TransferContext,
        source: BlockSource,
        control: Arc<TransportControl>,
        pacer: Arc<Pacer>,
        dialer: &Arc<Dialer>,
        greeted: Greeted,
        released: Arc<AtomicBool>,
    ) -> Result<Self, Fault> {
        let internal =
            |error: std::io::Error| Fault::new(Reason::InternalError, format!("the control connection: {error}"));
        let Greeted { stream, mut admission, echo_key, echo_port, discards } = greeted;
        let undigested = admission.undigested;
        let local = dial::socket(&stream).local_addr().map_err(internal)?;
        let name = dialer.binding.interface.clone().or_else(|| interface::holding(&interface::list(), local.ip()));
        *lock(&context.pages.endpoint) = Some(MoverEndpoint {
            role: "sender",
            numa_node: name.as_deref().and_then(interface::numa_node),
            interface: name.clone(),
            address: local.ip().to_string(),
            port: local.port(),
        });
        // Without a cap the interface bounds the rate.
        let speed_bps = || name.as_deref().and_then(interface::speed_bps);
        let buffers = |socket| wire::buffers::for_path(socket, args.bandwidth.or_else(speed_bps));
        admission.buffer_bytes = args.common.socket_buffer.or_else(|| buffers(dial::socket(&stream)));
        control.plan_buffer(SendBuffer::before_data(args.common.socket_buffer, admission.buffer_bytes));
        tracing::info!(peer = %args.connect, local = %local, "the receiver is authenticated");
        output::event(args.common.json, "connected", &serde_json::json!({"peer": args.connect, "local": local}));
        let echo_key = echo_key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (address, source_address) = (args.connect.ip().to_string(), local.ip().to_string());
        *lock(&control.peer) = Some(Peer { address, source_address, echo_port, echo_key });
        let (outbox, inbox) = sync_channel(INBOX);
        let ClientStreamParts { connection, socket } = split(stream).map_err(internal)?;
        let control_share = pacer.join(&socket, false).map_err(internal)?;
        let (link, thread) = ControlConnection::start(connection, socket, outbox.clone()).map_err(internal)?;
        let over = Arc::new(AtomicBool::new(false));
        apply_cap(args, &pacer, &over)?;
        context.progress.enter(Stage::Listing);
        spawn_listing(source, link.clone(), outbox.clone(), Arc::clone(&over)).map_err(internal)?;
        Ok(Self {
            context,
            link,
            link_thread: Some(thread),
            inbox,
            outbox,
            session: Arc::default(),
            source: None,
            discards,
            undigested,
            pool_parts: Some(PoolSeed { dialer: Arc::clone(dialer), admission }),
            pool: None,
            control,
            released,
            await_transport: Duration::from_secs(args.await_transport.unwrap_or(0)),
            held_since: None,
            pacer,
            _control_share: control_share,
            over,
            json: args.common.json,
            patience: Duration::from_secs(args.common.stall_timeout),
            resend_budget: args.common.resend_budget,
        })
    }

    fn drive(mut self) -> Result<Success, Fault> {
        let result = self.steps();
        self.over.store(true, Ordering::Relaxed);
        let result = match result {
            Err(fault) => Err(self.tell(fault)),
            success => success,
        };
        if let Some(pool) = &self.pool {
            pool.finish();
        }
        self.link.close();
        self.farewell();
        result
    }

    fn steps(&mut self) -> Result<Success, Fault> {
        let mut pulse = PeerWatch::new("sender", "receiver", Arc::clone(&self.context.progress), self.patience);
        loop {
            self.context.stop.check()?;
            let done = match self.inbox.recv_timeout(TICK) {
                Ok(event) => self.on_event(event, &mut pulse)?,
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::new(Reason::InternalError, "the inbox is gone"))
                }
            };
            if let Some(success) = done {
                return Ok(success);
            }
            self.release_if_due();
            self.context.progress.bytes_resent.store(lock(&self.session).resent_bytes(), Ordering::Relaxed);
            check_resent(&self.context.progress, self.resend_budget)?;
            // A cap may be so low that nothing moves for long, and a quiet period is meant to be still.
            let waiting = self.context.progress.stage() != Stage::Transferring || self.pacer.gate().holds_back();
            pulse.tick(&self.link, waiting, |evidence| self.pacer.evidence(evidence))?;
        }
    }

    fn on_event(&mut self, event: Event, pulse: &mut PeerWatch) -> Result<Option<Success>, Fault> {
        match event {
            Event::Fault(fault) => return Err(fault),
            Event::Link(ConnectionEvent::Closed(why)) => {
                return Err(Fault::new(Reason::PeerLost, format!("the connection to the receiver ended: {why}")))
            }
            Event::Link(ConnectionEvent::Message(body)) => match pulse.on_message(body) {
                Some(Body::Failure(failure)) => {
                    return Err(Fault::from_peer("receiver", &failure.reason, &failure.message, failure.retry))
                }
                Some(body) => return self.on_message(body),
                None => {}
            },
            Event::Listed(listed) => self.on_listed(listed?)?,
            Event::Rechecked(result) => {
                result?;
                if let Some(pool) = &self.pool {
                    pool.wake();
                }
                self.complete()?;
            }
            Event::Hashed(hashed) => {
                let answer = lock(&self.session).hashed(&hashed);
                answer.into_iter().for_each(|body| self.link.send(body));
            }
        }
        Ok(None)
    }

    fn on_listed(&mut self, (source, listing): (Arc<BlockSource>, Listing)) -> Result<(), Fault> {
        let Totals { files, directories, symlinks, bytes } = listing.totals();
        self.context.progress.set_totals(files, bytes);
        lock(&self.session).listed(listing)?;
        self.link.send(Body::ListingEnd(ListingEnd { files, directories, symlinks, bytes }));
        let Some(PoolSeed { dialer, admission }) = self.pool_parts.take() else { return Ok(()) };
        let failed = self.outbox.clone();
        // HeldBlock until the pool can be reached, so that no change is lost in between.
        let transport = lock(&self.control.transport);
        let pool = Pool::new(PoolParts {
            dialer,
            admission,
            session: Arc::clone(&self.session),
            source: Arc::clone(&source),
            progress: Arc::clone(&self.context.progress),
            pacer: Arc::clone(&self.pacer),
            transport: transport.clone(),
            failed: Box::new(move |fault| {
                let _ = failed.try_send(Event::Fault(fault));
            }),
        });
        *lock(&self.control.pool) = Some(Arc::clone(&pool));
        drop(transport);
        self.source = Some(source);
        self.pool = Some(pool);
        Ok(())
    }

    fn on_message(&mut self, body: Body) -> Result<Option<Success>, Fault> {
        let effect = lock(&self.session).on_message(body)?;
        let progress = &self.context.progress;
        match effect {
            None => {}
            Some(SenderEffect::HashFiles(files)) => self.hash(files)?,
            Some(SenderEffect::Planned) => self.on_planned()?,
            Some(SenderEffect::Stored { bytes, files }) => {
                progress.bytes_transferred.fetch_add(bytes, Ordering::Relaxed);
                progress.files_transferred.fetch_add(files, Ordering::Relaxed);
            }
            Some(SenderEffect::Again { bytes, files }) => {
                tracing::warn!(bytes, "the receiver's disk gave damaged blocks back; they are sent again");
                progress.reopened(bytes, files);
                progress.enter(Stage::Transferring);
                if let Some(pool) = &self.pool {
                    pool.start();
                }
            }
            Some(SenderEffect::Finished { disk }) => {
                progress.enter(Stage::Done);
                let root = lock(&self.session).root()?;
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

    fn on_planned(&mut self) -> Result<(), Fault> {
        let progress = &self.context.progress;
        let session = lock(&self.session);
        let (listing, skipped) = (session.listing(), session.skipped());
        let skipped_bytes = skipped.iter().map(|file| listing.size(*file)).sum();
        progress.files_skipped.store(skipped.len() as u64, Ordering::Relaxed);
        progress.bytes_skipped.store(skipped_bytes, Ordering::Relaxed);
        let empty = listing.iter().filter(|(index, entry)| {
            entry.kind == fairlead_protocol::listing::Kind::File
                && entry.size == 0
                && skipped.binary_search(index).is_err()
        });
        progress.files_transferred.store(empty.count() as u64, Ordering::Relaxed);
        let (kept_bytes, kept_files) = session.kept_totals();
        progress.resumed(kept_bytes, kept_files);
        let kept = session.kept();
        drop(session);
        progress.enter(Stage::AwaitingTransport);
        self.held_since = Some(Instant::now());
        if kept.is_empty() {
            return Ok(());
        }
        tracing::info!(bytes = kept_bytes, "the receiver has blocks of an earlier attempt");
        let Some(source) = self.source.clone() else { return Err(Fault::protocol("a plan came before the listing")) };
        let (outbox, over) = (self.outbox.clone(), Arc::clone(&self.over));
        let (session, progress) = (Arc::clone(&self.session), Arc::clone(&self.context.progress));
        spawn("recheck", move || {
            let result = reading::recheck(&kept, &source, &session, &progress, &over);
            let _ = outbox.send(Event::Rechecked(result));
        })
    }

    /// Lets data flow once the transport is decided, or once the wait for that is over.
    fn release_if_due(&mut self) {
        let Some(since) = self.held_since else { return };
        if !self.released.load(Ordering::Acquire) && since.elapsed() < self.await_transport {
            return;
        }
        self.held_since = None;
        self.context.progress.enter(Stage::Transferring);
        lock(&self.session).release();
        let nothing_to_send = match self.complete() {
            Ok(complete) => complete,
            Err(fault) => {
                let _ = self.outbox.try_send(Event::Fault(fault));
                true
            }
        };
        if let (Some(pool), false) = (&self.pool, nothing_to_send) {
            pool.start();
        }
    }

    /// Sends the closing message once every block is stored.
    fn complete(&mut self) -> Result<bool, Fault> {
        let Some(body) = lock(&self.session).complete()? else { return Ok(false) };
        let progress = &self.context.progress;
        progress.bulk_ended();
        progress.blocks_damaged.store(lock(&self.session).damaged_packs(), Ordering::Relaxed);
        progress.enter(Stage::Verifying);
        self.link.send(body);
        if let Some(pool) = &self.pool {
            pool.finish();
        }
        Ok(true)
    }

    fn hash(&self, files: Arc<Vec<u32>>) -> Result<(), Fault> {
        let Some(source) = self.source.clone() else {
            return Err(Fault::protocol("files were compared before they were listed"));
        };
        let listing = lock(&self.session).listing();
        let (outbox, progress) = (self.outbox.clone(), Arc::clone(&self.context.progress));
        let over = Arc::clone(&self.over);
        spawn("hash", move || {
            let tell = |digests| drop(outbox.send(Event::Hashed(digests)));
            if let Err(fault) = reading::hash(&files, &source, &listing, &progress, &over, tell) {
                let _ = outbox.send(Event::Fault(fault));
            }
        })
    }

    /// Tells the receiver of a fault, and waits a moment for what the receiver has to say about a lost connection.
    fn tell(&mut self, fault: Fault) -> Fault {
        if let Some(body) = failure(&fault) {
            self.link.send(body);
        }
        let mut fault = fault;
        while let Ok(event) = self.inbox.try_recv() {
            if let Event::Link(ConnectionEvent::Message(Body::Failure(told))) = event {
                fault = fault.more_telling(Fault::from_peer("receiver", &told.reason, &told.message, told.retry));
            }
        }
        fault
    }

    fn farewell(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        let Some(thread) = self.link_thread.take() else { return };
        while !thread.is_finished() && Instant::now() < deadline {
            let _ = self.inbox.recv_timeout(Duration::from_millis(10));
        }
        output::event(self.json, "closed", &serde_json::json!({}));
    }
}

/// Puts the cap in force before anything is listed or sent.
fn apply_cap(args: &SendArguments, pacer: &Arc<Pacer>, over: &Arc<AtomicBool>) -> Result<(), Fault> {
    let Some(path) = &args.bandwidth_file else {
        if args.bandwidth.is_some() {
            pacer.set_cap(args.bandwidth);
        }
        return Ok(());
    };
    let capped = Arc::clone(pacer);
    pacing::file::watch(path.clone(), Arc::clone(over), move |cap| capped.set_cap(cap))
        .map_err(|error| Fault::new(Reason::InternalError, format!("the bandwidth file is not watched: {error}")))
}

struct ClientStreamParts {
    connection: rustls::Connection,
    socket: std::net::TcpStream,
}

fn split(stream: ClientStream) -> std::io::Result<ClientStreamParts> {
    let socket = dial::socket(&stream).try_clone()?;
    let (connection, _) = stream.into_parts();
    Ok(ClientStreamParts { connection: connection.into(), socket })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(|_| ()).map_err(|error| Fault::new(Reason::InternalError, format!("no thread to {name}: {error}")))
}

fn spawn_listing(
    source: BlockSource,
    link: ControlConnection,
    outbox: SyncSender<Event>,
    over: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let worker = move || {
        let _ = outbox.send(Event::Listed(reading::list(source, &link, &over)));
    };
    std::thread::Builder::new().name("listing".into()).spawn(worker).map(|_| ())
}
