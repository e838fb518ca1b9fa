//! Length-prefixed frames for control messages, and the preamble of a connection. Lengths are checked before allocation.

use prost::Message;

use crate::limits::{CONTROL_FRAME_BYTES, MAGIC, VERSION};

/// Why bytes are not a frame.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The connection does not start with the protocol's magic.
    #[error("the peer does not speak this protocol")]
    Magic,
    /// Another version.
    #[error(
        "the peer speaks version {0} of the protocol, this mover version {VERSION}; use the same release on both ends"
    )]
    Version(u16),
    /// The announced length is above the bound.
    #[error("a frame of {0} bytes is above the bound of {1}")]
    TooLong(usize, usize),
    /// The bytes are not the expected message.
    #[error("a frame cannot be decoded")]
    Malformed,
}

/// Bytes of a preamble: magic and version.
pub const PREAMBLE_BYTES: usize = 6;

/// What every connection starts with, in both directions.
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let version = VERSION.to_be_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], version[0], version[1]]
}

/// Checks the peer's preamble.
pub fn check_preamble(bytes: &[u8; PREAMBLE_BYTES]) -> Result<(), FrameError> {
    if bytes[..4] != MAGIC {
        return Err(FrameError::Magic);
    }
    match u16::from_be_bytes([bytes[4], bytes[5]]) {
        VERSION => Ok(()),
        other => Err(FrameError::Version(other)),
    }
}

/// A message with its length before it.
pub fn encode(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    debug_assert!(length <= CONTROL_FRAME_BYTES);
    let mut bytes = Vec::with_capacity(4 + length);
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    // A Vec grows, so encoding into it cannot fail.
    let _ = message.encode(&mut bytes);
    bytes
}

/// The checked length of a frame from its prefix.
pub fn length(prefix: [u8; 4], most: usize) -> Result<usize, FrameError> {
    match u32::from_be_bytes(prefix) as usize {
        length if length <= most => Ok(length),
        length => Err(FrameError::TooLong(length, most)),
    }
}

/// Decodes one frame's body.
pub fn decode<M: Message + Default>(body: &[u8]) -> Result<M, FrameError> {
    M::decode(body).map_err(|_| FrameError::Malformed)
}

/// Collects bytes until a frame is whole.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Adds received bytes. Call `next_message` until it yields nothing before adding more.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub fn next_message<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(prefix) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = length(*prefix, CONTROL_FRAME_BYTES)?;
        let Some(body) = rest.get(4..4 + length) else { return Ok(None) };
        let message = decode(body)?;
        self.start += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Body, ControlMessage, EntryMessage, ListingMessage, Packs};
    use proptest::prelude::*;

    fn control() -> impl Strategy<Value = ControlMessage> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..64);
        let entry = (bytes(), 0..9i32, any::<u32>(), any::<i64>(), any::<u32>(), any::<u64>(), bytes()).prop_map(
            |(path, kind, mode, mtime_s, mtime_ns, size, target)| EntryMessage {
                path,
                kind,
                mode,
                mtime_s,
                mtime_ns,
                size,
                target,
                ..EntryMessage::default()
            },
        );
        prop_oneof![
            proptest::collection::vec(entry, 0..20).prop_map(|entries| Body::Listing(ListingMessage { entries })),
            proptest::collection::vec(any::<u64>(), 0..50).prop_map(|packs| Body::Stored(Packs { packs })),
        ]
        .prop_map(|body| ControlMessage { body: Some(body) })
    }

    proptest! {
        #[test]
        fn messages_survive_any_split(messages in proptest::collection::vec(control(), 1..6), cut in 1usize..97) {
            let wire: Vec<u8> = messages.iter().flat_map(encode).collect();
            let (mut decoder, mut seen) = (Decoder::default(), Vec::new());
            for piece in wire.chunks(cut) {
                decoder.extend(piece);
                while let Some(message) = decoder.next_message::<ControlMessage>().unwrap() {
                    seen.push(message);
                }
            }
            prop_assert_eq!(seen, messages);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let mut decoder = Decoder::default();
            decoder.extend(&bytes);
            while let Ok(Some(_)) = decoder.next_message::<ControlMessage>() {}
        }
    }

    #[test]
    fn an_overlong_frame_is_refused_by_its_prefix_alone() {
        let mut decoder = Decoder::default();
        decoder.extend(&u32::MAX.to_be_bytes());
        assert_eq!(
            decoder.next_message::<ControlMessage>().unwrap_err(),
            FrameError::TooLong(u32::MAX as usize, CONTROL_FRAME_BYTES)
        );
    }

    #[test]
    fn the_preamble_names_protocol_and_version() {
        let mut bytes = preamble();
        assert_eq!(check_preamble(&bytes), Ok(()));
        bytes[5] ^= 0xff;
        assert!(matches!(check_preamble(&bytes), Err(FrameError::Version(_))));
        assert_eq!(check_preamble(b"GET / "), Err(FrameError::Magic));
    }
}
