//! The sender's side of a session, as a state machine: `Listing → Planning → Holding → Transferring → Completing → Done`,
//! and back from `Completing` to `Transferring` when the receiver's disk lost blocks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::digest::{block_count, block_length, of_tree, BlockDigests, Digest, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::kept::{self, gaps, Run};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Entry, Kind};
use crate::message::{Blocks, Body, Complete, FileDigest, FileDigests, Numbers};
use crate::schedule::{BlockRef, Pack, Schedule};

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
pub enum Effect {
    /// Hash these files and report them by `hashed`, then `answer_comparison`.
    HashFiles(Vec<u32>),
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
    entries: Arc<Vec<Entry>>,
    digests: Vec<BlockDigests>,
    compare: Vec<u32>,
    skip: Vec<u32>,
    schedule: Schedule,
    damaged_packs: u64,
    blocks_left: HashMap<u32, u64>,
    kept: Vec<Run>,
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
            entries: Arc::default(),
            digests: Vec::new(),
            compare: Vec::new(),
            skip: Vec::new(),
            schedule: Schedule::default(),
            damaged_packs: 0,
            blocks_left: HashMap::new(),
            kept: Vec::new(),
            kept_unchecked: 0,
            rereading: false,
        }
    }
}

impl Sender {
    /// The whole listing was sent.
    pub fn listed(&mut self, entries: Vec<Entry>) {
        self.digests = vec![BlockDigests::None; entries.len()];
        self.entries = Arc::new(entries);
        self.state = State::Planning;
    }

    /// The listing's entries.
    pub fn entries(&self) -> Arc<Vec<Entry>> {
        Arc::clone(&self.entries)
    }

    /// Files that the receiver has already.
    pub fn skipped(&self) -> &[u32] {
        &self.skip
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
    pub fn kept(&self) -> &[Run] {
        &self.kept
    }

    /// Takes a message of the receiver. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<Option<Effect>, Fault> {
        match (self.state, body) {
            (State::Planning, Body::Compare(numbers)) => {
                let last = numbers.last;
                self.take(numbers, |session| &mut session.compare)?;
                Ok(last.then(|| Effect::HashFiles(self.compare.clone())))
            }
            (State::Planning, Body::Kept(kept)) => {
                for run in kept.runs {
                    let run = kept::admit(run, &self.entries, self.kept.last())?;
                    self.kept.push(run);
                }
                Ok(None)
            }
            (State::Planning, Body::Plan(numbers)) => {
                let last = numbers.last;
                self.take(numbers, |session| &mut session.skip)?;
                if !last {
                    return Ok(None);
                }
                self.plan()?;
                Ok(Some(Effect::Planned))
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
                Ok(Some(Effect::Finished { disk: complete.disk }))
            }
            (State::Completing, Body::Again(blocks)) => self.again(&blocks).map(Some),
            (State::Transferring, Body::Again(blocks)) if self.rereading => self.again(&blocks).map(Some),
            (State::Completing, Body::Stored(_)) => Ok(None),
            (state, body) => Err(Fault::protocol(format!("the receiver sent {} while {state:?}", body.name()))),
        }
    }

    fn on_stored(&mut self, packs: &[u64]) -> Effect {
        let (mut bytes, mut files) = (0, 0);
        for pack in packs.iter().filter_map(|pack| self.schedule.stored(*pack)) {
            bytes += pack.bytes();
            for block in &pack.blocks {
                let count = block_count(self.entries[block.file as usize].size);
                let left = self.blocks_left.entry(block.file).or_insert(count);
                *left -= 1;
                if *left == 0 {
                    self.blocks_left.remove(&block.file);
                    files += 1;
                }
            }
        }
        Effect::Stored { bytes, files }
    }

    fn take(&mut self, numbers: Numbers, list: impl Fn(&mut Self) -> &mut Vec<u32>) -> Result<(), Fault> {
        for number in numbers.numbers {
            if self.entries.get(number as usize).is_none_or(|entry| entry.kind != Kind::File) {
                return Err(Fault::protocol(format!("the receiver named entry {number}, which is no file")));
            }
            if list(self).last().is_some_and(|last| *last >= number) {
                return Err(Fault::protocol("the receiver named files out of order"));
            }
            list(self).push(number);
        }
        Ok(())
    }

