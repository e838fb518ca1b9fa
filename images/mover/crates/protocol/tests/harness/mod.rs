//! What the fuzz targets and the bounded fuzz test do with bytes of a stranger: every decoder, and both sessions behind them.
//! A harness panics when a decoder does, or when what it accepted does not survive being written and read again.
#![allow(dead_code, clippy::unwrap_used)]

use fairlead_protocol::digest::of_block;
use fairlead_protocol::fault::show;
use fairlead_protocol::frame::{check_preamble, decode, encode, length, Decoder, PREAMBLE_BYTES};
use fairlead_protocol::index::{BlockId, ConnectionId, FileIndex};
use fairlead_protocol::kept::{gaps, BlockRun};
use fairlead_protocol::keyed::{Secret, ANSWER_BYTES, GREETING_BYTES, NONCE_BYTES, TAG_BYTES};
use fairlead_protocol::ledger::{job_of_header, Replay};
use fairlead_protocol::limits::{BLOCK_BYTES, HELLO_FRAME_BYTES, PACK_PAYLOAD_BYTES, PACK_SEGMENTS};
use fairlead_protocol::listing::{Entry, Kind, ListingBuilder, Version};
use fairlead_protocol::message::{Body, ControlMessage, Hello, Welcome};
use fairlead_protocol::name::{check_path, check_target};
use fairlead_protocol::pack::{decode_table, Header, Segment, HEADER_BYTES, SEGMENT_BYTES};
use fairlead_protocol::receiver::{Receiver, ReceiverEffect, ReceiverStep};
use fairlead_protocol::sender::{Sender, SenderEffect};

type Harness = fn(&[u8]);

/// Every harness by the name of its fuzz target.
pub(crate) const HARNESSES: [(&str, Harness); 8] = [
    ("greeting", greeting),
    ("keyed", keyed),
    ("control", control),
    ("pack", pack),
    ("ledger", ledger),
    ("name", name),
    ("receiver", receiver),
    ("sender", sender),
];

/// The first bytes of a connection, in either direction.
pub(crate) fn greeting(bytes: &[u8]) {
    let Some((preamble, rest)) = bytes.split_first_chunk::<PREAMBLE_BYTES>() else { return };
    let _ = check_preamble(preamble);
    let Some((prefix, body)) = rest.split_first_chunk::<4>() else { return };
    let Ok(length) = length(*prefix, HELLO_FRAME_BYTES) else { return };
    let body = &body[..length.min(body.len())];
    if let Ok(hello) = decode::<Hello>(body) {
        assert_eq!(decode::<Hello>(&encode(&hello)[4..]).unwrap(), hello);
    }
    if let Ok(welcome) = decode::<Welcome>(body) {
        assert_eq!(decode::<Welcome>(&encode(&welcome)[4..]).unwrap(), welcome);
    }
}

/// The secret of the harness for keyed streams.
pub(crate) const SECRET: [u8; 32] = [7; 32];

/// A keyed stream's handshake, which each end gets from a stranger who does not know the secret: only bytes that an end with the
/// secret once sent pass, and nothing that differs from them.
pub(crate) fn keyed(bytes: &[u8]) {
    let secret = Secret::new(SECRET);
    let Some((greeting, rest)) = bytes.split_first_chunk::<GREETING_BYTES>() else { return };
    if let Ok((stream, _, mut keys)) = secret.answer(greeting, &[2; NONCE_BYTES]) {
        assert_eq!((secret.greet(3, &[1; NONCE_BYTES]).greeting(), stream), (greeting, 3));
        let proof = rest.get(ANSWER_BYTES..).and_then(<[u8]>::first_chunk::<TAG_BYTES>);
        let _ = proof.map(|proof| keys.check_proof(proof));
    }
    let Some(answer) = rest.first_chunk::<ANSWER_BYTES>() else { return };
    let greeter = secret.greet(3, &[1; NONCE_BYTES]);
    let (_, genuine, _) = secret.answer(greeter.greeting(), &[2; NONCE_BYTES]).unwrap();
    assert!(greeter.finish(answer).is_err() || *answer == genuine);
}

fn messages(bytes: &[u8]) -> Vec<Body> {
    let (mut decoder, mut bodies) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(1021) {
        decoder.extend(piece);
        loop {
            match decoder.next_message::<ControlMessage>() {
                Ok(Some(control)) => bodies.extend(control.body),
                Ok(None) => break,
                Err(_) => return bodies,
            }
        }
    }
    bodies
}

/// ControlMessage frames.
pub(crate) fn control(bytes: &[u8]) {
    for body in messages(bytes) {
        let control = ControlMessage { body: Some(body) };
        let whole = encode(&control);
        assert_eq!(decode::<ControlMessage>(&whole[4..]).unwrap(), control);
    }
}

