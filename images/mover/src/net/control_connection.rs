//! The control connection: one thread moves frames both ways over one TLS connection, so that neither way waits for the other.
//! Where there are several paths, another TLS connection may take the place of one that broke, with no message lost or doubled.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlead_protocol::frame::{encode, Decoder};
use fairlead_protocol::message::{Body, ControlMessage, Heartbeat};
use fairlead_protocol::replay::MessageReplay;
use fairlead_protocol::{Fault, Reason};
use fairlead_sys::TcpInfo;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustls::Connection;

use crate::threads::lock;

/// Time before a message is offered to a full inbox again.
const INBOX_RETRY: Duration = Duration::from_millis(5);
/// Reads from a connection that ended: more than one control frame takes.
const SALVAGE_READS: usize = 64;
/// Longest sleep without traffic, and longest wait for the last messages to leave.
const IDLE: Duration = Duration::from_secs(1);

/// Bytes of bulk messages that may wait for the network, and the time between checks of them.
const BACKLOG_BYTES: usize = 1 << 20;
const BACKLOG_POLL: Duration = Duration::from_millis(2);

/// What the control connection reports.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// A message of the peer.
    Message(Body),
    /// The connection is over.
    Closed {
        /// How it ended.
        why: String,
        /// The peer ended it, or this end did.
        in_order: bool,
    },
}

struct Outbox {
    replay: Mutex<MessageReplay>,
    /// Bytes that are queued and not yet encrypted.
    bytes: AtomicUsize,
    closing: AtomicBool,
    wake: OwnedFd,
}

impl Outbox {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Lets messages change, and notes how many bytes wait afterwards.
    fn change<T>(&self, act: impl FnOnce(&mut MessageReplay) -> T) -> T {
        let mut replay = lock(&self.replay);
        let result = act(&mut replay);
        self.bytes.store(replay.unsent_bytes(), Ordering::Relaxed);
        result
    }
}

/// The TLS connection in use and its thread.
struct Current {
    socket: TcpStream,
    retired: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The sending half, shared by all threads that send messages.
#[derive(Clone)]
pub(crate) struct ControlConnection {
    outbox: Arc<Outbox>,
    current: Arc<Mutex<Current>>,
}

impl ControlConnection {
    /// Starts the thread. Messages and the end of the connection go to `inbox`. `resumable`: another connection may take this one's
    /// place.
    pub(crate) fn start<E>(
        connection: Connection,
        socket: TcpStream,
        inbox: SyncSender<E>,
        resumable: bool,
    ) -> io::Result<Self>
    where
        E: From<ConnectionEvent> + Send + 'static,
    {
        let outbox = Arc::new(Outbox {
            replay: Mutex::new(MessageReplay::new(resumable)),
            bytes: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        });
        let current = Arc::new(Mutex::new(Current::start(connection, socket, inbox, &outbox)?));
        Ok(Self { outbox, current })
    }

    /// This end's address, if the kernel still knows it.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        lock(&self.current).socket.local_addr().ok().map(|address| address.ip())
    }

    /// Ends the TLS connection's thread without a word to the inbox. Returns how many messages came to it in all.
    pub(crate) fn retire(&self) -> u64 {
        let mut current = lock(&self.current);
        current.retired.store(true, Ordering::Release);
        let _ = current.socket.shutdown(Shutdown::Both);
        self.outbox.wake();
        let _ = current.thread.take().map(JoinHandle::join);
        lock(&self.outbox.replay).received()
    }

    /// Goes on over another TLS connection, after `retire`. The peer has received so many messages.
    pub(crate) fn resume<E>(
        &self,
        connection: Connection,
        socket: TcpStream,
        inbox: SyncSender<E>,
        received: u64,
    ) -> Result<(), Fault>
    where
        E: From<ConnectionEvent> + Send + 'static,
    {
        self.outbox.change(|replay| replay.resume(received))?;
        let current = Current::start(connection, socket, inbox, &self.outbox);
        let failed = |error: io::Error| Fault::new(Reason::InternalError, format!("the control connection: {error}"));
        *lock(&self.current) = current.map_err(failed)?;
        Ok(())
    }

