//! One data connection: a connection of QUIC with a single stream in both directions, for threads that block.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fairlead_protocol::pack::Header;
use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::runtime::Handle;

use super::link::QuicLink;
use super::windows::UnreadWindow;
use crate::net::engine::DataLink;
use crate::net::pacing::gate::{Gate, GatedSink};
use crate::net::wire::{
    read_head, surplus, PackReceiver, PackSender, Payload, WireError, CHUNK_BYTES, FAREWELL, LINGER,
};
use crate::progress::Progress;

/// Pieces that are read at a time, each of a packet: one look at the connection for all of them.
const READ_AHEAD: usize = 32;

/// Both ways of the stream, with what was read ahead.
pub(super) struct QuicStream {
    runtime: Handle,
    pub(super) connection: Connection,
    send: SendStream,
    receive: RecvStream,
    /// In order; none is empty.
    ahead: VecDeque<Bytes>,
    progress: Arc<Progress>,
    deadline: Option<Instant>,
    /// The last write found no room.
    is_full: bool,
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

impl QuicStream {
    /// Each read and write ends at `deadline`, until `authenticated`.
    pub(super) fn new(
        runtime: Handle,
        connection: Connection,
        (send, receive): (SendStream, RecvStream),
        progress: Arc<Progress>,
        deadline: Instant,
    ) -> Self {
        let ahead = VecDeque::with_capacity(READ_AHEAD);
        Self { runtime, connection, send, receive, ahead, progress, deadline: Some(deadline), is_full: false }
    }

    /// Ends the deadline; each read or write may take `timeout` from now on.
    fn authenticated(&mut self, timeout: Option<Duration>) {
        self.deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    fn count(&self, bytes: usize) {
        self.progress.counters.work.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The next bytes, at most `most`; nothing at the end.
    fn next(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        if self.ahead.is_empty() {
            let mut chunks = [const { Bytes::new() }; READ_AHEAD];
            let reading = self.receive.read_chunks(&mut chunks);
            let Some(read) = wait(&self.runtime, self.deadline, reading)?.map_err(broken)? else { return Ok(None) };
            self.ahead.extend(chunks.into_iter().take(read));
            self.count(self.ahead.iter().map(Bytes::len).sum());
        }
        let Some(mut first) = self.ahead.pop_front() else { return Ok(None) };
        let piece = first.split_to(most.min(first.len()));
        if !first.is_empty() {
            self.ahead.push_front(first);
        }
        Ok(Some(piece))
    }

    /// Hands exactly `want` bytes to `sink`, in pieces.
    fn pull(&mut self, mut want: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        while want > 0 {
            let bytes = self.next(want)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            want -= bytes.len();
            sink(&bytes);
        }
        Ok(())
    }

    fn read_whole(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        self.pull(bytes.len(), &mut |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })
    }

    /// Waits until the peer has ended its way too. Further data are an error.
    fn await_end(&mut self) -> io::Result<()> {
        match self.next(1)? {
            None => Ok(()),
            Some(_) => Err(surplus()),
        }
    }
}

/// Waits for what the connection's own threads bring about.
fn wait<T>(runtime: &Handle, deadline: Option<Instant>, work: impl Future<Output = T>) -> io::Result<T> {
    match deadline {
        None => Ok(runtime.block_on(work)),
        Some(deadline) => runtime
            .block_on(async { tokio::time::timeout_at(deadline.into(), work).await })
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the other end took too long")),
    }
}

/// For greetings.
impl Read for QuicStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.next(bytes.len())? {
            None => Ok(0),
            Some(piece) => {
                bytes[..piece.len()].copy_from_slice(&piece);
                Ok(piece.len())
            }
        }
    }
}

