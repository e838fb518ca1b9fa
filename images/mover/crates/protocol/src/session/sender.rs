//! The sender's side of a session, as a state machine: `Listing → Planning → Holding → Transferring → Completing → Done`,
//! and back from `Completing` to `Transferring` when the receiver's disk lost blocks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::digest::{block_count, block_length, Digest, DigestTable, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::kept::{self, BlockRun};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Iter, Kind, Listing};
use crate::message::{self, Blocks, Body, Complete, FileDigest, FileDigests, Numbers};
use crate::schedule::{BlockRef, Pack, Schedule, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listing,
    Planning,
    Holding,
    Transferring,
    Completing,
    Done,
}

/// What the sender must do next.
#[derive(Debug, PartialEq, Eq)]
pub enum SenderEffect {
    /// Hash these files and report them by `hashed`, in this order.
    HashFiles(Arc<Vec<u32>>),
    /// The plan is known: data may flow after `release`.
    Planned,
    /// So much more is stored at the receiver.
    Stored {
        /// Bytes of blocks.
        bytes: u64,
        /// Files of which every block is stored now.
        files: u64,
    },
    /// Blocks that were stored have to be sent again.
    Again {
        /// Bytes of those blocks.
        bytes: u64,
        /// Files that are not whole any more.
        files: u64,
    },
    /// The receiver published the tree: success.
    Finished {
        /// Whether the receiver read everything again from its disk.
        disk: bool,
    },
}

/// The sender's session after both ends have greeted each other.
pub struct Sender {
    state: State,
    listing: Arc<Listing>,
    digests: DigestTable,
    compare: Arc<Vec<u32>>,
    skip: Arc<Vec<u32>>,
    schedule: Schedule,
    damaged_packs: u64,
    /// Blocks not yet stored of files of which some are.
    blocks_left: HashMap<u32, u64>,
    kept: Arc<Vec<BlockRun>>,
    kept_bytes: u64,
    /// Files of which every block was kept.
    kept_files: u64,
    kept_unchecked: u64,
    /// Whether the receiver asked for blocks again, in one or more frames.
    rereading: bool,
}

/// Blocks that went from stored to missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Bytes of those blocks.
    pub bytes: u64,
    /// Files that are not whole any more.
    pub files: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            state: State::Listing,
            listing: Arc::default(),
            digests: DigestTable::default(),
            compare: Arc::default(),
            skip: Arc::default(),
            schedule: Schedule::default(),
            damaged_packs: 0,
            blocks_left: HashMap::new(),
            kept: Arc::default(),
            kept_bytes: 0,
            kept_files: 0,
            kept_unchecked: 0,
            rereading: false,
        }
    }
}

impl Sender {
    /// The whole listing was sent.
    pub fn listed(&mut self, listing: Listing) -> Result<(), Fault> {
        self.listing = Arc::new(listing);
        self.digests = DigestTable::new(Arc::clone(&self.listing))?;
        self.state = State::Planning;
        Ok(())
    }

    /// The listing.
    pub fn listing(&self) -> Arc<Listing> {
        Arc::clone(&self.listing)
    }

    /// Files that the receiver has already.
    pub fn skipped(&self) -> Arc<Vec<u32>> {
        Arc::clone(&self.skip)
    }

    /// Packs that arrived damaged.
    pub fn damaged_packs(&self) -> u64 {
        self.damaged_packs
    }

    /// Bytes of blocks that this end sent more than once.
    pub fn resent_bytes(&self) -> u64 {
        self.schedule.resent_bytes()
    }

    /// Blocks that the receiver has from earlier attempts; each must be read again and reported by `checked`.
    pub fn kept(&self) -> Arc<Vec<BlockRun>> {
        Arc::clone(&self.kept)
    }

