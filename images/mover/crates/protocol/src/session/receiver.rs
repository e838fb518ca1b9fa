//! The receiver's side of a session, as a state machine:
//! `Listing → Surveying → (Comparing →) Reserving → Transferring → Settling → Publishing → Done`,
//! and back from `Settling` to `Transferring` when the disk returned other bytes than were written.
//!
//! # Which call follows which effect
//! The caller passes every message of the sender except `Failure` and `Heartbeat` to [`Receiver::on_message`]. It sends the messages
//! of the returned [`ReceiverStep`] in their order, carries out its effect, and reports the result by the call in this table. A
//! reporting call returns the next step, which is handled in the same way. At most one effect is under way at any time.
//!
//! | effect | the caller | reports by |
//! |---|---|---|
//! | `Survey` | compares names and sizes at the destination with the listing | `surveyed` |
//! | `HashFiles` | hashes files of the destination | `hashed`, some files at a time, then `hashed_all` once |
//! | `Reserve` | checks the space and prepares the partial files | `reserved`, then sends each frame of `plan_frame` |
//! | `Settle` | stops writing, makes everything durable, reads it again if asked to | `settled` |
//! | `Publish` | gives everything its final name | `published` |
//!
//! From `reserved` on, data streams use [`Receiver::assembly`]: `admits` before the bytes of a block are read and `stored` after they
//! are written. A reporting call in another state returns an `InternalError`: the caller is wrong, not the peer.

use std::sync::Arc;

use crate::assembly::Assembly;
use crate::digest::{Digest, DigestTable};
use crate::fault::{Fault, Reason};
use crate::index::{BlockId, FileIndex};
use crate::kept::{BlockRun, KeptFrames};
use crate::limits::NUMBERS_PER_FRAME;
use crate::listing::{Entry, Listing, ListingBuilder, Totals};
use crate::message::{Blocks, Body, Complete, FileDigests, ListingEnd, Numbers};

/// Where the session is, with what is known there.
enum State {
    Listing(ListingBuilder),
    Surveying(Listed),
    Comparing(Listed, Comparison),
    Reserving(Listed, Arc<Vec<FileIndex>>),
    Transferring(Transfer),
    /// With the verified digest of the tree.
    Settling(Transfer, Digest),
    /// With the verified digest of the tree.
    Publishing(Transfer, Digest),
    Done,
}

/// A complete listing, and the digests known of its files.
struct Listed {
    listing: Arc<Listing>,
    table: DigestTable,
}

/// Files with the same size at both ends, while their digests arrive from both.
struct Comparison {
    candidates: Arc<Vec<FileIndex>>,
    /// How far the comparison of each candidate is.
    compared: Vec<Compared>,
    own_done: bool,
    theirs_done: bool,
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

/// Blocks that arrive.
struct Transfer {
    assembly: Assembly,
    /// Times that the disk returned damaged blocks.
    rereads: u32,
}

/// What the receiver must do next.
#[derive(Debug)]
pub enum ReceiverEffect {
    /// Compare the destination with this complete listing and call `surveyed`.
    Survey(Arc<Listing>),
    /// Hash these files of the destination, report each by `hashed`, then call `hashed_all`.
    HashFiles(Arc<Vec<FileIndex>>),
    /// Check the space, prepare the partial files and call `reserved`.
    Reserve {
        /// Files that are not sent since they are identical, in ascending order.
        skip: Arc<Vec<FileIndex>>,
    },
    /// Every block is here and verified: make it durable, read it again if asked to, and call `settled`.
    Settle,
    /// Everything is durable: publish it and call `published`.
    Publish {
        /// The verified digest of the tree.
        root: Digest,
    },
}

/// Messages to send and what to do.
#[derive(Debug, Default)]
pub struct ReceiverStep {
    /// To be sent in this order.
    pub send: Vec<Body>,
    /// To be done after that.
    pub effect: Option<ReceiverEffect>,
}

impl From<ReceiverEffect> for ReceiverStep {
    fn from(effect: ReceiverEffect) -> Self {
        Self { send: Vec::new(), effect: Some(effect) }
    }
}

/// What the sender needs before data may flow: kept blocks with their digests, and files that need not be sent.
pub struct Plan {
    kept: KeptFrames,
    /// The files, until the first frame of them is made.
    skip: Option<Arc<Vec<FileIndex>>>,
    frames: std::vec::IntoIter<Body>,
}

/// The receiver's session after both ends have greeted each other.
pub struct Receiver {
    state: State,
}

/// Times that the disk may return damaged blocks before the transfer fails.
const REREADS: u32 = 3;

impl Default for Receiver {
    fn default() -> Self {
        Self { state: State::Listing(ListingBuilder::default()) }
    }
}

impl State {
    /// Its name, for errors.
    fn name(&self) -> &'static str {
        match self {
            Self::Listing(_) => "Listing",
            Self::Surveying(_) => "Surveying",
            Self::Comparing(..) => "Comparing",
            Self::Reserving(..) => "Reserving",
            Self::Transferring(_) => "Transferring",
            Self::Settling(..) => "Settling",
            Self::Publishing(..) => "Publishing",
            Self::Done => "Done",
        }
    }
}

