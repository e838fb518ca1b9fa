//! The first bytes of every connection, in the clear: what it is for, and a tag that only holders of the attempt's credentials can
//! make. The receiver spends a handshake, and a place among those under way, on nobody else.
//!
//! The tag is keyed by the certificate of the attempt's authority, which no end ever sends. It keeps strangers out of the way and
//! authenticates nobody: that is for what follows. An opening that was recorded is refused when it comes again.

use std::collections::{HashSet, VecDeque};

/// Bytes of an opening: purpose, nonce, tag.
pub const OPENING_BYTES: usize = PURPOSE_BYTES + NONCE_BYTES + TAG_BYTES;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;

const PURPOSE_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const CONTEXT: &str = "fairlead opening v1";
/// Openings that are remembered: far more than a transfer makes while a stranger could wait with one.
const REMEMBERED: usize = 4096;

/// Bytes of a connection ID that opens a connection of QUIC: nonce, tag.
pub const CONNECTION_ID_BYTES: usize = 20;
const SHORT_NONCE_BYTES: usize = 8;
const CONNECTION_ID_PURPOSE: &[u8; PURPOSE_BYTES] = b"FLMQ";

/// Random bytes that no two openings share.
pub type Nonce = [u8; NONCE_BYTES];

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Control connection, TLS.
    Control,
    /// Data connection in TLS.
    Data,
    /// Data connection in the clear with keyed blocks.
    Keyed,
}

/// Why a connection goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// It is no opening of this protocol.
    #[error("it does not start as a connection of this protocol does")]
    Foreign,
    /// It was made with other credentials.
    #[error("whoever connects has no credentials of this attempt")]
    Tag,
    /// It was seen before.
    #[error("it repeats the opening of an earlier connection")]
    Repeated,
}

/// Makes and checks openings.
#[derive(Clone)]
pub struct OpeningKey([u8; 32]);

impl Opening {
    const ALL: [Self; 3] = [Self::Control, Self::Data, Self::Keyed];

    fn purpose(self) -> &'static [u8; PURPOSE_BYTES] {
        match self {
            Self::Control => b"FLMC",
            Self::Data => b"FLMD",
            Self::Keyed => b"FLMK",
        }
    }
}

impl OpeningKey {
    /// The key of an authority, by its certificate (DER).
    pub fn new(authority: &[u8]) -> Self {
        Self(blake3::derive_key(CONTEXT, authority))
    }

    /// An opening; `nonce` must be random.
    pub fn seal(&self, opening: Opening, nonce: Nonce) -> [u8; OPENING_BYTES] {
        let mut bytes = [0; OPENING_BYTES];
        bytes[..PURPOSE_BYTES].copy_from_slice(opening.purpose());
        bytes[PURPOSE_BYTES..OPENING_BYTES - TAG_BYTES].copy_from_slice(&nonce);
        let tag = self.tag(&bytes[..OPENING_BYTES - TAG_BYTES]);
        bytes[OPENING_BYTES - TAG_BYTES..].copy_from_slice(&tag);
        bytes
    }

