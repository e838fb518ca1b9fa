//! Bytes of a connection as they come, read no further than they can be used where they are, so that nothing is copied twice.

use std::io;

use crate::net::tcp::Metered;

/// A socket with a buffer for what was read ahead.
pub(super) struct Incoming {
    socket: Metered,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    /// Holds at most `capacity` bytes.
    pub(super) fn new(socket: Metered, capacity: usize) -> Self {
        Self { socket, buffer: vec![0; capacity], start: 0, end: 0 }
    }

    /// The socket beneath, behind what is buffered.
    pub(super) fn socket_mut(&mut self) -> &mut Metered {
        &mut self.socket
    }

    /// What was read and not consumed.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Goes on behind `bytes` buffered ones.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// The next bytes: what is buffered, or if there is nothing, what comes, of at most `most` bytes.
    pub(super) fn some(&mut self, most: usize) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.receive(most.min(self.buffer.len()))?;
        }
        Ok(self.buffered())
    }

    /// The next `bytes` bytes in one place, at most the capacity, and meanwhile perhaps up to `beyond` more for later.
    pub(super) fn whole(&mut self, bytes: usize, beyond: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < bytes {
            let most = (self.start + bytes + beyond).min(self.buffer.len());
            self.receive(most - self.end)?;
        }
        Ok(&self.buffer[self.start..self.start + bytes])
    }

    /// Fills `bytes`: long ones straight from the socket, short ones together with up to `beyond` more for later.
    pub(super) fn read_exact(&mut self, bytes: &mut [u8], beyond: usize) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &mut bytes[at..];
            if self.start < self.end {
                let now = rest.len().min(self.end - self.start);
                rest[..now].copy_from_slice(&self.buffered()[..now]);
                self.consume(now);
                at += now;
            } else if rest.len() < beyond {
                self.receive(beyond)?;
            } else {
                at += some_bytes(self.socket.receive(rest)?)?;
            }
        }
        Ok(())
    }

    /// Reads at most `most` bytes more; at least one.
    fn receive(&mut self, most: usize) -> io::Result<()> {
        self.end += some_bytes(self.socket.receive(&mut self.buffer[self.end..self.end + most])?)?;
        Ok(())
    }
}

fn some_bytes(received: usize) -> io::Result<usize> {
    match received {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended without the peer's word")),
        bytes => Ok(bytes),
    }
}
