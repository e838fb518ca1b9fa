//! The ledger of a job's partial files: which blocks are where, and which of them survive a crash of the node.
//!
//! A header, then records, only ever appended. Each record carries its length, kind and crc32c; the first one that is torn or
//! damaged ends the ledger, for nothing behind it can be trusted to be in order.

mod book;

pub use self::book::{HeldBlock, LedgerContents, PartialFile, SlotsByIdentity};

use crate::digest::Digest;
use crate::index::BlockIndex;
use crate::limits::{BLOCK_BYTES, JOB_BYTES, PATH_BYTES};
use crate::listing::{Entry, Version};
use crate::name::{check_path, job_is_valid};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 80;
/// Bytes of a record around its body: length, kind, reserved, crc32c.
const FRAME_BYTES: usize = 4 + CRC_BYTES;
const CRC_BYTES: usize = 4;
/// Longest body: a file record with the longest path.
const BODY_BYTES: usize = FILE_BYTES + PATH_BYTES;
const FILE_BYTES: usize = 4 + 8 + 8 + 4 + 8 + 4 + 8;

const MAGIC: [u8; 4] = *b"FLLG";
const VERSION: u16 = 1;
const DIGEST_BLAKE3: u16 = 1;

/// The header for a job's ledger.
pub fn header(job: &str) -> [u8; HEADER_BYTES] {
    debug_assert!(job.len() <= JOB_BYTES);
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_be_bytes());
    bytes[6..8].copy_from_slice(&DIGEST_BLAKE3.to_be_bytes());
    bytes[8..12].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
    bytes[12] = job.len() as u8;
    bytes[13..13 + job.len()].copy_from_slice(job.as_bytes());
    let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The job of a header of this version, block size and digest; nothing for any other bytes.
pub fn job_of_header(bytes: &[u8; HEADER_BYTES]) -> Option<&str> {
    let name = bytes.get(13..13 + usize::from(bytes[12]))?;
    let job = std::str::from_utf8(name).ok().filter(|job| job.len() <= JOB_BYTES && job_is_valid(job))?;
    (header(job) == *bytes).then_some(job)
}

/// What a file was when its blocks were read; another identity is another file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Path below the root.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, whole seconds since 1970.
    pub mtime_s: i64,
    /// Modification time, nanoseconds of the second.
    pub mtime_ns: u32,
    /// Time of change and inode at the sender.
    pub version: Version,
}

impl FileIdentity {
    /// Tells identities apart well enough: where two files of one job share it, the sender finds each block of the wrong one to
    /// differ and sends it.
    fn hash(&self) -> u64 {
        let mut hasher = blake3::Hasher::new_derive_key("fairlead identity v1");
        let Self { path, size, mtime_s, mtime_ns, version } = self;
        for number in
            [*size, *mtime_s as u64, u64::from(*mtime_ns), version.ctime_s as u64, u64::from(version.ctime_ns)]
        {
            hasher.update(&number.to_be_bytes());
        }
        hasher.update(&version.inode.to_be_bytes()).update(path);
        let mut hash = [0; 8];
        hasher.finalize_xof().fill(&mut hash);
        u64::from_be_bytes(hash)
    }