    /// What a connection is for that starts with these bytes, and its nonce.
    pub fn open(&self, bytes: &[u8; OPENING_BYTES]) -> Result<(Opening, Nonce), OpeningError> {
        let (body, tag) = bytes.split_at(OPENING_BYTES - TAG_BYTES);
        let (purpose, body_nonce) = body.split_at(PURPOSE_BYTES);
        let opening = Opening::ALL.into_iter().find(|opening| opening.purpose() == purpose);
        let opening = opening.ok_or(OpeningError::Foreign)?;
        // Every byte is compared, so that the time does not tell how many were right.
        let difference = self.tag(body).iter().zip(tag).fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        if difference != 0 {
            return Err(OpeningError::Tag);
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(body_nonce);
        Ok((opening, nonce))
    }

    /// The connection ID of a client's first packet (RFC 9000, section 7.2), which otherwise is random: what the first bytes are to
    /// other connections. Of the nonce its first bytes count.
    pub fn connection_id(&self, nonce: Nonce) -> [u8; CONNECTION_ID_BYTES] {
        let mut id = [0; CONNECTION_ID_BYTES];
        let (own, tag) = id.split_at_mut(SHORT_NONCE_BYTES);
        own.copy_from_slice(&nonce[..SHORT_NONCE_BYTES]);
        tag.copy_from_slice(&self.tag(&[CONNECTION_ID_PURPOSE, &nonce[..SHORT_NONCE_BYTES]].concat())[..tag.len()]);
        id
    }

    /// The nonce of a connection ID that was made with these credentials, filled up with zeros.
    pub fn check_connection_id(&self, id: &[u8]) -> Result<Nonce, OpeningError> {
        if id.len() != CONNECTION_ID_BYTES {
            return Err(OpeningError::Foreign);
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce[..SHORT_NONCE_BYTES].copy_from_slice(&id[..SHORT_NONCE_BYTES]);
        let expected = self.connection_id(nonce);
        let difference = expected.iter().zip(id).fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        if difference == 0 {
            Ok(nonce)
        } else {
            Err(OpeningError::Tag)
        }
    }

    fn tag(&self, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&blake3::keyed_hash(&self.0, body).as_bytes()[..TAG_BYTES]);
        tag
    }
}

/// The openings that came lately.
#[derive(Default)]
pub struct SeenOpenings {
    order: VecDeque<Nonce>,
    nonces: HashSet<Nonce>,
}

impl SeenOpenings {
    /// Notes an opening; an error if it came before.
    pub fn note(&mut self, nonce: Nonce) -> Result<(), OpeningError> {
        if !self.nonces.insert(nonce) {
            return Err(OpeningError::Repeated);
        }
        self.order.push_back(nonce);
        if self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.nonces.remove(&oldest);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_opening_is_taken_by_the_same_authority_alone_and_once() {
        let key = OpeningKey::new(b"authority");
        let mut seen = SeenOpenings::default();
        for (number, opening) in Opening::ALL.into_iter().enumerate() {
            let nonce = [number as u8; NONCE_BYTES];
            let bytes = key.seal(opening, nonce);
            assert_eq!(key.open(&bytes), Ok((opening, nonce)));
            assert_eq!(OpeningKey::new(b"another").open(&bytes), Err(OpeningError::Tag));
            assert_eq!(seen.note(nonce), Ok(()));
            assert_eq!(seen.note(nonce), Err(OpeningError::Repeated));
        }
    }

    #[test]
    fn a_connection_id_is_known_to_the_same_authority_alone() {
        let key = OpeningKey::new(b"authority");
        let (nonce, other) = ([7; NONCE_BYTES], [8; NONCE_BYTES]);
        let id = key.connection_id(nonce);
        let mut filled = [0; NONCE_BYTES];
        filled[..SHORT_NONCE_BYTES].copy_from_slice(&nonce[..SHORT_NONCE_BYTES]);
        assert_eq!(key.check_connection_id(&id), Ok(filled));
        assert_ne!(key.connection_id(other), id);
        assert_eq!(OpeningKey::new(b"another").check_connection_id(&id), Err(OpeningError::Tag));
        assert_eq!(key.check_connection_id(&id[1..]), Err(OpeningError::Foreign));
        for at in 0..CONNECTION_ID_BYTES {
            let mut bad = id;
            bad[at] ^= 1;
            assert_eq!(key.check_connection_id(&bad), Err(OpeningError::Tag), "byte {at}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = SeenOpenings::default();
        let nonce = |number: usize| (number as u128).to_be_bytes();
        (0..2 * REMEMBERED).for_each(|number| seen.note(nonce(number)).unwrap());
        assert_eq!((seen.order.len(), seen.nonces.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(seen.note(nonce(2 * REMEMBERED - 1)), Err(OpeningError::Repeated));
    }

    proptest! {
        #[test]
        fn no_other_bytes_are_an_opening(mut bytes: [u8; OPENING_BYTES], nonce: Nonce, at in 0..OPENING_BYTES, bit in 0u32..8) {
            let key = OpeningKey::new(b"authority");
            prop_assert!(key.open(&bytes).is_err());
            bytes = key.seal(Opening::Data, nonce);
            bytes[at] ^= 1u8 << bit;
            prop_assert!(key.open(&bytes).is_err());
        }
    }
}
