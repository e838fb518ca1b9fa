//! The sender's side of a session, as a state machine: `Listing → Planning → Holding → Transferring → Completing → Done`,
//! and back from `Completing` to `Transferring` when the receiver's disk lost blocks.
//!
//! # Which call follows which effect
//! The caller sends the listing, then calls [`Sender::listed`]. It passes every message of the receiver except `Failure` and
//! `Heartbeat` to [`Sender::on_message`] and carries out the effect that comes back:
//!
//! | effect | the caller |
//! |---|---|
//! | `HashFiles` | hashes the files in order, reports them by `hashed`, some at a time, and sends the messages that come back |
//! | `Planned` | calls `release` when data may flow; reads every kept block again and reports each by `checked` |
//! | `Stored`, `Again` | counts |
//! | `Finished` | ends |
//!
//! From `release` on each data stream calls `next_pack`, reports every block as it was read by `read`, sends the pack, and calls
//! `connection_lost` if its connection ends early. After each message, after `release` and after the last `checked` the caller calls
//! `complete` and sends what comes back. A call in a state that it does not belong to returns an `InternalError`: the caller is wrong,
//! not the peer.

use std::collections::HashMap;
use std::sync::Arc;

use crate::digest::{block_count, block_length, Digest, DigestTable, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::index::{BlockId, BlockIndex, ConnectionId, FileIndex, PackId, PathIndex};
use crate::kept::{self, BlockRun};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Iter, Kind, Listing};
use crate::message::{Blocks, Body, Complete, FileDigest, FileDigests, KeptRun, Numbers};
use crate::schedule::{BlockRef, Pack, Schedule, Span};

/// Where the session is, with what is known there.
enum State {
    Listing,
    Planning(Planning),
    Holding(Transfer),
    Transferring(Transfer),
    /// With the digest of the tree as it was read.
    Completing(Transfer, Digest),
    Done(SenderCounts),
}

/// What the receiver asks for before data flow.
struct Planning {
    listing: Arc<Listing>,
    digests: DigestTable,
    /// Files that the receiver compares, in ascending order.
    compare: Arc<Vec<FileIndex>>,
    /// Files that the receiver has, in ascending order.
    skip: Vec<FileIndex>,
    /// Blocks that the receiver has from earlier attempts, in order.
    kept: Vec<BlockRun>,
}

/// Blocks on their way.
struct Transfer {
    listing: Arc<Listing>,
    digests: DigestTable,
    schedule: Schedule,
    /// Blocks not yet stored of files of which some are.
    blocks_left: HashMap<FileIndex, u64>,
    /// Kept blocks that were not read again so far.
    kept_unchecked: u64,
    /// Whether the receiver asked for blocks again, in one or more frames.
    rereading: bool,
    packs_damaged: u64,
}

/// What was sent in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Bytes of blocks that this end sent more than once.
    pub resent_bytes: u64,
    /// Packs that went out again since they arrived damaged, or since the receiver's disk damaged a block of theirs.
    pub packs_damaged: u64,
}

/// What the sender must do next.
#[derive(Debug, PartialEq, Eq)]
pub enum SenderEffect {
    /// Hash these files and report them by `hashed`, in this order.
    HashFiles(Arc<Vec<FileIndex>>),
    /// The plan is known: data may flow after `release`.
    Planned {
        /// Files that the receiver has already, in ascending order.
        skipped: Arc<Vec<FileIndex>>,
        /// Blocks that the receiver has from earlier attempts; each must be read again and reported by `checked`.
        kept: Arc<Vec<BlockRun>>,
        /// Bytes of those blocks.
        kept_bytes: u64,
        /// Files of which every block was kept.
        kept_files: u64,
    },
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
        /// Digest of the tree as it was read.
        root: Digest,
        /// Whether the receiver read everything again from its disk.
        disk: bool,
    },
}

/// Blocks that went from stored to missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Bytes of those blocks.
    pub bytes: u64,
    /// Files that are not whole any more.
    pub files: u64,
}

/// The sender's session after both ends have greeted each other.
pub struct Sender {
    state: State,
}

impl Default for Sender {
    fn default() -> Self {
        Self { state: State::Listing }
    }
}