    fn plan(&mut self) -> Result<(), Fault> {
        for file in &self.skip {
            if !matches!(self.digests[*file as usize], BlockDigests::Whole(_)) {
                return Err(Fault::protocol("the receiver skips a file that was never compared"));
            }
        }
        for file in &self.compare {
            if self.skip.binary_search(file).is_err() {
                self.digests[*file as usize] = BlockDigests::None;
            }
        }
        let mut kept = self.kept.chunk_by(|left, right| left.file == right.file).peekable();
        let mut spans = Vec::new();
        for (index, entry) in (0u32..).zip(self.entries.iter()).filter(|(_, entry)| entry.kind == Kind::File) {
            let runs = kept.next_if(|runs| runs[0].file == index).unwrap_or_default();
            if self.skip.binary_search(&index).is_ok() {
                if !runs.is_empty() {
                    return Err(Fault::protocol("the receiver skips a file and keeps blocks of it"));
                }
                continue;
            }
            if !runs.is_empty() {
                let blocks: u64 = runs.iter().map(|run| run.digests.len() as u64).sum();
                self.kept_unchecked += blocks;
                self.blocks_left.insert(index, block_count(entry.size) - blocks);
            }
            spans.extend(gaps(index, entry.size, runs));
        }
        self.schedule = Schedule::of_spans(spans);
        self.state = State::Holding;
        Ok(())
    }

    /// Bytes and whole files among the kept blocks.
    pub fn kept_totals(&self) -> (u64, u64) {
        let bytes = self.kept.iter().map(|run| run.bytes(self.entries[run.file as usize].size)).sum();
        let mut files: Vec<u32> = self.kept.iter().map(|run| run.file).collect();
        files.dedup();
        (bytes, files.iter().filter(|file| self.blocks_left.get(file) == Some(&0)).count() as u64)
    }

    /// A kept block was read again. If it is not what the receiver has, it goes out.
    pub fn checked(&mut self, file: u32, block: u32, kept: &Digest, now: Digest) -> Result<Reopened, Fault> {
        self.read(file, block, now)?;
        self.kept_unchecked = self.kept_unchecked.saturating_sub(1);
        Ok(if *kept == now { Reopened::default() } else { self.reopen(file, block) })
    }

    fn reopen(&mut self, file: u32, block: u32) -> Reopened {
        let length = block_length(self.entries[file as usize].size, block);
        self.schedule.again(BlockRef { file, block, length });
        let left = self.blocks_left.entry(file).or_insert(0);
        *left += 1;
        Reopened { bytes: u64::from(length), files: u64::from(*left == 1) }
    }

    fn again(&mut self, blocks: &Blocks) -> Result<Effect, Fault> {
        let mut sum = Reopened::default();
        for (file, block) in blocks.files.iter().zip(&blocks.blocks) {
            if self.digests.get(*file as usize).and_then(|digests| digests.block(*block)).is_none() {
                return Err(Fault::protocol("the receiver wants a block again that was never sent"));
            }
            let reopened = self.reopen(*file, *block);
            sum = Reopened { bytes: sum.bytes + reopened.bytes, files: sum.files + reopened.files };
        }
        self.state = State::Transferring;
        self.rereading = true;
        Ok(Effect::Again { bytes: sum.bytes, files: sum.files })
    }

    /// Notes the digest of a file asked for by `HashFiles`.
    pub fn hashed(&mut self, file: u32, digest: Digest) {
        self.digests[file as usize] = BlockDigests::Whole(digest);
    }

    /// The answer to a comparison, once all its files are hashed.
    pub fn answer_comparison(&self) -> Vec<Body> {
        let digest = |file: &u32| match &self.digests[*file as usize] {
            BlockDigests::Whole(digest) => FileDigest { file: *file, digest: digest.to_vec() },
            _ => FileDigest { file: *file, digest: Vec::new() },
        };
        let chunks: Vec<_> = self.compare.chunks(NUMBERS_PER_FRAME).collect();
        let last = chunks.len().saturating_sub(1);
        let frame = |(at, files): (usize, &&[u32])| {
            Body::Digests(FileDigests { digests: files.iter().map(digest).collect(), last: at == last })
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
        let entry = &self.entries[file as usize];
        match self.digests[file as usize].record(entry.size, block, digest) {
            Recorded::Contradicts => Err(Fault::new(
                Reason::SourceChanged,
                format!("{} changed while it was read; send it again when nobody writes to it", show(&entry.path)),
            )),
            _ => Ok(()),
        }
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
        of_tree(&self.entries, &self.digests).map_err(|index| {
            Fault::new(Reason::InternalError, format!("{} was not read to its end", show(&self.entries[index].path)))
        })
    }
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