    /// Queues a message. Bulk producers check `backlog_bytes` first.
    pub(crate) fn send(&self, body: Body) {
        let frame = encode(&ControlMessage { body: Some(body) });
        self.outbox.change(|replay| replay.push(frame));
        self.outbox.wake();
    }

    /// Messages that came.
    pub(crate) fn received(&self) -> u64 {
        lock(&self.outbox.replay).received()
    }

    /// Bytes that are queued and not yet encrypted.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.outbox.bytes.load(Ordering::Relaxed)
    }

    /// Waits until little is queued, so that a bulk producer is no faster than the network. False if `over` came first.
    pub(crate) fn await_room(&self, over: &AtomicBool) -> bool {
        while self.backlog_bytes() > BACKLOG_BYTES {
            if over.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(BACKLOG_POLL);
        }
        true
    }

    /// The kernel's state of the connection.
    pub(crate) fn tcp_info(&self) -> io::Result<TcpInfo> {
        fairlead_sys::tcp_info(&lock(&self.current).socket)
    }

    /// Ends the connection once everything queued is sent.
    pub(crate) fn close(&self) {
        self.outbox.closing.store(true, Ordering::Release);
        self.outbox.wake();
    }

    /// Whether the thread has ended.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.current).thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Current {
    fn start<E>(
        mut connection: Connection,
        socket: TcpStream,
        inbox: SyncSender<E>,
        outbox: &Arc<Outbox>,
    ) -> io::Result<Self>
    where
        E: From<ConnectionEvent> + Send + 'static,
    {
        socket.set_nonblocking(true)?;
        // One frame at a time is encrypted, so the bound of frames is the buffer's; the library's own is below the longest frame.
        connection.set_buffer_limit(None);
        let retired = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            connection,
            socket: socket.try_clone()?,
            outbox: Arc::clone(outbox),
            retired: Arc::clone(&retired),
            decoder: Decoder::default(),
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || worker.run(&inbox))?;
        Ok(Self { socket, retired, thread: Some(thread) })
    }
}

struct Worker {
    connection: Connection,
    socket: TcpStream,
    outbox: Arc<Outbox>,
    retired: Arc<AtomicBool>,
    decoder: Decoder,
}

impl Worker {
    fn run<E: From<ConnectionEvent>>(mut self, inbox: &SyncSender<E>) {
        let (why, in_order) = match self.pump(inbox) {
            Ok(()) => ("the connection was closed".to_owned(), true),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                ("path down: nothing that was sent was acknowledged until the kernel gave up".to_owned(), false)
            }
            Err(error) => (error.to_string(), false),
        };
        let mut event = ConnectionEvent::Closed { why, in_order }.into();
        // Whoever retires this thread waits for its end, and may be the one that empties the inbox.
        while !self.is_retired() {
            match inbox.try_send(event) {
                Err(TrySendError::Full(unsent)) => event = unsent,
                _ => return,
            }
            std::thread::sleep(INBOX_RETRY);
        }
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    fn pump<E: From<ConnectionEvent>>(&mut self, inbox: &SyncSender<E>) -> io::Result<()> {
        let mut held: Option<E> = None;
        let mut closing_since: Option<Instant> = None;
        // The first messages may have come in one packet with the greeting, and nothing after them.
        let mut is_open = self.take_plaintext()?;
        loop {
            if self.is_retired() {
                return Ok(());
            }
            self.encrypt_queue()?;
            if let Err(error) = self.write_out() {
                self.salvage(inbox, &mut held);
                return Err(error);
            }
            if self.outbox.closing.load(Ordering::Acquire) {
                let since = *closing_since.get_or_insert_with(Instant::now);
                if self.is_drained() || since.elapsed() > IDLE {
                    self.connection.send_close_notify();
                    self.write_out()?;
                    let _ = self.socket.shutdown(Shutdown::Write);
                    return Ok(());
                }
            }
            self.deliver(inbox, &mut held)?;
            if is_open && self.wait(held.is_some())? && held.is_none() {
                is_open = self.read_in()?;
            }
            if !is_open {
                self.salvage(inbox, &mut held);
                return Ok(());
            }
        }
    }

