//! TLS records over a socket by rustls's unbuffered interface: many records are encrypted straight into one large send buffer
//! and decrypted in place in one large receive buffer. Handshake, alerts, key updates and the orderly end are the library's.

use std::io::{self, Read, Write};

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};
use rustls::CommonState;

use crate::net::tcp::Metered;

/// Most plaintext of one record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 1 << 14;
/// What a record has beside its plaintext: header, content type, tag.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Largest record that the library lets in: it answers a longer one with an alert.
const RECORD_WIRE_BYTES: usize = RECORD_BYTES + 2048 + 5;
/// Room for what the library may send between records, such as a key update.
const SLACK_BYTES: usize = 1 << 10;
/// Records per call of the system, in either direction: fits the second-level cache beside the plaintext.
const RECORDS_AT_ONCE: usize = 16;

/// Either end's connection.
pub(crate) trait TlsEngine {
    type Side;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side>;
    fn state(&self) -> &CommonState;
}

impl TlsEngine for UnbufferedClientConnection {
    type Side = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side> {
        self.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        self
    }
}

impl TlsEngine for UnbufferedServerConnection {
    type Side = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side> {
        self.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        self
    }
}

/// Bytes on their way to the socket.
struct Outgoing {
    buffer: Vec<u8>,
    filled: usize,
}

impl Outgoing {
    /// Lets `write` append, with more room if it asks for more.
    fn append(&mut self, mut write: impl FnMut(&mut [u8]) -> Result<usize, Refused>) -> io::Result<()> {
        loop {
            match write(&mut self.buffer[self.filled..]) {
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(());
                }
                Err(Refused::TooSmall(InsufficientSizeError { required_size })) => {
                    self.buffer.resize(self.filled + required_size + SLACK_BYTES, 0);
                }
                Err(Refused::Other(why)) => return Err(io::Error::other(why)),
            }
        }
    }

    /// Plaintext for which there is room without growing.
    fn room(&self) -> usize {
        let free = self.buffer.len().saturating_sub(self.filled + SLACK_BYTES);
        free / (RECORD_BYTES + RECORD_OVERHEAD) * RECORD_BYTES
    }
}

enum Refused {
    TooSmall(InsufficientSizeError),
    Other(String),
}

impl From<EncryptError> for Refused {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Self::TooSmall(size),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<EncodeError> for Refused {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Self::TooSmall(size),
            other => Self::Other(other.to_string()),
        }
    }
}

/// What to do once application data may be sent.
#[derive(Clone, Copy)]
enum Wish<'a> {
    Nothing,
    Encrypt(&'a [u8]),
    Close,
}

/// The state of the connection after one step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is more to do at once.
    Again,
    /// The handshake needs more bytes of the peer.
    Starved,
    /// Application data flows; the wish was done.
    Open,
}

/// A TLS connection over a blocking socket.
pub(crate) struct Records<E> {
    engine: E,
    socket: Metered,
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    outgoing: Outgoing,
    /// Plaintext that was decrypted and not yet asked for.
    rest: Vec<u8>,
    rest_start: usize,
    peer_closed: bool,
}

impl<E: TlsEngine> Records<E> {
    /// A connection with small buffers, enough for a handshake and a greeting.
    pub(crate) fn new(engine: E, socket: Metered) -> Self {
        Self {
            engine,
            socket,
            incoming: vec![0; RECORD_WIRE_BYTES],
            start: 0,
            end: 0,
            outgoing: Outgoing { buffer: vec![0; RECORD_BYTES + RECORD_OVERHEAD + SLACK_BYTES], filled: 0 },
            rest: Vec::new(),
            rest_start: 0,
            peer_closed: false,
        }
    }

    /// Makes room for bulk data to be sent.
    pub(crate) fn widen_outgoing(&mut self) {
        self.outgoing.buffer.resize(RECORDS_AT_ONCE * (RECORD_BYTES + RECORD_OVERHEAD) + SLACK_BYTES, 0);
    }

    /// Makes room for bulk data to be received.
    pub(crate) fn widen_incoming(&mut self) {
        self.incoming.resize(RECORDS_AT_ONCE * (RECORD_BYTES + RECORD_OVERHEAD) + RECORD_WIRE_BYTES, 0);
    }

    pub(crate) fn socket(&self) -> &Metered {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Metered {
        &mut self.socket
    }

    pub(crate) fn state(&self) -> &CommonState {
        self.engine.state()
    }

    /// Completes the handshake.
    pub(crate) fn handshake(&mut self) -> io::Result<()> {
        // The peer's first data may come together with the last message of its handshake.
        let mut early = Vec::new();
        loop {
            match self.turn(Wish::Nothing, &mut |payload| early.extend_from_slice(payload))? {
                Turn::Again => {}
                Turn::Starved => self.fill()?,
                Turn::Open => break,
            }
        }
        self.rest.extend(early);
        self.flush()
    }

    /// Encrypts; what does not fit the send buffer goes to the socket meanwhile.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.outgoing.room();
            if room == 0 {
                self.flush()?;
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open_turn(Wish::Encrypt(now))?;
            bytes = later;
        }
        Ok(())
    }