impl Receiver {
    /// Takes a message of the sender. `Failure` and `Heartbeat` are the caller's.
    pub fn on_message(&mut self, body: Body) -> Result<ReceiverStep, Fault> {
        match (&mut self.state, body) {
            (State::Listing(builder), Body::Listing(listing)) => {
                for entry in listing.entries {
                    builder.push(&Entry::from_message(entry)?)?;
                }
                Ok(ReceiverStep::default())
            }
            (State::Listing(builder), Body::ListingEnd(end)) => {
                let builder = std::mem::take(builder);
                self.end_listing(builder, end)
            }
            (State::Comparing(listed, comparison), Body::Digests(digests)) => {
                comparison.take_digests(listed, digests)?;
                Ok(self.end_comparison())
            }
            (State::Transferring(_), Body::Complete(complete)) => self.verify(&complete),
            (state, body) => Err(Fault::protocol(format!("the sender sent {} while {}", body.name(), state.name()))),
        }
    }

    fn end_listing(&mut self, builder: ListingBuilder, end: ListingEnd) -> Result<ReceiverStep, Fault> {
        let ListingEnd { files, directories, symlinks, bytes, root_mtime_s, root_mtime_ns } = end;
        let totals = builder.totals();
        if totals != (Totals { files, directories, symlinks, bytes }) {
            return Err(Fault::protocol("the listing is not what its end announces"));
        }
        if totals.entries() == 0 {
            return Err(Fault::protocol("the listing is empty"));
        }
        if root_mtime_ns >= 1_000_000_000 {
            return Err(Fault::protocol("the source directory has an impossible time"));
        }
        let root_mtime = root_mtime_s.map(|seconds| (seconds, root_mtime_ns));
        let listing = Arc::new(builder.finish().with_root_mtime(root_mtime));
        let table = DigestTable::new(Arc::clone(&listing))?;
        self.state = State::Surveying(Listed { listing: Arc::clone(&listing), table });
        Ok(ReceiverEffect::Survey(listing).into())
    }

    /// The destination has these files with the same size already, in ascending order.
    pub fn surveyed(&mut self, candidates: Vec<FileIndex>) -> Result<ReceiverStep, Fault> {
        let State::Surveying(listed) = self.take_state() else { return Err(Fault::out_of_turn("surveyed")) };
        if candidates.is_empty() {
            return Ok(self.reserve(listed, Vec::new()));
        }
        let candidates = Arc::new(candidates);
        let comparison = Comparison {
            compared: vec![Compared::Nothing; candidates.len()],
            candidates: Arc::clone(&candidates),
            own_done: false,
            theirs_done: false,
        };
        self.state = State::Comparing(listed, comparison);
        let send = frames(&candidates, Body::Compare);
        Ok(ReceiverStep { send, effect: Some(ReceiverEffect::HashFiles(candidates)) })
    }

