//! The receiver: from the command line to the verdict.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver as Inbox, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlead_protocol::digest::{block_length, Digest};
use fairlead_protocol::ledger::Book;
use fairlead_protocol::listing::Kind;
use fairlead_protocol::message::{Body, Packs};
use fairlead_protocol::receiver::{lock, Effect, Receiver, Step};
use fairlead_protocol::{Fault, Reason};

use crate::cli::{Receive, Verify};
use crate::control::http::Endpoint;
use crate::deposit::Job;
use crate::fs::journal::Journal;
use crate::fs::ledger::LedgerDigests;
use crate::fs::partial::Partial;
use crate::fs::recovery::Recovery;
use crate::fs::root::Root;
use crate::fs::survey::{check_space, open_destination, write_fault};
use crate::net::accept::{address_fault, listen, Acceptor, Reception, Secrets, ServerStream};
use crate::net::data::{DataPlane, PackFate, StreamError};
use crate::net::echo::Echo;
use crate::net::interface;
use crate::net::link::{Link, LinkEvent};
use crate::report::output;
use crate::report::progress::Stage;
use crate::report::verdict::Success;
use crate::send::Setting;
use crate::session::{check_resent, failure, Pulse, TICK};

const INBOX: usize = 256;
/// Longest wait for the last words to leave and be read.
const FAREWELL: Duration = Duration::from_secs(1);
/// Longest wait for blocks that are still on their way when the sender is lost.
const LAST_BLOCKS: Duration = Duration::from_millis(500);
/// Longest wait for the disk when the transfer has failed.
const LAST_FLUSH: Duration = Duration::from_millis(300);

enum Event {
    Control(Box<ServerStream>, SocketAddr),
    Link(LinkEvent),
    Pack(PackFate),
    Surveyed(Result<(Vec<u32>, Recovery), Fault>),
    Hashed(Vec<(u32, Digest)>),
    HashedAll,
    Settled(Result<Vec<(u32, u32)>, Fault>),
    Published(Result<(), Fault>),
    /// The sender was told what to send.
    Planned,
    Fault(Fault),
}

impl From<LinkEvent> for Event {
    fn from(event: LinkEvent) -> Self {
        Self::Link(event)
    }
}

/// Where connections of the sender go.
struct Desk {
    events: SyncSender<Event>,
    plane: Arc<Mutex<Option<Arc<DataPlane>>>>,
}

impl Reception for Desk {
    fn control(&self, stream: ServerStream, peer: SocketAddr) {
        let _ = self.events.send(Event::Control(Box::new(stream), peer));
    }

    fn data(&self, mut stream: ServerStream, number: u32) {
        let Some(plane) = lock(&self.plane).clone() else { return };
        plane.progress.streams.fetch_add(1, Ordering::Relaxed);
        let result = plane.receive(&mut stream, |fate| {
            let _ = self.events.send(Event::Pack(fate));
        });
        plane.progress.streams.fetch_sub(1, Ordering::Relaxed);
        match result {
            Ok(()) => drain(&mut stream),
            Err(StreamError::Fault(fault)) => {
                let _ = self.events.send(Event::Fault(fault));
            }
            Err(error) => tracing::debug!(stream = number, %error, "a data connection ended early"),
        }
    }
}

