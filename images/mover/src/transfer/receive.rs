//! The receiver: from the command line to the verdict.

mod desk;
mod disk;
mod receipts;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver as Inbox, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlead_protocol::digest::{block_length, Digest};
use fairlead_protocol::message::{Body, Packs};
use fairlead_protocol::receiver::{lock, Receiver, ReceiverEffect, ReceiverStep};
use fairlead_protocol::{Fault, Reason};

use self::desk::{Desk, Event};
use self::disk::Disk;
use self::receipts::{PackOutcomes, Receipts, Rhythm};
use super::deposit::Job;
use super::session::{check_resent, failure, PeerWatch, TICK};
use super::TransferContext;
use crate::cli::{self, ReceiveArguments, Verify};
use crate::control::http::MoverEndpoint;
use crate::fs::partial::ledger_file::LedgerDigests;
use crate::fs::survey::write_fault;
use crate::net::connect::accept::{address_fault, listen, Acceptor, Terms};
use crate::net::control_connection::{ConnectionEvent, ControlConnection};
use crate::net::echo::Echo;
use crate::net::interface;
use crate::net::streams::inbound::{DataPlane, Depot};
use crate::net::wire::buffers::Unread;
use crate::report::output;
use crate::report::progress::Stage;
use crate::report::verdict::Success;

const INBOX: usize = 256;
/// Longest wait for the last words to leave and be read.
const FAREWELL: Duration = Duration::from_secs(1);
/// Longest wait for blocks that are still on their way when the sender is lost.
const LAST_BLOCKS: Duration = Duration::from_millis(500);
/// Longest wait for the disk when the transfer has failed.
const LAST_FLUSH: Duration = Duration::from_millis(300);

/// Listens, takes one transfer, and says how it went.
pub(crate) fn run(args: &ReceiveArguments, context: &TransferContext) -> Result<Success, Fault> {
    let interfaces = interface::list();
    let (name, address) =
        interface::choose(&interfaces, args.common.interface.as_deref(), args.common.address, args.node_address)?;
    let listener = listen(address, args.port, args.common.socket_buffer)?;
    let place = listener.local_addr().map_err(|error| address_fault(SocketAddr::new(address, args.port), &error))?;
    let echo_socket = UdpSocket::bind(place).map_err(|error| address_fault(place, &error))?;
    let disk = match &args.destination {
        cli::Destination::Directory(directory) => Some(Disk::open(directory, args, context)?),
        cli::Destination::Null => None,
    };
    let unread = if disk.is_some() { Unread::STORED } else { Unread::DISCARDED };
    let unused = disk.as_ref().map(|disk| (Arc::clone(&disk.root), Arc::clone(&disk.partial)));
    let (events, inbox) = sync_channel(INBOX);
    let over = Arc::new(AtomicBool::new(false));
    let plane = Arc::new(Mutex::new(None));
    let terms = Arc::new(Terms::new(args.common.encryption.on_the_wire(), disk.is_none())?);
    let internal =
        |error: std::io::Error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
    let echo = Echo::default();
    echo.start(echo_socket, &terms.echo_key, Arc::clone(&over)).map_err(internal)?;
    let receipts = Arc::new(Receipts::default());
    let reception = Desk { events: events.clone(), receipts: Arc::clone(&receipts), plane: Arc::clone(&plane) };
    Acceptor {
        listener,
        echo_port: place.port(),
        identity: Arc::clone(&context.identity),
        terms: Arc::clone(&terms),
        progress: Arc::clone(&context.progress),
        unread: args.common.socket_buffer.is_none().then_some(unread),
        reception,
        stop: Arc::clone(&over),
    }
    .start()
    .map_err(internal)?;
    announce(args, context, name, place);
    let transfer = Transfer {
        args,
        context,
        disk,
        terms,
        undigested: false,
        echo,
        inbox,
        events,
        plane,
        over: Arc::clone(&over),
        session: Receiver::default(),
        link: None,
        receipts,
        rhythm: Rhythm::default(),
    };
    let result = transfer.drive();
    over.store(true, Ordering::Relaxed);
    if let (true, Some((root, partial))) = (result.is_err(), unused) {
        partial.remove_if_unused(&root);
    }
    result
}

fn announce(args: &ReceiveArguments, context: &TransferContext, interface: Option<String>, place: SocketAddr) {
    let endpoint = MoverEndpoint {
        role: "receiver",
        numa_node: interface.as_deref().and_then(interface::numa_node),
        interface,
        address: place.ip().to_string(),
        port: place.port(),
    };
    tracing::info!(address = %place, interface = ?endpoint.interface, "waiting for the sender");
    output::event(args.common.json, "listening", &serde_json::to_value(&endpoint).unwrap_or_default());
    *lock(&context.pages.endpoint) = Some(endpoint);
}

