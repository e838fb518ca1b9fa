//! The bytes of one data connection, for threads that block.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::pack::Header;

use super::flow::Flow;
use super::link::UdtLink;
use crate::net::engine::DataLink;
use crate::net::pacing::gate::{Gate, GatedSink};
use crate::net::wire::{
    read_head, surplus, PackReceiver, PackSender, Payload, WireError, CHUNK_BYTES, FAREWELL, LINGER,
};
use crate::progress::Progress;

/// What the receiver says at the end of a stream. Every datagram is sealed, so it needs no proof of its own.
const READ_TO_THE_END: [u8; 8] = *b"FLU-read";
/// Bytes that are taken from the connection at once.
const TAKEN_BYTES: usize = CHUNK_BYTES;

/// Both ways of the stream, with what was taken ahead.
pub(super) struct UdtStream {
    pub(super) flow: Arc<Flow>,
    taken: VecDeque<Vec<u8>>,
    /// Of the first one taken, what was read.
    read: usize,
    progress: Arc<Progress>,
    deadline: Option<Instant>,
}

impl UdtStream {
    /// Each read and write ends at `deadline`, until `authenticated`.
    pub(super) fn new(flow: Arc<Flow>, progress: Arc<Progress>, deadline: Instant) -> Self {
        Self { flow, taken: VecDeque::new(), read: 0, progress, deadline: Some(deadline) }
    }

    /// Ends the deadline; what is read or written may take `timeout` from now on.
    fn authenticated(&mut self, timeout: Option<Duration>) {
        self.deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    fn count(&self, bytes: usize) {
        self.progress.counters.work.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Takes what is there, and waits for something first.
    fn take(&mut self) -> io::Result<()> {
        let taken = self.flow.wait(self.deadline, |state| {
            let (mut taken, mut bytes) = (VecDeque::new(), 0);
            while bytes < TAKEN_BYTES {
                let Some(piece) = state.connection.read() else { break };
                bytes += piece.len();
                taken.push_back(piece);
            }
            match (taken.is_empty(), state.end()) {
                (false, _) => Some(Ok((taken, bytes))),
                (true, Some(end)) => Some(Err(end)),
                (true, None) => None,
            }
        });
        let (taken, bytes) = taken?;
        (self.taken, self.read) = (taken, 0);
        self.count(bytes);
        Ok(())
    }

    /// Hands exactly `want` bytes to `sink`, in pieces.
    fn pull(&mut self, mut want: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        while want > 0 {
            let Some(first) = self.taken.front() else {
                self.take()?;
                continue;
            };
            let piece = &first[self.read..];
            let piece = &piece[..piece.len().min(want)];
            sink(piece);
            want -= piece.len();
            self.read += piece.len();
            if self.read == first.len() {
                self.taken.pop_front();
                self.read = 0;
            }
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

    /// Writes some of the bytes; nothing if there is no room.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut state = self.flow.lock();
        if let Some(end) = state.end() {
            return Err(end);
        }
        let written = state.connection.write(bytes);
        drop(state);
        if written == 0 {
            return Ok(None);
        }
        self.flow.wake();
        self.count(written);
        Ok(Some(written))
    }

    fn wait_writable(&self) -> io::Result<()> {
        self.flow.wait(self.deadline, |state| match state.end() {
            Some(end) => Some(Err(end)),
            None => (state.connection.write_room() > 0).then_some(Ok(())),
        })
    }
}

/// For greetings.
impl Read for UdtStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken.is_empty() {
            self.take()?;
        }
        let there = self.taken.front().map_or(0, |first| first.len() - self.read);
        let most = there.min(bytes.len());
        self.read_whole(&mut bytes[..most])?;
        Ok(most)
    }
}

impl Write for UdtStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(written) = self.write_now(bytes)? {
                return Ok(written);
            }
            self.wait_writable()?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The sender's end.
pub(super) struct UdtPackSender {
    stream: UdtStream,
    link: Arc<UdtLink>,
    gate: Option<Arc<Gate>>,
}

impl UdtPackSender {
    /// Takes over a greeted stream.
    pub(super) fn new(mut stream: UdtStream) -> Self {
        stream.authenticated(None);
        let link = Arc::new(UdtLink::new(Arc::clone(&stream.flow)));
        Self { stream, link, gate: None }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let gate = self.gate.clone();
        while !bytes.is_empty() {
            let written = match &gate {
                Some(gate) => gate.write(Sink(&mut self.stream), &[IoSlice::new(bytes)])?,
                None => self.stream.write(bytes)?,
            };
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// What the gate writes to.
struct Sink<'a>(&'a mut UdtStream);

impl GatedSink for Sink<'_> {
    fn wait_writable(&mut self) -> io::Result<()> {
        self.0.wait_writable()
    }

    fn write_some(&mut self, slices: &[IoSlice<'_>], most: usize) -> io::Result<usize> {
        let Some(slice) = slices.iter().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let bytes = &slice[..slice.len().min(most).min(CHUNK_BYTES)];
        self.0.write_now(bytes)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl PackSender for UdtPackSender {
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()> {
        self.write_all(head)?;
        payload.pieces().try_for_each(|piece| self.write_all(piece))
    }

    fn check(&mut self) -> io::Result<()> {
        self.stream.flow.lock().end().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_all(&Header::End.encode())?;
        self.stream.authenticated(Some(LINGER));
        let mut said = [0; READ_TO_THE_END.len()];
        self.stream.read_whole(&mut said)?;
        if said != READ_TO_THE_END {
            return Err(surplus());
        }
        self.stream.flow.give_up("everything was read");
        Ok(())
    }

    fn pace(&mut self, gate: Arc<Gate>) {
        self.gate = Some(gate);
    }

    fn link(&self) -> io::Result<Arc<dyn DataLink>> {
        Ok(Arc::<UdtLink>::clone(&self.link))
    }
}

/// Whoever lets go of a stream before its end gives the connection up.
impl Drop for UdtPackSender {
    fn drop(&mut self) {
        self.stream.flow.give_up("given up");
    }
}

/// The receiver's end.
pub(super) struct UdtPackReceiver(UdtStream);

impl UdtPackReceiver {
    /// Takes over a greeted stream.
    pub(super) fn new(mut stream: UdtStream) -> Self {
        stream.authenticated(None);
        Self(stream)
    }
}

impl PackReceiver for UdtPackReceiver {
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
        Ok(read_head(table, |bytes| self.0.read_whole(bytes))?.1)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_whole(bytes)
    }

    fn skim(&mut self, bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.0.pull(bytes, sink)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.authenticated(Some(FAREWELL));
        self.0.write_all(&READ_TO_THE_END)?;
        if !self.0.taken.is_empty() {
            return Err(surplus());
        }
        // What is acknowledged has come, whether or not the sender's last word does.
        self.0.flow.wait(self.0.deadline, |state| {
            if state.connection.is_readable() {
                return Some(Err(surplus()));
            }
            (state.connection.is_flushed() || state.connection.ended().is_some()).then_some(Ok(()))
        })
    }
}

/// A connection that nobody reads any more is over; a stream that ended in order was ended by the sender.
impl Drop for UdtPackReceiver {
    fn drop(&mut self) {
        self.0.flow.give_up("nobody reads it any more");
    }
}
