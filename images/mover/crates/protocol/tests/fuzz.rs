//! A bounded, repeatable run of every fuzz harness: arbitrary bytes, and valid ones that were bent.
//!
//! `FAIRLEAD_FUZZ_SECONDS` makes it go on for so long, from `FAIRLEAD_FUZZ_SEED` on (a number; the time by default): each round of
//! inputs has a seed of its own, which a failure names, and one second with that seed repeats it.
#![allow(clippy::unwrap_used)]

mod harness;

use std::time::{Duration, Instant, SystemTime};

use fairlead_protocol::frame::{encode, preamble};
use fairlead_protocol::index::{BlockIndex, FileIndex, PackId};
use fairlead_protocol::kept::{BlockRun, KeptFrames};
use fairlead_protocol::keyed::Secret;
use fairlead_protocol::ledger::{header, FileIdentity, Record};
use fairlead_protocol::listing::Version;
use fairlead_protocol::message::{
    self, Body, Complete, ControlMessage, Hello, ListingEnd, ListingMessage, Numbers, Packs, Welcome,
};
use fairlead_protocol::pack::{Header, Segment};

const ROUNDS: u64 = 40_000;

/// Repeatable random numbers.
struct Random(blake3::OutputReader);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        (u64::from_le_bytes(bytes) % bound.max(1) as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.fill(&mut bytes);
        bytes
    }
}

fn controls(bodies: Vec<Body>) -> Vec<u8> {
    bodies.into_iter().flat_map(|body| encode(&ControlMessage { body: Some(body) })).collect()
}

/// Valid input for each harness, to be bent.
fn seeds() -> Vec<Vec<u8>> {
    let hello = Hello { job: "job".into(), attempt: 1, purpose: 1, token: vec![7; 16], stream: 3, ..Hello::default() };
    let resuming = Hello { received: Some(9), ..hello.clone() };
    let welcome = Welcome {
        received: 7,
        refusal: String::new(),
        token: vec![7; 16],
        echo_key: vec![8; 16],
        echo_port: 24_000,
        ..Welcome::default()
    };
    let file = |path: &str, size| message::EntryMessage {
        path: path.into(),
        kind: 1,
        mode: 0o644,
        size,
        ..Default::default()
    };
    let directory = message::EntryMessage { path: b"d".to_vec(), kind: 2, ..Default::default() };
    let listing = ListingMessage { entries: vec![directory, file("d/a", 3), file("d/b", 4 << 20)] };
    let end = ListingEnd { files: 2, directories: 1, symlinks: 0, bytes: 3 + (4 << 20), ..ListingEnd::default() };
    let digest = message::FileDigest { file: 1, digest: vec![0; 32] };
    let digests = message::FileDigests { digests: vec![digest], last: true };
    let root = || Complete { root: vec![3; 32], disk: false };
    let runs = [(0, 0), (0, 2), (1, 0)].map(|(file, first)| BlockRun {
        file: FileIndex(file),
        first: BlockIndex(first),
        end: BlockIndex(first + 1),
    });
    let mut frames = KeptFrames::new(runs.into());
    let kept = std::iter::from_fn(|| frames.next_frame(|id| [1 + id.block.0 as u8; 32]));
    let numbers = |numbers: Vec<u32>| Numbers { numbers, last: true };
    let sender =
        [Body::Compare(numbers(vec![1])), Body::Plan(numbers(Vec::new())), Body::Stored(Packs { packs: vec![0, 1] })];
    let again = Body::Again(message::Blocks { files: vec![0, 1], blocks: vec![0, 0] });
    let resumed = kept.chain([sender[1].clone(), sender[2].clone(), again, Body::Published(root())]).collect();
    let mut table = Vec::new();
    Segment { file: FileIndex(1), block: BlockIndex(0), length: 100, digest: [4; 32], is_hole: false }
        .encode_into(&mut table);
    Segment { file: FileIndex(2), block: BlockIndex(3), length: 28, digest: [5; 32], is_hole: false }
        .encode_into(&mut table);
    let head = Header::Data { pack: PackId(9), segments: 2, payload_bytes: 128 }.encode();
    let pack = [&head[..], &table, &[6; 128], &Header::End.encode()].concat();
    let mut ledger = header("job").to_vec();
    let version = Version { ctime_s: 1, ctime_ns: 2, inode: 3 };
    let identity = FileIdentity { path: b"d/a".to_vec(), size: 3 << 20, mtime_s: 4, mtime_ns: 5, version };
    for record in [
        Record::Attempt(1),
        Record::File { slot: 0, identity },
        Record::Block { slot: 0, block: BlockIndex(1), length: 1 << 20, digest: [1; 32] },
        Record::Mark { through: 100, received_bytes: 5 },
        Record::Block { slot: 0, block: BlockIndex(0), length: 1 << 20, digest: [2; 32] },
        Record::Lost { slot: 0, block: BlockIndex(1) },
        Record::Verified([3; 32]),
    ] {
        record.encode_into(&mut ledger);
    }
    vec![
        [&preamble()[..], &encode(&hello)].concat(),
        [&preamble()[..], &encode(&resuming)].concat(),
        [&preamble()[..], &encode(&welcome)].concat(),
        controls(vec![Body::Listing(listing), Body::ListingEnd(end), Body::Digests(digests), Body::Complete(root())]),
        controls(sender.to_vec()),
        controls(resumed),
        pack,
        ledger,
        b"d/e/../f/./g".to_vec(),
        keyed(),
    ]
}

