//! Data connections over datagrams that carry no TLS: every datagram is sealed under keys that come from the control connection's TLS,
//! so that whoever can make one is the end that showed its certificate there.
//!
//! 1. Sender to receiver, an *opening*: a nonce, and what the transport asks for, sealed under a key that the nonce went into. Strangers
//!    are told by it without any state.
//! 2. Receiver to sender, an *answer*: a nonce of its own, and what the transport answers, sealed under a key of both nonces.
//! 3. Everything else under keys of both nonces and the direction. The first datagram of the sender shows that it has the answer, and that
//!    the opening was no old one.
//!
//! A datagram begins with the connection it is for and its number, which are not secret. The number is the nonce of the cipher, AES-128 in
//! GCM (NIST SP 800-38D); no number is used twice under a key, and a number that came already is refused. Keys follow one another long
//! before a cipher's limits (RFC 9001, appendix B.1).

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, NONCE_LEN};

use super::keyed::{KeyedError, Secret};
use super::opening::NONCE_BYTES;

/// Bytes of the connection's number that every datagram begins with.
pub const ID_BYTES: usize = 4;
/// What a sealed datagram has beside the packet of the transport, which is for the connection that its header names.
pub const SEAL_BYTES: usize = NUMBER_BYTES + TAG_BYTES;
/// The same of an opening or an answer.
pub const OPENING_SEAL_BYTES: usize = ID_BYTES + NONCE_BYTES + TAG_BYTES;
/// Bytes in front of a packet that is to be sealed where it is.
pub const ROOM_BYTES: usize = NUMBER_BYTES;

const NUMBER_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// Of the packet's header: what comes before the number of the connection that it is for, and that.
const HEADER_BYTES: usize = 16;
const HEAD_BYTES: usize = HEADER_BYTES - ID_BYTES;
const CLEAR_BYTES: usize = ID_BYTES + NUMBER_BYTES;
/// Datagrams under one key.
const PER_KEY: u64 = 1 << 24;
/// How far behind the newest a datagram may come.
const WINDOW: u64 = 8192;
const WORDS: usize = (WINDOW / 64) as usize;

type OpeningNonce = [u8; NONCE_BYTES];

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is too short, or not the peer's.
    #[error("a datagram is not what the peer sent")]
    Foreign,
    /// It came before, or too late to tell.
    #[error("a datagram came again")]
    Repeated,
    /// The library for ciphers does not work.
    #[error("the cipher of datagrams cannot be used here")]
    Cipher,
}

impl From<KeyedError> for SealError {
    fn from(_: KeyedError) -> Self {
        Self::Cipher
    }
}

/// One direction's keys, one after the other.
struct KeyChain {
    base: [u8; 32],
    present: (u64, LessSafeKey),
    before: Option<(u64, LessSafeKey)>,
}

fn key(material: [u8; 32]) -> Result<LessSafeKey, SealError> {
    let key = UnboundKey::new(&AES_128_GCM, &material[..16]).map_err(|_| SealError::Cipher)?;
    Ok(LessSafeKey::new(key))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - NUMBER_BYTES..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl KeyChain {
    fn new(base: [u8; 32]) -> Result<Self, SealError> {
        Ok(Self { base, present: (0, Self::of(&base, 0)?), before: None })
    }

    fn of(base: &[u8; 32], generation: u64) -> Result<LessSafeKey, SealError> {
        let material = [&base[..], &generation.to_be_bytes()].concat();
        key(blake3::derive_key("fairlead datagrams generation v1", &material))
    }

    /// The key of a datagram; the next one is derived and not yet in use.
    fn get(&self, number: u64) -> Result<Result<&LessSafeKey, LessSafeKey>, SealError> {
        let generation = number / PER_KEY;
        match &self.before {
            _ if generation == self.present.0 => Ok(Ok(&self.present.1)),
            Some((before, key)) if generation == *before => Ok(Ok(key)),
            _ if generation == self.present.0 + 1 => Ok(Err(Self::of(&self.base, generation)?)),
            _ => Err(SealError::Foreign),
        }
    }

    /// From now on another key is the present one.
    fn advance(&mut self, generation: u64, key: LessSafeKey) {
        self.before = Some(std::mem::replace(&mut self.present, (generation, key)));
    }
}

/// Seals what leaves.
pub struct DatagramSealer {
    keys: KeyChain,
    next: u64,
}

/// Opens what comes.
pub struct DatagramOpener {
    keys: KeyChain,
    /// The newest number and those before it that came.
    seen: Option<u64>,
    window: [u64; WORDS],
}

/// Both directions of a connection, at one end.
pub struct DatagramKeys {
    /// What leaves.
    pub sealer: DatagramSealer,
    /// What comes.
    pub opener: DatagramOpener,
}

impl DatagramSealer {
    fn new(base: [u8; 32]) -> Result<Self, SealError> {
        Ok(Self { keys: KeyChain::new(base)?, next: 0 })
    }

    /// Seals a packet in place. From `start` on there are `ROOM_BYTES` to be overwritten and then the packet.
    pub fn seal(&mut self, bytes: &mut Vec<u8>, start: usize) -> Result<(), SealError> {
        let number = self.next;
        if let Err(key) = self.keys.get(number)? {
            self.keys.advance(number / PER_KEY, key);
        }
        let datagram = bytes.get_mut(start..).filter(|rest| rest.len() >= ROOM_BYTES + HEADER_BYTES);
        let datagram = datagram.ok_or(SealError::Foreign)?;
        // From room, head, connection, body to connection, number, head, body.
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&datagram[ROOM_BYTES + HEAD_BYTES..ROOM_BYTES + HEADER_BYTES]);
        datagram.copy_within(ROOM_BYTES..ROOM_BYTES + HEAD_BYTES, CLEAR_BYTES);
        datagram[..ID_BYTES].copy_from_slice(&id);
        datagram[ID_BYTES..CLEAR_BYTES].copy_from_slice(&number.to_be_bytes());
        let (clear, secret) = datagram.split_at_mut(CLEAR_BYTES);
        let sealed = self.keys.present.1.seal_in_place_separate_tag(nonce(number), Aad::from(&*clear), secret);
        let tag = sealed.map_err(|_| SealError::Cipher)?;
        bytes.extend_from_slice(tag.as_ref());
        self.next += 1;
        Ok(())
    }
}

