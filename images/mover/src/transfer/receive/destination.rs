//! The destination on a disk: what earlier attempts left there, and the ledger of this one.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fairlead_protocol::index::FileIndex;
use fairlead_protocol::ledger::LedgerContents;
use fairlead_protocol::listing::Listing;
use fairlead_protocol::receiver::Receiver;
use fairlead_protocol::{Fault, Reason};

use super::destination_work::DestinationWork;
use crate::cli::ReceiveArguments;
use crate::fs::partial::ledger_writer::LedgerWriter;
use crate::fs::partial::recovery::Recovery;
use crate::fs::partial::PartialDirectory;
use crate::fs::root::Root;
use crate::fs::survey::open_destination;
use crate::progress::Progress;
use crate::threads::lock;
use crate::transfer::TransferContext;

/// The destination directory, with the work on it.
pub(super) struct DiskDestination {
    pub(super) root: Arc<Root>,
    pub(super) partial: Arc<PartialDirectory>,
    pub(super) work: DestinationWork,
    /// What earlier attempts left, until it is taken over.
    pub(super) ledger: Option<Arc<LedgerContents>>,
    pub(super) recovery: Recovery,
}

impl DiskDestination {
    /// Opens the directory and takes the partial files of earlier attempts over.
    pub(super) fn open(
        directory: &Path,
        args: &ReceiveArguments,
        context: &TransferContext,
        session: &Arc<Mutex<Receiver>>,
    ) -> Result<Self, Fault> {
        let root = Arc::new(open_destination(&args.common.place(directory)?)?);
        let (partial, ledger) = PartialDirectory::open(&root, &context.identity.job, context.identity.attempt)?;
        let partial = Arc::new(partial);
        let work = DestinationWork::new(args, &root, &partial, session, &context.progress);
        Ok(Self { root, partial, work, ledger: Some(Arc::new(ledger)), recovery: Recovery::default() })
    }

    /// A fault once the ledger cannot be written or a later attempt has taken over.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.partial.ledger().check()?;
        self.work.ledger_writer.as_ref().map_or(Ok(()), |ledger_writer| ledger_writer.check())
    }

    /// Hands over what earlier attempts left, once, with the work that makes the partial files ready for all but `skip`.
    pub(super) fn take_over(
        &mut self,
        skip: Arc<Vec<FileIndex>>,
    ) -> Result<(DestinationWork, Arc<LedgerContents>, Recovery), Fault> {
        let Some(ledger) = self.ledger.take() else { return Err(Fault::protocol("the plan was made before")) };
        let recovery = std::mem::take(&mut self.recovery);
        self.work.skip = skip;
        self.work.links_claimed = recovery.links_claimed;
        Ok((self.work.clone(), ledger, recovery))
    }

    /// Starts the ledger writer and counts what earlier attempts left and wasted.
    pub(super) fn resume(
        &mut self,
        listing: &Arc<Listing>,
        recovery: &Recovery,
        ledger: &LedgerContents,
        progress: &Arc<Progress>,
    ) -> Result<(), Fault> {
        let received_bytes = ledger.received_bytes();
        let ledger_writer = LedgerWriter::start(
            Arc::clone(&self.partial),
            Arc::clone(listing),
            Arc::clone(progress),
            recovery,
            received_bytes,
        );
        let failed = |error| Fault::new(Reason::InternalError, format!("a thread could not be started: {error}"));
        self.work.ledger_writer = Some(Arc::new(ledger_writer.map_err(failed)?));
        let (kept_bytes, kept_files) = {
            let mut session = lock(&self.work.session);
            let assembly = session.assembly()?;
            let kept = assembly.kept();
            let bytes: u64 = kept.iter().map(|run| run.bytes(listing.size(run.file))).sum();
            let files = kept.chunk_by(|left, right| left.file == right.file);
            (bytes, files.filter(|runs| assembly.is_whole(runs[0].file)).count() as u64)
        };
        progress.resumed(kept_bytes, kept_files);
        let published = recovery.claimed.iter().filter(|index| self.work.skip.binary_search(index).is_ok());
        let published_bytes: u64 = published.map(|index| listing.size(*index)).sum();
        let wasted = received_bytes.saturating_sub(recovery.kept_bytes + published_bytes);
        progress.counters.bytes_resent.store(wasted, Ordering::Relaxed);
        if ledger.attempt > 0 {
            tracing::info!(kept_bytes, published_bytes, wasted, "an earlier attempt left blocks behind");
        }
        Ok(())
    }
}