    /// The identity of a listed file.
    pub fn of(entry: &Entry) -> Self {
        let Entry { path, size, mtime_s, mtime_ns, version, .. } = entry;
        Self { path: path.clone(), size: *size, mtime_s: *mtime_s, mtime_ns: *mtime_ns, version: *version }
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An attempt of the job took over. Never falls.
    Attempt(u32),
    /// A partial file belongs to this file of the source.
    File {
        /// Names the partial file; never used again for another.
        slot: u32,
        /// The file of the source.
        identity: FileIdentity,
    },
    /// A block was verified and written, though it may not be on the disk yet.
    Block {
        /// Its partial file.
        slot: u32,
        /// Its number in the file.
        block: BlockIndex,
        /// Bytes of the block.
        length: u32,
        /// BLAKE3 of those bytes.
        digest: Digest,
    },
    /// The data of every block recorded before this offset of the ledger is on the disk.
    Mark {
        /// Offset of the ledger in bytes.
        through: u64,
        /// Payload bytes received for the job up to that offset, those that came in vain included.
        received_bytes: u64,
    },
    /// A block's place holds something else now.
    Lost {
        /// Its partial file.
        slot: u32,
        /// Its number in the file.
        block: BlockIndex,
    },
    /// A partial file is of no use any more.
    Forgotten(u32),
    /// Every file is complete and durable, and the tree has this digest: publication may have begun.
    Verified(Digest),
    /// A block was verified and is about to be written: its place may hold it, or part of it, or what it held before. Only of
    /// files of many blocks. No mark covers it: it names a place to check, not what is there.
    Begun {
        /// Its partial file.
        slot: u32,
        /// Its number in the file.
        block: BlockIndex,
        /// Bytes of the block.
        length: u32,
        /// BLAKE3 of those bytes.
        digest: Digest,
    },
}

impl Record {
    /// Appends the record to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let kind: u8 = match self {
            Self::Attempt(attempt) => {
                out.extend_from_slice(&attempt.to_be_bytes());
                1
            }
            Self::File { slot, identity } => {
                out.extend_from_slice(&slot.to_be_bytes());
                out.extend_from_slice(&identity.size.to_be_bytes());
                out.extend_from_slice(&identity.mtime_s.to_be_bytes());
                out.extend_from_slice(&identity.mtime_ns.to_be_bytes());
                out.extend_from_slice(&identity.version.ctime_s.to_be_bytes());
                out.extend_from_slice(&identity.version.ctime_ns.to_be_bytes());
                out.extend_from_slice(&identity.version.inode.to_be_bytes());
                out.extend_from_slice(&identity.path);
                2
            }
            Self::Block { slot, block, length, digest } => {
                out.extend_from_slice(&slot.to_be_bytes());
                out.extend_from_slice(&block.0.to_be_bytes());
                out.extend_from_slice(&block.offset().to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(digest);
                3
            }
            Self::Mark { through, received_bytes } => {
                out.extend_from_slice(&through.to_be_bytes());
                out.extend_from_slice(&received_bytes.to_be_bytes());
                4
            }
            Self::Lost { slot, block } => {
                out.extend_from_slice(&slot.to_be_bytes());
                out.extend_from_slice(&block.0.to_be_bytes());
                5
            }
            Self::Forgotten(slot) => {
                out.extend_from_slice(&slot.to_be_bytes());
                6
            }
            Self::Verified(root) => {
                out.extend_from_slice(root);
                7
            }
            Self::Begun { slot, block, length, digest } => {
                out.extend_from_slice(&slot.to_be_bytes());
                out.extend_from_slice(&block.0.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(digest);
                8
            }
        };
        let length = (out.len() - start - 4) as u16;
        out[start..start + 2].copy_from_slice(&length.to_be_bytes());
        out[start + 2] = kind;
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_be_bytes());
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let record = match kind {
            1 => Self::Attempt(fields.u32()?),
            2 => {
                let slot = fields.u32()?;
                let (size, mtime_s, mtime_ns) = (fields.u64()?, fields.u64()? as i64, fields.u32()?);
                let version = Version { ctime_s: fields.u64()? as i64, ctime_ns: fields.u32()?, inode: fields.u64()? };
                let path = std::mem::take(&mut fields.0).to_vec();
                check_path(&path).ok()?;
                Self::File { slot, identity: FileIdentity { path, size, mtime_s, mtime_ns, version } }
            }
            3 => {
                let (slot, block, offset, length) = (fields.u32()?, fields.block()?, fields.u64()?, fields.u32()?);
                if offset != block.offset() {
                    return None;
                }
                Self::Block { slot, block, length, digest: fields.take()? }
            }
            4 => Self::Mark { through: fields.u64()?, received_bytes: fields.u64()? },
            5 => Self::Lost { slot: fields.u32()?, block: fields.block()? },
            6 => Self::Forgotten(fields.u32()?),
            7 => Self::Verified(fields.take()?),
            8 => Self::Begun {
                slot: fields.u32()?,
                block: fields.block()?,
                length: fields.u32()?,
                digest: fields.take()?,
            },
            _ => return None,
        };
        fields.0.is_empty().then_some(record)
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn block(&mut self) -> Option<BlockIndex> {
        self.u32().map(BlockIndex)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// Reads a ledger piece by piece.
pub struct Replay<F = fn(&Record)> {
    book: LedgerContents,
    buffer: Vec<u8>,
    valid: u64,
    ended: bool,
    seen: F,
}

impl Default for Replay {
    fn default() -> Self {
        Self::with_observer(|_| {})
    }
}

impl<F: FnMut(&Record)> Replay<F> {
    /// A replay that calls `seen` with every sound record.
    pub fn with_observer(seen: F) -> Self {
        Self { book: LedgerContents::default(), buffer: Vec::new(), valid: 0, ended: false, seen }
    }

    /// Takes the next bytes of the file, from its beginning on.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.ended {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        let mut used = 0;
        if self.valid == 0 {
            let Some(head) = self.buffer.first_chunk::<HEADER_BYTES>() else { return };
            if job_of_header(head).is_none() {
                self.ended = true;
                return;
            }
            used = HEADER_BYTES;
            self.valid = HEADER_BYTES as u64;
        }
        while let Some(length) = self.record(used) {
            used += length;
        }
        self.buffer.drain(..used);
    }

    /// Takes the record at `at` of the buffer; its length, or nothing when no whole and sound record is there.
    fn record(&mut self, at: usize) -> Option<usize> {
        let rest = &self.buffer[at..];
        let head = rest.first_chunk::<4>()?;
        let body_bytes = usize::from(u16::from_be_bytes([head[0], head[1]]));
        if body_bytes > BODY_BYTES || head[3] != 0 {
            self.ended = true;
            return None;
        }
        let (covered, tail) = rest.split_at_checked(4 + body_bytes)?;
        let crc = tail.first_chunk::<4>()?;
        let sound = crc32c::crc32c(covered).to_be_bytes() == *crc;
        let record = sound.then(|| Record::decode(head[2], &covered[4..])).flatten();
        let (start, end) = (self.valid, self.valid + (FRAME_BYTES + body_bytes) as u64);
        let Some(record) = record.filter(|record| self.book.apply(record, start, end)) else {
            self.ended = true;
            return None;
        };
        (self.seen)(&record);
        self.valid = end;
        Some(FRAME_BYTES + body_bytes)
    }

    /// The contents of the sound part, and how many bytes that part has; zero without a sound header.
    pub fn finish(mut self) -> (LedgerContents, u64) {
        self.book.settle();
        (self.book, self.valid)
    }
}
