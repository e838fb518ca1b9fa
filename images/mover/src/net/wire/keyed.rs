//! Packs in the clear: a tag after each head, digests in its table for the payload or a tag after each piece of it, and a tagged
//! end of both ends.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use fairlead_protocol::keyed::{
    KeyedError, Keys, PieceTag, PieceTagger, Secret, ANSWER_BYTES, END_OF_RECEIVER, GREETING_BYTES, NONCE_BYTES,
    PIECE_BYTES, PIECE_TAG_BYTES, TAG_BYTES,
};
use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::pack::{Header, HEADER_BYTES, SEGMENT_BYTES};

use super::incoming::Incoming;
use super::{read_head, PackReceiver, PackSender, Payload, WireError, CHUNK_BYTES, FAREWELL, LINGER};
use crate::net::connect::identity::random;
use crate::net::engine::tcp::TcpLink;
use crate::net::engine::DataLink;
use crate::net::pacing::gate::Gate;
use crate::net::tcp::Metered;

/// Head of a pack of one block, with its tag: what is read together with the end of the pack before.
const NEXT_HEAD_BYTES: usize = HEADER_BYTES + SEGMENT_BYTES + TAG_BYTES;
/// Pieces that are handed to the system at once.
const PIECES: usize = CHUNK_BYTES / PIECE_BYTES;
const _: () = assert!(CHUNK_BYTES % PIECE_BYTES == 0, "both ends cut a payload alike");

/// The sender's end.
pub(crate) struct KeyedPackSender {
    socket: Metered,
    keys: Keys,
    /// If blocks carry no digests.
    pieces: Option<PieceTagger>,
}

impl KeyedPackSender {
    /// Greets the receiver and has it prove that it is the one of the control connection. `undigested`: blocks carry no digests.
    pub(crate) fn greet(mut socket: Metered, secret: &Secret, stream: u16, undigested: bool) -> io::Result<Self> {
        let greeter = secret.greet(stream, &random::<NONCE_BYTES>()?);
        socket.write_all(greeter.greeting())?;
        let mut answer = [0; ANSWER_BYTES];
        socket.read_exact(&mut answer)?;
        let (proof, keys) = greeter.finish(&answer).map_err(invalid)?;
        socket.write_all(&proof)?;
        socket.authenticated(None)?;
        let pieces = pieces(&keys, undigested)?;
        Ok(Self { socket, keys, pieces })
    }

    /// Sends up to `PIECES` pieces, each with its tag behind it, and what comes before them.
    fn send_pieces(&mut self, before: [&[u8]; 2], chunk: &[u8], are_zeros: bool) -> io::Result<()> {
        let Some(tagger) = &mut self.pieces else {
            return write_all_vectored(&mut self.socket, [before[0], before[1], chunk]);
        };
        let mut tags = [PieceTag::default(); PIECES];
        for (piece, tag) in chunk.chunks(PIECE_BYTES).zip(&mut tags) {
            *tag = if are_zeros { tagger.tag_zeros(piece) } else { tagger.tag(piece) }.map_err(invalid)?;
        }
        let mut parts: [&[u8]; 2 + 2 * PIECES] = [&[]; 2 + 2 * PIECES];
        parts[..2].copy_from_slice(&before);
        for ((place, piece), tag) in parts[2..].chunks_exact_mut(2).zip(chunk.chunks(PIECE_BYTES)).zip(&tags) {
            place.copy_from_slice(&[piece, tag]);
        }
        write_all_vectored(&mut self.socket, parts)
    }
}

