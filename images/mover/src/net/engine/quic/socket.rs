//! The receiver's UDP socket: QUIC's, and the echo's, whose requests come to the same port. They cannot be taken for each other: a
//! request carries a tag of the job's key.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{ready, Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::net::echo::Answerer;
use crate::threads::lock;

/// Answers requests of the echo and hands on everything else.
pub(super) struct EchoingSocket {
    pub(super) inner: Arc<dyn AsyncUdpSocket>,
    pub(super) echo: Mutex<Answerer>,
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
        for (buffer, meta) in buffers.iter().zip(metas.iter_mut()).take(received) {
            if Answerer::may_be_asked(&buffer[..meta.len]) {
                buffer[..meta.len].chunks(meta.stride.max(1)).for_each(|datagram| self.answer(datagram, meta));
                // Nothing is left of it for QUIC.
                meta.len = 0;
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
