//! UDP sockets: many datagrams for one call of the system, and a thread that sleeps until one comes or somebody wakes it.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use quinn::udp::{RecvMeta, Transmit, UdpSocketState, BATCH_SIZE};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

/// Bytes of a batch: less than the largest datagram, of which the kernel cuts it.
const BATCH_BYTES: usize = 60_000;
/// Bytes of one buffer to receive in: what the kernel joins at most.
const BUFFER_BYTES: usize = 1 << 16;

/// Wakes the thread that waits at a socket.
pub(super) struct Waker(OwnedFd);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub(super) fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// A socket with what it can do.
pub(super) struct DatagramSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl DatagramSocket {
    /// Never cuts datagrams into fragments.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state })
    }

    /// Sends datagrams of `segment` bytes, the last of which may be shorter. Those that find no room, or are too long for the path, are
    /// lost like any.
    pub(super) fn send(&self, peer: SocketAddr, own: Option<IpAddr>, contents: &[u8], segment: usize) {
        let segments = self.state.max_gso_segments().max(1);
        for part in contents.chunks(segments * segment.max(1)) {
            let segment_size = (part.len() > segment).then_some(segment);
            let transmit = Transmit { destination: peer, ecn: None, contents: part, segment_size, src_ip: own };
            if let Err(error) = self.state.try_send((&self.socket).into(), &transmit) {
                if error.kind() == io::ErrorKind::WouldBlock {
                    // The kernel's buffer is full: what waits here would only be late.
                    let mut writable = [PollFd::new(&self.socket, PollFlags::OUT)];
                    let _ = poll(&mut writable, Some(&timespec(Duration::from_millis(1))));
                    let _ = self.state.try_send((&self.socket).into(), &transmit);
                } else {
                    tracing::debug!(%error, %peer, "datagrams were not sent");
                }
            }
        }
    }

    /// Waits until a datagram comes, somebody wakes, or the time is over.
    pub(super) fn wait(&self, waker: &Waker, within: Duration) {
        let mut sources = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&waker.0, PollFlags::IN)];
        let woken = poll(&mut sources, Some(&timespec(within))).is_ok() && !sources[1].revents().is_empty();
        if woken {
            let _ = rustix::io::read(&waker.0, &mut [0; 8][..]);
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Buffers to receive in.
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    pub(super) fn new() -> Self {
        Self((0..BATCH_SIZE).map(|_| vec![0; BUFFER_BYTES]).collect())
    }

    /// Hands every datagram that is there to `take`, with where it comes from and went to; how many there were.
    pub(super) fn receive(
        &mut self,
        socket: &DatagramSocket,
        mut take: impl FnMut(SocketAddr, Option<IpAddr>, &mut [u8]),
    ) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<_> = self.0.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let received = match socket.state.recv((&socket.socket).into(), &mut slices, &mut metas) {
            Ok(received) => received,
            // Nothing is there, or an error message of the network, which says nothing that silence would not.
            Err(error) if is_passing(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        drop(slices);
        for (buffer, meta) in self.0.iter_mut().zip(&metas[..received]) {
            let stride = meta.stride.max(1);
            buffer[..meta.len].chunks_mut(stride).for_each(|datagram| take(meta.addr, meta.dst_ip, datagram));
        }
        Ok(received)
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Datagrams of one length to one peer, sent together.
pub(super) struct Batch<'a> {
    socket: &'a DatagramSocket,
    bytes: Vec<u8>,
    segment: usize,
    to: Option<(SocketAddr, Option<IpAddr>)>,
    pub(super) sent: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(socket: &'a DatagramSocket) -> Self {
        Self { socket, bytes: Vec::with_capacity(BUFFER_BYTES), segment: 0, to: None, sent: 0 }
    }

    /// Adds the datagram that `make` appends, if it does.
    pub(super) fn add<E>(
        &mut self,
        peer: SocketAddr,
        own: Option<IpAddr>,
        make: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.to != Some((peer, own)) {
            self.flush();
            self.to = Some((peer, own));
        }
        let start = self.bytes.len();
        if !make(&mut self.bytes)? {
            return Ok(false);
        }
        self.sent += 1;
        let length = self.bytes.len() - start;
        if start == 0 {
            self.segment = length;
        } else if length > self.segment {
            let next = self.bytes.split_off(start);
            self.flush();
            (self.bytes, self.segment, self.to) = (next, length, Some((peer, own)));
        } else if length < self.segment || self.bytes.len() + self.segment > BATCH_BYTES {
            self.flush();
            self.to = Some((peer, own));
        }
        Ok(true)
    }

    pub(super) fn flush(&mut self) {
        if let (false, Some((peer, own))) = (self.bytes.is_empty(), self.to) {
            self.socket.send(peer, own, &self.bytes, self.segment);
        }
        self.bytes.clear();
        (self.segment, self.to) = (0, None);
    }
}
