//! Packs in the clear: a tag after each head, digests in its table for the payload, and a tagged end of both ends.

use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use fairlead_protocol::keyed::{
    KeyedError, Keys, Secret, ANSWER_BYTES, END_OF_RECEIVER, GREETING_BYTES, NONCE_BYTES, TAG_BYTES,
};
use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::pack::Header;

use super::{read_head, Inlet, Outlet, Payload, WireError, CHUNK_BYTES, FAREWELL, LINGER};
use crate::net::identity::random;
use crate::net::pacing::gate::Gate;
use crate::net::tcp::Metered;

/// The sender's end.
pub(crate) struct KeyedOutlet {
    socket: Metered,
    keys: Keys,
}

impl KeyedOutlet {
    /// Greets the receiver and has it prove that it is the one of the control connection.
    pub(crate) fn greet(mut socket: Metered, secret: &Secret, stream: u16) -> io::Result<Self> {
        let greeter = secret.greet(stream, &random::<NONCE_BYTES>()?);
        socket.write_all(greeter.greeting())?;
        let mut answer = [0; ANSWER_BYTES];
        socket.read_exact(&mut answer)?;
        let (proof, keys) = greeter.finish(&answer).map_err(invalid)?;
        socket.write_all(&proof)?;
        socket.authenticated(None)?;
        Ok(Self { socket, keys })
    }
}

impl Outlet for KeyedOutlet {
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()> {
        let tag = self.keys.forward.tag(&[head]);
        let mut pieces = payload.pieces();
        let first = pieces.next().unwrap_or_default();
        write_all_vectored(&mut self.socket, [head, &tag, first])?;
        pieces.try_for_each(|piece| self.socket.write_all(piece))
    }

    fn check(&mut self) -> io::Result<()> {
        if self.socket.peek()? {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the receiver ended an idle stream"));
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.send(&Header::End.encode(), Payload::Zeros(0))?;
        self.socket.authenticated(Some(LINGER))?;
        let mut tag = [0; TAG_BYTES];
        self.socket.read_exact(&mut tag)?;
        self.keys.backward.check(&[END_OF_RECEIVER], &tag).map_err(invalid)
    }

    fn pace(&mut self, gate: Arc<Gate>) {
        self.socket.paced(gate);
    }

    fn socket(&self) -> &TcpStream {
        self.socket.socket()
    }
}

/// The receiver's end.
pub(crate) struct KeyedInlet {
    socket: BufReader<Metered>,
    keys: Keys,
}

impl KeyedInlet {
    /// Hears a greeting, proves that this is the receiver, and has the sender do likewise. The stream's number and the stream.
    pub(crate) fn accept(mut socket: Metered, secret: &Secret) -> io::Result<(u16, Self)> {
        let mut greeting = [0; GREETING_BYTES];
        socket.read_exact(&mut greeting)?;
        let (stream, answer, mut keys) = secret.answer(&greeting, &random::<NONCE_BYTES>()?).map_err(invalid)?;
        if stream >= STREAMS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("streams are numbered below {STREAMS}")));
        }
        socket.write_all(&answer)?;
        let mut proof = [0; TAG_BYTES];
        socket.read_exact(&mut proof)?;
        keys.check_proof(&proof).map_err(invalid)?;
        socket.authenticated(None)?;
        Ok((stream, Self { socket: BufReader::with_capacity(CHUNK_BYTES, socket), keys }))
    }
}

impl Inlet for KeyedInlet {
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
        let (bytes, header) = read_head(table, |bytes| read_exact(&mut self.socket, bytes))?;
        let mut tag = [0; TAG_BYTES];
        read_exact(&mut self.socket, &mut tag)?;
        self.keys.forward.check(&[&bytes, table], &tag).map_err(invalid)?;
        Ok(header)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        read_exact(&mut self.socket, bytes)
    }

    fn skim(&mut self, mut bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        while bytes > 0 {
            let piece = self.socket.fill_buf()?;
            if piece.is_empty() {
                return Err(cut());
            }
            let length = piece.len().min(bytes);
            sink(&piece[..length]);
            self.socket.consume(length);
            bytes -= length;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let surplus = || io::Error::new(io::ErrorKind::InvalidData, "bytes follow the end of a stream");
        if !self.socket.buffer().is_empty() {
            return Err(surplus());
        }
        let tag = self.keys.backward.tag(&[END_OF_RECEIVER]);
        let socket = self.socket.get_mut();
        socket.write_all(&tag)?;
        socket.authenticated(Some(FAREWELL))?;
        // The sender closes when it has the tag; to close first would leave it without, were the connection reset.
        match socket.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(surplus()),
            Err(error) => Err(error),
        }
    }
}

fn read_exact(stream: &mut impl Read, bytes: &mut [u8]) -> io::Result<()> {
    stream.read_exact(bytes).map_err(|error| if error.kind() == io::ErrorKind::UnexpectedEof { cut() } else { error })
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended without the peer's word")
}

fn invalid(error: KeyedError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn write_all_vectored<const N: usize>(socket: &mut Metered, parts: [&[u8]; N]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match socket.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut rest, bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