/// Reads the sender's farewell, so that closing does not reset the connection, and answers it.
fn drain(stream: &mut ServerStream) {
    use std::io::{Read, Write};
    if stream.sock.authenticated(Some(FAREWELL)).is_ok() {
        let _ = stream.read(&mut [0; 16]);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

/// Listens, takes one transfer, and says how it went.
pub(crate) fn run(args: &Receive, setting: &Setting) -> Result<Success, Fault> {
    let interfaces = interface::list();
    let (name, address) =
        interface::choose(&interfaces, args.common.interface.as_deref(), args.address, args.node_address)?;
    let listener = listen(address, args.port)?;
    let place = listener.local_addr().map_err(|error| address_fault(SocketAddr::new(address, args.port), &error))?;
    let echo_socket = UdpSocket::bind(place).map_err(|error| address_fault(place, &error))?;
    let root = Arc::new(open_destination(&args.destination)?);
    let (partial, book) = Partial::open(&root, &setting.identity.job, setting.identity.attempt)?;
    let partial = Arc::new(partial);
    let (events, inbox) = sync_channel(INBOX);
    let over = Arc::new(AtomicBool::new(false));
    let plane = Arc::new(Mutex::new(None));
    let secrets = Arc::new(Secrets::new()?);
    let internal =
        |error: std::io::Error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
    let echo = Echo::default();
    echo.start(echo_socket, &secrets.echo_key, Arc::clone(&over)).map_err(internal)?;
    let reception = Desk { events: events.clone(), plane: Arc::clone(&plane) };
    Acceptor {
        listener,
        echo_port: place.port(),
        identity: Arc::clone(&setting.identity),
        secrets,
        progress: Arc::clone(&setting.progress),
        reception,
        stop: Arc::clone(&over),
    }
    .start()
    .map_err(internal)?;
    announce(args, setting, name, place);
    let transfer = Transfer {
        args,
        setting,
        root: Arc::clone(&root),
        partial: Arc::clone(&partial),
        job: Job::new(args, &root, &partial, &setting.progress),
        book: Some(Arc::new(book)),
        recovery: Recovery::default(),
        echo,
        inbox,
        events,
        plane,
        over: Arc::clone(&over),
        session: Receiver::default(),
        link: None,
        stored: Vec::new(),
        damaged: Vec::new(),
    };
    let result = transfer.drive();
    over.store(true, Ordering::Relaxed);
    if result.is_err() {
        partial.remove_if_unused(&root);
    }
    result
}

fn announce(args: &Receive, setting: &Setting, interface: Option<String>, place: SocketAddr) {
    let endpoint = Endpoint {
        role: "receiver",
        numa_node: interface.as_deref().and_then(interface::numa_node),
        interface,
        address: place.ip().to_string(),
        port: place.port(),
    };
    tracing::info!(address = %place, interface = ?endpoint.interface, "waiting for the sender");
    output::event(args.common.json, "listening", &serde_json::to_value(&endpoint).unwrap_or_default());
    *lock(&setting.pages.endpoint) = Some(endpoint);
}

struct Transfer<'a> {
    args: &'a Receive,
    setting: &'a Setting,
    root: Arc<Root>,
    partial: Arc<Partial>,
    job: Job,
    /// What earlier attempts left, until it is taken over.
    book: Option<Arc<Book>>,
    recovery: Recovery,
    echo: Echo,
    inbox: Inbox<Event>,
    events: SyncSender<Event>,
    plane: Arc<Mutex<Option<Arc<DataPlane>>>>,
    over: Arc<AtomicBool>,
    session: Receiver,
    link: Option<(Link, JoinHandle<()>)>,
    stored: Vec<u64>,
    damaged: Vec<u64>,
}

impl Transfer<'_> {
    fn drive(mut self) -> Result<Success, Fault> {
        let mut result = self.await_sender().and_then(|()| self.steps());
        self.echo.serve(None);
        if matches!(&result, Err(fault) if fault.reason == Reason::PeerLost) {
            self.drain_streams();
        }
        if let Some(plane) = lock(&self.plane).take() {
            plane.close();
        }
        if let Err(fault) = result {
            result = Err(self.tell(fault));
            if let Some(journal) = &self.job.journal {
                // What cannot be made durable now is read again by the next attempt.
                let _ = journal.flush(LAST_FLUSH);
            }
        }
        self.farewell();
        result
    }

    /// Takes what a lost sender had sent and the network still delivers, so that no later attempt sends it again.
    fn drain_streams(&mut self) {
        let deadline = Instant::now() + LAST_BLOCKS;
        while self.setting.progress.streams.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            let _ = self.inbox.recv_timeout(Duration::from_millis(5));
        }
    }

    fn await_sender(&mut self) -> Result<(), Fault> {
        let patience = Duration::from_secs(self.args.common.peer_timeout);
        let deadline = Instant::now() + patience;
        let (stream, peer) = loop {
            self.setting.stop.check()?;
            self.partial.ledger().check()?;
            match self.inbox.recv_timeout(TICK) {
                Ok(Event::Control(stream, peer)) => break (stream, peer),
                _ if Instant::now() >= deadline => {
                    let text = format!("no authenticated sender came within {} s", patience.as_secs());
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
            Link::start(connection.into(), socket, self.events.clone())
        };
        self.link = Some(
            start().map_err(|error| Fault::new(Reason::InternalError, format!("the control connection: {error}")))?,
        );
        self.echo.serve(Some(peer.ip()));
        self.setting.progress.enter(Stage::Listing);
        Ok(())
    }

    fn steps(&mut self) -> Result<Success, Fault> {
        let mut pulse = Pulse::new("sender", Arc::clone(&self.setting.progress));
        loop {
            self.setting.stop.check()?;
            let mut next = match self.inbox.recv_timeout(TICK) {
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
            self.partial.ledger().check()?;
            self.job.journal.as_ref().map_or(Ok(()), |journal| journal.check())?;
            check_resent(&self.setting.progress, self.args.common.resend_budget)?;
            if let Some((link, _)) = &self.link {
                pulse.tick(link, self.setting.progress.stage() != Stage::Transferring)?;
            }
        }
    }

    fn on_event(&mut self, event: Event, pulse: &mut Pulse) -> Result<Option<Success>, Fault> {
        match event {
            Event::Control(..) | Event::Planned => {}
            Event::Fault(fault) => return Err(fault),
            Event::Link(LinkEvent::Closed(why)) => {
                return Err(Fault::new(Reason::PeerLost, format!("the connection to the sender ended: {why}")))
            }
            Event::Link(LinkEvent::Message(body)) => match pulse.on_message(body) {
                Some(Body::Failure(failure)) => {
                    return Err(Fault::from_peer("sender", &failure.reason, &failure.message, failure.retry))
                }
                Some(body) => {
                    let step = self.session.on_message(body)?;
                    self.follow(step)?;
                }
                None => {}
            },
            Event::Pack(PackFate::Stored(pack)) => self.stored.push(pack),
            Event::Pack(PackFate::Damaged(pack)) => self.damaged.push(pack),
            Event::Surveyed(candidates) => {
                let (candidates, recovery) = candidates?;
                self.recovery = recovery;
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
        self.setting.progress.enter(Stage::Done);
        let disk = self.args.verify == Verify::ReadBack;
        self.session.published(disk).send.into_iter().for_each(|body| self.say(body));
        let totals = self.session.totals();
        let message = format!(
            "{} files, {} directories and {} links are verified, durable and in place",
            totals.files, totals.directories, totals.symlinks
        );
        let (root, partial) = (Arc::clone(&self.root), Arc::clone(&self.partial));
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
        let (listing, progress) = (self.session.listing(), &self.setting.progress);
        let size = |(file, block): &(u32, u32)| u64::from(block_length(listing.size(*file), *block));
        let bytes = damaged.iter().map(size).sum();
        let mut files: Vec<u32> = damaged.iter().map(|(file, _)| *file).collect();
        files.dedup();
        tracing::warn!(blocks = damaged.len(), "the disk gave damaged blocks back; they are sent again");
        progress.blocks_damaged.fetch_add(damaged.len() as u64, Ordering::Relaxed);
        progress.bytes_resent.fetch_add(bytes, Ordering::Relaxed);
        progress.reopened(bytes, files.len() as u64);
        if let Some(journal) = &self.job.journal {
            journal.lose(damaged)?;
        }
        self.open_plane();
        Ok(())
    }

    fn open_plane(&self) {
        let Some(journal) = self.job.journal.clone() else { return };
        let plane = DataPlane::new(
            Arc::clone(self.session.listing()),
            self.session.assembly(),
            Arc::clone(&self.partial),
            Arc::clone(&self.setting.progress),
            journal,
            self.args.preserve.clone(),
        );
        *lock(&self.plane) = Some(Arc::new(plane));
        self.setting.progress.enter(Stage::Transferring);
    }

    fn follow(&mut self, step: Step) -> Result<(), Fault> {
        step.send.into_iter().for_each(|body| self.say(body));
        match step.effect {
            None => Ok(()),
            Some(Effect::Survey(listing)) => {
                let totals = self.session.totals();
                self.setting.progress.set_totals(totals.files, totals.bytes);
                self.job.listing = listing;
                let Some(book) = self.book.clone() else { return Err(Fault::protocol("a second listing arrived")) };
                self.spawn("survey", move |job| Event::Surveyed(job.survey(&book)))
            }
            Some(Effect::HashFiles(files)) => {
                let events = self.events.clone();
                self.spawn("hash", move |job| {
                    job.hash(&files, |digests| drop(events.send(Event::Hashed(digests))));
                    Event::HashedAll
                })
            }
            Some(Effect::Reserve { skip }) => self.reserve(skip),
            Some(Effect::Settle) => {
                if let Some(plane) = lock(&self.plane).take() {
                    plane.close();
                }
                self.setting.progress.enter(Stage::Verifying);
                self.spawn("verify", |job| Event::Settled(job.settle()))
            }
            Some(Effect::Publish) => {
                self.setting.progress.bulk_ended();
                self.setting.progress.enter(Stage::Publishing);
                let root = self.session.root();
                self.spawn("publish", move |job| Event::Published(job.publish(root)))
            }
        }
    }

    fn reserve(&mut self, skip: Arc<Vec<u32>>) -> Result<(), Fault> {
        let (listing, progress) = (Arc::clone(self.session.listing()), Arc::clone(&self.setting.progress));
        let Some(book) = self.book.take() else { return Err(Fault::protocol("the plan was made before")) };
        self.job.skip = Arc::clone(&skip);
        self.job.assembly = self.session.assembly();
        let mut recovery = std::mem::take(&mut self.recovery);
        self.job.links_claimed = recovery.links_claimed;
        self.job.check_claims(&recovery)?;
        check_space(&self.root, &listing, &skip, recovery.allocated_bytes)?;
        let slots = recovery.settle(&self.partial, &skip)?;
        self.partial.prepare(slots)?;
        recovery.kept.retain(|run| skip.binary_search(&run.file).is_err());
        let (files, bytes) = self.session.skipped();
        progress.files_skipped.store(files, Ordering::Relaxed);
        progress.bytes_skipped.store(bytes, Ordering::Relaxed);
        for (index, entry) in listing.iter() {
            if entry.kind == Kind::File && entry.size == 0 && skip.binary_search(&index).is_err() {
                self.partial.open_entry(index).map_err(|error| write_fault("an empty file", &error))?;
                progress.files_transferred.fetch_add(1, Ordering::Relaxed);
            }
        }
        let kept = std::mem::take(&mut recovery.kept);
        let partial = Arc::clone(&self.partial);
        let mut digests = LedgerDigests::new(partial.ledger());
        let digest = |index: u32, block| {
            let at = recovery.slot(index).and_then(|slot| book.file(slot)).and_then(|file| file.digest_at(block));
            let at = at.ok_or_else(|| Fault::new(Reason::InternalError, "the ledger lost a block that it had"))?;
            digests.read(at).map_err(|error| write_fault("the ledger of partial files", &error))
        };
        let plan = self.session.reserved(kept, digest)?;
        self.resume(&recovery, &book)?;
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

    /// Starts the journal and counts what earlier attempts left and wasted.
    fn resume(&mut self, recovery: &Recovery, book: &Book) -> Result<(), Fault> {
        let (listing, progress) = (self.session.listing(), &self.setting.progress);
        let received_bytes = book.received_bytes();
        let journal = Journal::start(
            Arc::clone(&self.partial),
            Arc::clone(listing),
            Arc::clone(progress),
            recovery,
            received_bytes,
        );
        let failed = |error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
        self.job.journal = Some(Arc::new(journal.map_err(failed)?));
        let assembly = self.session.assembly();
        let (kept_bytes, kept_files) = lock(&assembly).as_ref().map_or((0, 0), |assembly| {
            let kept = assembly.kept();
            let bytes: u64 = kept.iter().map(|run| run.bytes(listing.size(run.file))).sum();
            let files = kept.chunk_by(|left, right| left.file == right.file);
            (bytes, files.filter(|runs| assembly.is_whole(runs[0].file)).count() as u64)
        });
        progress.resumed(kept_bytes, kept_files);
        let published = recovery.claimed.iter().filter(|index| self.job.skip.binary_search(index).is_ok());
        let published_bytes: u64 = published.map(|index| listing.size(*index)).sum();
        let wasted = received_bytes.saturating_sub(recovery.kept_bytes + published_bytes);
        progress.bytes_resent.store(wasted, Ordering::Relaxed);
        if book.attempt > 0 {
            tracing::info!(kept_bytes, published_bytes, wasted, "an earlier attempt left blocks behind");
        }
        Ok(())
    }

    /// Does long work on a thread of its own, so that the session goes on answering.
    fn spawn(&self, name: &str, work: impl FnOnce(&Job) -> Event + Send + 'static) -> Result<(), Fault> {
        let (job, events) = (self.job.clone(), self.events.clone());
        let worker = move || {
            let _ = events.send(work(&job));
        };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(worker);
        spawned.map(|_| ()).map_err(|error| Fault::new(Reason::InternalError, format!("no thread: {error}")))
    }

    fn acknowledge(&mut self) {
        for (packs, body) in [(&mut self.stored, Body::Stored as fn(Packs) -> Body), (&mut self.damaged, Body::Damaged)]
        {
            if let (Some((link, _)), false) = (&self.link, packs.is_empty()) {
                link.send(body(Packs { packs: std::mem::take(packs) }));
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
            if let Event::Link(LinkEvent::Message(Body::Failure(told))) = event {
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