    /// Takes a message of the receiver. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<Option<SenderEffect>, Fault> {
        match (self.state, body) {
            (State::Planning, Body::Compare(numbers)) => {
                let last = numbers.last;
                take(numbers, &self.listing, Arc::make_mut(&mut self.compare))?;
                Ok(last.then(|| SenderEffect::HashFiles(Arc::clone(&self.compare))))
            }
            (State::Planning, Body::Kept(kept)) => {
                kept.runs.iter().try_for_each(|run| self.keep(run))?;
                Ok(None)
            }
            (State::Planning, Body::Plan(numbers)) => {
                let last = numbers.last;
                take(numbers, &self.listing, Arc::make_mut(&mut self.skip))?;
                if !last {
                    return Ok(None);
                }
                self.plan()?;
                Ok(Some(SenderEffect::Planned))
            }
            (State::Transferring, Body::Stored(packs)) => Ok(Some(self.on_stored(&packs.packs))),
            (State::Transferring, Body::Damaged(packs)) => {
                for pack in packs.packs {
                    if self.schedule.damaged(pack) {
                        self.damaged_packs += 1;
                    }
                }
                Ok(None)
            }
            (State::Completing, Body::Published(complete)) => {
                if complete.root != self.root()? {
                    return Err(Fault::new(
                        Reason::ChecksumMismatch,
                        "the receiver published a tree with another digest",
                    ));
                }
                self.state = State::Done;
                Ok(Some(SenderEffect::Finished { disk: complete.disk }))
            }
            (State::Completing, Body::Again(blocks)) => self.again(&blocks).map(Some),
            (State::Transferring, Body::Again(blocks)) if self.rereading => self.again(&blocks).map(Some),
            (State::Completing, Body::Stored(_)) => Ok(None),
            (state, body) => Err(Fault::protocol(format!("the receiver sent {} while {state:?}", body.name()))),
        }
    }

    fn on_stored(&mut self, packs: &[u64]) -> SenderEffect {
        let (mut bytes, mut files) = (0, 0);
        for pack in packs {
            let Some(pack) = self.schedule.stored(*pack) else { continue };
            bytes += pack.bytes();
            files += pack.blocks.iter().filter(|block| self.completes(block)).count() as u64;
        }
        SenderEffect::Stored { bytes, files }
    }

    fn completes(&mut self, block: &BlockRef) -> bool {
        let count = block_count(self.listing.size(block.file));
        if count == 1 && self.blocks_left.is_empty() {
            return true;
        }
        let left = self.blocks_left.entry(block.file).or_insert(count);
        *left -= 1;
        if *left > 0 {
            return false;
        }
        self.blocks_left.remove(&block.file);
        true
    }

    fn keep(&mut self, run: &message::KeptRun) -> Result<(), Fault> {
        let kept = Arc::make_mut(&mut self.kept);
        let (run, digests) = kept::admit(run, &self.listing, kept.last())?;
        // A file may have been compared and found to differ: then its blocks count.
        self.digests.unset_whole(run.file);
        for (block, digest) in (run.first..run.end).zip(digests) {
            self.digests.replace(run.file, block, digest);
        }
        kept.push(run);
        Ok(())
    }

    fn plan(&mut self) -> Result<(), Fault> {
        if !self.skip.iter().all(|file| self.digests.is_whole_known(*file)) {
            return Err(Fault::protocol("the receiver skips a file that was never compared"));
        }
        for file in self.compare.iter().filter(|file| self.skip.binary_search(file).is_err()) {
            self.digests.unset_whole(*file);
        }
        for runs in self.kept.chunk_by(|left, right| left.file == right.file) {
            let (file, size) = (runs[0].file, self.listing.size(runs[0].file));
            if self.skip.binary_search(&file).is_ok() {
                return Err(Fault::protocol("the receiver skips a file and keeps blocks of it"));
            }
            let blocks: u64 = runs.iter().map(BlockRun::blocks).sum();
            self.kept_unchecked += blocks;
            self.kept_bytes += runs.iter().map(|run| run.bytes(size)).sum::<u64>();
            match block_count(size) - blocks {
                0 => self.kept_files += 1,
                left => drop(self.blocks_left.insert(file, left)),
            }
        }
        self.schedule = Schedule::of_spans(self.spans());
        self.state = State::Holding;
        Ok(())
    }

    /// What has to be sent, in the listing's order.
    fn spans(&self) -> impl Iterator<Item = Span> + Send + 'static {
        let (skip, kept) = (Arc::clone(&self.skip), Arc::clone(&self.kept));
        let (mut skipped, mut passed) = (0, 0);
        let files = Iter::start(Arc::clone(&self.listing), 0).filter(|(_, entry)| entry.kind == Kind::File);
        files.flat_map(move |(index, entry)| {
            if skip.get(skipped) == Some(&index) {
                skipped += 1;
                return Vec::new();
            }
            let runs = &kept[passed..];
            let runs = &runs[..runs.iter().take_while(|run| run.file == index).count()];
            passed += runs.len();
            kept::gaps(index, entry.size, runs)
        })
    }

    /// Bytes and whole files among the kept blocks.
    pub fn kept_totals(&self) -> (u64, u64) {
        (self.kept_bytes, self.kept_files)
    }

    /// A kept block was read again. If it is not what the receiver has, it goes out.
    pub fn checked(&mut self, file: u32, block: u32, now: Digest) -> Result<Reopened, Fault> {
        self.kept_unchecked = self.kept_unchecked.saturating_sub(1);
        if self.digests.block(file, block) == Some(now) {
            return Ok(Reopened::default());
        }
        self.digests.replace(file, block, now);
        Ok(self.reopen(file, block))
    }

    fn reopen(&mut self, file: u32, block: u32) -> Reopened {
        let length = block_length(self.listing.size(file), block);
        self.schedule.again(BlockRef { file, block, length });
        let left = self.blocks_left.entry(file).or_insert(0);
        *left += 1;
        Reopened { bytes: u64::from(length), files: u64::from(*left == 1) }
    }

    fn again(&mut self, blocks: &Blocks) -> Result<SenderEffect, Fault> {
        let mut sum = Reopened::default();
        for (file, block) in blocks.files.iter().zip(&blocks.blocks) {
            if self.digests.block(*file, *block).is_none() {
                return Err(Fault::protocol("the receiver wants a block again that was never sent"));
            }
            let reopened = self.reopen(*file, *block);
            sum = Reopened { bytes: sum.bytes + reopened.bytes, files: sum.files + reopened.files };
        }
        self.state = State::Transferring;
        self.rereading = true;
        Ok(SenderEffect::Again { bytes: sum.bytes, files: sum.files })
    }

    /// Notes the digests of files asked for by `HashFiles`, the next in order, and says what to answer.
    pub fn hashed(&mut self, digests: &[(u32, Digest)]) -> Vec<Body> {
        digests.iter().for_each(|(file, digest)| self.digests.set_whole(*file, *digest));
        let last = match (digests.last(), self.compare.last()) {
            (Some((file, _)), Some(last)) => file == last,
            _ => true,
        };
        let message = |(file, digest): &(u32, Digest)| FileDigest { file: *file, digest: digest.to_vec() };
        let chunks: Vec<_> = digests.chunks(NUMBERS_PER_FRAME).collect();
        let frame = |(at, chunk): (usize, &&[(u32, Digest)])| {
            let last = last && at + 1 == chunks.len();
            Body::Digests(FileDigests { digests: chunk.iter().map(message).collect(), last })
        };
        chunks.iter().enumerate().map(frame).collect()
    }

    /// Data may flow now.
    pub fn release(&mut self) {
        if self.state == State::Holding {
            self.state = State::Transferring;
        }
    }

    /// The next pack for a free stream.
    pub fn next_pack(&mut self, connection: u64) -> Option<Pack> {
        if self.state != State::Transferring {
            return None;
        }
        self.schedule.next_pack(connection)
    }

    /// Notes the digest of a block as it was read.
    pub fn read(&mut self, file: u32, block: u32, digest: Digest) -> Result<(), Fault> {
        if self.digests.record(file, block, digest) != Recorded::Contradicts {
            return Ok(());
        }
        let path = show(&self.listing.entry(file).path);
        let text = format!("{path} changed while it was read; send it again when nobody writes to it");
        Err(Fault::new(Reason::SourceChanged, text))
    }

    /// A data connection is gone; says how many packs go out again.
    pub fn connection_lost(&mut self, connection: u64) -> usize {
        self.schedule.connection_lost(connection)
    }

    /// The closing message, once, when every block is stored.
    pub fn complete(&mut self) -> Result<Option<Body>, Fault> {
        if self.state != State::Transferring || !self.schedule.is_complete() || self.kept_unchecked > 0 {
            return Ok(None);
        }
        let root = self.root()?.to_vec();
        self.state = State::Completing;
        self.rereading = false;
        Ok(Some(Body::Complete(Complete { root, disk: false })))
    }

    /// Whether every block is stored.
    pub fn all_stored(&self) -> bool {
        matches!(self.state, State::Completing | State::Done)
    }

    /// Digest of the tree as it was read.
    pub fn root(&self) -> Result<Digest, Fault> {
        self.digests.root().map_err(|file| {
            let path = show(&self.listing.entry(file).path);
            Fault::new(Reason::InternalError, format!("{path} was not read to its end"))
        })
    }
}

/// Adds numbers of files in ascending order to a list.
fn take(numbers: Numbers, listing: &Listing, list: &mut Vec<u32>) -> Result<(), Fault> {
    for number in numbers.numbers {
        if !listing.is_file(number) {
            return Err(Fault::protocol(format!("the receiver named entry {number}, which is no file")));
        }
        if list.last().is_some_and(|last| *last >= number) {
            return Err(Fault::protocol("the receiver named files out of order"));
        }
        list.push(number);
    }
    Ok(())
}

impl Body {
    /// Name of the message, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Listing(_) => "Listing",
            Self::ListingEnd(_) => "ListingEnd",
            Self::Compare(_) => "Compare",
            Self::Digests(_) => "Digests",
            Self::Plan(_) => "Plan",
            Self::Stored(_) => "Stored",
            Self::Damaged(_) => "Damaged",
            Self::Complete(_) => "Complete",
            Self::Published(_) => "Published",
            Self::Failure(_) => "Failure",
            Self::Heartbeat(_) => "Heartbeat",
            Self::Kept(_) => "Kept",
            Self::Again(_) => "Again",
        }
    }
}
