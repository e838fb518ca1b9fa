//! Data streams without encryption: both ends prove that they know a secret of the TLS control connection, with fresh nonces,
//! and every pack and the end of a stream carry a tag under keys of that one stream.
//!
//! 1. Sender to receiver, `Greeting`: stream, nonce, and a tag that lets strangers be turned away without an answer.
//! 2. Receiver to sender, `Answer`: nonce, and a tag under a key that both nonces went into, so that it cannot be an old one.
//! 3. Sender to receiver: a tag under the other direction's key. Only now does the receiver take the stream for real.
//!
//! A tag covers a counter and the pack's header and table, whose digests cover the payload. A repeated, missing, exchanged or
//! foreign pack therefore fails, and so does a cut: a stream ends by a tagged end mark, which the receiver answers with its own.
//! Where blocks carry no digests, each piece of the payload is followed by a tag of its own (`PieceTagger`).

mod pieces;

pub use self::pieces::{PieceKey, PieceTag, PieceTagger, PIECE_BYTES, PIECE_TAG_BYTES};

use crate::limits::{MAGIC, VERSION};

/// Label of the TLS exporter (RFC 8446, section 7.5) that yields the secret, at both ends of the control connection.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-fairlead-data-streams";
/// Bytes of a secret or key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a tag: BLAKE3 in its keyed mode.
pub const TAG_BYTES: usize = 32;
/// Bytes of a greeting: magic, version, stream, nonce, tag.
pub const GREETING_BYTES: usize = 4 + 2 + 2 + NONCE_BYTES + TAG_BYTES;
/// Bytes of an answer: nonce, tag.
pub const ANSWER_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// What the receiver's tag covers at the end of a stream.
pub const END_OF_RECEIVER: &[u8] = b"the receiver has read the stream to its end";
const PROOF: &[u8] = b"the sender knows the secret";

type Nonce = [u8; NONCE_BYTES];
type Tag = [u8; TAG_BYTES];

/// What the two ends of a transfer share beyond the network's sight.
#[derive(Clone)]
pub struct Secret([u8; KEY_BYTES]);

/// Why a stream's bytes are not the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyedError {
    /// Not a greeting of this protocol and version.
    #[error("a data connection starts with no greeting of this protocol")]
    Greeting,
    /// A tag is not the expected one.
    #[error("a data connection's bytes are not what the peer sent: their tag is wrong")]
    Tag,
    /// The library for ciphers does not work.
    #[error("the cipher of a data connection's tags cannot be used here")]
    Cipher,
}

/// Makes and checks the tags of one direction of one stream.
pub struct Tagger {
    key: [u8; KEY_BYTES],
    counter: u64,
}

/// The tags of both directions of a stream, once both ends have proven themselves.
pub struct Keys {
    /// From the sender to the receiver.
    pub forward: Tagger,
    /// From the receiver to the sender.
    pub backward: Tagger,
    /// Of the payload's pieces, from the sender to the receiver.
    pub pieces: PieceKey,
}

/// The sender's half of the handshake, between its greeting and the answer.
pub struct Greeter {
    secret: Secret,
    greeting: [u8; GREETING_BYTES],
}

impl Tagger {
    /// The tag of the next unit, which consists of `parts` one after the other.
    pub fn tag(&mut self, parts: &[&[u8]]) -> Tag {
        *self.next(parts).as_bytes()
    }

    /// Checks the tag of the next unit, in constant time.
    pub fn check(&mut self, parts: &[&[u8]], tag: &Tag) -> Result<(), KeyedError> {
        // `blake3::Hash` compares in constant time.
        if self.next(parts) == *tag {
            Ok(())
        } else {
            Err(KeyedError::Tag)
        }
    }

    fn next(&mut self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.counter.to_be_bytes());
        for part in parts {
            hasher.update(part);
        }
        self.counter += 1;
        hasher.finalize()
    }
}