/// Both directions of a stream without encryption, as the harness for it expects them.
fn keyed() -> Vec<u8> {
    let secret = Secret::new(harness::SECRET);
    let greeter = secret.greet(3, &[1; 32]);
    let greeting = *greeter.greeting();
    let (_, answer, _) = secret.answer(&greeting, &[2; 32]).unwrap();
    let (proof, _) = greeter.finish(&answer).unwrap();
    [&greeting[..], &answer, &proof].concat()
}

fn bend(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => bytes.truncate(at),
            3 => {
                let more = random.below(9);
                let more = random.bytes(more);
                bytes.splice(at..at, more);
            }
            4 => {
                let from = random.below(other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let end = at + random.below(bytes.len() - at);
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// A number from the environment. A word that is none is an error: a run that was asked for must not fall short in silence.
fn setting(name: &str) -> Option<u64> {
    let word = std::env::var(name).ok()?;
    Some(word.parse().unwrap_or_else(|_| panic!("{name} is {word:?}, not a whole number")))
}

/// `ROUNDS` inputs for every harness.
fn round(seed: &[u8], seeds: &[Vec<u8>]) {
    let mut random = Random(blake3::Hasher::new().update(seed).finalize_xof());
    for _ in 0..ROUNDS {
        let bytes = if random.below(8) == 0 {
            let length = random.below(300);
            random.bytes(length)
        } else {
            let (seed, other) = (random.below(seeds.len()), random.below(seeds.len()));
            bend(&mut random, &seeds[seed], &seeds[other])
        };
        for (name, harness) in harness::HARNESSES {
            if let Err(panic) = std::panic::catch_unwind(|| harness(&bytes)) {
                eprintln!("{name} broke on {bytes:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn no_bytes_of_a_stranger_break_a_decoder() {
    let seeds = seeds();
    for seed in &seeds {
        harness::HARNESSES.iter().for_each(|(_, harness)| harness(seed));
    }
    let Some(seconds) = setting("FAIRLEAD_FUZZ_SECONDS") else { return round(b"fuzz", &seeds) };
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let first = setting("FAIRLEAD_FUZZ_SEED").unwrap_or_else(now);
    let (end, mut rounds) = (Instant::now() + Duration::from_secs(seconds), 0);
    loop {
        let seed = first.wrapping_add(rounds);
        eprintln!("FAIRLEAD_FUZZ_SEED={seed}");
        round(&seed.to_be_bytes(), &seeds);
        rounds += 1;
        if Instant::now() >= end {
            break;
        }
    }
    println!("{} inputs for each of {} decoders", rounds * ROUNDS, harness::HARNESSES.len());
}