impl DatagramOpener {
    fn new(base: [u8; 32]) -> Result<Self, SealError> {
        Ok(Self { keys: KeyChain::new(base)?, seen: None, window: [0; WORDS] })
    }

    /// Opens a datagram in place: the packet in it.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<&'a [u8], SealError> {
        if datagram.len() < CLEAR_BYTES + HEAD_BYTES + TAG_BYTES {
            return Err(SealError::Foreign);
        }
        let mut number = [0; NUMBER_BYTES];
        number.copy_from_slice(&datagram[ID_BYTES..CLEAR_BYTES]);
        let number = u64::from_be_bytes(number);
        if self.came(number) {
            return Err(SealError::Repeated);
        }
        let (clear, secret) = datagram.split_at_mut(CLEAR_BYTES);
        let next = match self.keys.get(number)? {
            Ok(key) => {
                key.open_in_place(nonce(number), Aad::from(&*clear), secret).map_err(|_| SealError::Foreign)?;
                None
            }
            Err(key) => {
                key.open_in_place(nonce(number), Aad::from(&*clear), secret).map_err(|_| SealError::Foreign)?;
                Some(key)
            }
        };
        if let Some(key) = next {
            self.keys.advance(number / PER_KEY, key);
        }
        self.note(number);
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&datagram[..ID_BYTES]);
        datagram.copy_within(CLEAR_BYTES..CLEAR_BYTES + HEAD_BYTES, ROOM_BYTES);
        datagram[ROOM_BYTES + HEAD_BYTES..ROOM_BYTES + HEADER_BYTES].copy_from_slice(&id);
        let end = datagram.len() - TAG_BYTES;
        Ok(&datagram[ROOM_BYTES..end])
    }

    fn place(number: u64) -> (usize, u64) {
        ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
    }

    fn came(&self, number: u64) -> bool {
        let Some(newest) = self.seen else { return false };
        let (word, bit) = Self::place(number);
        // Of the word that the newest is in, what is left over from the last time counts for nobody.
        number.saturating_add(WINDOW - 64) <= newest || (number <= newest && self.window[word] & bit != 0)
    }

    fn note(&mut self, number: u64) {
        let newest = self.seen.unwrap_or(0);
        if number > newest {
            let words = (number / 64 - newest / 64).min(WORDS as u64);
            (1..=words).for_each(|ahead| self.window[((newest / 64 + ahead) % WORDS as u64) as usize] = 0);
        }
        self.seen = Some(newest.max(number));
        let (word, bit) = Self::place(number);
        self.window[word] |= bit;
    }
}

/// What a sender opens a connection with.
pub struct DatagramOpening {
    secret: Secret,
    nonce: OpeningNonce,
}

impl DatagramOpening {
    /// `nonce` must be random.
    pub fn new(secret: &Secret, nonce: OpeningNonce) -> Self {
        Self { secret: secret.clone(), nonce }
    }

