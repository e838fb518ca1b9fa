//! The receiver: from the command line to the verdict.

mod acknowledgements;
mod blocks;
mod connections;
mod destination;
mod destination_work;
mod listening;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use fairlead_protocol::digest::{block_length, Digest};
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::listing::{Listing, Totals};
use fairlead_protocol::message::{Body, Checked, Packs};
use fairlead_protocol::receiver::{Receiver, ReceiverEffect, ReceiverStep};
use fairlead_protocol::{Fault, Reason};

use self::acknowledgements::{AcknowledgementTimer, Acknowledgements, PackOutcomes};
use self::blocks::{BlockReceiver, BlockTarget};
use self::connections::{Event, OpenBlocks, SenderConnections};
use self::destination::DiskDestination;
use self::destination_work::{DestinationWork, Reserved};
use self::listening::{announce, ListeningPlaces};
use super::session::{check_resent, PeerWatch, Session, RECEIVER, SENDER, TICK};
use super::TransferContext;
use crate::cli::{self, ReceiveArguments, Verify};
use crate::fs::metadata::{modified_at, Preserve};
use crate::net::affinity;
use crate::net::connect::accept::{Acceptor, ConnectionHandler, DataGreeter, ServerStream, Terms};
use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::echo::Echo;
use crate::net::engine::DataService;
use crate::net::wire::buffers::Unread;
use crate::preflight::destination::ReadOnlyDestination;
use crate::preflight::own_end::{check_receiver, engine_of};
use crate::progress::{Check, Stage};
use crate::report::output;
use crate::report::verdict::Success;
use crate::threads::lock;

/// Longest wait for blocks that are still on their way when the sender is lost.
const LAST_BLOCKS: Duration = Duration::from_millis(500);
/// How long a session is without a control connection before its sender counts as lost.
const RESUME_PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the disk when the transfer has failed.
const LAST_FLUSH: Duration = Duration::from_millis(300);

/// Listens, takes one transfer, and returns how it ended.
pub(crate) fn run(args: &ReceiveArguments, context: &TransferContext) -> Result<Success, Fault> {
    let places = ListeningPlaces::bind(args, &check_receiver(args, &context.progress)?)?;
    let names: Vec<&str> = places.endpoints.iter().filter_map(|place| place.interface.as_deref()).collect();
    let affinity = affinity::pin_beside(&names, args.common.is_pinned());
    let shown: Vec<String> = places.endpoints.iter().map(|place| format!("{}:{}", place.address, place.port)).collect();
    context.progress.note_check(Check::passed("Ports", format!("{} is free, for TCP and UDP", shown.join(", "))));
    let protocol = Arc::new(Mutex::new(Receiver::default()));
    let disk = match &args.destination {
        // Nothing is to be left behind.
        _ if args.common.check => None,
        cli::Destination::Directory(directory) => Some(DiskDestination::open(directory, args, context, &protocol)?),
        cli::Destination::Null => None,
    };
    let unread = if disk.is_some() { Unread::STORED } else { Unread::DISCARDED };
    let unused = disk.as_ref().map(|disk| (Arc::clone(&disk.root), Arc::clone(&disk.partial)));
    let session = Session::new(RECEIVER, SENDER);
    let over = Arc::new(AtomicBool::new(false));
    let blocks = OpenBlocks::default();
    let carrier = engine_of(&args.common);
    let terms = Arc::new(Terms::new(
        args.common.encryption.on_the_wire(),
        carrier.on_the_wire(),
        args.destination == cli::Destination::Null,
        args.common.check,
    )?);
    let internal =
        |error: std::io::Error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
    let echo = Echo::default();
    let ListeningPlaces { endpoints, listeners, echoes } = places;
    let resumable = Arc::default();
    let are_several = listeners.len() > 1;
    let acknowledgements = Arc::new(Acknowledgements::default());
    let handler: Arc<dyn ConnectionHandler> = Arc::new(SenderConnections {
        events: session.events(),
        acknowledgements: Arc::clone(&acknowledgements),
        blocks: Arc::clone(&blocks),
        resumable: Arc::clone(&resumable),
        echo: echo.clone(),
    });
    let greeter = Arc::new(DataGreeter::new(Arc::clone(&context.identity), Arc::clone(&terms)));
    let service = DataService {
        sockets: echoes,
        echo: echo.clone(),
        greeter: Arc::clone(&greeter),
        handler: Arc::clone(&handler),
        progress: Arc::clone(&context.progress),
        stop: Arc::clone(&over),
    };
    carrier.engine().serve(service).map_err(internal)?;
    Acceptor {
        listeners,
        echo_port: endpoints[0].port,
        greeter,
        progress: Arc::clone(&context.progress),
        unread: args.common.socket_buffer.is_none().then_some(unread),
        handler,
        stop: Arc::clone(&over),
    }
    .start()
    .map_err(internal)?;
    announce(args, context, endpoints, affinity);
    let transfer = Transfer {
        args,
        context,
        disk,
        terms,
        undigested: false,
        echo,
        session,
        blocks,
        over: Arc::clone(&over),
        protocol,
        listing: Arc::default(),
        acknowledgements,
        timer: AcknowledgementTimer::default(),
        root: None,
        resumable: are_several.then_some(resumable),
        lost: None,
    };
    let result = transfer.drive();
    over.store(true, Ordering::Relaxed);
    if let (true, Some((root, partial))) = (result.is_err(), unused) {
        partial.remove_if_unused(&root);
    }
    result
}

