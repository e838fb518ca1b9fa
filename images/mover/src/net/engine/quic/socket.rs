//! The receiver's UDP socket: QUIC's, and the echo's, whose requests come to the same port. They cannot be taken for each other: a
//! request carries a tag of the job's key.
//!
//! quinn derives keys for every first packet before it asks whether to go on, and answers some, as those of another version. So packets
//! with long headers get to it only if their destination is an ID that a holder of credentials has made, or one of its own.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{ready, Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, ConnectionId, ConnectionIdGenerator, UdpPoller};
use quinn_proto::HashedConnectionIdGenerator;

use crate::fault_injection::panic_point;
use crate::net::connect::accept::DataGreeter;
use crate::net::connect::identity::random;
use crate::net::echo::Answerer;
use crate::threads::lock;

/// The form bit of a long header (RFC 9000, section 17.2).
const LONG: u8 = 0x80;
const VERSION_BYTES: usize = 4;

/// Makes the receiver's own connection IDs, which are known again.
#[derive(Clone, Copy)]
pub(super) struct OwnIds(u64);

impl OwnIds {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(u64::from_ne_bytes(random()?)))
    }

    pub(super) fn generator(self) -> HashedConnectionIdGenerator {
        HashedConnectionIdGenerator::from_key(self.0)
    }
}

/// Answers requests of the echo and hands on what strangers cannot have sent.
pub(super) struct EchoingSocket {
    pub(super) inner: Arc<dyn AsyncUdpSocket>,
    pub(super) echo: Mutex<Answerer>,
    pub(super) greeter: Arc<DataGreeter>,
    pub(super) ids: OwnIds,
}

impl fmt::Debug for EchoingSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl EchoingSocket {
    fn answer(&self, datagram: &[u8], meta: &RecvMeta) {
        if let Some(contents) = lock(&self.echo).answer(meta.addr, datagram) {
            let (destination, src_ip) = (meta.addr, meta.dst_ip);
            // One that is too long for the path, or finds the buffer full, is lost like any datagram.
            let _ = self.inner.try_send(&Transmit {
                destination,
                ecn: None,
                contents: &contents,
                segment_size: None,
                src_ip,
            });
        }
    }
}

impl EchoingSocket {
    /// Whether a stranger cannot have made it. Of packets with short headers the endpoint sees that itself, and is silent.
    fn is_known(&self, datagram: &[u8]) -> bool {
        let Some((_, rest)) = datagram.split_first().filter(|(first, _)| **first & LONG != 0) else { return true };
        let Some((length, rest)) = rest.get(VERSION_BYTES..).and_then(<[u8]>::split_first) else { return false };
        let Some(id) = rest.get(..usize::from(*length)) else { return false };
        let own = self.ids.generator();
        if id.len() == own.cid_len() {
            return own.validate(&ConnectionId::new(id)).is_ok();
        }
        self.greeter.identity().check_connection_id(id).is_ok()
    }
}

/// Takes datagrams of `stride` bytes, the last of which may be shorter, out of a buffer that holds nothing else. The bytes that are left.
fn retain(buffer: &mut [u8], stride: usize, is_kept: impl Fn(&[u8]) -> bool) -> usize {
    let (mut from, mut to) = (0, 0);
    while from < buffer.len() {
        let until = (from + stride.max(1)).min(buffer.len());
        if is_kept(&buffer[from..until]) {
            if to < from {
                buffer.copy_within(from..until, to);
            }
            to += until - from;
        }
        from = until;
    }
    to
}

impl AsyncUdpSocket for EchoingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = ready!(self.inner.poll_recv(context, buffers, metas))?;
        panic_point("DATAGRAMS");
        for (buffer, meta) in buffers.iter_mut().zip(metas.iter_mut()).take(received) {
            if Answerer::may_be_asked(&buffer[..meta.len]) {
                buffer[..meta.len].chunks(meta.stride.max(1)).for_each(|datagram| self.answer(datagram, meta));
                // Nothing is left of it for QUIC.
                meta.len = 0;
            } else {
                meta.len = retain(&mut buffer[..meta.len], meta.stride, |datagram| self.is_known(datagram));
            }
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_leaves_the_others_whole_and_in_order() {
        for (taken, left) in
            [("", "aabbccd"), ("a", "bbccd"), ("b", "aaccd"), ("ac", "bbd"), ("d", "aabbcc"), ("abcd", "")]
        {
            let mut buffer = *b"aabbccd";
            let length = retain(&mut buffer, 2, |datagram| !taken.as_bytes().contains(&datagram[0]));
            assert_eq!(&buffer[..length], left.as_bytes(), "without {taken}");
        }
    }
}