    /// The opening, for connection 0.
    pub fn seal(&self, body: &[u8]) -> Result<Vec<u8>, SealError> {
        seal_once(self.secret.opening_key(&self.nonce), 0, &self.nonce, body)
    }

    /// Opens an answer: what it says, and the keys of the connection at the sender.
    pub fn answer(&self, datagram: &mut [u8]) -> Result<(Vec<u8>, DatagramKeys), SealError> {
        let theirs = nonce_of(datagram)?;
        let body = open_once(self.secret.answer_key(&self.nonce, &theirs), datagram)?;
        let [there, back] = self.secret.datagram_keys(&self.nonce, &theirs);
        Ok((body, DatagramKeys { sealer: DatagramSealer::new(there)?, opener: DatagramOpener::new(back)? }))
    }
}

impl Secret {
    /// At the receiver: opens an opening; its nonce, and what it says. An old one may come again.
    pub fn open_opening(&self, datagram: &mut [u8]) -> Result<(OpeningNonce, Vec<u8>), SealError> {
        let nonce = nonce_of(datagram)?;
        Ok((nonce, open_once(self.opening_key(&nonce), datagram)?))
    }

    /// At the receiver: the answer to an opening of this nonce, for the sender's connection `id`, and the keys. `own` must be random.
    pub fn answer_opening(
        &self,
        theirs: &OpeningNonce,
        own: &OpeningNonce,
        id: u32,
        body: &[u8],
    ) -> Result<(Vec<u8>, DatagramKeys), SealError> {
        let answer = seal_once(self.answer_key(theirs, own), id, own, body)?;
        let [there, back] = self.datagram_keys(theirs, own);
        Ok((answer, DatagramKeys { sealer: DatagramSealer::new(back)?, opener: DatagramOpener::new(there)? }))
    }

    fn opening_key(&self, nonce: &OpeningNonce) -> [u8; 32] {
        self.derive("fairlead datagrams opening v1", &[nonce])
    }

    fn answer_key(&self, sender: &OpeningNonce, receiver: &OpeningNonce) -> [u8; 32] {
        self.derive("fairlead datagrams answer v1", &[sender, receiver])
    }

    /// To the receiver, and to the sender.
    fn datagram_keys(&self, sender: &OpeningNonce, receiver: &OpeningNonce) -> [[u8; 32]; 2] {
        ["fairlead datagrams to the receiver v1", "fairlead datagrams to the sender v1"]
            .map(|context| self.derive(context, &[sender, receiver]))
    }
}

/// Seals under a key that seals nothing else.
fn seal_once(material: [u8; 32], id: u32, own: &OpeningNonce, body: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut datagram = [&id.to_be_bytes()[..], own, body].concat();
    let (clear, secret) = datagram.split_at_mut(ID_BYTES + NONCE_BYTES);
    let sealed = key(material)?.seal_in_place_separate_tag(nonce(0), Aad::from(&*clear), secret);
    let tag = sealed.map_err(|_| SealError::Cipher)?;
    datagram.extend_from_slice(tag.as_ref());
    Ok(datagram)
}

fn open_once(material: [u8; 32], datagram: &mut [u8]) -> Result<Vec<u8>, SealError> {
    if datagram.len() < OPENING_SEAL_BYTES {
        return Err(SealError::Foreign);
    }
    let (clear, secret) = datagram.split_at_mut(ID_BYTES + NONCE_BYTES);
    let opened = key(material)?.open_in_place(nonce(0), Aad::from(&*clear), secret);
    opened.map(|body| body.to_vec()).map_err(|_| SealError::Foreign)
}