struct Transfer<'a> {
    args: &'a ReceiveArguments,
    context: &'a TransferContext,
    disk: Option<DiskDestination>,
    terms: Arc<Terms>,
    undigested: bool,
    echo: Echo,
    session: Session<Event>,
    blocks: OpenBlocks,
    over: Arc<AtomicBool>,
    protocol: Arc<Mutex<Receiver>>,
    /// Empty until the listing is complete.
    listing: Arc<Listing>,
    acknowledgements: Arc<Acknowledgements>,
    timer: AcknowledgementTimer,
    /// Digest of the tree, once it is verified.
    root: Option<Digest>,
    /// Where there are several paths: the control connection, of which another may take the place.
    resumable: Option<Arc<OnceLock<ControlConnection>>>,
    /// When the control connection was lost that has not been replaced yet, and how.
    lost: Option<(Instant, String)>,
}

impl Transfer<'_> {
    fn drive(mut self) -> Result<Success, Fault> {
        let mut result = self.await_sender().and_then(|()| self.steps());
        self.echo.close();
        if matches!(&result, Err(fault) if fault.reason == Reason::PeerLost) {
            self.drain_streams();
        }
        if let Some(blocks) = lock(&self.blocks).take() {
            blocks.close_within(if result.is_ok() { Duration::MAX } else { LAST_FLUSH });
        }
        if let Err(fault) = result {
            result = Err(self.session.report(fault));
            if let Some(ledger_writer) = self.disk.as_ref().and_then(|disk| disk.work.ledger_writer.as_ref()) {
                // What cannot be made durable now is read again by the next attempt.
                let _ = ledger_writer.flush(LAST_FLUSH);
            }
        }
        self.session.close();
        result
    }

    /// Takes what a lost sender had sent and the network still delivers, so that no later attempt sends it again.
    fn drain_streams(&mut self) {
        let deadline = Instant::now() + LAST_BLOCKS;
        while self.context.progress.counters.streams.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            self.session.discard_events(Duration::from_millis(5));
        }
    }

    fn await_sender(&mut self) -> Result<(), Fault> {
        let patience = Duration::from_secs(self.args.common.peer_timeout);
        let deadline = Instant::now() + patience;
        let (stream, peer) = loop {
            self.context.stop.check()?;
            self.disk.as_ref().map_or(Ok(()), DiskDestination::check)?;
            match self.session.next(TICK)? {
                Some(Event::Control(stream, peer, undigested)) => {
                    self.undigested = undigested;
                    break (stream, peer);
                }
                _ if Instant::now() >= deadline => {
                    let mut text = format!("no authenticated sender came within {} s", patience.as_secs());
                    if let Some(why) = self.terms.refused() {
                        text = format!("{text}; one was turned away: {why}");
                    }
                    return Err(Fault::new(Reason::PeerUnreachable, text));
                }
                _ => {}
            }
        };
        tracing::info!(%peer, "the sender is authenticated");
        output::event(self.args.common.json, "connected", &serde_json::json!({"peer": peer}));
        self.connect(*stream)
            .map_err(|error| Fault::new(Reason::InternalError, format!("the control connection: {error}")))?;
        self.context.progress.enter(Stage::Listing);
        Ok(())
    }

    fn connect(&mut self, stream: ServerStream) -> std::io::Result<()> {
        let socket = stream.sock.socket().try_clone()?;
        let (connection, _) = stream.into_parts();
        let connection = self.session.connect(connection.into(), socket, self.resumable.is_some())?;
        if let Some(resumable) = &self.resumable {
            let _ = resumable.set(connection);
        }
        Ok(())
    }

    fn steps(&mut self) -> Result<Success, Fault> {
        let stall = Duration::from_secs(self.args.common.stall_timeout);
        let mut watch = self.session.watch(&self.context.progress, stall);
        loop {
            self.context.stop.check()?;
            let patience = self.timer.due_in(self.context.progress.clock.now()).map_or(TICK, |due| due.min(TICK));
            let mut next = self.session.next(patience)?;
            while let Some(event) = next {
                if let Some(success) = self.on_event(event, &mut watch)? {
                    return Ok(success);
                }
                next = self.session.next_waiting();
            }
            let alone = self.needs_no_sender();
            if let Some((_, why)) = self.lost.as_ref().filter(|(since, _)| !alone && since.elapsed() >= RESUME_PATIENCE)
            {
                return Err(self.session.lost(why));
            }
            self.acknowledge();
            self.note_verified();
            self.disk.as_ref().map_or(Ok(()), DiskDestination::check)?;
            check_resent(&self.context.progress, self.args.common.resend_budget)?;
            let Some(connection) = self.session.connection() else { continue };
            if alone {
                watch.tick_alone(connection)?;
            } else {
                watch.tick(connection, self.context.progress.stage() != Stage::Transferring, |evidence| evidence)?;
            }
        }
    }

    /// Whether everything is verified and durable, and only names are left to be changed: who stopped there for a lost sender would
    /// leave a tree of old and new files.
    fn needs_no_sender(&self) -> bool {
        self.context.progress.stage() >= Stage::Publishing
    }

    fn on_event(&mut self, event: Event, watch: &mut PeerWatch) -> Result<Option<Success>, Fault> {
        match event {
            Event::Control(..) | Event::Planned => {}
            Event::Fault(fault) if self.needs_no_sender() => {
                tracing::warn!(%fault, "a connection of the sender failed; what it sent is published all the same");
            }
            Event::Fault(fault) => return Err(fault),
            Event::Resumed(peer) => {
                tracing::info!(%peer, "the session goes on over another connection");
                self.lost = None;
            }
            Event::Connection(event) if self.needs_no_sender() => {
                if let Err(fault) = self.session.message(event, watch) {
                    tracing::warn!(%fault, "the sender is gone; what it sent is published all the same");
                }
            }
            Event::Connection(ConnectionEvent::Closed { why, in_order: false }) if self.resumable.is_some() => {
                tracing::warn!(%why, "the control connection broke; the sender may go on over another path");
                self.lost = Some((Instant::now(), why));
            }
            Event::Connection(event) => {
                if let Some(body) = self.session.message(event, watch)? {
                    let step = lock(&self.protocol).on_message(body)?;
                    self.follow(step)?;
                }
            }
            Event::Packs => self.timer.set_pending(),
            Event::Surveyed(candidates) => {
                let (candidates, recovery) = candidates?;
                if let Some(disk) = &mut self.disk {
                    disk.recovery = recovery;
                }
                let step = lock(&self.protocol).surveyed(candidates)?;
                self.follow(step)?;
            }
            Event::Checked(result) => {
                result?;
                self.context.progress.checks_passed();
                self.session.send(Body::Checked(Checked {}));
                let message = "every check passed at both ends; nothing was moved";
                return Ok(Some(Success::new(Reason::PreflightPassed, message)));
            }
            Event::Hashed(digests) => lock(&self.protocol).hashed(&digests)?,
            Event::HashedAll(states) => {
                if let Some(disk) = &mut self.disk {
                    disk.work.states = Arc::new(states);
                }
                let step = lock(&self.protocol).hashed_all()?;
                self.follow(step)?;
            }
            Event::Reserved(reserved) => self.begin_blocks(*reserved?)?,
            Event::Settled(damaged) => {
                let damaged = damaged?;
                if !damaged.is_empty() {
                    self.reopen(&damaged)?;
                }
                let step = lock(&self.protocol).settled(&damaged)?;
                self.follow(step)?;
            }
            Event::Published(result) => {
                result?;
                return self.finish().map(Some);
            }
        }
        Ok(None)
    }

    fn finish(&mut self) -> Result<Success, Fault> {
        self.context.progress.enter(Stage::Done);
        let disk = self.args.verify == Verify::ReadBack;
        let step = lock(&self.protocol).published(disk)?;
        step.send.into_iter().for_each(|body| self.session.send(body));
        let Totals { files, directories, symlinks, bytes } = self.listing.totals();
        let Some(DiskDestination { root, partial, .. }) = &self.disk else {
            let checked = if self.undigested { "arrived over a protected wire" } else { "arrived and were verified" };
            let message = format!("{bytes} bytes {checked}; nothing is kept");
            let root = self.root.filter(|_| !self.undigested);
            return Ok(Success { root, ..Success::new(Reason::Verified, message) });
        };
        let message =
            format!("{files} files, {directories} directories and {symlinks} links are verified, durable and in place");
        let (root, partial) = (Arc::clone(root), Arc::clone(partial));
        let kept = self.args.preserve.contains(&Preserve::ModificationTime);
        let root_mtime = self.listing.root_mtime().filter(|_| kept);
        let epilogue = move || {
            if let Err(error) = partial.remove(&root) {
                tracing::warn!(%error, "the directory for partial files was not removed");
            }
            // After the last change to the directory. One that belongs to someone else keeps its time.
            let set = root_mtime.map_or(Ok(()), |time| rustix::fs::futimens(&*root, &modified_at(time)));
            if let Err(error) = set {
                tracing::warn!(%error, "the destination directory keeps a modification time of its own");
            }
        };
        Ok(Success {
            root: self.root,
            disk,
            epilogue: Some(Box::new(epilogue)),
            ..Success::new(Reason::Verified, message)
        })
    }

    /// Counts blocks that the disk did not keep, strikes them from the ledger, and lets data flow again.
    fn reopen(&mut self, damaged: &[BlockId]) -> Result<(), Fault> {
        let progress = &self.context.progress;
        let size = |id: &BlockId| u64::from(block_length(self.listing.size(id.file), id.block));
        let bytes = damaged.iter().map(size).sum();
        let mut files: Vec<FileIndex> = damaged.iter().map(|id| id.file).collect();
        files.dedup();
        tracing::warn!(blocks = damaged.len(), "the disk gave damaged blocks back; they are sent again");
        // The sender sends each of them in a pack of its own.
        progress.counters.packs_damaged.fetch_add(damaged.len() as u64, Ordering::Relaxed);
        progress.counters.bytes_resent.fetch_add(bytes, Ordering::Relaxed);
        progress.reopened(bytes, files.len() as u64);
        if let Some(ledger_writer) = self.disk.as_ref().and_then(|disk| disk.work.ledger_writer.as_ref()) {
            ledger_writer.lose(damaged)?;
        }
        self.open_blocks();
        Ok(())
    }

    /// Lets blocks in: from now on data streams are read.
    fn open_blocks(&self) {
        let target = match &self.disk {
            None => BlockTarget::Discard { undigested: self.undigested },
            Some(disk) => match &disk.work.ledger_writer {
                Some(ledger_writer) => BlockTarget::Disk {
                    partial: Arc::clone(&disk.partial),
                    ledger_writer: Arc::clone(ledger_writer),
                    preserve: self.args.preserve.clone(),
                },
                None => return,
            },
        };
        let blocks = BlockReceiver::new(
            Arc::clone(&self.listing),
            Arc::clone(&self.protocol),
            Arc::clone(&self.context.progress),
            target,
        );
        *lock(&self.blocks) = Some(Arc::new(blocks));
        self.context.progress.enter(Stage::Transferring);
    }

    fn follow(&mut self, step: ReceiverStep) -> Result<(), Fault> {
        step.send.into_iter().for_each(|body| self.session.send(body));
        match step.effect {
            None => Ok(()),
            Some(ReceiverEffect::Survey(listing)) => {
                let Totals { files, bytes, .. } = listing.totals();
                self.context.progress.counters.set_totals(files, bytes);
                self.listing = Arc::clone(&listing);
                if self.args.common.check {
                    return self.check_destination(listing);
                }
                let Some(disk) = &mut self.disk else {
                    let step = lock(&self.protocol).surveyed(Vec::new())?;
                    return self.follow(step);
                };
                disk.work.listing = listing;
                let Some(ledger) = disk.ledger.clone() else { return Err(Fault::protocol("a second listing arrived")) };
                self.spawn("survey", move |work| Event::Surveyed(work.survey(&ledger)))
            }
            Some(ReceiverEffect::HashFiles(files)) => {
                let events = self.session.events();
                self.spawn("hash", move |work| {
                    Event::HashedAll(work.hash(&files, |digests| drop(events.send(Event::Hashed(digests)))))
                })
            }
            Some(ReceiverEffect::Reserve { skip }) => self.reserve(skip),
            Some(ReceiverEffect::Settle) => {
                if let Some(blocks) = lock(&self.blocks).take() {
                    blocks.close();
                }
                self.context.progress.enter(Stage::Verifying);
                if self.disk.is_none() {
                    let step = lock(&self.protocol).settled(&[])?;
                    return self.follow(step);
                }
                self.spawn("verify", |work| Event::Settled(work.settle()))
            }
            Some(ReceiverEffect::Publish { root }) => {
                self.root = Some(root);
                self.context.progress.bulk_ended();
                if self.disk.is_none() {
                    return self.session.spawn("publish", || Event::Published(Ok(())));
                }
                self.context.progress.enter(Stage::Publishing);
                self.spawn("publish", move |work| Event::Published(work.publish(root)))
            }
        }
    }

    /// Looks at the destination as a transfer of this listing would, and changes nothing.
    fn check_destination(&self, listing: Arc<Listing>) -> Result<(), Fault> {
        let cli::Destination::Directory(directory) = &self.args.destination else {
            return self.session.spawn("check", || Event::Checked(Ok(())));
        };
        let (place, overwrite) = (self.args.common.place(directory)?, self.args.overwrite);
        let (job, progress) = (self.context.identity.job.clone(), Arc::clone(&self.context.progress));
        self.session.spawn("check", move || {
            let checked = ReadOnlyDestination::open(&place)
                .and_then(|destination| destination.check(&listing, overwrite, &job, &progress));
            Event::Checked(checked)
        })
    }

    fn reserve(&mut self, skip: Arc<Vec<FileIndex>>) -> Result<(), Fault> {
        let Some(disk) = &mut self.disk else {
            let mut plan = lock(&self.protocol).reserved(Vec::new(), |_| Ok(Digest::default()))?;
            self.open_blocks();
            let mut protocol = lock(&self.protocol);
            std::iter::from_fn(|| protocol.plan_frame(&mut plan)).for_each(|body| self.session.send(body));
            return Ok(());
        };
        let (work, ledger, recovery) = disk.take_over(skip)?;
        self.session.spawn("reserve", move || Event::Reserved(work.reserve(ledger, recovery).map(Box::new)))
    }

    /// Lets blocks in, now that the partial files are ready for them, and tells the sender the plan.
    fn begin_blocks(&mut self, reserved: Reserved) -> Result<(), Fault> {
        let Reserved { ledger, recovery, mut plan } = reserved;
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let (progress, skip) = (&self.context.progress, &disk.work.skip);
        progress.checks_passed();
        progress.counters.files_skipped.store(skip.len() as u64, Ordering::Relaxed);
        progress
            .counters
            .bytes_skipped
            .store(skip.iter().map(|file| self.listing.size(*file)).sum(), Ordering::Relaxed);
        disk.resume(&self.listing, &recovery, &ledger, progress)?;
        self.open_blocks();
        let Some(connection) = self.session.connection() else { return Ok(()) };
        let (connection, over, protocol) = (connection.clone(), Arc::clone(&self.over), Arc::clone(&self.protocol));
        self.session.spawn("plan", move || {
            // The lock is not held while the network is waited for.
            let mut next = || lock(&protocol).plan_frame(&mut plan);
            while let Some(body) = next() {
                connection.send(body);
                if !connection.await_room(&over) {
                    break;
                }
            }
            Event::Planned
        })
    }

    /// Does work on the destination on a thread of its own.
    fn spawn(&self, name: &str, work: impl FnOnce(&DestinationWork) -> Event + Send + 'static) -> Result<(), Fault> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let destination = disk.work.clone();
        self.session.spawn(name, move || work(&destination))
    }

    /// Without reading back, what is left to be done of the verify phase is to make the rest durable.
    fn note_verified(&self) {
        let progress = &self.context.progress;
        if self.args.verify == Verify::Checksum {
            let kept = progress.counters.bytes_resumed.load(Ordering::Relaxed);
            progress
                .counters
                .bytes_verified
                .store(kept + progress.counters.bytes_durable.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Sends the sender the outcome of its packs, if that is due.
    fn acknowledge(&mut self) {
        let now = self.context.progress.clock.now();
        if self.timer.due_in(now) != Some(Duration::ZERO) {
            return;
        }
        self.timer.set_sent(now);
        let PackOutcomes { stored, damaged } = self.acknowledgements.take();
        for (packs, body) in [(stored, Body::Stored as fn(Packs) -> Body), (damaged, Body::Damaged)] {
            if !packs.is_empty() {
                self.session.send(body(Packs { packs: packs.into_iter().map(|pack| pack.0).collect() }));
            }
        }
    }
}