    /// Notes digests of files of the destination. A candidate that is never reported cannot be read and counts as different.
    pub fn hashed(&mut self, digests: &[(FileIndex, Digest)]) -> Result<(), Fault> {
        let State::Comparing(listed, comparison) = &mut self.state else { return Err(Fault::out_of_turn("hashed")) };
        for (file, digest) in digests {
            comparison.compare(listed, *file, digest, Compared::Own);
        }
        Ok(())
    }

    /// All candidates are hashed here.
    pub fn hashed_all(&mut self) -> Result<ReceiverStep, Fault> {
        let State::Comparing(_, comparison) = &mut self.state else { return Err(Fault::out_of_turn("hashed_all")) };
        comparison.own_done = true;
        Ok(self.end_comparison())
    }

    /// Goes on to the next state once the digests of both ends are known.
    fn end_comparison(&mut self) -> ReceiverStep {
        match self.take_state() {
            State::Comparing(mut listed, comparison) if comparison.own_done && comparison.theirs_done => {
                let mut skip = Vec::new();
                for (file, compared) in comparison.candidates.iter().zip(comparison.compared) {
                    if compared == Compared::Same {
                        skip.push(*file);
                    } else {
                        listed.table.unset_whole(*file);
                    }
                }
                self.reserve(listed, skip)
            }
            state => {
                self.state = state;
                ReceiverStep::default()
            }
        }
    }

    fn reserve(&mut self, listed: Listed, skip: Vec<FileIndex>) -> ReceiverStep {
        let skip = Arc::new(skip);
        self.state = State::Reserving(listed, Arc::clone(&skip));
        ReceiverEffect::Reserve { skip }.into()
    }

    /// Space is there and the partial files are ready, with these blocks of earlier attempts in them, in order, of which `digest`
    /// finds the digests. Data may flow once the sender has every frame of the plan.
    pub fn reserved(
        &mut self,
        kept: Vec<BlockRun>,
        digest: impl FnMut(BlockId) -> Result<Digest, Fault>,
    ) -> Result<Plan, Fault> {
        let State::Reserving(Listed { listing, table }, skip) = self.take_state() else {
            return Err(Fault::out_of_turn("reserved"));
        };
        let mut assembly = Assembly::new(&listing, table, &skip);
        assembly.keep(kept, digest)?;
        let kept = KeptFrames::new(assembly.kept());
        self.state = State::Transferring(Transfer { assembly, rereads: 0 });
        Ok(Plan { kept, skip: Some(skip), frames: Vec::new().into_iter() })
    }

    /// The plan's next frame for the sender; nothing after the last one.
    pub fn plan_frame(&mut self, plan: &mut Plan) -> Option<Body> {
        let assembly = self.assembly().ok()?;
        if let Some(frame) = plan.kept.next_frame(|block| assembly.digest(block).unwrap_or_default()) {
            return Some(frame);
        }
        if let Some(skip) = plan.skip.take() {
            plan.frames = frames(&skip, Body::Plan).into_iter();
        }
        plan.frames.next()
    }

    /// The blocks that arrive. A fault before the plan is made: no data is due then.
    pub fn assembly(&mut self) -> Result<&mut Assembly, Fault> {
        match &mut self.state {
            State::Transferring(transfer) | State::Settling(transfer, _) | State::Publishing(transfer, _) => {
                Ok(&mut transfer.assembly)
            }
            _ => Err(Fault::protocol("data arrived before the plan")),
        }
    }