fn nonce_of(datagram: &[u8]) -> Result<OpeningNonce, SealError> {
    let bytes = datagram.get(ID_BYTES..ID_BYTES + NONCE_BYTES).ok_or(SealError::Foreign)?;
    bytes.try_into().map_err(|_| SealError::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shake(sender: [u8; 32], receiver: [u8; 32]) -> Result<(DatagramKeys, DatagramKeys), SealError> {
        let (sender, receiver) = (Secret::new(sender), Secret::new(receiver));
        let opening = DatagramOpening::new(&sender, [2; NONCE_BYTES]);
        let (nonce, asked) = receiver.open_opening(&mut opening.seal(b"may I")?)?;
        assert_eq!((nonce, &asked[..]), ([2; NONCE_BYTES], &b"may I"[..]));
        let (mut answer, there) = receiver.answer_opening(&nonce, &[3; NONCE_BYTES], 9, b"you may")?;
        assert_eq!(answer[..ID_BYTES], 9u32.to_be_bytes());
        let (said, here) = opening.answer(&mut answer)?;
        assert_eq!(said, b"you may");
        Ok((here, there))
    }

    fn packet(id: u32, body: &[u8]) -> Vec<u8> {
        [&[7; HEAD_BYTES][..], &id.to_be_bytes(), body].concat()
    }

    fn seal(sealer: &mut DatagramSealer, packet: &[u8]) -> Vec<u8> {
        let mut bytes = [b"before", &[0; ROOM_BYTES][..], packet].concat();
        sealer.seal(&mut bytes, 6).unwrap();
        assert_eq!(bytes.len(), 6 + packet.len() + SEAL_BYTES);
        bytes.split_off(6)
    }

    #[test]
    fn what_one_end_seals_the_other_opens_once() {
        let (mut here, mut there) = shake([1; 32], [1; 32]).unwrap();
        for body in [&b""[..], b"x", &[5; 1400]] {
            let packet = packet(77, body);
            let sealed = seal(&mut here.sealer, &packet);
            assert_eq!(sealed[..ID_BYTES], 77u32.to_be_bytes(), "for whom it is shows");
            assert!(body.len() < 8 || !sealed.windows(8).any(|part| part == &body[..8]), "what it says does not");
            assert_eq!(there.opener.open(&mut sealed.clone()), Ok(&packet[..]));
            assert_eq!(there.opener.open(&mut sealed.clone()), Err(SealError::Repeated));
            assert!(here.opener.open(&mut sealed.clone()).is_err(), "nor by its own end");
        }
        let back = seal(&mut there.sealer, &packet(1, b"back"));
        assert!(here.opener.open(&mut back.clone()).is_ok());
    }

    #[test]
    fn another_secret_is_turned_away_by_the_opening() {
        assert_eq!(shake([1; 32], [2; 32]).err(), Some(SealError::Foreign));
    }

    #[test]
    fn datagrams_may_come_late_but_not_too_late_and_never_twice() {
        let (mut here, mut there) = shake([1; 32], [1; 32]).unwrap();
        let all: Vec<_> = (0..2 * WINDOW).map(|_| seal(&mut here.sealer, &packet(1, b""))).collect();
        let mut open = |at: u64| there.opener.open(&mut all[at as usize].clone()).map(drop);
        assert_eq!((open(5), open(3), open(4), open(3)), (Ok(()), Ok(()), Ok(()), Err(SealError::Repeated)));
        assert_eq!(open(WINDOW), Ok(()));
        assert_eq!((open(5), open(0)), (Err(SealError::Repeated), Err(SealError::Repeated)));
        assert_eq!((open(WINDOW - 1000), open(WINDOW - 1000)), (Ok(()), Err(SealError::Repeated)));
        assert_eq!(open(2 * WINDOW - 1), Ok(()));
        assert_eq!((open(WINDOW + 100), open(WINDOW + 100)), (Ok(()), Err(SealError::Repeated)));
    }

    #[test]
    fn keys_follow_one_another_at_both_ends() {
        let (mut here, mut there) = shake([1; 32], [1; 32]).unwrap();
        here.sealer.next = PER_KEY - 1;
        let all: Vec<_> = (0..3).map(|_| seal(&mut here.sealer, &packet(1, b"x"))).collect();
        for at in [1, 0, 2] {
            assert!(there.opener.open(&mut all[at].clone()).is_ok(), "{at}");
        }
        here.sealer.next = 5 * PER_KEY;
        here.sealer.keys = KeyChain::new(here.sealer.keys.base).unwrap();
        let key = KeyChain::of(&here.sealer.keys.base, 5).unwrap();
        here.sealer.keys.present = (5, key);
        let far = seal(&mut here.sealer, &packet(1, b"x"));
        assert_eq!(there.opener.open(&mut far.clone()), Err(SealError::Foreign), "keys are not derived for the asking");
    }

    proptest! {
        #[test]
        fn no_changed_datagram_is_taken(at in 0usize..60, bit in 0u32..8, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let (mut here, mut there) = shake([1; 32], [1; 32]).unwrap();
            let sealed = seal(&mut here.sealer, &packet(1, &[9; 20]));
            let mut bad = sealed.clone();
            let at = at % bad.len();
            bad[at] ^= 1u8 << bit;
            prop_assert!(there.opener.open(&mut bad).is_err());
            prop_assert!(there.opener.open(&mut bytes.clone()).is_err());
            prop_assert!(Secret::new([1; 32]).open_opening(&mut bytes.clone()).is_err());
            prop_assert!(there.opener.open(&mut sealed.clone()).is_ok(), "what was turned away takes nobody's place");
        }
    }
}
