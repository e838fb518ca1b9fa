//! Where streams wait for their turn under the cap: first come, first served, a small piece at a time. No lock is held while
//! waiting, and a new cap holds at once for those who wait. In a quiet period nothing passes at all.
//!
//! A gate may lie within another one: what it admits is admitted by the other one too, before the next stream's turn, so that no more
//! than a piece is between the two.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::threads::lock;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{sendmsg, SendAncillaryBuffer, SendFlags};

use super::bucket::Bucket;

/// Time at the cap that one piece takes; with the bucket's tolerance it bounds what a second may have too much.
const PIECE: Duration = Duration::from_millis(4);
/// Pieces are whole segments of an Ethernet path where the cap allows it, and no larger than a write pays for.
const SEGMENT_BYTES: u64 = 1448;
const PIECE_BYTES: u64 = 256 << 10;
/// Longest sleep before the state is checked again.
const LOOK: Duration = Duration::from_millis(250);
/// Slices of one write.
const SLICES: usize = 64;

/// What a stream writes to.
pub(crate) trait GatedSink {
    /// Waits until bytes are taken, and notices a peer that reads no more.
    fn wait_writable(&mut self) -> io::Result<()>;
    /// Writes at most `most` bytes without waiting; an error of the kind `WouldBlock` where none are taken.
    fn write_some(&mut self, slices: &[IoSlice<'_>], most: usize) -> io::Result<usize>;
}

/// In blocking mode.
impl GatedSink for &TcpStream {
    fn wait_writable(&mut self) -> io::Result<()> {
        wait_writable(self)
    }

    fn write_some(&mut self, slices: &[IoSlice<'_>], most: usize) -> io::Result<usize> {
        send_some(self, slices, most)
    }
}

/// Lets streams write no faster than the cap, all together.
pub(crate) struct Gate {
    /// What admits too whatever passes here.
    outer: Option<Arc<Gate>>,
    started: Instant,
    /// Bytes of a piece; `u64::MAX` without a cap.
    piece_bytes: AtomicU64,
    /// Thousandths of bytes on the network per byte written.
    per_mille: AtomicU64,
    /// When the last quiet period ends, in nanoseconds since `started`; 0 before the first.
    quiet_until_ns: AtomicU64,
    state: Mutex<State>,
}

struct State {
    bucket: Option<Bucket>,
    waiting: VecDeque<(u64, Thread)>,
    next_ticket: u64,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            outer: None,
            started: Instant::now(),
            piece_bytes: AtomicU64::new(u64::MAX),
            per_mille: AtomicU64::new(1000),
            quiet_until_ns: AtomicU64::new(0),
            state: Mutex::new(State { bucket: None, waiting: VecDeque::new(), next_ticket: 0 }),
        }
    }

    /// A gate that admits what the outer one does too. Quiet periods are the outer one's.
    pub(crate) fn within(outer: &Arc<Self>) -> Self {
        Self { outer: Some(Arc::clone(outer)), ..Self::new() }
    }

    /// Caps what passes in bits per second on the network, or lifts the cap.
    pub(crate) fn set_cap(&self, cap_bps: Option<u64>) {
        let now = self.started.elapsed();
        let mut state = lock(&self.state);
        match (&mut state.bucket, cap_bps) {
            (Some(bucket), Some(cap_bps)) => bucket.set_rate(now, cap_bps),
            (bucket, cap_bps) => *bucket = cap_bps.map(Bucket::new),
        }
        self.piece_bytes.store(cap_bps.map_or(u64::MAX, piece_bytes), Ordering::Release);
        state.waiting.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Lets nothing pass for so long, from now; zero ends a quiet period.
    pub(crate) fn set_quiet(&self, time: Duration) {
        let state = lock(&self.state);
        let until = if time.is_zero() { Duration::ZERO } else { self.started.elapsed() + time };
        self.quiet_until_ns.store(until.as_nanos() as u64, Ordering::Release);
        state.waiting.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// What is left of a quiet period.
    pub(crate) fn quiet_left(&self) -> Duration {
        match self.quiet_until_ns.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            until_ns => Duration::from_nanos(until_ns).saturating_sub(self.started.elapsed()),
        }
    }

    /// Counts bytes on the network that did not pass here: retransmissions, other connections of the transfer.
    pub(crate) fn charge(&self, wire_bytes: u64) {
        if let Some(bucket) = &mut lock(&self.state).bucket {
            bucket.charge(self.started.elapsed(), wire_bytes);
        }
        if let Some(outer) = &self.outer {
            outer.charge(wire_bytes);
        }
    }

    /// Says how many bytes go on the network per thousand bytes written, if that is known.
    pub(crate) fn set_per_mille(&self, per_mille: Option<u64>) {
        if let Some(per_mille) = per_mille {
            self.per_mille.store(per_mille, Ordering::Relaxed);
        }
    }

    /// Whether everything may pass at once.
    fn is_open(&self) -> bool {
        !self.is_capped() && self.quiet_left().is_zero() && self.outer.as_ref().is_none_or(|outer| outer.is_open())
    }

    fn is_capped(&self) -> bool {
        self.piece_bytes.load(Ordering::Acquire) != u64::MAX
    }

    /// Writes some of the slices, and waits until the sink takes them: as `write_vectored`, but in pieces and in turn while there is a cap,
    /// and not before a quiet period is over.
    pub(crate) fn write(&self, mut sink: impl GatedSink, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            if self.is_open() {
                match sink.write_some(slices, usize::MAX) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => sink.wait_writable()?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => return result,
                }
                continue;
            }
            // A stream whose path takes nothing must not hold what others could use.
            sink.wait_writable()?;
            let wanted = slices.iter().map(|slice| slice.len() as u64).sum();
            let admitted = self.admit(wanted);
            let sent = sink.write_some(slices, admitted as usize);
            let unused = admitted - sent.as_ref().map_or(0, |bytes| *bytes as u64);
            if unused > 0 {
                self.refund(unused);
            }
            match sent {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                result => return result,
            }
        }
    }

