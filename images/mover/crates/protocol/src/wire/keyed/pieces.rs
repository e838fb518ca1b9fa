//! Tags of payload that carries no digests: AES-128 in GMAC (NIST SP 800-38D), under a key of the one direction of the one stream.
//!
//! A digest under a key (BLAKE3) costs as much as the network's own work on a fast path; GMAC costs a fifth of that where the
//! processor has AES and carry-less multiplication, and is what the records of TLS rest on, too. It says only that nobody between
//! the two ends changed anything, which is all that can be asked where nothing is stored. The nonce of a piece is its number in
//! the stream, so none is ever used for two tags, and a piece that is missing, repeated or in another's place fails.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, NONCE_LEN};

use super::KeyedError;

/// Most bytes under one tag: a tag is checked while they are in the processor's cache.
pub const PIECE_BYTES: usize = 128 << 10;
/// Bytes of a piece's tag.
pub const PIECE_TAG_BYTES: usize = 16;

const KEY_BYTES: usize = 16;

/// The tag of a piece.
pub type PieceTag = [u8; PIECE_TAG_BYTES];

/// The key of a direction's pieces.
#[derive(Clone)]
pub struct PieceKey(pub(super) [u8; KEY_BYTES]);

impl From<[u8; super::KEY_BYTES]> for PieceKey {
    fn from(derived: [u8; super::KEY_BYTES]) -> Self {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&derived[..KEY_BYTES]);
        Self(key)
    }
}

/// Makes or checks the tags of one direction of one stream, in the pieces' order.
pub struct PieceTagger {
    key: LessSafeKey,
    number: u64,
    /// What the tags of so many zeros are beside the part that only the nonce makes.
    zeros: Option<(usize, PieceTag)>,
}

impl PieceTagger {
    /// Starts at the stream's first piece.
    pub fn new(key: &PieceKey) -> Result<Self, KeyedError> {
        let key = UnboundKey::new(&AES_128_GCM, &key.0).map_err(|_| KeyedError::Cipher)?;
        Ok(Self { key: LessSafeKey::new(key), number: 0, zeros: None })
    }

    /// The tag of the next piece.
    pub fn tag(&mut self, piece: &[u8]) -> Result<PieceTag, KeyedError> {
        let number = self.next();
        self.seal(number, piece)
    }

    /// The tag of the next piece, so many zeros. Only the first of a length is computed from the bytes: a tag is the sum of a
    /// part that depends on the bytes alone and one that depends on the nonce alone, which is the tag of no bytes.
    pub fn tag_zeros(&mut self, zeros: &[u8]) -> Result<PieceTag, KeyedError> {
        let number = self.next();
        let of_nonce = self.seal(number, &[])?;
        let of_bytes = match self.zeros {
            Some((length, of_bytes)) if length == zeros.len() => of_bytes,
            _ => {
                // Both are sums with this nonce's part, of which only one leaves this function.
                let of_bytes = sum(&self.seal(number, zeros)?, &of_nonce);
                self.zeros.insert((zeros.len(), of_bytes)).1
            }
        };
        Ok(sum(&of_bytes, &of_nonce))
    }

    /// Checks the tag of the next piece, in constant time.
    pub fn check(&mut self, piece: &[u8], tag: &PieceTag) -> Result<(), KeyedError> {
        let (nonce, mut tag) = (nonce(self.next()), *tag);
        self.key.open_in_place(nonce, Aad::from(piece), &mut tag).map(|_| ()).map_err(|_| KeyedError::Tag)
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }

    fn seal(&self, number: u64, piece: &[u8]) -> Result<PieceTag, KeyedError> {
        let sealed = self.key.seal_in_place_separate_tag(nonce(number), Aad::from(piece), &mut []);
        sealed.ok().and_then(|tag| tag.as_ref().try_into().ok()).ok_or(KeyedError::Cipher)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - size_of::<u64>()..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn sum(left: &PieceTag, right: &PieceTag) -> PieceTag {
    let mut sum = *left;
    sum.iter_mut().zip(right).for_each(|(left, right)| *left ^= right);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagger() -> PieceTagger {
        PieceTagger::new(&PieceKey([0; KEY_BYTES])).unwrap()
    }

    /// "The Galois/Counter Mode of Operation" (McGrew, Viega), test case 1.
    #[test]
    fn a_tag_is_what_the_standard_says() {
        let expected = [0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61, 0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a];
        assert_eq!(tagger().tag(b""), Ok(expected));
    }

    #[test]
    fn the_short_way_to_the_tags_of_zeros_is_right() {
        let zeros = [0; 5000];
        let (mut short, mut long) = (tagger(), tagger());
        for length in [5000, 5000, 16, 1, 0, 5000, 1] {
            let piece = &zeros[..length];
            assert_eq!(short.tag_zeros(piece), long.tag(piece), "{length}");
        }
    }

    #[test]
    fn no_bit_of_a_piece_or_its_tag_can_be_flipped() {
        let piece: Vec<u8> = (0..100).collect();
        let tag = tagger().tag(&piece).unwrap();
        assert_eq!(tagger().check(&piece, &tag), Ok(()));
        for bit in 0..piece.len() * 8 {
            let mut other = piece.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tagger().check(&other, &tag), Err(KeyedError::Tag), "bit {bit} of the piece");
        }
        for bit in 0..tag.len() * 8 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tagger().check(&piece, &other), Err(KeyedError::Tag), "bit {bit} of the tag");
        }
        assert_eq!(tagger().check(&piece[..99], &tag), Err(KeyedError::Tag), "a shorter piece");
    }

    #[test]
    fn a_piece_has_its_place_and_its_stream() {
        let mut sender = tagger();
        let tags = [(); 3].map(|()| sender.tag(b"the same").unwrap());
        let mut receiver = tagger();
        assert_eq!(receiver.check(b"the same", &tags[0]), Ok(()));
        assert_eq!(receiver.check(b"the same", &tags[0]), Err(KeyedError::Tag), "repeated");
        assert_eq!(receiver.check(b"the same", &tags[1]), Err(KeyedError::Tag), "exchanged");
        let mut other = PieceTagger::new(&PieceKey([1; KEY_BYTES])).unwrap();
        assert_eq!(other.check(b"the same", &tags[0]), Err(KeyedError::Tag), "of another stream");
    }
}
