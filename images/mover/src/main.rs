//! `fairlead-mover`: moves a directory between two hosts over parallel TCP streams, encrypted and verified.
//!
//! The session itself, without sockets, files or clocks, is the crate `fairlead_protocol`. The rooms here, of which each uses only
//! those above it in this list and `threads` (`tests/layers.rs` holds them to that):
//! - `progress`: counters, clock and rate of a transfer; `fs` and `net` count there, `report` and `control` show it.
//! - `fs`: source tree, partial files with their ledger, publication.
//! - `net`: connections, wire formats, the pool of data streams, pacing. It knows nothing of files.
//! - `preflight`: what is checked before any byte of data.
//! - `report`: events, progress line, verdict. `control`: HTTP pages and the control socket.
//! - `transfer`: the sender and the receiver, which drive a session and have the work done. `transfer/receive/blocks.rs` describes
//!   the way of a block to the disk.
#![forbid(unsafe_code)]

mod cli;
mod control;
mod credentials;
mod fault_injection;
mod fs;
mod ledger_command;
mod net;
mod preflight;
mod progress;
mod quantity;
mod report;
mod signal;
mod threads;
mod transfer;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use fairlead_protocol::{Fault, Reason};
use rustix::process::{Resource, Rlimit};
use time::OffsetDateTime;
use tracing_subscriber::EnvFilter;

use cli::{CleanArguments, Cli, Command, Common, CredentialsArguments, LedgerArguments};
use control::http::{self, Pages};
use fs::volume_path::OpenError;
use net::connect::identity::{Identity, Role};
use progress::Progress;
use report::output::{self, Ticker};
use report::verdict::{Success, Verdict, VerdictWriter};
use signal::Stop;
use transfer::{receive, send, TransferContext};

/// More than a transfer can ever have open.
const MOST_DESCRIPTORS: u64 = 65_536;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(why) = cli.check() {
        Cli::command().error(ErrorKind::ArgumentConflict, why).exit();
    }
    let filter = EnvFilter::try_from_env("FAIRLEAD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    raise_descriptor_limit();
    match cli.command {
        Command::Receive(args) => run(Role::Receiver, &args.common, |context| receive::run(&args, context)),
        Command::Send(args) => run(Role::Sender, &args.common, |context| send::run(&args, context)),
        Command::Clean(args) => clean(&args),
        Command::Ledger(args) => ledger(&args),
        Command::Credentials(args) => credentials(&args),
    }
}

/// Raises the soft limit of open descriptors, which is often 1,024, to what the system allows: streams, files and connections of
/// strangers share them.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = limit.maximum.map_or(MOST_DESCRIPTORS, |hard| hard.min(MOST_DESCRIPTORS));
    if limit.current.is_some_and(|soft| soft < raised) {
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit }) {
            tracing::warn!(%error, "the limit of open descriptors stays as it is");
        }
    }
}

/// Runs one end of a transfer, settles its verdict and ends the process.
fn run(role: Role, common: &Common, act: impl FnOnce(&TransferContext) -> Result<Success, Fault>) -> ! {
    let progress = Arc::new(Progress::new());
    let writer = Arc::new(VerdictWriter::new(common.termination_log.as_deref()));
    let stop = Stop::default();
    let loaded = Identity::load(&common.tls_dir, role, common.job.as_deref(), common.attempt);
    let (job, attempt) = match &loaded {
        Ok(identity) => (identity.job.clone(), identity.attempt),
        Err(_) => (common.job.clone().unwrap_or_default(), common.attempt.unwrap_or(0)),
    };
    let json = common.json;
    let verdict_of = {
        let (progress, job) = (Arc::clone(&progress), job.clone());
        move |result: &Result<Success, Fault>| Verdict::new(role.name(), &job, attempt, &progress, result)
    };
    let overdue = {
        let (writer, verdict_of, stop) = (Arc::clone(&writer), verdict_of.clone(), stop.clone());
        move |fault| {
            let verdict = writer.settle(verdict_of(&Err(fault)));
            output::verdict(json, &verdict);
            // The transfer did not end by itself in time; nothing of it may outlive the verdict.
            end(verdict.exit_code(stop.signal()));
        }
    };
    let ticker = Ticker::start(Arc::clone(&progress), json);
    let result = stop
        .listen(overdue)
        .map_err(|error| Fault::new(Reason::InternalError, format!("signals cannot be handled: {error}")))
        .and(loaded)
        .and_then(|identity| {
            let pages = Arc::new(Pages {
                role,
                job,
                attempt,
                progress: Arc::clone(&progress),
                endpoint: Mutex::new(None),
                paths: OnceLock::new(),
            });
            if let Some(address) = common.http {
                let bound = http::serve(address, Arc::clone(&pages))?;
                output::event(json, "http", &serde_json::json!({"address": bound}));
            }
            act(&TransferContext {
                identity: Arc::new(identity),
                pages,
                progress: Arc::clone(&progress),
                stop: stop.clone(),
            })
        });
    if let Err(fault) = &result {
        preflight::note_failure(&progress, fault);
    }
    progress.sample();
    drop(ticker);
    let verdict = writer.settle(verdict_of(&result));
    output::verdict(json, &verdict);
    if let Some(epilogue) = result.ok().and_then(|success| success.epilogue) {
        epilogue();
    }
    end(verdict.exit_code(stop.signal()))
}

/// Ends the process at once. Neither `std::process::exit` nor the end of `main` will do: other threads may still be at work, and when
/// one of them needs random numbers for a handshake after AWS-LC has destroyed its generators at exit, AWS-LC aborts the process.
fn end(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

fn clean(args: &CleanArguments) -> ExitCode {
    let result = remove_partial_files(args);
    let verdict = Verdict::new("cleaner", &args.job, 0, &Progress::new(), &result);
    let verdict = VerdictWriter::new(args.termination_log.as_deref()).settle(verdict);
    output::verdict(args.json, &verdict);
    ExitCode::from(verdict.exit_code(None))
}

fn remove_partial_files(args: &CleanArguments) -> Result<Success, Fault> {
    let success = |message: &str| Success::new(Reason::Cleaned, message);
    let destination = args.place()?;
    let root = match destination.open() {
        Err(OpenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(success("the destination does not exist"))
        }
        Err(OpenError::Io(error)) => {
            return Err(fs::survey::write_fault(&format!("the destination {}", destination.shown()), &error))
        }
        Err(refused) => return Err(fs::survey::destination_fault(&destination, refused)),
        Ok(root) => root,
    };
    fs::partial::clean(&root, &args.job, fs::partial::TAKEOVER)?;
    Ok(success("no partial files of the job are left"))
}

fn ledger(args: &LedgerArguments) -> ExitCode {
    match ledger_command::show(&args.directory, args.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}: {error}", args.directory.display());
            ExitCode::from(3)
        }
    }
}

fn credentials(args: &CredentialsArguments) -> ExitCode {
    match credentials::make(&args.directory, &args.job, args.attempt, OffsetDateTime::now_utc()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(3)
        }
    }
}
