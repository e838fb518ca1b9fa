//! The ledger against a model: whatever is torn or damaged, what remains is a prefix of what was written.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};

use fairlead_protocol::digest::{block_count, block_length, Digest};
use fairlead_protocol::index::BlockIndex;
use fairlead_protocol::ledger::{header, job_of_header, FileIdentity, LedgerContents, Record, Replay, HEADER_BYTES};
use fairlead_protocol::limits::BLOCK_BYTES;
use fairlead_protocol::listing::Version;
use proptest::prelude::*;

/// Digest of a block, where its record ends, and whether it is known to be written.
type Place = (Digest, u64, bool);

#[derive(Clone, Default)]
struct Model {
    attempt: u32,
    next_slot: u32,
    verified: Option<Digest>,
    through: u64,
    marked_bytes: u64,
    files: HashMap<u32, (FileIdentity, BTreeMap<BlockIndex, Place>)>,
}

impl Model {
    /// A record that may follow, chosen by arbitrary numbers.
    fn choose(&self, kind: u8, a: u32, b: u32, end: u64) -> Option<Record> {
        let slots: Vec<u32> = self.files.keys().copied().collect();
        let slot = (!slots.is_empty()).then(|| slots[a as usize % slots.len()]);
        Some(match kind {
            0 => Record::Attempt(self.attempt + a % 3),
            1 | 2 => {
                let version = Version { ctime_s: i64::from(b) - 5, ctime_ns: a % 1000, inode: u64::from(b) << 20 };
                let size = u64::from(b % 4) * u64::from(BLOCK_BYTES) + u64::from(a % 7);
                let path = format!("d{}/f{a}", b % 3).into_bytes();
                let identity = FileIdentity { path, size, mtime_s: -i64::from(a), mtime_ns: b % 999, version };
                Record::File { slot: self.next_slot + a % 2, identity }
            }
            3..=6 => {
                let size = self.files[&slot?].0.size;
                let block = BlockIndex(b.checked_rem(block_count(size) as u32)?);
                let digest = [(a ^ b) as u8; 32];
                Record::Block { slot: slot?, block, length: block_length(size, block), digest }
            }
            7 => {
                let through = self.through + (end - self.through) * u64::from(a % 5) / 4;
                Record::Mark { through, received_bytes: self.marked_bytes + u64::from(b) }
            }
            8 => Record::Lost { slot: slot?, block: BlockIndex(b % 5) },
            9 => Record::Forgotten(slot?),
            10 => Record::Verified([a as u8; 32]),
            _ => {
                let size = self.files[&slot?].0.size;
                let blocks = Some(block_count(size)).filter(|blocks| *blocks > 1)?;
                let block = BlockIndex(b % blocks as u32);
                Record::Begun { slot: slot?, block, length: block_length(size, block), digest: [(a ^ b) as u8; 32] }
            }
        })
    }

    fn apply(&mut self, record: &Record, end: u64) {
        match record {
            Record::Attempt(attempt) => self.attempt = *attempt,
            Record::File { slot, identity } => {
                self.next_slot = self.next_slot.max(slot + 1);
                self.files.insert(*slot, (identity.clone(), BTreeMap::new()));
            }
            Record::Block { slot, block, digest, .. } => {
                self.files.get_mut(slot).unwrap().1.insert(*block, (*digest, end, true));
            }
            Record::Begun { slot, block, digest, .. } => {
                let blocks = &mut self.files.get_mut(slot).unwrap().1;
                if blocks.get(block).is_none_or(|(.., written)| !written) {
                    blocks.insert(*block, (*digest, end, false));
                }
            }
            Record::Mark { through, received_bytes } => {
                (self.through, self.marked_bytes) = (*through, *received_bytes);
            }
            Record::Lost { slot, block } => {
                self.files.get_mut(slot).unwrap().1.remove(block);
            }
            Record::Forgotten(slot) => {
                self.files.remove(slot);
            }
            Record::Verified(root) => self.verified = Some(*root),
        }
    }

    fn assert_same(&self, book: &LedgerContents, bytes: &[u8]) {
        assert_eq!((book.attempt, book.next_slot, book.verified), (self.attempt, self.next_slot, self.verified));
        assert_eq!(book.files().count(), self.files.len());
        let index = book.index();
        let mut received = self.marked_bytes;
        for (slot, (identity, blocks)) in &self.files {
            let file = book.file(*slot).unwrap();
            assert_eq!(file.size, identity.size);
            let alike = self.files.values().filter(|(other, _)| other == identity).count();
            assert!(alike > 1 || index.slot(identity) == Some(*slot));
            let written = blocks.values().filter(|(.., written)| *written).count();
            assert_eq!(file.is_complete(), written as u64 == block_count(identity.size));
            let digest = |at: u64| Digest::try_from(&bytes[at as usize..at as usize + 32]).unwrap();
            let found: Vec<_> = file.blocks().map(|h| (h.block, digest(h.digest_at()), book.is_durable(&h))).collect();
            let durable = |(_, end, written): &Place| *written && *end <= self.through;
            let expected: Vec<_> = blocks.iter().map(|(block, place)| (*block, place.0, durable(place))).collect();
            assert_eq!(found, expected);
            let late = expected.iter().filter(|(_, _, durable)| !durable);
            received += late.map(|(block, _, _)| u64::from(block_length(identity.size, *block))).sum::<u64>();
        }
        assert_eq!(book.received_bytes(), received);
    }
}