struct Transfer<'a> {
    args: &'a ReceiveArguments,
    context: &'a TransferContext,
    disk: Option<Disk>,
    terms: Arc<Terms>,
    undigested: bool,
    echo: Echo,
    inbox: Inbox<Event>,
    events: SyncSender<Event>,
    plane: Arc<Mutex<Option<Arc<DataPlane>>>>,
    over: Arc<AtomicBool>,
    session: Receiver,
    link: Option<(ControlConnection, JoinHandle<()>)>,
    receipts: Arc<Receipts>,
    rhythm: Rhythm,
}

impl Transfer<'_> {
    fn drive(mut self) -> Result<Success, Fault> {
        let mut result = self.await_sender().and_then(|()| self.steps());
        self.echo.serve(None);
        if matches!(&result, Err(fault) if fault.reason == Reason::PeerLost) {
            self.drain_streams();
        }
        if let Some(plane) = lock(&self.plane).take() {
            plane.close_within(if result.is_ok() { Duration::MAX } else { LAST_FLUSH });
        }
        if let Err(fault) = result {
            result = Err(self.tell(fault));
            if let Some(ledger_writer) = self.disk.as_ref().and_then(|disk| disk.job.ledger_writer.as_ref()) {
                // What cannot be made durable now is read again by the next attempt.
                let _ = ledger_writer.flush(LAST_FLUSH);
            }
        }
        self.farewell();
        result
    }

    /// Takes what a lost sender had sent and the network still delivers, so that no later attempt sends it again.
    fn drain_streams(&mut self) {
        let deadline = Instant::now() + LAST_BLOCKS;
        while self.context.progress.streams.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            let _ = self.inbox.recv_timeout(Duration::from_millis(5));
        }
    }

    fn await_sender(&mut self) -> Result<(), Fault> {
        let patience = Duration::from_secs(self.args.common.peer_timeout);
        let deadline = Instant::now() + patience;
        let (stream, peer) = loop {
            self.context.stop.check()?;
            self.disk.as_ref().map_or(Ok(()), Disk::check)?;
            match self.inbox.recv_timeout(TICK) {
                Ok(Event::Control(stream, peer, undigested)) => {
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
        let start = || {
            let socket = stream.sock.socket().try_clone()?;
            let (connection, _) = stream.into_parts();
            ControlConnection::start(connection.into(), socket, self.events.clone())
        };
        self.link = Some(
            start().map_err(|error| Fault::new(Reason::InternalError, format!("the control connection: {error}")))?,
        );
        self.echo.serve(Some(peer.ip()));
        self.context.progress.enter(Stage::Listing);
        Ok(())
    }

    fn steps(&mut self) -> Result<Success, Fault> {
        let mut pulse = PeerWatch::new(
            "receiver",
            "sender",
            Arc::clone(&self.context.progress),
            Duration::from_secs(self.args.common.stall_timeout),
        );
        loop {
            self.context.stop.check()?;
            let patience = self.rhythm.due_in(self.context.progress.now()).map_or(TICK, |due| due.min(TICK));
            let mut next = match self.inbox.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::new(Reason::InternalError, "the inbox is gone"))
                }
            };
            while let Some(event) = next {
                if let Some(success) = self.on_event(event, &mut pulse)? {
                    return Ok(success);
                }
                next = self.inbox.try_recv().ok();
            }
            self.acknowledge();
            self.note_verified();
            self.disk.as_ref().map_or(Ok(()), Disk::check)?;
            check_resent(&self.context.progress, self.args.common.resend_budget)?;
            if let Some((link, _)) = &self.link {
                pulse.tick(link, self.context.progress.stage() != Stage::Transferring, |evidence| evidence)?;
            }
        }
    }

    fn on_event(&mut self, event: Event, pulse: &mut PeerWatch) -> Result<Option<Success>, Fault> {
        match event {
            Event::Control(..) | Event::Planned => {}
            Event::Fault(fault) => return Err(fault),
            Event::Link(ConnectionEvent::Closed(why)) => {
                return Err(Fault::new(Reason::PeerLost, format!("the connection to the sender ended: {why}")))
            }
            Event::Link(ConnectionEvent::Message(body)) => match pulse.on_message(body) {
                Some(Body::Failure(failure)) => {
                    return Err(Fault::from_peer("sender", &failure.reason, &failure.message, failure.retry))
                }
                Some(body) => {
                    let step = self.session.on_message(body)?;
                    self.follow(step)?;
                }
                None => {}
            },
            Event::Packs => self.rhythm.wait(),
            Event::Surveyed(candidates) => {
                let (candidates, recovery) = candidates?;
                if let Some(disk) = &mut self.disk {
                    disk.recovery = recovery;
                }
                let step = self.session.surveyed(candidates);
                self.follow(step)?;
            }
            Event::Hashed(digests) => self.session.hashed(&digests),
            Event::HashedAll => {
                let step = self.session.hashed_all();
                self.follow(step)?;
            }
            Event::Settled(damaged) => {
                let damaged = damaged?;
                if !damaged.is_empty() {
                    self.reopen(&damaged)?;
                }
                let step = self.session.settled(&damaged)?;
                self.follow(step)?;
            }
            Event::Published(result) => {
                result?;
                return Ok(Some(self.finish()));
            }
        }
        Ok(None)
    }

    fn finish(&mut self) -> Success {
        self.context.progress.enter(Stage::Done);
        let disk = self.args.verify == Verify::ReadBack;
        self.session.published(disk).send.into_iter().for_each(|body| self.say(body));
        let totals = self.session.totals();
        let Some(Disk { root, partial, .. }) = &self.disk else {
            let checked = if self.undigested { "arrived over a protected wire" } else { "arrived and were verified" };
            let message = format!("{} bytes {checked}; nothing is kept", totals.bytes);
            let root = (!self.undigested).then(|| self.session.root());
            return Success { root, ..Success::new(Reason::Verified, message) };
        };
        let message = format!(
            "{} files, {} directories and {} links are verified, durable and in place",
            totals.files, totals.directories, totals.symlinks
        );
        let (root, partial) = (Arc::clone(root), Arc::clone(partial));
        let epilogue = move || {
            if let Err(error) = partial.remove(&root) {
                tracing::warn!(%error, "the directory for partial files was not removed");
            }
        };
        Success {
            root: Some(self.session.root()),
            disk,
            epilogue: Some(Box::new(epilogue)),
            ..Success::new(Reason::Verified, message)
        }
    }

    /// Takes blocks back that the disk did not keep, and lets data flow again.
    fn reopen(&mut self, damaged: &[(u32, u32)]) -> Result<(), Fault> {
        let (listing, progress) = (self.session.listing(), &self.context.progress);
        let size = |(file, block): &(u32, u32)| u64::from(block_length(listing.size(*file), *block));
        let bytes = damaged.iter().map(size).sum();
        let mut files: Vec<u32> = damaged.iter().map(|(file, _)| *file).collect();
        files.dedup();
        tracing::warn!(blocks = damaged.len(), "the disk gave damaged blocks back; they are sent again");
        progress.blocks_damaged.fetch_add(damaged.len() as u64, Ordering::Relaxed);
        progress.bytes_resent.fetch_add(bytes, Ordering::Relaxed);
        progress.reopened(bytes, files.len() as u64);
        if let Some(ledger_writer) = self.disk.as_ref().and_then(|disk| disk.job.ledger_writer.as_ref()) {
            ledger_writer.lose(damaged)?;
        }
        self.open_plane();
        Ok(())
    }

    fn open_plane(&self) {
        let depot = match &self.disk {
            None => Depot::Null { undigested: self.undigested },
            Some(disk) => match &disk.job.ledger_writer {
                Some(ledger_writer) => Depot::Disk {
                    partial: Arc::clone(&disk.partial),
                    ledger_writer: Arc::clone(ledger_writer),
                    preserve: self.args.preserve.clone(),
                },
                None => return,
            },
        };
        let plane = DataPlane::new(
            Arc::clone(self.session.listing()),
            self.session.assembly(),
            Arc::clone(&self.context.progress),
            depot,
        );
        *lock(&self.plane) = Some(Arc::new(plane));
        self.context.progress.enter(Stage::Transferring);
    }

    fn follow(&mut self, step: ReceiverStep) -> Result<(), Fault> {
        step.send.into_iter().for_each(|body| self.say(body));
        match step.effect {
            None => Ok(()),
            Some(ReceiverEffect::Survey(listing)) => {
                let totals = self.session.totals();
                self.context.progress.set_totals(totals.files, totals.bytes);
                let Some(disk) = &mut self.disk else {
                    let step = self.session.surveyed(Vec::new());
                    return self.follow(step);
                };
                disk.job.listing = listing;
                let Some(book) = disk.book.clone() else { return Err(Fault::protocol("a second listing arrived")) };
                self.spawn("survey", move |job| Event::Surveyed(job.survey(&book)))
            }
            Some(ReceiverEffect::HashFiles(files)) => {
                let events = self.events.clone();
                self.spawn("hash", move |job| {
                    job.hash(&files, |digests| drop(events.send(Event::Hashed(digests))));
                    Event::HashedAll
                })
            }
            Some(ReceiverEffect::Reserve { skip }) => self.reserve(skip),
            Some(ReceiverEffect::Settle) => {
                if let Some(plane) = lock(&self.plane).take() {
                    plane.close();
                }
                self.context.progress.enter(Stage::Verifying);
                if self.disk.is_none() {
                    let step = self.session.settled(&[])?;
                    return self.follow(step);
                }
                self.spawn("verify", |job| Event::Settled(job.settle()))
            }
            Some(ReceiverEffect::Publish) => {
                self.context.progress.bulk_ended();
                if self.disk.is_none() {
                    return self.later("publish", || Event::Published(Ok(())));
                }
                self.context.progress.enter(Stage::Publishing);
                let root = self.session.root();
                self.spawn("publish", move |job| Event::Published(job.publish(root)))
            }
        }
    }

    fn reserve(&mut self, skip: Arc<Vec<u32>>) -> Result<(), Fault> {
        let (listing, progress) = (Arc::clone(self.session.listing()), Arc::clone(&self.context.progress));
        let Some(disk) = &mut self.disk else {
            let plan = self.session.reserved(Vec::new(), |_, _| Ok(Digest::default()))?;
            self.open_plane();
            plan.for_each(|body| self.say(body));
            return Ok(());
        };
        let (book, mut recovery) = disk.reserve(&listing, skip, self.session.assembly(), &progress)?;
        let (files, bytes) = self.session.skipped();
        progress.files_skipped.store(files, Ordering::Relaxed);
        progress.bytes_skipped.store(bytes, Ordering::Relaxed);
        let (kept, partial) = (std::mem::take(&mut recovery.kept), Arc::clone(&disk.partial));
        let mut digests = LedgerDigests::new(partial.ledger());
        let digest = |index: u32, block| {
            let at = recovery.slot(index).and_then(|slot| book.file(slot)).and_then(|file| file.digest_at(block));
            let at = at.ok_or_else(|| Fault::new(Reason::InternalError, "the ledger lost a block that it had"))?;
            digests.read(at).map_err(|error| write_fault("the ledger of partial files", &error))
        };
        let plan = self.session.reserved(kept, digest)?;
        disk.resume(&listing, &recovery, &book, &progress)?;
        self.open_plane();
        let Some((link, _)) = &self.link else { return Ok(()) };
        let (link, over) = (link.clone(), Arc::clone(&self.over));
        self.spawn("plan", move |_| {
            for body in plan {
                link.send(body);
                if !link.await_room(&over) {
                    break;
                }
            }
            Event::Planned
        })
    }

    /// Does long work on a thread of its own, so that the session goes on answering.
    fn spawn(&self, name: &str, work: impl FnOnce(&Job) -> Event + Send + 'static) -> Result<(), Fault> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let job = disk.job.clone();
        self.later(name, move || work(&job))
    }

    fn later(&self, name: &str, work: impl FnOnce() -> Event + Send + 'static) -> Result<(), Fault> {
        let events = self.events.clone();
        let worker = move || {
            let _ = events.send(work());
        };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(worker);
        spawned.map(|_| ()).map_err(|error| Fault::new(Reason::InternalError, format!("no thread: {error}")))
    }

    /// Without reading back, what is left to be done of the verify phase is to make the rest durable.
    fn note_verified(&self) {
        let progress = &self.context.progress;
        if self.args.verify == Verify::Checksum {
            let kept = progress.bytes_resumed.load(Ordering::Relaxed);
            progress.bytes_verified.store(kept + progress.bytes_durable.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Tells the sender what became of its packs, if that is due.
    fn acknowledge(&mut self) {
        let now = self.context.progress.now();
        if self.rhythm.due_in(now) != Some(Duration::ZERO) {
            return;
        }
        self.rhythm.tell(now);
        let PackOutcomes { stored, damaged } = self.receipts.take();
        for (packs, body) in [(stored, Body::Stored as fn(Packs) -> Body), (damaged, Body::Damaged)] {
            if !packs.is_empty() {
                self.say(body(Packs { packs }));
            }
        }
    }

    fn say(&self, body: Body) {
        if let Some((link, _)) = &self.link {
            link.send(body);
        }
    }

    fn tell(&mut self, fault: Fault) -> Fault {
        let mut fault = fault;
        if let Some(body) = failure(&fault) {
            self.say(body);
        }
        while let Ok(event) = self.inbox.try_recv() {
            if let Event::Link(ConnectionEvent::Message(Body::Failure(told))) = event {
                fault = fault.more_telling(Fault::from_peer("sender", &told.reason, &told.message, told.retry));
            }
        }
        fault
    }

    fn farewell(&mut self) {
        let Some((link, thread)) = self.link.take() else { return };
        link.close();
        let deadline = Instant::now() + FAREWELL;
        while !thread.is_finished() && Instant::now() < deadline {
            let _ = self.inbox.recv_timeout(Duration::from_millis(10));
        }
    }
}
