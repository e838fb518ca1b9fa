//! The receiver's long work on files: survey, hash, prepare, make durable, read again, publish. It runs on threads of its own, so that the
//! receiver's own thread goes on answering the sender.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlead_protocol::digest::Digest;
use fairlead_protocol::fault::show;
use fairlead_protocol::index::{BlockId, FileIndex};
use fairlead_protocol::ledger::LedgerContents;
use fairlead_protocol::limits::NUMBERS_PER_FRAME;
use fairlead_protocol::listing::{Entry, Kind, Listing};
use fairlead_protocol::receiver::{Plan, Receiver};
use fairlead_protocol::{Fault, Reason};

use crate::cli::{ReceiveArguments, Verify};
use crate::fault_injection::hang_point;
use crate::fs::metadata::{FileState, Preserve};
use crate::fs::partial::ledger_file::LedgerDigests;
use crate::fs::partial::ledger_writer::LedgerWriter;
use crate::fs::partial::recovery::{recover, Recovery};
use crate::fs::partial::PartialDirectory;
use crate::fs::publish::Publication;
use crate::fs::readback::{forget_pages, read_back};
use crate::fs::root::{hash_file, Root};
use crate::fs::survey::{check_space, refuse_claimed, survey, write_fault, Claims, Overwrite};
use crate::preflight::destination::note_rights;
use crate::progress::{Check, Progress};
use crate::threads::lock;

/// Longest time for the disk to take what the page cache holds.
const FLUSH_PATIENCE: Duration = Duration::from_secs(3600);

/// What that work needs of a transfer.
#[derive(Clone)]
pub(crate) struct DestinationWork {
    pub(crate) root: Arc<Root>,
    pub(crate) partial: Arc<PartialDirectory>,
    pub(crate) listing: Arc<Listing>,
    pub(crate) skip: Arc<Vec<FileIndex>>,
    /// What files of the destination were like when they were compared, in ascending order of the files.
    pub(crate) states: Arc<Vec<(FileIndex, FileState)>>,
    pub(crate) session: Arc<Mutex<Receiver>>,
    pub(crate) ledger_writer: Option<Arc<LedgerWriter>>,
    pub(crate) overwrite: Overwrite,
    pub(crate) links_claimed: bool,
    pub(crate) preserve: Vec<Preserve>,
    pub(crate) verify: Verify,
    pub(crate) progress: Arc<Progress>,
}

/// Partial files that are ready for blocks.
pub(crate) struct Reserved {
    /// What earlier attempts left.
    pub(crate) ledger: Arc<LedgerContents>,
    pub(crate) recovery: Recovery,
    /// What the sender needs to know before it sends.
    pub(crate) plan: Plan,
}

impl DestinationWork {
    /// The work for a command line, before anything is listed.
    pub(crate) fn new(
        args: &ReceiveArguments,
        root: &Arc<Root>,
        partial: &Arc<PartialDirectory>,
        session: &Arc<Mutex<Receiver>>,
        progress: &Arc<Progress>,
    ) -> Self {
        Self {
            root: Arc::clone(root),
            partial: Arc::clone(partial),
            listing: Arc::default(),
            skip: Arc::default(),
            states: Arc::default(),
            session: Arc::clone(session),
            ledger_writer: None,
            overwrite: args.overwrite,
            links_claimed: false,
            preserve: args.preserve.clone(),
            verify: args.verify,
            progress: Arc::clone(progress),
        }
    }

    fn work(&self, amount: u64) {
        self.progress.work(amount);
    }

    /// Finds out what earlier attempts left, and what is in the way at the destination.
    pub(crate) fn survey(&self, book: &LedgerContents) -> Result<(Vec<FileIndex>, Recovery), Fault> {
        let _operation = self.progress.disk.begin();
        hang_point("SURVEY");
        let work = |amount| self.work(amount);
        let recovery = recover(&self.root, &self.partial, book, &self.listing, &work)?;
        let claims = Claims { files: &recovery.claimed, links: recovery.links_claimed };
        let candidates = survey(&self.root, &self.listing, self.overwrite, claims, &work)?;
        Ok((candidates, recovery))
    }

    /// Refuses claimed files that turned out to be somebody else's, where nothing may be replaced.
    pub(crate) fn check_claims(&self, recovery: &Recovery) -> Result<(), Fault> {
        if self.overwrite != Overwrite::Never {
            return Ok(());
        }
        let mut foreign = recovery.claimed.iter().filter(|index| self.skip.binary_search(index).is_err());
        foreign.try_for_each(|index| refuse_claimed(&self.root, &self.listing.entry(*index)))
    }

    /// Makes the partial files ready for all but the skipped, with what earlier attempts left in them, and makes the plan of it.
    pub(crate) fn reserve(&self, ledger: Arc<LedgerContents>, mut recovery: Recovery) -> Result<Reserved, Fault> {
        let (listing, skip, progress) = (&self.listing, &self.skip, &self.progress);
        let _operation = progress.disk.begin();
        self.check_claims(&recovery)?;
        note_rights(&self.root, listing, skip, progress)?;
        check_space(&self.root, listing, skip, recovery.taken(skip), &|amount| self.work(amount))?;
        progress.note_check(Check::passed("Space", "what is missing fits"));
        self.partial.prepare(recovery.settle(&self.partial, skip)?)?;
        hang_point("RESERVE");
        recovery.kept.retain(|run| skip.binary_search(&run.file).is_err());
        for (index, entry) in listing.iter() {
            if entry.kind == Kind::File && entry.size == 0 && skip.binary_search(&index).is_err() {
                self.partial.open_entry(index).map_err(|error| write_fault("an empty file", &error))?;
                progress.counters.files_transferred.fetch_add(1, Ordering::Relaxed);
                self.work(1);
            }
        }
        let kept = std::mem::take(&mut recovery.kept);
        let mut digests = LedgerDigests::new(self.partial.ledger());
        let digest = |id: BlockId| {
            self.work(1);
            let file = recovery.slot(id.file).and_then(|slot| ledger.file(slot));
            let at = file.and_then(|file| file.digest_at(id.block));
            let at = at.ok_or_else(|| Fault::new(Reason::InternalError, "the ledger lost a block that it had"))?;
            digests.read(at).map_err(|error| write_fault("the ledger of partial files", &error))
        };
        let plan = lock(&self.session).reserved(kept, digest)?;
        Ok(Reserved { ledger, recovery, plan })
    }

