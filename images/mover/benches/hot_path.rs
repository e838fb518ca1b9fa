//! What happens for every block on its way, without sockets and disks: packs, digests, the ledger, the schedule.
//! `cargo bench -p fairlead-mover` prints times and rates and compares them with the run before.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion, Throughput};
use fairlead_protocol::digest::of_block;
use fairlead_protocol::index::{BlockIndex, ConnectionId, FileIndex, PackId};
use fairlead_protocol::keyed::{PieceTagger, PIECE_BYTES};
use fairlead_protocol::ledger::{header, FileIdentity, Record, Replay};
use fairlead_protocol::limits::{BLOCK_BYTES, PACK_SEGMENTS};
use fairlead_protocol::listing::Version;
use fairlead_protocol::pack::{decode_table, Header, Segment};
use fairlead_protocol::schedule::Schedule;

const SMALL_FILE_BYTES: u32 = 4096;

fn segments(count: u16) -> Vec<Segment> {
    (0..u32::from(count))
        .map(|file| Segment {
            file: FileIndex(file),
            block: BlockIndex(0),
            length: SMALL_FILE_BYTES,
            digest: [7; 32],
            is_hole: false,
        })
        .collect()
}

fn table(segments: &[Segment]) -> Vec<u8> {
    let mut table = Vec::new();
    segments.iter().for_each(|segment| segment.encode_into(&mut table));
    table
}

/// A pack's header and table: one block of a large file, and as many small files as fit.
fn packs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pack");
    for count in [1, PACK_SEGMENTS] {
        let segments = segments(count);
        let payload_bytes = u32::from(count) * SMALL_FILE_BYTES;
        let head = Header::Data { pack: PackId(9), segments: count, payload_bytes };
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_with_input(BenchmarkId::new("encode", count), &segments, |bencher, segments| {
            let mut table = Vec::new();
            bencher.iter(|| {
                table.clear();
                segments.iter().for_each(|segment| segment.encode_into(&mut table));
                black_box((head.encode(), &table));
            });
        });
        let (encoded, table) = (head.encode(), table(&segments));
        group.bench_with_input(BenchmarkId::new("decode", count), &table, |bencher, table| {
            let mut decoded = Vec::new();
            bencher.iter(|| {
                black_box(Header::decode(black_box(&encoded)).unwrap());
                decode_table(black_box(table), payload_bytes, &mut decoded).unwrap();
            });
        });
    }
    group.finish();
}

/// The digest of a whole block and of a small file.
fn digests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("digest");
    for length in [SMALL_FILE_BYTES, BLOCK_BYTES] {
        let block = vec![3; length as usize];
        group.throughput(Throughput::Bytes(u64::from(length)));
        group.bench_with_input(BenchmarkId::from_parameter(length), &block, |bencher, block| {
            bencher.iter(|| of_block(black_box(block)));
        });
    }
    group.finish();
}

/// A keyed tag over a piece of a payload: what a block without a digest costs, beside BLAKE3 under a key.
fn tags(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tag");
    for length in [16 << 10, 64 << 10, PIECE_BYTES, 256 << 10] {
        let piece = vec![3; length];
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_with_input(BenchmarkId::new("gmac", length), &piece, |bencher, piece| {
            let mut tagger = PieceTagger::new(&[7; 32].into()).unwrap();
            bencher.iter(|| tagger.tag(black_box(piece)).unwrap());
        });
        group.bench_with_input(BenchmarkId::new("gmac_of_zeros", length), &vec![0; length], |bencher, zeros| {
            let mut tagger = PieceTagger::new(&[7; 32].into()).unwrap();
            bencher.iter(|| tagger.tag_zeros(black_box(zeros)).unwrap());
        });
        group.bench_with_input(BenchmarkId::new("blake3_keyed", length), &piece, |bencher, piece| {
            bencher.iter(|| blake3::keyed_hash(&[7; 32], black_box(piece)));
        });
    }
    group.finish();
}

fn block_record(block: u32) -> Record {
    Record::Block { slot: 0, block: BlockIndex(block), length: BLOCK_BYTES, digest: [1; 32] }
}

/// A ledger of one large file.
fn ledger_of(blocks: u32) -> Vec<u8> {
    let mut bytes = header("bench").to_vec();
    let size = u64::from(blocks) * u64::from(BLOCK_BYTES);
    let version = Version { ctime_s: 1, ctime_ns: 2, inode: 3 };
    let identity = FileIdentity { path: b"d/big".to_vec(), size, mtime_s: 4, mtime_ns: 5, version };
    Record::Attempt(1).encode_into(&mut bytes);
    Record::File { slot: 0, identity }.encode_into(&mut bytes);
    (0..blocks).for_each(|block| block_record(block).encode_into(&mut bytes));
    bytes
}

/// One record more, and reading a ledger again after a crash.
fn ledgers(criterion: &mut Criterion) {
    const BLOCKS: u32 = 4096;
    let mut group = criterion.benchmark_group("ledger");
    group.throughput(Throughput::Elements(1));
    group.bench_function("append", |bencher| {
        let mut bytes = Vec::new();
        bencher.iter(|| {
            bytes.clear();
            block_record(black_box(7)).encode_into(&mut bytes);
            black_box(&bytes);
        });
    });
    let bytes = ledger_of(BLOCKS);
    group.throughput(Throughput::Elements(u64::from(BLOCKS)));
    group.bench_function("replay", |bencher| {
        bencher.iter(|| {
            let mut replay = Replay::default();
            bytes.chunks(64 << 10).for_each(|piece| replay.extend(piece));
            let (_, valid) = black_box(replay.finish());
            assert_eq!(valid, bytes.len() as u64);
        });
    });
    group.finish();
}

/// Choosing packs and taking their acknowledgements, for a large file and for many small ones.
fn schedules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    let cases = [("large", 1, 4096 * u64::from(BLOCK_BYTES)), ("small", 100_000, u64::from(SMALL_FILE_BYTES))];
    for (name, files, size) in cases {
        let blocks = u64::from(files) * size.div_ceil(u64::from(BLOCK_BYTES));
        group.throughput(Throughput::Elements(blocks));
        group.bench_function(name, |bencher| {
            let work = || Schedule::new((0..files).map(move |file| (FileIndex(file), size)));
            let run = |mut schedule: Schedule| {
                while let Some(pack) = schedule.next_pack(ConnectionId(0)) {
                    black_box(schedule.stored(pack.id));
                }
                assert!(schedule.is_complete());
            };
            bencher.iter_batched(work, run, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, packs, digests, tags, ledgers, schedules);
criterion_main!(benches);