/// A data stream: headers, tables and payloads.
pub(crate) fn pack(mut bytes: &[u8]) {
    let mut segments: Vec<Segment> = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::decode(head) else { return };
        let Header::Data { segments: count, payload_bytes, .. } = header else { return };
        assert_eq!(header.encode(), *head);
        assert!(count <= PACK_SEGMENTS && payload_bytes <= PACK_PAYLOAD_BYTES);
        let Some((table, rest)) = rest.split_at_checked(usize::from(count) * SEGMENT_BYTES) else { return };
        if decode_table(table, payload_bytes, &mut segments).is_err() {
            return;
        }
        assert_eq!(
            segments.iter().map(|segment| u64::from(segment.payload_bytes())).sum::<u64>(),
            u64::from(payload_bytes)
        );
        let Some((payload, rest)) = rest.split_at_checked(payload_bytes as usize) else { return };
        let _ = of_block(payload);
        bytes = rest;
    }
}

/// A ledger file.
pub(crate) fn ledger(bytes: &[u8]) {
    let mut replay = Replay::default();
    bytes.chunks(61).for_each(|piece| replay.extend(piece));
    let (book, valid) = replay.finish();
    assert!(valid <= bytes.len() as u64);
    assert!(valid == 0 || job_of_header(bytes.first_chunk().unwrap()).is_some());
    for (slot, file) in book.files() {
        assert_eq!(book.file(slot), Some(file));
        assert!(file.blocks().is_sorted_by(|left, right| left.block < right.block));
        let mut runs: Vec<BlockRun> = Vec::new();
        for held in file.blocks() {
            fairlead_protocol::kept::add(&mut runs, BlockId::new(FileIndex(0), held.block));
            assert_eq!(file.digest_at(held.block), Some(held.digest_at()));
            assert!(held.digest_at() + 32 <= valid);
        }
        let _ = gaps(FileIndex(0), file.size, &runs);
        let _ = file.blocks().filter(|held| book.is_durable(held)).count();
    }
}

/// Names and link targets.
pub(crate) fn name(bytes: &[u8]) {
    if check_path(bytes).is_ok() {
        assert!(!bytes.starts_with(b"/") && !bytes.contains(&0));
        assert!(bytes.split(|byte| *byte == b'/').all(|part| !part.is_empty() && part != b"." && part != b".."));
    }
    let _ = check_target(bytes);
    let _ = show(bytes);
}

/// A receiver that gets these bytes from its authenticated sender.
pub(crate) fn receiver(bytes: &[u8]) {
    let mut session = Receiver::default();
    for body in messages(bytes) {
        let Ok(step) = session.on_message(body) else { return };
        if follow(&mut session, step).is_none() {
            return;
        }
    }
}

fn follow(session: &mut Receiver, step: ReceiverStep) -> Option<()> {
    let next = match step.effect {
        None => return Some(()),
        Some(ReceiverEffect::Survey(entries)) => {
            let files = entries.iter().filter(|(_, entry)| entry.kind == Kind::File && entry.size % 2 == 1);
            session.surveyed(files.map(|(index, _)| index).collect()).ok()?
        }
        Some(ReceiverEffect::HashFiles(files)) => {
            files.iter().try_for_each(|file| session.hashed(&[(*file, [0; 32])])).ok()?;
            session.hashed_all().ok()?
        }
        Some(ReceiverEffect::Reserve { .. }) => {
            let mut plan = session.reserved(Vec::new(), |_| Ok([0; 32])).ok()?;
            while session.plan_frame(&mut plan).is_some() {}
            return Some(());
        }
        Some(ReceiverEffect::Settle) => session.settled(&[]).ok()?,
        Some(ReceiverEffect::Publish { .. }) => session.published(false).ok()?,
    };
    follow(session, next)
}

fn entry(path: &str, size: u64) -> Entry {
    let (path, version) = (path.into(), Version::default());
    let target = Vec::new();
    Entry { path, kind: Kind::File, mode: 0o644, mtime_s: 0, mtime_ns: 0, size, target, version, hole_bytes: 0 }
}

/// A sender with two files that gets these bytes from its receiver.
pub(crate) fn sender(bytes: &[u8]) {
    let mut session = Sender::default();
    let mut builder = ListingBuilder::default();
    for entry in [entry("a", 3 * u64::from(BLOCK_BYTES) + 1), entry("b", 5)] {
        builder.push(&entry).unwrap();
    }
    session.listed(builder.finish()).unwrap();
    for body in messages(bytes) {
        match session.on_message(body) {
            Err(_) => return,
            Ok(Some(SenderEffect::HashFiles(files))) => {
                let digests: Vec<_> = files.iter().map(|file| (*file, [0; 32])).collect();
                session.hashed(&digests).unwrap();
            }
            Ok(Some(SenderEffect::Planned { kept, .. })) => {
                session.release();
                for run in kept.iter() {
                    for block in run.ids() {
                        session.checked(block, [1; 32]).unwrap();
                    }
                }
            }
            Ok(_) => {}
        }
        while let Some(pack) = session.next_pack(ConnectionId(0)) {
            for block in pack.blocks {
                session.read(block.id(), [1; 32]).unwrap();
            }
        }
        let _ = session.complete();
    }
}