/// A ledger and, for every prefix of whole records, its length and what it means.
fn write(choices: &[(u8, u32, u32)]) -> (Vec<u8>, Vec<(usize, Model)>) {
    let (mut bytes, mut model) = (header("job").to_vec(), Model::default());
    let mut states = vec![(bytes.len(), model.clone())];
    for (kind, a, b) in choices {
        let Some(record) = model.choose(*kind, *a, *b, bytes.len() as u64) else { continue };
        record.encode_into(&mut bytes);
        model.apply(&record, bytes.len() as u64);
        states.push((bytes.len(), model.clone()));
    }
    (bytes, states)
}

fn read(bytes: &[u8], piece: usize) -> (LedgerContents, u64) {
    let mut replay = Replay::default();
    bytes.chunks(piece.max(1)).for_each(|piece| replay.extend(piece));
    replay.finish()
}

fn choices() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    proptest::collection::vec((0u8..14, any::<u16>().prop_map(u32::from), any::<u16>().prop_map(u32::from)), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_torn_tail_costs_only_the_torn_record(choices in choices(), piece in 1usize..300) {
        let (bytes, states) = write(&choices);
        for cut in 0..=bytes.len() {
            let (book, valid) = read(&bytes[..cut], piece);
            match states.iter().rev().find(|(length, _)| *length <= cut) {
                Some((length, model)) => {
                    prop_assert_eq!(valid, *length as u64);
                    model.assert_same(&book, &bytes);
                }
                None => prop_assert_eq!(valid, 0),
            }
        }
    }

    #[test]
    fn a_damaged_byte_ends_the_ledger_before_its_record(choices in choices(), place: prop::sample::Index, flip in 1u8..) {
        let (mut bytes, states) = write(&choices);
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        let (book, valid) = read(&bytes, 64);
        match states.iter().rev().find(|(length, _)| *length <= place) {
            Some((length, model)) => {
                prop_assert_eq!(valid, *length as u64);
                model.assert_same(&book, &bytes);
            }
            None => prop_assert_eq!(valid, 0),
        }
    }

    #[test]
    fn arbitrary_bytes_after_a_sound_ledger_add_nothing(choices in choices(), tail in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (mut bytes, states) = write(&choices);
        bytes.extend_from_slice(&tail);
        let (book, valid) = read(&bytes, 97);
        let (length, model) = states.last().unwrap();
        prop_assert_eq!(valid, *length as u64);
        model.assert_same(&book, &bytes);
    }

    #[test]
    fn hostile_headers_name_no_job(bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES)) {
        prop_assert_eq!(job_of_header(bytes.first_chunk().unwrap()), None);
    }
}

/// Facts that contradict those before them are no facts, however sound their record is.
#[test]
fn impossible_records_end_the_ledger() {
    let version = Version::default();
    let identity = |size| FileIdentity { path: b"f".to_vec(), size, mtime_s: 0, mtime_ns: 0, version };
    let sound = [Record::Attempt(2), Record::File { slot: 0, identity: identity(5) }];
    let digest = [0; 32];
    for wrong in [
        Record::Attempt(1),
        Record::File { slot: 0, identity: identity(6) },
        Record::File { slot: 1, identity: identity(u64::MAX) },
        Record::File { slot: 1, identity: FileIdentity { path: b"../f".to_vec(), ..identity(1) } },
        Record::File { slot: u32::MAX, identity: identity(1) },
        Record::Block { slot: 0, block: BlockIndex(0), length: 6, digest },
        Record::Block { slot: 0, block: BlockIndex(1), length: 5, digest },
        Record::Block { slot: 1, block: BlockIndex(0), length: 5, digest },
        Record::Mark { through: 1 << 40, received_bytes: 0 },
        Record::Begun { slot: 1, block: BlockIndex(0), length: 5, digest },
        Record::Begun { slot: 0, block: BlockIndex(0), length: 5, digest },
        Record::Lost { slot: 1, block: BlockIndex(0) },
        Record::Forgotten(1),
    ] {
        let mut bytes = header("job").to_vec();
        sound.iter().for_each(|record| record.encode_into(&mut bytes));
        let length = bytes.len() as u64;
        wrong.encode_into(&mut bytes);
        Record::Verified(digest).encode_into(&mut bytes);
        let (book, valid) = read(&bytes, 4096);
        assert_eq!((valid, book.verified), (length, None), "{wrong:?}");
    }
}

#[test]
fn a_header_belongs_to_one_job() {
    assert_eq!(job_of_header(&header("a-job")), Some("a-job"));
    let mut other = header("a-job");
    other[8] ^= 1;
    assert_eq!(job_of_header(&other), None);
}