impl Write for QuicStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = wait(&self.runtime, self.deadline, self.send.write(bytes))?.map_err(broken)?;
        self.count(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The sender's end.
pub(super) struct QuicPackSender {
    stream: QuicStream,
    link: Arc<QuicLink>,
    gate: Option<Arc<Gate>>,
}

impl QuicPackSender {
    /// Takes over a greeted stream.
    pub(super) fn new(mut stream: QuicStream, link: QuicLink) -> Self {
        stream.authenticated(None);
        Self { stream, link: Arc::new(link), gate: None }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let gate = self.gate.clone();
        while !bytes.is_empty() {
            self.link.fit_buffer();
            let sink = Sink { stream: &mut self.stream, link: &self.link };
            let written = match &gate {
                Some(gate) => gate.write(sink, &[IoSlice::new(bytes)])?,
                None => sink.stream.write(bytes)?,
            };
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// What the gate writes to.
struct Sink<'a> {
    stream: &'a mut QuicStream,
    link: &'a QuicLink,
}

impl GatedSink for Sink<'_> {
    fn wait_writable(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.stream.is_full) {
            return Ok(());
        }
        self.link.waiting.store(true, Ordering::Relaxed);
        // An empty write is done as soon as there is room.
        let QuicStream { runtime, deadline, send, .. } = &mut *self.stream;
        let room = wait(runtime, *deadline, send.write(&[]));
        self.link.waiting.store(false, Ordering::Relaxed);
        room?.map_err(broken).map(drop)
    }

    fn write_some(&mut self, slices: &[IoSlice<'_>], most: usize) -> io::Result<usize> {
        let Some(slice) = slices.iter().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let most = most.min(CHUNK_BYTES);
        let bytes = if slice.len() > most { &slice[..self.link.whole_packets(most)] } else { slice };
        let mut now = Context::from_waker(Waker::noop());
        match std::pin::Pin::new(&mut self.stream.send).poll_write(&mut now, bytes) {
            std::task::Poll::Pending => {
                self.stream.is_full = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
            std::task::Poll::Ready(written) => {
                let written = written.map_err(broken)?;
                self.stream.count(written);
                Ok(written)
            }
        }
    }
}

impl PackSender for QuicPackSender {
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()> {
        self.write_all(head)?;
        payload.pieces().try_for_each(|piece| self.write_all(piece))
    }

    fn check(&mut self) -> io::Result<()> {
        self.stream.connection.close_reason().map_or(Ok(()), |why| Err(broken(why)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_all(&Header::End.encode())?;
        self.stream.send.finish().map_err(broken)?;
        self.stream.authenticated(Some(LINGER));
        self.stream.await_end()?;
        self.stream.connection.close(VarInt::from_u32(0), b"everything was read");
        Ok(())
    }

    fn pace(&mut self, gate: Arc<Gate>) {
        self.gate = Some(gate);
    }

    fn link(&self) -> io::Result<Arc<dyn DataLink>> {
        Ok(Arc::<QuicLink>::clone(&self.link))
    }
}

/// Whoever lets go of a stream before its end gives the connection up.
impl Drop for QuicPackSender {
    fn drop(&mut self) {
        self.link.connection().close(VarInt::from_u32(1), b"given up");
    }
}

/// The receiver's end.
pub(super) struct QuicPackReceiver {
    stream: QuicStream,
    window: UnreadWindow,
}

impl QuicPackReceiver {
    /// Takes over a greeted stream.
    pub(super) fn new(mut stream: QuicStream, window: UnreadWindow) -> Self {
        stream.authenticated(None);
        Self { stream, window }
    }
}

impl PackReceiver for QuicPackReceiver {
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
        let Self { stream, window } = self;
        let read = |bytes: &mut [u8]| {
            window.read(bytes.len());
            stream.read_whole(bytes)
        };
        Ok(read_head(table, read)?.1)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.stream.read_whole(bytes)?;
        self.window.read(bytes.len());
        Ok(())
    }

    fn skim(&mut self, bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.stream.pull(bytes, sink)?;
        self.window.read(bytes);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.authenticated(Some(FAREWELL));
        self.stream.await_end()?;
        self.stream.send.finish().map_err(broken)?;
        // The sender closes when it has that; to close first could lose it.
        let QuicStream { runtime, connection, deadline, .. } = &self.stream;
        wait(runtime, *deadline, connection.closed()).map(drop)
    }
}

/// A stream that is dropped ends as if it had been read: the connection is closed before, unless the sender has done so.
impl Drop for QuicPackReceiver {
    fn drop(&mut self) {
        self.stream.connection.close(VarInt::from_u32(1), b"nobody reads it any more");
    }
}