    fn is_drained(&self) -> bool {
        !self.connection.wants_write() && lock(&self.outbox.replay).is_sent()
    }

    /// Delivers the peer's last messages: they may explain why the connection ended.
    fn salvage<E: From<ConnectionEvent>>(&mut self, inbox: &SyncSender<E>, held: &mut Option<E>) {
        for _ in 0..SALVAGE_READS {
            if !matches!(self.read_in(), Ok(true)) {
                break;
            }
        }
        while self.deliver(inbox, held).is_ok() && held.is_some() && !self.is_retired() {
            std::thread::sleep(INBOX_RETRY);
        }
    }

    fn encrypt_queue(&mut self) -> io::Result<()> {
        while !self.connection.wants_write() {
            let Some(frame) = self.outbox.change(MessageReplay::next_frame) else { return Ok(()) };
            self.connection.writer().write_all(&frame)?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(_) => self.encrypt_queue()?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Hands whole messages to the inbox; one that finds it full is held, and nothing is read meanwhile.
    fn deliver<E: From<ConnectionEvent>>(&mut self, inbox: &SyncSender<E>, held: &mut Option<E>) -> io::Result<()> {
        loop {
            let event = match held.take() {
                Some(event) => event,
                None => match self.decoder.next_message::<ControlMessage>().map_err(io::Error::other)? {
                    Some(ControlMessage { body: Some(body) }) => {
                        if let Body::Heartbeat(Heartbeat { received, .. }) = body {
                            self.outbox.change(|replay| replay.acknowledged(received)).map_err(io::Error::other)?;
                        }
                        ConnectionEvent::Message(body).into()
                    }
                    // A message of a later version that this one does not know.
                    Some(ControlMessage { body: None }) => {
                        self.outbox.change(MessageReplay::count_received);
                        continue;
                    }
                    None => return Ok(()),
                },
            };
            match inbox.try_send(event) {
                Ok(()) => self.outbox.change(MessageReplay::count_received),
                Err(TrySendError::Full(event)) => {
                    *held = Some(event);
                    return Ok(());
                }
                Err(TrySendError::Disconnected(_)) => return Err(io::Error::other("the session is over")),
            }
        }
    }

    /// Sleeps until something can be done; returns whether the socket can be read.
    fn wait(&self, inbox_full: bool) -> io::Result<bool> {
        let mut interest = if inbox_full { PollFlags::empty() } else { PollFlags::IN };
        if self.connection.wants_write() {
            interest |= PollFlags::OUT;
        }
        let timeout = if inbox_full { INBOX_RETRY } else { IDLE };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut polled = [PollFd::new(&self.socket, interest), PollFd::new(&self.outbox.wake, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if polled[1].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.outbox.wake, &mut [0; 8]);
        }
        Ok(polled[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }

    /// Reads what is there; false at the orderly end.
    fn read_in(&mut self) -> io::Result<bool> {
        match self.connection.read_tls(&mut self.socket) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer went away without a word")),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(true)
            }
            Err(error) => return Err(error),
        }
        self.take_plaintext()
    }

    /// Takes what is decrypted; false at the orderly end.
    fn take_plaintext(&mut self) -> io::Result<bool> {
        let state = self.connection.process_new_packets().map_err(io::Error::other)?;
        let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
        self.connection.reader().read_exact(&mut plaintext)?;
        self.decoder.extend(&plaintext);
        Ok(!state.peer_has_closed())
    }
}

#[cfg(test)]
mod tests;