    /// Whether a stream waits for its turn, or all are to be quiet: the gate, and nothing else, holds them.
    pub(crate) fn holds_back(&self) -> bool {
        !self.quiet_left().is_zero() || !lock(&self.state).waiting.is_empty()
    }

    fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.per_mille.load(Ordering::Relaxed)) / 1000
    }

    fn refund(&self, bytes: u64) {
        self.refund_here(bytes);
        if let Some(outer) = &self.outer {
            outer.refund(bytes);
        }
    }

    fn refund_here(&self, bytes: u64) {
        if let Some(bucket) = &mut lock(&self.state).bucket {
            bucket.refund(self.wire_bytes(bytes));
        }
    }

    /// Waits for this thread's turn; returns how many of the bytes may go now, at least one.
    fn admit(&self, wanted: u64) -> u64 {
        match &self.outer {
            None => self.admit_here(wanted, |bytes| bytes),
            // Nothing to wait for here: as if there were the outer one alone.
            Some(outer) if !self.is_capped() => outer.admit(wanted),
            Some(outer) => self.admit_here(wanted, |bytes| {
                let admitted = outer.admit(bytes);
                if admitted < bytes {
                    self.refund_here(bytes - admitted);
                }
                admitted
            }),
        }
    }

    /// The same by this gate, and then by `next`, which is given what passes here, and returns how much of it may go, while this
    /// thread keeps its place.
    fn admit_here(&self, wanted: u64, next: impl Fn(u64) -> u64) -> u64 {
        let mut state = lock(&self.state);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back((ticket, thread::current()));
        loop {
            let bytes = cut_piece(wanted, self.piece_bytes.load(Ordering::Acquire));
            let first = state.waiting.front().is_some_and(|(other, _)| *other == ticket);
            let quiet = self.quiet_left();
            let wait = match &mut state.bucket {
                _ if !quiet.is_zero() => quiet,
                None => Duration::ZERO,
                Some(_) if !first => LOOK,
                Some(bucket) => {
                    bucket.take(self.started.elapsed(), self.wire_bytes(bytes)).err().unwrap_or(Duration::ZERO)
                }
            };
            if wait.is_zero() {
                drop(state);
                let bytes = next(bytes);
                state = lock(&self.state);
                state.waiting.retain(|(other, _)| *other != ticket);
                if let Some((_, next)) = state.waiting.front() {
                    next.unpark();
                }
                return bytes;
            }
            drop(state);
            thread::park_timeout(wait.min(LOOK));
            state = lock(&self.state);
        }
    }
}

