//! The file of the ledger. What is in it, and how it is read, is `fairlead_protocol::ledger`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, TryLockError};

use fairlead_protocol::digest::Digest;
use fairlead_protocol::ledger::{header, job_of_header, LedgerContents, Record, Replay, HEADER_BYTES};
use fairlead_protocol::{Fault, Reason};
use rustix::fs::{Mode, OFlags};

use crate::fault_injection::{crash_point, torn_append};
use crate::fs::root::Root;
use crate::fs::survey::write_fault;
use crate::threads::lock;

/// Name of the ledger in the partial directory.
const NAME: &[u8] = b"ledger";
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of the ledger that are read at once for digests in them.
const WINDOW_BYTES: usize = 64 << 10;

/// A ledger, open until it is closed. Only one process appends; another that does has taken over.
pub(crate) struct LedgerFile(Mutex<Option<Appender>>);

struct Appender {
    file: File,
    end: u64,
}

impl LedgerFile {
    fn new(file: File, end: u64) -> Self {
        Self(Mutex::new(Some(Appender { file, end })))
    }

    /// Closes the file, so that its name can be removed for good: an NFS client gives an open file another name instead.
    pub(super) fn close(&self) {
        *lock(&self.0) = None;
    }

    /// Starts a ledger for a job whose partial directory is empty, and makes it durable.
    pub(crate) fn create(directory: &Root, job: &str, attempt: u32) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        crash_point();
        let mut file = File::from(directory.open_beneath(NAME, flags, Mode::RUSR | Mode::WUSR)?);
        let mut bytes = header(job).to_vec();
        Record::Attempt(attempt).encode_into(&mut bytes);
        torn_append(&file, &bytes);
        file.write_all(&bytes)?;
        crash_point();
        file.sync_all()?;
        crash_point();
        rustix::fs::fsync(directory)?;
        Ok(Self::new(file, bytes.len() as u64))
    }

    /// Reads a job's ledger and cuts off a torn end. Nothing if there is none, or one of another job or format.
    pub(crate) fn open(directory: &Root, job: &str) -> io::Result<Option<(Self, LedgerContents)>> {
        let Some((file, book, valid)) = read(directory, job, OFlags::RDWR | OFlags::APPEND, |_| {})? else {
            return Ok(None);
        };
        crash_point();
        file.set_len(valid)?;
        Ok(Some((Self::new(file, valid), book)))
    }

    /// Reads the ledger of any job without changing it; `seen` is called with every record.
    pub(crate) fn look(directory: &Root, seen: impl FnMut(&Record)) -> io::Result<Option<(String, LedgerContents)>> {
        let mut head = [0; HEADER_BYTES];
        match directory.open_file(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => match file?.read_exact(&mut head) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                result => result?,
            },
        }
        let Some(job) = job_of_header(&head).map(str::to_owned) else { return Ok(None) };
        Ok(read(directory, &job, OFlags::RDONLY, seen)?.map(|(_, book, _)| (job, book)))
    }

    /// Announces in the ledger that a later attempt takes over.
    pub(crate) fn announce(directory: &Root, job: &str, attempt: u32) -> io::Result<()> {
        let Some((mut file, book, _)) = read(directory, job, OFlags::RDWR | OFlags::APPEND, |_| {})? else {
            return Ok(());
        };
        if book.attempt < attempt {
            let mut bytes = Vec::new();
            Record::Attempt(attempt).encode_into(&mut bytes);
            file.write_all(&bytes)?;
            file.sync_data()?;
        }
        Ok(())
    }

    /// Appends whole records and returns where they end.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<u64, Fault> {
        let mut appender = lock(&self.0);
        let appender = appender.as_mut().ok_or_else(closed)?;
        appender.check()?;
        torn_append(&appender.file, bytes);
        if let Err(error) = appender.file.write_all(bytes) {
            let _ = appender.file.set_len(appender.end);
            return Err(write_fault("the ledger of partial files", &error));
        }
        appender.end += bytes.len() as u64;
        Ok(appender.end)
    }

    /// Appends records and makes them durable.
    pub(crate) fn append_durably(&self, records: &[Record]) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode_into(&mut bytes));
        self.append(&bytes)?;
        self.sync()
    }

    /// Makes everything appended so far durable.
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let failed = |error: io::Error| write_fault("the ledger of partial files", &error);
        let file = lock(&self.0).as_ref().ok_or_else(closed)?.file.try_clone().map_err(failed)?;
        crash_point();
        file.sync_data().map_err(failed)
    }

    /// Where the ledger ends; 0 once it is closed.
    pub(crate) fn end(&self) -> u64 {
        lock(&self.0).as_ref().map_or(0, |appender| appender.end)
    }

    /// A fault once a later attempt has taken over.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let check = |appender: &Option<Appender>| appender.as_ref().map_or(Ok(()), Appender::check);
        match self.0.try_lock() {
            Ok(appender) => check(&appender),
            // Who appends checks, and may wait for a slow disk meanwhile.
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Poisoned(appender)) => check(&appender.into_inner()),
        }
    }
}

/// Reads digests of blocks from a ledger, most of which follow each other.
pub(crate) struct LedgerDigests<'a> {
    ledger: &'a LedgerFile,
    start: u64,
    window: Vec<u8>,
}

impl<'a> LedgerDigests<'a> {
    pub(crate) fn new(ledger: &'a LedgerFile) -> Self {
        Self { ledger, start: 0, window: Vec::new() }
    }

    /// The digest at this offset, which a book of the ledger named.
    pub(crate) fn read(&mut self, at: u64) -> io::Result<Digest> {
        let within = |start: u64, window: &[u8]| -> Option<Digest> {
            window.get(at.checked_sub(start)? as usize..)?.first_chunk().copied()
        };
        if let Some(digest) = within(self.start, &self.window) {
            return Ok(digest);
        }
        self.window.resize(WINDOW_BYTES, 0);
        let read = match &*lock(&self.ledger.0) {
            Some(appender) => appender.file.read_at(&mut self.window, at)?,
            None => return Err(io::Error::other(closed().message)),
        };
        self.window.truncate(read);
        self.start = at;
        within(at, &self.window).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn closed() -> Fault {
    Fault::new(Reason::InternalError, "the ledger of partial files is closed already")
}

impl Appender {
    fn check(&self) -> Result<(), Fault> {
        let length = self.file.metadata().map_err(|error| write_fault("the ledger of partial files", &error))?.len();
        if length == self.end {
            return Ok(());
        }
        let text = "another attempt of the job took the partial files over; this one is over";
        Err(Fault::new(Reason::Superseded, text))
    }
}

fn read(
    directory: &Root,
    job: &str,
    flags: OFlags,
    seen: impl FnMut(&Record),
) -> io::Result<Option<(File, LedgerContents, u64)>> {
    let mut file = match directory.open_beneath(NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut replay, mut piece, mut head) = (Replay::with_observer(seen), vec![0; PIECE_BYTES], Vec::new());
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                if head.len() < HEADER_BYTES {
                    head.extend_from_slice(&piece[..length.min(HEADER_BYTES)]);
                }
                replay.extend(&piece[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let ours = head.first_chunk::<HEADER_BYTES>().and_then(job_of_header) == Some(job);
    let (book, valid) = replay.finish();
    Ok((ours && valid > 0).then_some((file, book, valid)))
}