impl Secret {
    /// The secret that the control connection's exporter yielded.
    pub fn new(exported: [u8; KEY_BYTES]) -> Self {
        Self(exported)
    }

    /// The sender's first message on a data connection.
    pub fn greet(&self, stream: u16, nonce: &Nonce) -> Greeter {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..4].copy_from_slice(&MAGIC);
        greeting[4..6].copy_from_slice(&VERSION.to_be_bytes());
        greeting[6..8].copy_from_slice(&stream.to_be_bytes());
        greeting[8..8 + NONCE_BYTES].copy_from_slice(nonce);
        let (signed, tag) = greeting.split_at_mut(GREETING_BYTES - TAG_BYTES);
        tag.copy_from_slice(self.greeting_tag(signed).as_bytes());
        Greeter { secret: self.clone(), greeting }
    }

    /// The receiver's side: checks a greeting and answers it. The stream's number, the answer, and the keys, of which the
    /// first is to check the sender's proof by `check_proof`.
    pub fn answer(
        &self,
        greeting: &[u8; GREETING_BYTES],
        nonce: &Nonce,
    ) -> Result<(u16, [u8; ANSWER_BYTES], Keys), KeyedError> {
        let (signed, tag) = greeting.split_at(GREETING_BYTES - TAG_BYTES);
        if signed[..4] != MAGIC || signed[4..6] != VERSION.to_be_bytes() {
            return Err(KeyedError::Greeting);
        }
        let tag: &Tag = tag.try_into().map_err(|_| KeyedError::Greeting)?;
        if self.greeting_tag(signed) != *tag {
            return Err(KeyedError::Tag);
        }
        let mut keys = self.keys(greeting, nonce);
        let mut answer = [0; ANSWER_BYTES];
        answer[..NONCE_BYTES].copy_from_slice(nonce);
        answer[NONCE_BYTES..].copy_from_slice(&keys.backward.tag(&[nonce]));
        Ok((u16::from_be_bytes([signed[6], signed[7]]), answer, keys))
    }

    /// A key for something else, of the secret and what both ends know.
    pub(super) fn derive(&self, context: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.0);
        for part in parts {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    fn greeting_tag(&self, signed: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&blake3::derive_key("fairlead data stream greeting v1", &self.0), signed)
    }

    fn keys(&self, greeting: &[u8; GREETING_BYTES], nonce: &Nonce) -> Keys {
        let material = [&self.0[..], greeting, nonce].concat();
        let tagger = |context| Tagger { key: blake3::derive_key(context, &material), counter: 0 };
        Keys {
            forward: tagger("fairlead data stream to the receiver v1"),
            backward: tagger("fairlead data stream to the sender v1"),
            pieces: blake3::derive_key("fairlead data stream pieces v1", &material).into(),
        }
    }
}

impl Greeter {
    /// The bytes to send first.
    pub fn greeting(&self) -> &[u8; GREETING_BYTES] {
        &self.greeting
    }

    /// Checks the receiver's answer; the proof to send next, and the keys.
    pub fn finish(self, answer: &[u8; ANSWER_BYTES]) -> Result<(Tag, Keys), KeyedError> {
        let (nonce, tag) = answer.split_at(NONCE_BYTES);
        let nonce: &Nonce = nonce.try_into().map_err(|_| KeyedError::Tag)?;
        let tag: &Tag = tag.try_into().map_err(|_| KeyedError::Tag)?;
        let mut keys = self.secret.keys(&self.greeting, nonce);
        keys.backward.check(&[nonce], tag)?;
        Ok((keys.forward.tag(&[PROOF]), keys))
    }
}

