//! Data connections: what carries packs from the sender to the receiver, in TLS or in the clear with keyed blocks.
//!
//! Either end of a connection that merely closes is a fault: a stream is over only when the receiver has confirmed, authenticated,
//! that it read everything up to the sender's end mark.

pub(crate) mod buffers;
mod incoming;
mod keyed;
mod records;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::pack::{Header, PackError, HEADER_BYTES, SEGMENT_BYTES};

use super::engine::DataLink;
use super::pacing::gate::Gate;
pub(crate) use keyed::{KeyedPackReceiver, KeyedPackSender};
pub(crate) use records::Records;
pub(crate) use tls::{TlsPackReceiver, TlsPackSender};

/// Bytes handed to the system at once, and the receive buffer of a stream.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Time the sender waits for the receiver to have read a stream to its end.
pub(crate) const LINGER: Duration = Duration::from_secs(30);
/// Time the receiver waits for the sender's last record on a stream, which follows its end mark at once.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// Zeros to be sent from memory.
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The blocks of a pack.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    /// So many zeros.
    Zeros(usize),
}

impl<'a> Payload<'a> {
    /// The payload in pieces of at most `CHUNK_BYTES`.
    pub(crate) fn pieces(self) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, zeros) = match self {
            Self::Bytes(bytes) => (bytes, 0),
            Self::Zeros(zeros) => (&[][..], zeros),
        };
        let lengths = (0..zeros).step_by(CHUNK_BYTES).map(move |at| CHUNK_BYTES.min(zeros - at));
        bytes.chunks(CHUNK_BYTES).chain(lengths.map(|length| &ZEROS[..length]))
    }
}

/// Why a stream cannot be read any further. An I/O error of the kind `InvalidData` means bytes that are not the peer's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are no packs.
    #[error("{0}")]
    Pack(#[from] PackError),
}

impl WireError {
    /// Whether bytes were changed on their way, rather than lost.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::InvalidData,
            Self::Pack(_) => true,
        }
    }
}

/// The sending end of a data connection.
pub(crate) trait PackSender: Send {
    /// Sends a pack: its header and table, then its payload.
    fn send(&mut self, head: &[u8], payload: Payload<'_>) -> io::Result<()>;
    /// Checks, without waiting, whether the connection is still open.
    fn check(&mut self) -> io::Result<()>;
    /// Ends the stream and returns when the receiver has confirmed that it read everything.
    fn finish(&mut self) -> io::Result<()>;
    /// What is sent from now on waits for its turn under the transfer's cap.
    fn pace(&mut self, gate: Arc<Gate>);
    /// The connection beneath.
    fn link(&self) -> io::Result<Arc<dyn DataLink>>;
}

/// The receiving end of a data connection.
pub(crate) trait PackReceiver: Send {
    /// The next header with its table, known to be the sender's.
    fn head(&mut self, table: &mut Vec<u8>) -> Result<Header, WireError>;
    /// Fills `bytes` with the payload's next ones.
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()>;
    /// Hands the payload's next `bytes` bytes to `sink` in pieces, as they come.
    fn skim(&mut self, bytes: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<()>;
    /// After the end mark: confirms to the sender that everything was read.
    fn finish(&mut self) -> io::Result<()>;
}

/// Data came where the stream had to end.
pub(crate) fn surplus() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the peer sent data where the end was due")
}

/// Reads a header and its table with `read`; the header alone at the end mark.
pub(crate) fn read_head(
    table: &mut Vec<u8>,
    mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
) -> Result<([u8; HEADER_BYTES], Header), WireError> {
    let mut bytes = [0; HEADER_BYTES];
    read(&mut bytes)?;
    let header = Header::decode(&bytes)?;
    table.clear();
    if let Header::Data { segments, .. } = header {
        table.resize(usize::from(segments) * SEGMENT_BYTES, 0);
        read(table)?;
    }
    Ok((bytes, header))
}
