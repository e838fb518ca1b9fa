//! Takes connections in and reads their openings. Until its opening is right a connection is a stranger: a socket in a bounded room,
//! with no thread and no handshake.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlead_protocol::opening::{Opening, OpeningError, SeenOpenings, OPENING_BYTES};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::Timespec;
use socket2::SockRef;

use super::identity::Identity;
use crate::net::strangers::{ConnectionSource, Places, Strangers};

/// Time from the first packet to the end of the handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Strangers that are kept: one whose opening was lost on its way has time to send it again.
const PLACES: Places = Places { total: 512, per_source: 128 };
const POLL: Duration = Duration::from_millis(100);
/// Connections that are taken in, or events that are handled, before the others have their turn.
const BATCH: usize = 64;
/// TLS record (RFC 8446, sections 5.1 and 6): the fatal alert `unknown_ca`. A sender with credentials of another attempt learns why.
const UNKNOWN_AUTHORITY: [u8; 7] = [21, 3, 3, 0, 2, 2, 48];

/// A connection whose opening was right.
pub(crate) struct Opened {
    pub(crate) socket: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) opening: Opening,
    /// Until when it must have been greeted.
    pub(crate) deadline: Instant,
}

/// A connection whose opening is not complete.
struct Stranger {
    socket: TcpStream,
    peer: SocketAddr,
    since: Instant,
    bytes: [u8; OPENING_BYTES],
    filled: usize,
    /// It was told that it has the wrong credentials, and may read that.
    is_refused: bool,
}

/// What became of a stranger.
enum Outcome {
    /// It has not sent enough yet.
    Waits,
    Opened(Opening),
    Gone,
}

/// Takes connections from listeners, whose numbers come before those of connections.
pub(crate) struct Door<'a> {
    listeners: &'a [TcpListener],
    identity: &'a Identity,
    epoll: OwnedFd,
    strangers: Strangers<Stranger>,
    seen: SeenOpenings,
    next_number: u64,
}

impl<'a> Door<'a> {
    /// The listeners do not block.
    pub(crate) fn new(listeners: &'a [TcpListener], identity: &'a Identity) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, listener) in (0..).zip(listeners) {
            epoll::add(&epoll, listener, EventData::new_u64(number), EventFlags::IN)?;
        }
        let (strangers, seen) = (Strangers::new(PLACES), SeenOpenings::default());
        Ok(Self { listeners, identity, epoll, strangers, seen, next_number: listeners.len() as u64 })
    }

    /// Hands connections with a right opening to `opened` until `stop` is set. `known` has the sender's addresses once they are known.
    pub(crate) fn serve(
        mut self,
        stop: &AtomicBool,
        known: impl Fn() -> Vec<ConnectionSource>,
        mut opened: impl FnMut(Opened),
    ) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL.subsec_nanos()) };
        while !stop.load(Ordering::Relaxed) {
            let mut events = [MaybeUninit::<Event>::uninit(); BATCH];
            let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Ok((ready, _)) => ready,
                Err(_) => continue,
            };
            for number in ready.iter().map(|event| event.data.u64()) {
                if let Some(listener) = self.listeners.get(number as usize) {
                    self.strangers.prefer(known());
                    self.accept(listener, &mut opened);
                } else {
                    self.advance(number, &mut opened);
                }
            }
            self.expire();
        }
    }

    fn accept(&mut self, listener: &TcpListener, opened: &mut impl FnMut(Opened)) {
        for _ in 0..BATCH {
            match listener.accept() {
                Ok((socket, peer)) => self.admit(socket, peer, opened),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Most likely there are no descriptors left.
                    if let Some(stranger) = self.strangers.evict() {
                        turn_away(&stranger.socket);
                    } else {
                        tracing::warn!(%error, "a connection could not be accepted");
                        std::thread::sleep(POLL);
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr, opened: &mut impl FnMut(Opened)) {
        let number = self.next_number;
        self.next_number += 1;
        let watched = socket.set_nonblocking(true).and_then(|()| {
            let events = EventFlags::IN | EventFlags::RDHUP;
            Ok(epoll::add(&self.epoll, &socket, EventData::new_u64(number), events)?)
        });
        if watched.is_err() {
            return;
        }
        let stranger =
            Stranger { socket, peer, since: Instant::now(), bytes: [0; OPENING_BYTES], filled: 0, is_refused: false };
        if let Some(evicted) = self.strangers.admit(number, peer.ip().into(), stranger) {
            turn_away(&evicted.socket);
        }
        // The opening comes right behind the connection: mostly it is here.
        self.advance(number, opened);
    }

    fn advance(&mut self, number: u64, opened: &mut impl FnMut(Opened)) {
        let Some(stranger) = self.strangers.get_mut(number) else { return };
        match stranger.read(self.identity, &mut self.seen) {
            Outcome::Waits => {}
            Outcome::Gone => {
                if let Some(stranger) = self.strangers.take(number) {
                    turn_away(&stranger.socket);
                }
            }
            Outcome::Opened(opening) => {
                let Some(Stranger { socket, peer, since, .. }) = self.strangers.take(number) else { return };
                let ready = epoll::delete(&self.epoll, &socket).is_ok() && socket.set_nonblocking(false).is_ok();
                if ready {
                    opened(Opened { socket, peer, opening, deadline: since + HANDSHAKE_TIMEOUT });
                }
            }
        }
    }

    fn expire(&mut self) {
        while let Some((number, _)) =
            self.strangers.oldest().filter(|(_, oldest)| oldest.since.elapsed() >= HANDSHAKE_TIMEOUT)
        {
            if let Some(stranger) = self.strangers.take(number) {
                turn_away(&stranger.socket);
            }
        }
    }
}

impl Stranger {
    fn read(&mut self, identity: &Identity, seen: &mut SeenOpenings) -> Outcome {
        if self.is_refused {
            // What it still sends is thrown away, for otherwise the kernel would reset the connection before it has read why.
            return match self.socket.read(&mut [0; 4096]) {
                Ok(1..) => Outcome::Waits,
                Err(error) if is_temporary(&error) => Outcome::Waits,
                _ => Outcome::Gone,
            };
        }
        while self.filled < OPENING_BYTES {
            match self.socket.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Outcome::Gone,
                Ok(bytes) => self.filled += bytes,
                Err(error) if is_temporary(&error) => return Outcome::Waits,
                Err(_) => return Outcome::Gone,
            }
        }
        let checked = identity.check_opening(&self.bytes);
        let checked = checked.and_then(|(opening, nonce)| seen.note(nonce).map(|()| opening));
        match checked {
            Ok(opening) => Outcome::Opened(opening),
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "a connection was turned away");
                let told = error == OpeningError::Tag && self.socket.write(&UNKNOWN_AUTHORITY).is_ok();
                self.is_refused = told && self.socket.shutdown(Shutdown::Write).is_ok();
                if self.is_refused {
                    Outcome::Waits
                } else {
                    Outcome::Gone
                }
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Has the connection reset when it is closed: the kernel keeps nothing of it.
fn turn_away(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}
