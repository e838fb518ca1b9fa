//! The receiver's side of a session, as a state machine:
//! `Listing → Surveying → (Comparing →) Reserving → Transferring → Settling → Publishing → Done`,
//! and back from `Settling` to `Transferring` when the disk gave other bytes back than it was given.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::assembly::Assembly;
use crate::digest::{Digest, DigestTable};
use crate::fault::{Fault, Reason};
use crate::kept::{self, BlockRun};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Entry, Listing, ListingBuilder, Totals};
use crate::message::{Blocks, Body, Complete, FileDigests, ListingEnd, Numbers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listing,
    Surveying,
    Comparing,
    Reserving,
    Transferring,
    Settling,
    Publishing,
    Done,
}

/// What the receiver must do next.
#[derive(Debug)]
pub enum ReceiverEffect {
    /// Look at the destination and call `surveyed`.
    Survey(Arc<Listing>),
    /// Hash these files of the destination, report each by `hashed`, then call `hashed_all`.
    HashFiles(Arc<Vec<u32>>),
    /// Check the space, prepare the partial files and call `reserved`.
    Reserve {
        /// Files that are not sent since they are identical.
        skip: Arc<Vec<u32>>,
    },
    /// Everything is here and verified: make it durable, read it again if asked to, and call `settled`.
    Settle,
    /// Everything is durable: publish it and call `published`.
    Publish,
}

/// Messages to send and what to do.
#[derive(Debug, Default)]
pub struct ReceiverStep {
    /// To be sent in this order.
    pub send: Vec<Body>,
    /// To be done.
    pub effect: Option<ReceiverEffect>,
}

impl From<ReceiverEffect> for ReceiverStep {
    fn from(effect: ReceiverEffect) -> Self {
        Self { send: Vec::new(), effect: Some(effect) }
    }
}

/// The receiver's session after both ends have greeted each other.
pub struct Receiver {
    state: State,
    builder: ListingBuilder,
    totals: Totals,
    listing: Arc<Listing>,
    table: DigestTable,
    candidates: Arc<Vec<u32>>,
    /// What is known of each candidate.
    compared: Vec<Compared>,
    own_done: bool,
    theirs_done: bool,
    skip: Arc<Vec<u32>>,
    assembly: Arc<Mutex<Option<Assembly>>>,
    root: Digest,
    rereads: u32,
}

/// How far the comparison of a file is; the first digest is in the table as that of the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Nothing,
    Own,
    Theirs,
    Same,
    Different,
}

/// Times that a damaged disk is given another chance.
const REREADS: u32 = 3;

impl Default for Receiver {
    fn default() -> Self {
        Self {
            state: State::Listing,
            builder: ListingBuilder::default(),
            totals: Totals::default(),
            listing: Arc::default(),
            table: DigestTable::default(),
            candidates: Arc::default(),
            compared: Vec::new(),
            own_done: false,
            theirs_done: false,
            skip: Arc::default(),
            assembly: Arc::default(),
            root: [0; 32],
            rereads: 0,
        }
    }
}