impl State {
    /// Its name, for errors.
    fn name(&self) -> &'static str {
        match self {
            Self::Listing => "Listing",
            Self::Planning(_) => "Planning",
            Self::Holding(_) => "Holding",
            Self::Transferring(_) => "Transferring",
            Self::Completing(..) => "Completing",
            Self::Done(_) => "Done",
        }
    }
}

impl Sender {
    /// The whole listing was sent. Returns it for the data streams.
    pub fn listed(&mut self, listing: Listing) -> Result<Arc<Listing>, Fault> {
        let listing = Arc::new(listing);
        let digests = DigestTable::new(Arc::clone(&listing))?;
        self.state = State::Planning(Planning {
            listing: Arc::clone(&listing),
            digests,
            compare: Arc::default(),
            skip: Vec::new(),
            kept: Vec::new(),
        });
        Ok(listing)
    }

    /// What was sent in vain so far.
    pub fn counts(&self) -> SenderCounts {
        match &self.state {
            State::Listing | State::Planning(_) => SenderCounts::default(),
            State::Holding(transfer) | State::Transferring(transfer) | State::Completing(transfer, _) => {
                transfer.counts()
            }
            State::Done(counts) => *counts,
        }
    }

    /// Takes a message of the receiver. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<Option<SenderEffect>, Fault> {
        match (&mut self.state, body) {
            (State::Planning(planning), Body::Compare(numbers)) => {
                let last = numbers.last;
                take(numbers, &planning.listing, Arc::make_mut(&mut planning.compare))?;
                Ok(last.then(|| SenderEffect::HashFiles(Arc::clone(&planning.compare))))
            }
            (State::Planning(planning), Body::Kept(kept)) => {
                kept.runs.iter().try_for_each(|run| planning.keep(run))?;
                Ok(None)
            }
            (State::Planning(planning), Body::Plan(numbers)) => {
                let last = numbers.last;
                take(numbers, &planning.listing, &mut planning.skip)?;
                if last {
                    self.plan().map(Some)
                } else {
                    Ok(None)
                }
            }
            (State::Transferring(transfer), Body::Stored(packs)) => Ok(Some(transfer.on_stored(&packs.packs))),
            (State::Transferring(transfer), Body::Damaged(packs)) => {
                for pack in packs.packs {
                    transfer.packs_damaged += u64::from(transfer.schedule.damaged(PackId(pack)));
                }
                Ok(None)
            }
            (State::Completing(transfer, root), Body::Published(complete)) => {
                if complete.root != *root {
                    return Err(Fault::new(
                        Reason::ChecksumMismatch,
                        "the receiver published a tree with another digest",
                    ));
                }
                let finished = SenderEffect::Finished { root: *root, disk: complete.disk };
                self.state = State::Done(transfer.counts());
                Ok(Some(finished))
            }
            (State::Completing(..), Body::Again(blocks)) => {
                if let State::Completing(transfer, _) = self.take_state() {
                    self.state = State::Transferring(Transfer { rereading: true, ..transfer });
                }
                self.again(&blocks).map(Some)
            }
            (State::Transferring(transfer), Body::Again(blocks)) if transfer.rereading => self.again(&blocks).map(Some),
            // Of copies of blocks that are stored.
            (State::Completing(..), Body::Stored(_) | Body::Damaged(_)) => Ok(None),
            (state, body) => Err(Fault::protocol(format!("the receiver sent {} while {}", body.name(), state.name()))),
        }
    }

    /// Makes the schedule of what the receiver lacks.
    fn plan(&mut self) -> Result<SenderEffect, Fault> {
        let State::Planning(planning) = self.take_state() else { return Err(Fault::out_of_turn("plan")) };
        let Planning { listing, mut digests, compare, skip, kept } = planning;
        if !skip.iter().all(|file| digests.is_whole_known(*file)) {
            return Err(Fault::protocol("the receiver skips a file that was never compared"));
        }
        for file in compare.iter().filter(|file| skip.binary_search(file).is_err()) {
            digests.unset_whole(*file);
        }
        let mut blocks_left = HashMap::new();
        let (mut kept_unchecked, mut kept_bytes, mut kept_files) = (0, 0, 0);
        for runs in kept.chunk_by(|left, right| left.file == right.file) {
            let (file, size) = (runs[0].file, listing.size(runs[0].file));
            if skip.binary_search(&file).is_ok() {
                return Err(Fault::protocol("the receiver skips a file and keeps blocks of it"));
            }
            let blocks: u64 = runs.iter().map(BlockRun::blocks).sum();
            kept_unchecked += blocks;
            kept_bytes += runs.iter().map(|run| run.bytes(size)).sum::<u64>();
            match block_count(size) - blocks {
                0 => kept_files += 1,
                left => drop(blocks_left.insert(file, left)),
            }
        }
        let (skipped, kept) = (Arc::new(skip), Arc::new(kept));
        let schedule = Schedule::of_spans(spans(&listing, &skipped, &kept));
        self.state = State::Holding(Transfer {
            listing,
            digests,
            schedule,
            blocks_left,
            kept_unchecked,
            rereading: false,
            packs_damaged: 0,
        });
        Ok(SenderEffect::Planned { skipped, kept, kept_bytes, kept_files })
    }

    /// Notes the digests of files asked for by `HashFiles`, the next in order, and returns what to answer.
    pub fn hashed(&mut self, digests: &[(FileIndex, Digest)]) -> Result<Vec<Body>, Fault> {
        let State::Planning(planning) = &mut self.state else {
            return Err(Fault::protocol("the receiver sent its plan before it had the digests that it asked for"));
        };
        digests.iter().for_each(|(file, digest)| planning.digests.set_whole(*file, *digest));
        let last = match (digests.last(), planning.compare.last()) {
            (Some((file, _)), Some(last)) => file == last,
            _ => true,
        };
        let message = |(file, digest): &(FileIndex, Digest)| FileDigest { file: file.0, digest: digest.to_vec() };
        let chunks: Vec<_> = digests.chunks(NUMBERS_PER_FRAME).collect();
        let frame = |(at, chunk): (usize, &&[(FileIndex, Digest)])| {
            let last = last && at + 1 == chunks.len();
            Body::Digests(FileDigests { digests: chunk.iter().map(message).collect(), last })
        };
        Ok(chunks.iter().enumerate().map(frame).collect())
    }

    /// Data may flow now.
    pub fn release(&mut self) {
        self.state = match self.take_state() {
            State::Holding(transfer) => State::Transferring(transfer),
            other => other,
        };
    }

    /// A data connection was made on this path.
    pub fn connection_made(&mut self, connection: ConnectionId, path: PathIndex) {
        if let Ok(transfer) = self.transfer("connection_made") {
            transfer.schedule.connection_made(connection, path);
        }
    }

    /// The next pack for a free stream; nothing while no block waits to be sent.
    pub fn next_pack(&mut self, connection: ConnectionId) -> Option<Pack> {
        match &mut self.state {
            State::Transferring(transfer) => transfer.schedule.next_pack(connection),
            _ => None,
        }
    }

    /// Notes the digest of a block as it was read.
    pub fn read(&mut self, block: BlockId, digest: Digest) -> Result<(), Fault> {
        let transfer = self.transfer("read")?;
        if transfer.digests.record(block, digest) != Recorded::Contradicts {
            return Ok(());
        }
        let path = show(&transfer.listing.entry(block.file).path);
        let text = format!("{path} changed while it was read; send it again when nobody writes to it");
        Err(Fault::new(Reason::SourceChanged, text))
    }

    /// A kept block was read again. If it is not what the receiver has, it goes out.
    pub fn checked(&mut self, block: BlockId, now: Digest) -> Result<Reopened, Fault> {
        let transfer = self.transfer("checked")?;
        transfer.kept_unchecked = transfer.kept_unchecked.saturating_sub(1);
        if transfer.digests.block(block) == Some(now) {
            return Ok(Reopened::default());
        }
        transfer.digests.replace(block, now);
        Ok(transfer.reopen(block))
    }

    fn again(&mut self, blocks: &Blocks) -> Result<SenderEffect, Fault> {
        let transfer = self.transfer("again")?;
        let mut sum = Reopened::default();
        for (file, block) in blocks.files.iter().zip(&blocks.blocks) {
            let block = BlockId::new(FileIndex(*file), BlockIndex(*block));
            if transfer.digests.block(block).is_none() {
                return Err(Fault::protocol("the receiver wants a block again that was never sent"));
            }
            let reopened = transfer.reopen(block);
            // Each of these blocks travels in a pack of its own.
            transfer.packs_damaged += 1;
            sum = Reopened { bytes: sum.bytes + reopened.bytes, files: sum.files + reopened.files };
        }
        Ok(SenderEffect::Again { bytes: sum.bytes, files: sum.files })
    }

    /// A data connection is gone; returns how many packs go out again.
    pub fn connection_lost(&mut self, connection: ConnectionId) -> usize {
        self.transfer("connection_lost").map_or(0, |transfer| transfer.schedule.connection_lost(connection))
    }

    /// The closing message, once, when every block is stored.
    pub fn complete(&mut self) -> Result<Option<Body>, Fault> {
        let State::Transferring(transfer) = &self.state else { return Ok(None) };
        if !transfer.schedule.is_complete() || transfer.kept_unchecked > 0 {
            return Ok(None);
        }
        let root = transfer.digests.root().map_err(|file| {
            let path = show(&transfer.listing.entry(file).path);
            Fault::new(Reason::InternalError, format!("{path} was not read to its end"))
        })?;
        if let State::Transferring(transfer) = self.take_state() {
            self.state = State::Completing(Transfer { rereading: false, ..transfer }, root);
        }
        Ok(Some(Body::Complete(Complete { root: root.to_vec(), disk: false })))
    }

    /// Takes the state out, to be replaced. A fault in between leaves `Done`: the session is over then.
    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Done(SenderCounts::default()))
    }

    fn transfer(&mut self, call: &str) -> Result<&mut Transfer, Fault> {
        match &mut self.state {
            State::Holding(transfer) | State::Transferring(transfer) | State::Completing(transfer, _) => Ok(transfer),
            _ => Err(Fault::out_of_turn(call)),
        }
    }
}