/// Bytes of one piece under a cap: whole segments, so that small caps do not cut packets up.
fn piece_bytes(cap_bps: u64) -> u64 {
    let bytes = u128::from(cap_bps) * PIECE.as_nanos() / 8_000_000_000;
    let segments = u64::try_from(bytes).unwrap_or(u64::MAX) / SEGMENT_BYTES;
    segments.clamp(1, PIECE_BYTES / SEGMENT_BYTES) * SEGMENT_BYTES
}

/// What goes of `wanted` bytes: a piece, or all if little more than a piece is left.
fn cut_piece(wanted: u64, piece: u64) -> u64 {
    if wanted <= piece.saturating_add(piece / 4) {
        wanted
    } else {
        piece
    }
}

/// Waits until the socket takes bytes. A peer that has ended its side reads no more, and a blocking write would not notice.
fn wait_writable(socket: &TcpStream) -> io::Result<()> {
    let timeout = socket.write_timeout()?;
    let timespec = timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::OUT | PollFlags::RDHUP)];
        match poll(&mut polled, timespec.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if polled[0].revents().contains(PollFlags::RDHUP) => {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "the receiver ended a stream that was being sent",
                ));
            }
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends at most `most` bytes without waiting.
fn send_some(socket: &TcpStream, slices: &[IoSlice<'_>], most: usize) -> io::Result<usize> {
    let mut left = most;
    let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(slices.len().min(SLICES));
    for slice in slices.iter().filter(|slice| !slice.is_empty()).take(SLICES) {
        let length = slice.len().min(left);
        pieces.push(IoSlice::new(&slice[..length]));
        left -= length;
        if left == 0 {
            break;
        }
    }
    let mut no_control: [MaybeUninit<u8>; 0] = [];
    let mut ancillary = SendAncillaryBuffer::new(&mut no_control);
    Ok(sendmsg(socket, &pieces, &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::Arc;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (sender, listener.accept().unwrap().0)
    }

    #[test]
    fn pieces_are_whole_segments_and_small_beside_the_cap() {
        for (cap_bps, expected) in [
            (1, 1448),
            (1_000_000, 1448),
            (10_000_000, 3 * 1448),
            (1_000_000_000, 181 * 1448),
            (5_000_000_000, 181 * 1448),
            (u64::MAX, 181 * 1448),
        ] {
            assert_eq!(piece_bytes(cap_bps), expected, "{cap_bps}");
        }
    }

    #[test]
    fn a_write_is_cut_into_pieces_under_a_cap_and_whole_without() {
        let (sender, _receiver) = pair();
        let gate = Gate::new();
        let data = [7u8; 20_000];
        let slices = [IoSlice::new(&data[..6000]), IoSlice::new(&data[6000..])];
        assert_eq!(gate.write(&sender, &slices).unwrap(), 20_000);
        gate.set_cap(Some(10_000_000));
        assert_eq!(gate.write(&sender, &slices).unwrap(), 3 * 1448);
    }

    #[test]
    fn lifting_the_cap_frees_those_who_wait() {
        let gate = Arc::new(Gate::new());
        gate.set_cap(Some(1));
        gate.charge(1 << 30);
        let writers = waiting_writers(&gate, 4);
        gate.set_cap(None);
        for (thread, mut receiver) in writers {
            assert_eq!(thread.join().unwrap(), 6);
            let mut word = [0; 6];
            receiver.read_exact(&mut word).unwrap();
        }
    }

    /// Writers of one message each, once all of them wait, and where their messages arrive.
    fn waiting_writers(gate: &Arc<Gate>, count: usize) -> Vec<(thread::JoinHandle<usize>, TcpStream)> {
        let writer = |_| {
            let gate = Arc::clone(gate);
            let (sender, receiver) = pair();
            (thread::spawn(move || gate.write(&sender, &[IoSlice::new(b"a word")]).unwrap()), receiver)
        };
        let writers = (0..count).map(writer).collect();
        while lock(&gate.state).waiting.len() < count {
            thread::yield_now();
        }
        writers
    }

    #[test]
    fn nothing_passes_in_a_quiet_period_with_and_without_a_cap_until_it_is_ended() {
        for cap_bps in [None, Some(1_000_000_000)] {
            let gate = Arc::new(Gate::new());
            gate.set_cap(cap_bps);
            assert!(!gate.holds_back());
            gate.set_quiet(Duration::from_secs(3600));
            assert!(gate.holds_back(), "before anybody waits");
            let writers = waiting_writers(&gate, 4);
            gate.set_cap(cap_bps);
            for (_, receiver) in &writers {
                receiver.set_nonblocking(true).unwrap();
                assert_eq!((&mut &*receiver).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
                receiver.set_nonblocking(false).unwrap();
            }
            gate.set_quiet(Duration::ZERO);
            assert_eq!(gate.quiet_left(), Duration::ZERO);
            for (thread, mut receiver) in writers {
                assert_eq!(thread.join().unwrap(), 6);
                receiver.read_exact(&mut [0; 6]).unwrap();
            }
        }
    }

    #[test]
    fn a_quiet_period_ends_by_itself_and_a_new_one_replaces_it() {
        let gate = Arc::new(Gate::new());
        gate.set_quiet(Duration::from_secs(3600));
        let writers = waiting_writers(&gate, 4);
        gate.set_quiet(Duration::from_millis(20));
        for (thread, _receiver) in writers {
            assert_eq!(thread.join().unwrap(), 6);
            assert_eq!(gate.quiet_left(), Duration::ZERO, "somebody passed before the end");
        }
        assert!(!gate.holds_back());
    }

    #[test]
    fn a_gate_within_another_admits_what_both_do_and_only_one_stream_of_it_waits_at_the_other() {
        let outer = Arc::new(Gate::new());
        let gate = Arc::new(Gate::within(&outer));
        let owed = |gate: &Gate| {
            lock(&gate.state).bucket.as_mut().map(|bucket| bucket.take(gate.started.elapsed(), 0).is_err())
        };
        let (sender, _receiver) = pair();
        let data = [7u8; 20_000];
        assert_eq!(gate.write(&sender, &[IoSlice::new(&data)]).unwrap(), 20_000);
        outer.set_cap(Some(10_000_000));
        assert_eq!(gate.write(&sender, &[IoSlice::new(&data)]).unwrap(), 3 * 1448, "a piece of the outer one");
        gate.set_cap(Some(1_000_000));
        assert_eq!(gate.write(&sender, &[IoSlice::new(&data)]).unwrap(), 1448, "a piece of its own");
        outer.set_cap(Some(1));
        gate.set_cap(Some(1_000_000_000));
        gate.charge(1 << 30);
        assert_eq!((owed(&gate), owed(&outer)), (Some(true), Some(true)), "both are charged");
        gate.set_cap(None);
        gate.set_cap(Some(1_000_000_000));
        let writers = waiting_writers(&gate, 3);
        while lock(&outer.state).waiting.is_empty() {
            thread::yield_now();
        }
        assert_eq!((lock(&gate.state).waiting.len(), lock(&outer.state).waiting.len()), (3, 1));
        assert!(gate.holds_back() && outer.holds_back());
        outer.set_cap(None);
        for (thread, mut receiver) in writers {
            assert_eq!(thread.join().unwrap(), 6);
            receiver.read_exact(&mut [0; 6]).unwrap();
        }
    }

    #[test]
    fn a_stream_whose_path_takes_nothing_holds_no_turn() {
        let gate = Arc::new(Gate::new());
        gate.set_cap(Some(1_000_000_000));
        let (stuck, never_read) = pair();
        let full = vec![0; 64 << 10];
        stuck.set_nonblocking(true).unwrap();
        while io::Write::write(&mut &stuck, &full).is_ok() {}
        stuck.set_nonblocking(false).unwrap();
        let stuck_gate = Arc::clone(&gate);
        let blocked = thread::spawn(move || stuck_gate.write(&stuck, &[IoSlice::new(&[0; 1000])]).is_ok());
        let (free, mut receiver) = pair();
        for _ in 0..10 {
            assert_eq!(gate.write(&free, &[IoSlice::new(&[0; 1000])]).unwrap(), 1000);
            receiver.read_exact(&mut [0; 1000]).unwrap();
        }
        assert!(lock(&gate.state).waiting.is_empty());
        drop(never_read);
        let _ = blocked.join();
    }

    #[test]
    fn a_blocked_write_notices_that_the_peer_ended_its_side() {
        let (sender, receiver) = pair();
        receiver.shutdown(std::net::Shutdown::Write).unwrap();
        let (gate, bytes) = (Gate::new(), [0; 1 << 16]);
        let ended = loop {
            if let Err(error) = gate.write(&sender, &[IoSlice::new(&bytes)]) {
                break error;
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
    }
}
