//! The command `ledger`: what a partial directory holds, for people and for programs.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use fairlead_protocol::digest::{block_count, block_length};
use fairlead_protocol::fault::show as show_name;
use fairlead_protocol::ledger::{LedgerContents, PartialFile, Record};
use serde::Serialize;

use crate::fs::partial::ledger_file::LedgerFile;
use crate::fs::root::Root;

#[derive(Serialize)]
struct Summary {
    job: String,
    attempt: u32,
    /// Digest of the tree once everything was durable; publication may have begun then.
    verified: Option<String>,
    /// Payload received by all attempts.
    bytes_received: u64,
    bytes_held: u64,
    bytes_durable: u64,
    files: Vec<FileSummary>,
}

#[derive(Serialize)]
struct FileSummary {
    path: String,
    slot: u32,
    size: u64,
    blocks: u64,
    blocks_held: u64,
    blocks_durable: u64,
    bytes_held: u64,
    bytes_durable: u64,
}

/// Prints what the ledger in `directory` records. Nothing is changed, and a transfer that is under way is not disturbed.
pub(crate) fn show(directory: &Path, json: bool) -> io::Result<()> {
    let mut paths = HashMap::new();
    let seen = |record: &Record| {
        if let Record::File { slot, identity } = record {
            paths.insert(*slot, identity.path.clone());
        }
    };
    let Some((job, book)) = LedgerFile::look(&Root::open(directory)?, seen)? else {
        return Err(io::Error::other("there is no ledger; name the directory .fairlead-<job> in a destination"));
    };
    let summary = summarize(job, &book, &paths);
    let mut out = io::stdout().lock();
    let written = if json {
        serde_json::to_writer(&mut out, &summary).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        print(&mut out, &summary)
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn summarize(job: String, book: &LedgerContents, paths: &HashMap<u32, Vec<u8>>) -> Summary {
    let path = |slot| paths.get(&slot).map_or(&[][..], Vec::as_slice);
    let mut files: Vec<FileSummary> =
        book.files().map(|(slot, file)| summarize_file(slot, path(slot), file, book)).collect();
    files.sort_by(|left, right| left.path.cmp(&right.path).then(left.slot.cmp(&right.slot)));
    Summary {
        job,
        attempt: book.attempt,
        verified: book.verified.map(|root| format!("blake3:{}", blake3::Hash::from(root).to_hex())),
        bytes_received: book.received_bytes(),
        bytes_held: files.iter().map(|file| file.bytes_held).sum(),
        bytes_durable: files.iter().map(|file| file.bytes_durable).sum(),
        files,
    }
}

fn summarize_file(slot: u32, path: &[u8], file: &PartialFile, book: &LedgerContents) -> FileSummary {
    let size = file.size;
    let (mut blocks_durable, mut bytes_held, mut bytes_durable) = (0, 0, 0);
    for held in file.blocks() {
        let length = u64::from(block_length(size, held.block));
        bytes_held += length;
        if book.is_durable(&held) {
            blocks_durable += 1;
            bytes_durable += length;
        }
    }
    FileSummary {
        path: String::from_utf8_lossy(path).into_owned(),
        slot,
        size,
        blocks: block_count(size),
        blocks_held: file.blocks().count() as u64,
        blocks_durable,
        bytes_held,
        bytes_durable,
    }
}

fn print(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { job, attempt, bytes_received, bytes_held, bytes_durable, .. } = summary;
    writeln!(
        out,
        "job {job}, attempt {attempt}: {bytes_held} bytes held, {bytes_durable} durable, {bytes_received} received"
    )?;
    match &summary.verified {
        Some(root) => writeln!(out, "verified as {root}; publication may have begun")?,
        None => writeln!(out, "not yet complete")?,
    }
    for file in &summary.files {
        let FileSummary { blocks, blocks_held, blocks_durable, size, .. } = file;
        let path = show_name(file.path.as_bytes());
        writeln!(out, "{path}: {blocks_held} of {blocks} blocks, {blocks_durable} durable, {size} bytes in all")?;
    }
    Ok(())
}