impl Receiver {
    /// The listing, once it is complete.
    pub fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }

    /// Totals of the listing, once it is complete.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Where data streams note their blocks; empty until data may flow.
    pub fn assembly(&self) -> Arc<Mutex<Option<Assembly>>> {
        Arc::clone(&self.assembly)
    }

    /// The verified digest of the tree.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Takes a message of the sender. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<ReceiverStep, Fault> {
        match (self.state, body) {
            (State::Listing, Body::Listing(listing)) => {
                for entry in listing.entries {
                    self.builder.push(&Entry::from_message(entry)?)?;
                }
                Ok(ReceiverStep::default())
            }
            (State::Listing, Body::ListingEnd(end)) => self.end_listing(end),
            (State::Comparing, Body::Digests(digests)) => self.take_digests(digests),
            (State::Transferring, Body::Complete(complete)) => self.verify(&complete),
            (state, body) => Err(Fault::protocol(format!("the sender sent {} while {state:?}", body.name()))),
        }
    }

    fn end_listing(&mut self, end: ListingEnd) -> Result<ReceiverStep, Fault> {
        let ListingEnd { files, directories, symlinks, bytes } = end;
        self.totals = self.builder.totals();
        if self.totals != (Totals { files, directories, symlinks, bytes }) {
            return Err(Fault::protocol("the listing is not what its end announces"));
        }
        if self.totals.entries() == 0 {
            return Err(Fault::protocol("the listing is empty"));
        }
        self.listing = Arc::new(std::mem::take(&mut self.builder).finish());
        self.table = DigestTable::new(Arc::clone(&self.listing))?;
        self.state = State::Surveying;
        Ok(ReceiverEffect::Survey(Arc::clone(&self.listing)).into())
    }

    /// The destination has these files with the same size already, in ascending order.
    pub fn surveyed(&mut self, candidates: Vec<u32>) -> ReceiverStep {
        if candidates.is_empty() {
            return self.reserve(Vec::new());
        }
        self.state = State::Comparing;
        self.compared = vec![Compared::Nothing; candidates.len()];
        self.candidates = Arc::new(candidates);
        let send = frames(&self.candidates, Body::Compare);
        ReceiverStep { send, effect: Some(ReceiverEffect::HashFiles(Arc::clone(&self.candidates))) }
    }

    /// Notes digests of files of the destination. A candidate that is never reported cannot be read and counts as different.
    pub fn hashed(&mut self, digests: &[(u32, Digest)]) {
        for (file, digest) in digests {
            self.compare(*file, digest, Compared::Own);
        }
    }

    /// All candidates are hashed here.
    pub fn hashed_all(&mut self) -> ReceiverStep {
        self.own_done = true;
        self.end_comparison()
    }

    fn take_digests(&mut self, digests: FileDigests) -> Result<ReceiverStep, Fault> {
        for item in digests.digests {
            let digest = Digest::try_from(item.digest).map_err(|_| Fault::protocol("a digest has a wrong length"))?;
            if !self.compare(item.file, &digest, Compared::Theirs) {
                return Err(Fault::protocol("the sender hashed a file that nobody asked for"));
            }
        }
        self.theirs_done |= digests.last;
        Ok(self.end_comparison())
    }

    /// Takes one end's digest of a file; false if it was not asked for.
    fn compare(&mut self, file: u32, digest: &Digest, whose: Compared) -> bool {
        let Ok(at) = self.candidates.binary_search(&file) else { return false };
        let state = &mut self.compared[at];
        match *state {
            Compared::Nothing => {
                self.table.set_whole(file, *digest);
                *state = whose;
            }
            other if other != whose && matches!(other, Compared::Own | Compared::Theirs) => {
                let same = self.table.whole(file).as_ref() == Some(digest);
                *state = if same { Compared::Same } else { Compared::Different };
            }
            _ => return whose == Compared::Own,
        }
        true
    }

    fn end_comparison(&mut self) -> ReceiverStep {
        if !(self.own_done && self.theirs_done) {
            return ReceiverStep::default();
        }
        let mut skip = Vec::new();
        for (file, compared) in self.candidates.iter().zip(std::mem::take(&mut self.compared)) {
            if compared == Compared::Same {
                skip.push(*file);
            } else {
                self.table.unset_whole(*file);
            }
        }
        self.reserve(skip)
    }

    fn reserve(&mut self, skip: Vec<u32>) -> ReceiverStep {
        self.state = State::Reserving;
        self.skip = Arc::new(skip);
        ReceiverEffect::Reserve { skip: Arc::clone(&self.skip) }.into()
    }

    /// Space is there and the partial files are ready, with these blocks of earlier attempts in them, of which `digest` finds
    /// the digests: data may flow, and the plan is what the sender has to hear first.
    pub fn reserved(
        &mut self,
        kept: Vec<BlockRun>,
        digest: impl FnMut(u32, u32) -> Result<Digest, Fault>,
    ) -> Result<impl Iterator<Item = Body> + Send + 'static, Fault> {
        let mut assembly = Assembly::new(&self.listing, std::mem::take(&mut self.table), &self.skip);
        assembly.keep(kept, digest)?;
        let kept = assembly.kept();
        *lock(&self.assembly) = Some(assembly);
        self.state = State::Transferring;
        let known = Arc::clone(&self.assembly);
        let digest = move |file, block| {
            lock(&known).as_ref().and_then(|assembly| assembly.digest(file, block)).unwrap_or_default()
        };
        let skip = Arc::clone(&self.skip);
        let plan = std::iter::once_with(move || frames(&skip, Body::Plan)).flatten();
        Ok(kept::frames(kept, digest).chain(plan))
    }

    fn verify(&mut self, complete: &Complete) -> Result<ReceiverStep, Fault> {
        let root = {
            let assembly = lock(&self.assembly);
            let assembly = assembly.as_ref().ok_or_else(|| Fault::protocol("no data was expected"))?;
            if !assembly.is_complete() {
                return Err(Fault::protocol("the sender says it is done, but blocks are missing"));
            }
            assembly.root()?
        };
        if complete.root != root {
            let text = "the tree that arrived has another digest than the tree that was sent; nothing was published";
            return Err(Fault::new(Reason::ChecksumMismatch, text));
        }
        self.root = root;
        self.state = State::Settling;
        Ok(ReceiverEffect::Settle.into())
    }

    /// Everything was made durable; these blocks came back damaged from the disk and are wanted again.
    pub fn settled(&mut self, damaged: &[(u32, u32)]) -> Result<ReceiverStep, Fault> {
        if damaged.is_empty() {
            self.state = State::Publishing;
            return Ok(ReceiverEffect::Publish.into());
        }
        self.rereads += 1;
        if self.rereads > REREADS {
            let text = format!("the disk of the destination gave damaged blocks back {REREADS} times; replace it");
            return Err(Fault::new(Reason::ChecksumMismatch, text));
        }
        if let Some(assembly) = lock(&self.assembly).as_mut() {
            for (file, block) in damaged {
                assembly.forget(*file, *block);
            }
        }
        self.state = State::Transferring;
        let frame = |blocks: &[(u32, u32)]| {
            let (files, blocks) = blocks.iter().copied().unzip();
            Body::Again(Blocks { files, blocks })
        };
        Ok(ReceiverStep { send: damaged.chunks(NUMBERS_PER_FRAME).map(frame).collect(), effect: None })
    }

    /// The tree is durable under its final names; `disk`: it was read again from there.
    pub fn published(&mut self, disk: bool) -> ReceiverStep {
        self.state = State::Done;
        ReceiverStep { send: vec![Body::Published(Complete { root: self.root.to_vec(), disk })], effect: None }
    }

    /// Files that are not sent, in ascending order.
    pub fn skip(&self) -> Arc<Vec<u32>> {
        Arc::clone(&self.skip)
    }

    /// Files and bytes that were not sent.
    pub fn skipped(&self) -> (u64, u64) {
        let bytes = self.skip.iter().map(|file| self.listing.size(*file)).sum();
        (self.skip.len() as u64, bytes)
    }
}

/// Locks, whatever happened to other holders: each change under these locks is whole in itself.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn frames(numbers: &[u32], body: fn(Numbers) -> Body) -> Vec<Body> {
    if numbers.is_empty() {
        return vec![body(Numbers { numbers: Vec::new(), last: true })];
    }
    let last = numbers.len().div_ceil(NUMBERS_PER_FRAME) - 1;
    let chunks = numbers.chunks(NUMBERS_PER_FRAME).enumerate();
    chunks.map(|(at, chunk)| body(Numbers { numbers: chunk.to_vec(), last: at == last })).collect()
}