impl Keys {
    /// At the receiver: whether the sender answered this very handshake.
    pub fn check_proof(&mut self, proof: &Tag) -> Result<(), KeyedError> {
        self.forward.check(&[PROOF], proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [1; 32];

    fn shake(sender: [u8; 32], receiver: [u8; 32]) -> Result<(Keys, Keys), KeyedError> {
        let greeter = Secret::new(sender).greet(7, &[2; 32]);
        let (stream, answer, mut there) = Secret::new(receiver).answer(greeter.greeting(), &[3; 32])?;
        assert_eq!(stream, 7);
        let (proof, here) = greeter.finish(&answer)?;
        there.check_proof(&proof)?;
        Ok((here, there))
    }

    #[test]
    fn both_ends_come_to_the_same_tags_and_each_unit_has_its_own() {
        let (mut here, mut there) = shake(SECRET, SECRET).unwrap();
        let tags: Vec<Tag> = (0..3).map(|_| here.forward.tag(&[b"he", b"ad"])).collect();
        assert!(tags[0] != tags[1] && tags[1] != tags[2]);
        for tag in &tags {
            assert_eq!(there.forward.check(&[b"head"], tag), Ok(()));
        }
        let end = there.backward.tag(&[END_OF_RECEIVER]);
        assert_eq!(here.backward.check(&[END_OF_RECEIVER], &end), Ok(()));
    }

    #[test]
    fn another_secret_is_turned_away_by_the_first_message() {
        assert_eq!(shake(SECRET, [9; 32]).err(), Some(KeyedError::Tag));
    }

    #[test]
    fn an_old_greeting_yields_other_keys_and_so_no_proof() {
        let secret = Secret::new(SECRET);
        let greeter = secret.greet(0, &[2; 32]);
        let old = *greeter.greeting();
        let (_, answer, _) = secret.answer(&old, &[3; 32]).unwrap();
        let (proof, _) = greeter.finish(&answer).unwrap();
        let (_, _, mut again) = secret.answer(&old, &[4; 32]).unwrap();
        assert_eq!(again.check_proof(&proof), Err(KeyedError::Tag));
    }

    #[test]
    fn an_answer_to_another_greeting_is_no_answer() {
        let secret = Secret::new(SECRET);
        let (_, answer, _) = secret.answer(secret.greet(0, &[2; 32]).greeting(), &[3; 32]).unwrap();
        assert_eq!(secret.greet(0, &[5; 32]).finish(&answer).err(), Some(KeyedError::Tag));
    }

    #[test]
    fn no_bit_of_the_handshake_can_be_flipped() {
        let secret = Secret::new(SECRET);
        for bit in 0..GREETING_BYTES * 8 {
            let mut greeting = *secret.greet(0, &[2; 32]).greeting();
            greeting[bit / 8] ^= 1 << (bit % 8);
            assert!(secret.answer(&greeting, &[3; 32]).is_err(), "bit {bit} of the greeting");
        }
        for bit in 0..ANSWER_BYTES * 8 {
            let greeter = secret.greet(0, &[2; 32]);
            let (_, mut answer, _) = secret.answer(greeter.greeting(), &[3; 32]).unwrap();
            answer[bit / 8] ^= 1 << (bit % 8);
            assert!(greeter.finish(&answer).is_err(), "bit {bit} of the answer");
        }
    }

    #[test]
    fn a_repeated_a_skipped_and_a_reflected_unit_fail() {
        let (mut here, mut there) = shake(SECRET, SECRET).unwrap();
        let (first, second) = (here.forward.tag(&[b"1"]), here.forward.tag(&[b"2"]));
        assert_eq!(there.forward.check(&[b"2"], &second), Err(KeyedError::Tag), "skipped");
        let (_, mut there) = shake(SECRET, SECRET).unwrap();
        there.forward.check(&[b"1"], &first).unwrap();
        assert_eq!(there.forward.check(&[b"1"], &first), Err(KeyedError::Tag), "repeated");
        let (mut here, _) = shake(SECRET, SECRET).unwrap();
        assert_eq!(here.backward.check(&[PROOF], &first), Err(KeyedError::Tag), "reflected");
    }
}