impl Planning {
    fn keep(&mut self, run: &KeptRun) -> Result<(), Fault> {
        let (run, digests) = kept::admit(run, &self.listing, self.kept.last())?;
        // A file may have been compared and found to differ: then its blocks count.
        self.digests.unset_whole(run.file);
        for (block, digest) in run.ids().zip(digests) {
            self.digests.replace(block, digest);
        }
        self.kept.push(run);
        Ok(())
    }
}

impl Transfer {
    fn counts(&self) -> SenderCounts {
        SenderCounts { resent_bytes: self.schedule.resent_bytes(), packs_damaged: self.packs_damaged }
    }

    fn on_stored(&mut self, packs: &[u64]) -> SenderEffect {
        let (mut bytes, mut files) = (0, 0);
        for pack in packs {
            let Some(pack) = self.schedule.stored(PackId(*pack)) else { continue };
            bytes += pack.bytes();
            files += pack.blocks.iter().filter(|block| self.completes(block)).count() as u64;
        }
        SenderEffect::Stored { bytes, files }
    }

    /// Counts a stored block; true if it was the last one of its file.
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

    /// Has a block sent that counted as stored.
    fn reopen(&mut self, block: BlockId) -> Reopened {
        let BlockId { file, block } = block;
        let length = block_length(self.listing.size(file), block);
        self.schedule.again(BlockRef { file, block, length });
        let left = self.blocks_left.entry(file).or_insert(0);
        *left += 1;
        Reopened { bytes: u64::from(length), files: u64::from(*left == 1) }
    }
}

/// What has to be sent, in the listing's order.
fn spans(
    listing: &Arc<Listing>,
    skip: &Arc<Vec<FileIndex>>,
    kept: &Arc<Vec<BlockRun>>,
) -> impl Iterator<Item = Span> + Send + 'static {
    let (skip, kept) = (Arc::clone(skip), Arc::clone(kept));
    let (mut skipped, mut passed) = (0, 0);
    let files = Iter::start(Arc::clone(listing), FileIndex(0)).filter(|(_, entry)| entry.kind == Kind::File);
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

/// Adds numbers of files in ascending order to a list.
fn take(numbers: Numbers, listing: &Listing, list: &mut Vec<FileIndex>) -> Result<(), Fault> {
    for number in numbers.numbers.into_iter().map(FileIndex) {
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