    /// Hands everything encrypted to the socket.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let filled = std::mem::take(&mut self.outgoing.filled);
        self.socket.write_all(&self.outgoing.buffer[..filled])
    }

    /// Hands exactly `want` bytes of plaintext to `sink`, in pieces.
    pub(crate) fn pull(&mut self, mut want: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        if self.rest_start < rest.len() {
            let now = want.min(rest.len() - self.rest_start);
            sink(&rest[self.rest_start..self.rest_start + now]);
            self.rest_start += now;
            want -= now;
        }
        if self.rest_start == rest.len() {
            rest.clear();
            self.rest_start = 0;
        }
        while want > 0 {
            if self.peer_closed {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer ended the stream in the middle"));
            }
            let turn = self.turn(Wish::Nothing, &mut |payload| {
                let (now, later) = payload.split_at(want.min(payload.len()));
                if !now.is_empty() {
                    sink(now);
                }
                want -= now.len();
                rest.extend_from_slice(later);
            })?;
            if turn != Turn::Again && want > 0 && !self.peer_closed {
                self.fill()?;
            }
        }
        self.rest = rest;
        Ok(())
    }

    /// Fills `bytes` with plaintext.
    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        self.pull(bytes.len(), &mut |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })
    }

    /// Says that nothing more follows from here.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.open_turn(Wish::Close)?;
        self.flush()
    }

    /// Waits until the peer has closed its side too. A connection that merely ends is an error, and so are further data.
    pub(crate) fn await_close(&mut self) -> io::Result<()> {
        loop {
            let mut surplus = self.rest.len() - self.rest_start;
            let turn = self.turn(Wish::Nothing, &mut |payload| surplus += payload.len())?;
            if surplus > 0 {
                return Err(super::surplus());
            }
            if self.peer_closed {
                return Ok(());
            }
            if turn != Turn::Again {
                self.fill()?;
            }
        }
    }

    /// Checks, without waiting, whether the connection is still open, and answers what the peer's library sent.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        while self.socket.peek()? {
            self.fill()?;
            let mut surplus = 0;
            while self.turn(Wish::Nothing, &mut |payload| surplus += payload.len())? == Turn::Again {}
            self.flush()?;
            if self.peer_closed || surplus > 0 {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the peer ended an idle stream"));
            }
        }
        Ok(())
    }

    /// Steps until `wish` is done.
    fn open_turn(&mut self, wish: Wish<'_>) -> io::Result<()> {
        let mut surplus = Vec::new();
        while match self.turn(wish, &mut |payload| surplus.extend_from_slice(payload))? {
            Turn::Again => true,
            Turn::Starved => return Err(io::Error::other("data were to be sent before the handshake was over")),
            Turn::Open => false,
        } {}
        self.rest.extend(surplus);
        Ok(())
    }

    fn turn(&mut self, wish: Wish<'_>, sink: &mut dyn FnMut(&[u8])) -> io::Result<Turn> {
        let Self { engine, incoming, start, end, outgoing, peer_closed, .. } = self;
        let UnbufferedStatus { mut discard, state } = engine.process(&mut incoming[*start..*end]);
        let turn = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(invalid)?;
                    discard += record.discard;
                    sink(record.payload);
                }
                Turn::Again
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                outgoing.append(|room| Ok(data.encode(room)?))?;
                Turn::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                // It leaves with the next flush, which precedes every wait.
                data.done();
                Turn::Again
            }
            Ok(ConnectionState::BlockedHandshake) => Turn::Starved,
            Ok(ConnectionState::WriteTraffic(traffic)) => {
                grant(traffic, wish, outgoing)?;
                Turn::Open
            }
            Ok(ConnectionState::PeerClosed) => {
                *peer_closed = true;
                Turn::Again
            }
            Ok(ConnectionState::Closed) if matches!(wish, Wish::Nothing) => Turn::Open,
            Ok(ConnectionState::Closed) => return Err(io::Error::other("the stream is closed at both ends")),
            Ok(_) => return Err(io::Error::other("the TLS library is in an unknown state")),
            Err(error) => {
                self.say_goodbye();
                return Err(invalid(error));
            }
        };
        *start += discard;
        Ok(turn)
    }

    /// Sends the alert that belongs to an error, if there is one.
    fn say_goodbye(&mut self) {
        while let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
            self.engine.process(&mut [])
        {
            if self.outgoing.append(|room| Ok(data.encode(room)?)).is_err() {
                break;
            }
        }
        let _ = self.flush();
    }

    /// Waits for more bytes of the peer. An end that the peer did not announce is an error.
    fn fill(&mut self) -> io::Result<()> {
        if self.outgoing.filled > 0 {
            self.flush()?;
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.incoming.len() - self.start < RECORD_WIRE_BYTES {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.incoming.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a TLS record is longer than allowed"));
        }
        match self.socket.receive(&mut self.incoming[self.end..])? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended without the peer's word")),
            bytes => {
                self.end += bytes;
                Ok(())
            }
        }
    }
}

/// For greetings: a read waits until the whole buffer is filled.
impl<E: TlsEngine> Read for Records<E> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Records::read_exact(self, bytes).map(|()| bytes.len())
    }
}

impl<E: TlsEngine> Write for Records<E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Records::flush(self)
    }
}

fn grant<S>(mut traffic: WriteTraffic<'_, S>, wish: Wish<'_>, outgoing: &mut Outgoing) -> io::Result<()> {
    match wish {
        Wish::Nothing => Ok(()),
        Wish::Encrypt(bytes) => outgoing.append(|room| Ok(traffic.encrypt(bytes, room)?)),
        Wish::Close => outgoing.append(|room| Ok(traffic.queue_close_notify(room)?)),
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
