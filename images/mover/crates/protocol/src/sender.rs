//! The sender's side of a session, as a state machine: `Listing → Planning → Holding → Transferring → Completing → Done`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::digest::{block_count, of_tree, BlockDigests, Digest, Recorded};
use crate::fault::{show, Fault, Reason};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Entry, Kind};
use crate::message::{Body, Complete, FileDigest, FileDigests, Numbers};
use crate::schedule::{Pack, Schedule};

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
    /// The receiver published the tree: success.
    Finished,
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

    /// Takes a message of the receiver. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<Option<Effect>, Fault> {
        match (self.state, body) {
            (State::Planning, Body::Compare(numbers)) => {
                let last = numbers.last;
                self.take(numbers, |session| &mut session.compare)?;
                Ok(last.then(|| Effect::HashFiles(self.compare.clone())))
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
                Ok(Some(Effect::Finished))
            }
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
        let work = self.entries.iter().enumerate().filter(|(_, entry)| entry.kind == Kind::File);
        let work = work.filter(|(index, _)| self.skip.binary_search(&(*index as u32)).is_err());
        self.schedule = Schedule::new(work.map(|(index, entry)| (index as u32, entry.size)));
        self.state = State::Holding;
        Ok(())
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
        if self.state != State::Transferring || !self.schedule.is_complete() {
            return Ok(None);
        }
        let root = self.root()?.to_vec();
        self.state = State::Completing;
        Ok(Some(Body::Complete(Complete { root })))
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
        }
    }
}