    fn verify(&mut self, complete: &Complete) -> Result<ReceiverStep, Fault> {
        let State::Transferring(transfer) = self.take_state() else { return Err(Fault::out_of_turn("verify")) };
        if !transfer.assembly.is_complete() {
            return Err(Fault::protocol("the sender says it is done, but blocks are missing"));
        }
        let root = transfer.assembly.root()?;
        if complete.root != root {
            let text = "the tree that arrived has another digest than the tree that was sent; nothing was published";
            return Err(Fault::new(Reason::ChecksumMismatch, text));
        }
        self.state = State::Settling(transfer, root);
        Ok(ReceiverEffect::Settle.into())
    }

    /// Everything was made durable; the disk returned these blocks damaged, and they have to be sent again.
    pub fn settled(&mut self, damaged: &[BlockId]) -> Result<ReceiverStep, Fault> {
        let State::Settling(mut transfer, root) = self.take_state() else { return Err(Fault::out_of_turn("settled")) };
        if damaged.is_empty() {
            self.state = State::Publishing(transfer, root);
            return Ok(ReceiverEffect::Publish { root }.into());
        }
        transfer.rereads += 1;
        if transfer.rereads > REREADS {
            let text = format!("the disk of the destination gave damaged blocks back {REREADS} times; replace it");
            return Err(Fault::new(Reason::ChecksumMismatch, text));
        }
        for block in damaged {
            transfer.assembly.forget(*block);
        }
        self.state = State::Transferring(transfer);
        let frame = |blocks: &[BlockId]| {
            let (files, blocks) = blocks.iter().map(|id| (id.file.0, id.block.0)).unzip();
            Body::Again(Blocks { files, blocks })
        };
        Ok(ReceiverStep { send: damaged.chunks(NUMBERS_PER_FRAME).map(frame).collect(), effect: None })
    }

    /// The tree is durable under its final names; `disk`: it was read again from there.
    pub fn published(&mut self, disk: bool) -> Result<ReceiverStep, Fault> {
        let State::Publishing(_, root) = self.take_state() else { return Err(Fault::out_of_turn("published")) };
        Ok(ReceiverStep { send: vec![Body::Published(Complete { root: root.to_vec(), disk })], effect: None })
    }

    /// Takes the state out, to be replaced. A fault in between leaves `Done`: the session is over then.
    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Done)
    }
}

impl Comparison {
    fn take_digests(&mut self, listed: &mut Listed, digests: FileDigests) -> Result<(), Fault> {
        for item in digests.digests {
            let digest = Digest::try_from(item.digest).map_err(|_| Fault::protocol("a digest has a wrong length"))?;
            if !self.compare(listed, FileIndex(item.file), &digest, Compared::Theirs) {
                return Err(Fault::protocol("the sender hashed a file that nobody asked for"));
            }
        }
        self.theirs_done |= digests.last;
        Ok(())
    }

    /// Takes one end's digest of a file; false if it was not asked for.
    fn compare(&mut self, listed: &mut Listed, file: FileIndex, digest: &Digest, whose: Compared) -> bool {
        let Ok(at) = self.candidates.binary_search(&file) else { return false };
        let compared = &mut self.compared[at];
        match *compared {
            Compared::Nothing => {
                listed.table.set_whole(file, *digest);
                *compared = whose;
            }
            other if other != whose && matches!(other, Compared::Own | Compared::Theirs) => {
                let same = listed.table.whole(file).as_ref() == Some(digest);
                *compared = if same { Compared::Same } else { Compared::Different };
            }
            _ => return whose == Compared::Own,
        }
        true
    }
}

/// File numbers in one or more frames, of which the last is marked.
fn frames(files: &[FileIndex], body: fn(Numbers) -> Body) -> Vec<Body> {
    if files.is_empty() {
        return vec![body(Numbers { numbers: Vec::new(), last: true })];
    }
    let last = files.len().div_ceil(NUMBERS_PER_FRAME) - 1;
    let chunks = files.chunks(NUMBERS_PER_FRAME).enumerate();
    chunks
        .map(|(at, chunk)| body(Numbers { numbers: chunk.iter().map(|file| file.0).collect(), last: at == last }))
        .collect()
}