impl PackSender for KeyedPackSender {
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()> {
        let (tag, are_zeros) = (self.keys.forward.tag(&[head]), matches!(payload, Payload::Zeros(_)));
        let mut before = [head, &tag];
        for chunk in payload.pieces() {
            self.send_pieces(std::mem::take(&mut before), chunk, are_zeros)?;
        }
        write_all_vectored(&mut self.socket, before)
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

    fn link(&self) -> io::Result<Arc<dyn DataLink>> {
        Ok(TcpLink::new(self.socket.socket())?)
    }
}

/// The receiver's end.
pub(crate) struct KeyedPackReceiver {
    incoming: Incoming,
    keys: Keys,
    /// If blocks carry no digests.
    pieces: Option<PieceTagger>,
    /// Payload of the present pack that was not read yet.
    payload_left: usize,
    /// Bytes at the front of `incoming` whose tag was checked, and which nobody took yet; the tag follows them.
    checked: usize,
}

impl KeyedPackReceiver {
    /// Hears a greeting, proves that this is the receiver, and has the sender do likewise. The stream's number and the stream.
    pub(crate) fn accept(mut socket: Metered, secret: &Secret, undigested: bool) -> io::Result<(u16, Self)> {
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
        let pieces = pieces(&keys, undigested)?;
        let incoming = Incoming::new(socket, CHUNK_BYTES + NEXT_HEAD_BYTES);
        Ok((stream, Self { incoming, keys, pieces, payload_left: 0, checked: 0 }))
    }

    /// Payload that is known to be the sender's, at most `most` bytes of it; to be taken by `advance`.
    fn payload(&mut self, most: usize) -> io::Result<&[u8]> {
        let Some(tagger) = &mut self.pieces else {
            let bytes = self.incoming.some(self.payload_left.max(most))?;
            return Ok(&bytes[..bytes.len().min(most)]);
        };
        if self.checked == 0 {
            let length = self.payload_left.min(PIECE_BYTES);
            if length == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a pack has less payload than its blocks"));
            }
            let whole = length + PIECE_TAG_BYTES;
            let next = if length == self.payload_left { NEXT_HEAD_BYTES } else { 0 };
            let (piece, tag) = self.incoming.whole(whole, next)?.split_at(length);
            let mut expected = PieceTag::default();
            expected.copy_from_slice(tag);
            tagger.check(piece, &expected).map_err(invalid)?;
            self.checked = length;
        }
        let now = self.checked.min(most);
        Ok(&self.incoming.buffered()[..now])
    }

    /// Goes on behind bytes that `payload` gave.
    fn advance(&mut self, bytes: usize) {
        self.incoming.consume(bytes);
        self.payload_left = self.payload_left.saturating_sub(bytes);
        if self.pieces.is_some() {
            self.checked -= bytes;
            if self.checked == 0 {
                self.incoming.consume(PIECE_TAG_BYTES);
            }
        }
    }
}

impl PackReceiver for KeyedPackReceiver {
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError> {
        let (bytes, header) = read_head(table, |bytes| self.incoming.read_exact(bytes, NEXT_HEAD_BYTES))?;
        let mut tag = [0; TAG_BYTES];
        self.incoming.read_exact(&mut tag, 0)?;
        self.keys.forward.check(&[&bytes, table], &tag).map_err(invalid)?;
        if let Header::Data { payload_bytes, .. } = header {
            self.payload_left = payload_bytes as usize;
        }
        Ok(header)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        if self.pieces.is_none() {
            return self.incoming.read_exact(bytes, 0);
        }
        let mut at = 0;
        self.skim(bytes.len(), &mut |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })
    }

    fn skim(&mut self, mut bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        while bytes > 0 {
            let payload = self.payload(bytes)?;
            let length = payload.len();
            sink(payload);
            self.advance(length);
            bytes -= length;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let surplus = || io::Error::new(io::ErrorKind::InvalidData, "bytes follow the end of a stream");
        if !self.incoming.buffered().is_empty() {
            return Err(surplus());
        }
        let tag = self.keys.backward.tag(&[END_OF_RECEIVER]);
        let socket = self.incoming.socket_mut();
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

fn pieces(keys: &Keys, undigested: bool) -> io::Result<Option<PieceTagger>> {
    undigested.then(|| PieceTagger::new(&keys.pieces)).transpose().map_err(io::Error::other)
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