    /// Digests of files of the destination, some at a time; one that cannot be read, or is written to meanwhile, counts as different.
    /// Returns what the others were like then, in the order of `files`.
    pub(crate) fn hash(
        &self,
        files: &[FileIndex],
        mut report: impl FnMut(Vec<(FileIndex, Digest)>),
    ) -> Vec<(FileIndex, FileState)> {
        let (mut buffer, mut states) = (Vec::new(), Vec::new());
        let mut digest = |entry: &Entry| -> io::Result<Option<(Digest, FileState)>> {
            let _operation = self.progress.disk.begin();
            hang_point("COMPARE");
            // Empty files count too.
            self.work(1);
            let open = self.root.open_file(&entry.path)?;
            if self.verify == Verify::ReadBack {
                open.sync_data()?;
                forget_pages(&open)?;
            }
            let before = rustix::fs::fstat(&open)?;
            if before.st_size as u64 != entry.size {
                return Ok(None);
            }
            let digest = hash_file(&open, entry.size, &mut buffer, |bytes| self.work(bytes))?;
            let state = FileState::of(&before);
            let is_same = FileState::of(&rustix::fs::fstat(&open)?) == state;
            Ok(digest.filter(|_| is_same).map(|digest| (digest, state)))
        };
        let mut digest = |file: &FileIndex| {
            let (digest, state) = digest(&self.listing.entry(*file)).ok()??;
            states.push((*file, state));
            Some((*file, digest))
        };
        files.chunks(NUMBERS_PER_FRAME).for_each(|files| report(files.iter().filter_map(&mut digest).collect()));
        states
    }

    /// Makes every partial file durable. If asked to, reads it again before; the blocks that came back damaged are returned.
    pub(crate) fn settle(&self) -> Result<Vec<BlockId>, Fault> {
        let _operation = self.progress.disk.begin();
        if let Some(ledger_writer) = &self.ledger_writer {
            ledger_writer.flush(FLUSH_PATIENCE)?;
        }
        let damaged = if self.verify == Verify::ReadBack { self.read_back()? } else { Vec::new() };
        if damaged.is_empty() {
            self.publication(|publication| publication.make_durable())?;
        }
        Ok(damaged)
    }

    fn read_back(&self) -> Result<Vec<BlockId>, Fault> {
        let (mut damaged, mut buffer) = (Vec::new(), Vec::new());
        self.progress.counters.bytes_verified.store(0, Ordering::Relaxed);
        let read = |bytes| {
            self.work(bytes);
            self.progress.counters.bytes_verified.fetch_add(bytes, Ordering::Relaxed);
        };
        for (index, entry) in self.listing.iter() {
            if entry.kind != Kind::File || self.skip.binary_search(&index).is_ok() {
                continue;
            }
            let digest = |id| lock(&self.session).assembly().ok().and_then(|assembly| assembly.digest(id));
            let blocks = read_back(&self.partial, index, &entry, digest, &mut buffer, read)
                .map_err(|error| write_fault(&show(&entry.path), &error))?;
            damaged.extend(blocks);
        }
        Ok(damaged)
    }

    /// Puts everything in place; from here on a later attempt can only finish that.
    pub(crate) fn publish(&self, root: Digest) -> Result<(), Fault> {
        let _operation = self.progress.disk.begin();
        if let Some(ledger_writer) = &self.ledger_writer {
            ledger_writer.verified(root)?;
        }
        self.publication(|publication| publication.publish())
    }

    fn publication(&self, act: impl FnOnce(&Publication<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        act(&Publication {
            root: &self.root,
            partial: &self.partial,
            listing: &self.listing,
            skip: &self.skip,
            states: &self.states,
            overwrite: self.overwrite,
            links_claimed: self.links_claimed,
            preserve: &self.preserve,
            work: &|| self.work(1),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::fs::samples::listing_of;

    #[test]
    fn a_file_that_has_grown_since_the_survey_is_not_identical() {
        let folder = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(folder.path()).unwrap());
        for (name, content) in [("grown", "x, and more"), ("same", "x")] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let work = DestinationWork {
            partial: Arc::new(PartialDirectory::open(&root, "job", 1).unwrap().0),
            root,
            listing: Arc::new(listing_of(&[("grown", Kind::File), ("same", Kind::File)], 1)),
            skip: Arc::default(),
            states: Arc::default(),
            session: Arc::default(),
            ledger_writer: None,
            overwrite: Overwrite::IfDifferent,
            links_claimed: false,
            preserve: Vec::new(),
            verify: Verify::Checksum,
            progress: Arc::new(Progress::new()),
        };
        let mut hashed = Vec::new();
        let states = work.hash(&[FileIndex(0), FileIndex(1)], |digests| hashed.extend(digests));
        assert_eq!(hashed.iter().map(|(file, _)| *file).collect::<Vec<_>>(), [FileIndex(1)]);
        assert_eq!(states.iter().map(|(file, _)| *file).collect::<Vec<_>>(), [FileIndex(1)]);
    }
}
