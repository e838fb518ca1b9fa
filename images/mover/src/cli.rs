//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairlead_protocol::limits::STREAMS;
use fairlead_protocol::name::job_is_valid;

use crate::fs::metadata::Preserve;
use crate::fs::survey::Overwrite;
use crate::quantity;

/// Moves a directory between two hosts over parallel TCP streams, encrypted and verified.
///
/// Exit codes: 0 succeeded, 1 failed and a retry may help, 2 usage, 3 failed and a retry cannot help,
/// 130 or 143 stopped by a signal.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Take a directory from a sender.
    Receive(Receive),
    /// Send a directory to a receiver.
    Send(Send),
    /// Remove the partial files of a job.
    Clean(Clean),
    /// Show what a partial directory holds and what a later attempt could keep of it.
    Ledger(Ledger),
    /// Make credentials for a transfer by hand: sender/ and receiver/ below DIR.
    Credentials(Credentials),
}

/// What both ends of a transfer take.
#[derive(Args)]
pub(crate) struct Common {
    /// Folder with ca.crt, tls.crt and tls.key of this end.
    #[arg(long, env = "FAIRLEAD_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: PathBuf,
    /// Job; by default the one in the certificate.
    #[arg(long, env = "FAIRLEAD_JOB", value_parser = job)]
    pub(crate) job: Option<String>,
    /// Attempt of the job; by default the one in the certificate.
    #[arg(long, env = "FAIRLEAD_ATTEMPT")]
    pub(crate) attempt: Option<u32>,
    /// Interface that carries the data, or auto.
    #[arg(long, env = "FAIRLEAD_INTERFACE", value_name = "NAME|auto")]
    pub(crate) interface: Option<String>,
    /// Serve health, metrics, endpoint and progress here.
    #[arg(long, env = "FAIRLEAD_HTTP", value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// Write the verdict here at the end.
    #[arg(long, env = "FAIRLEAD_TERMINATION_LOG", value_name = "FILE")]
    pub(crate) termination_log: Option<PathBuf>,
    /// Seconds to wait for the other end.
    #[arg(long, env = "FAIRLEAD_PEER_TIMEOUT", default_value_t = 120, value_name = "SECONDS")]
    pub(crate) peer_timeout: u64,
    /// Give up when more bytes than this were sent in vain; by default twice the total and 1 GiB.
    #[arg(long, env = "FAIRLEAD_RESEND_BUDGET", value_name = "BYTES", value_parser = quantity::parse)]
    pub(crate) resend_budget: Option<u64>,
    /// Print events as lines of JSON on standard output.
    #[arg(long, env = "FAIRLEAD_JSON")]
    pub(crate) json: bool,
}

/// How the receiver makes sure of what it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Verify {
    /// Every block is checked before it is written.
    Checksum,
    /// Every block is read again from the disk, too.
    ReadBack,
}

#[derive(Args)]
pub(crate) struct Receive {
    /// Directory to receive into; made if it is missing.
    #[arg(long, env = "FAIRLEAD_DESTINATION", value_name = "DIR")]
    pub(crate) destination: PathBuf,
    /// Port for data (TCP) and echo (UDP); 0 chooses one.
    #[arg(long, env = "FAIRLEAD_PORT")]
    pub(crate) port: u16,
    /// Address to listen on, instead of the interface's first one.
    #[arg(long, env = "FAIRLEAD_ADDRESS", value_name = "IP")]
    pub(crate) address: Option<IpAddr>,
    /// Address of the node's management, avoided by the interface auto.
    #[arg(long, env = "FAIRLEAD_NODE_ADDRESS", value_name = "IP", hide = true)]
    pub(crate) node_address: Option<IpAddr>,
    /// What happens to files that exist already.
    #[arg(long, env = "FAIRLEAD_OVERWRITE", default_value = "Never")]
    pub(crate) overwrite: Overwrite,
    /// What is kept besides the content; None keeps nothing.
    #[arg(long, env = "FAIRLEAD_PRESERVE", value_delimiter = ',', default_value = "Mode,ModificationTime")]
    pub(crate) preserve: Vec<Preserve>,
    /// How to make sure of what was written.
    #[arg(long, env = "FAIRLEAD_VERIFY", default_value = "Checksum")]
    pub(crate) verify: Verify,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct Send {
    /// Directory to send; its content lands in the destination.
    #[arg(long, env = "FAIRLEAD_SOURCE", value_name = "DIR")]
    pub(crate) source: PathBuf,
    /// The receiver.
    #[arg(long, env = "FAIRLEAD_CONNECT", value_name = "IP:PORT")]
    pub(crate) connect: SocketAddr,
    /// Parallel data streams, 1 to 64.
    #[arg(long, env = "FAIRLEAD_STREAMS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS)))]
    pub(crate) streams: u16,
    /// Congestion control of the data streams.
    #[arg(long, env = "FAIRLEAD_CONGESTION_CONTROL", default_value = "cubic", value_name = "NAME")]
    pub(crate) congestion_control: String,
    /// Send only what matches; may be given several times.
    #[arg(long, env = "FAIRLEAD_INCLUDE", value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out what matches; may be given several times.
    #[arg(long, env = "FAIRLEAD_EXCLUDE", value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Wait so many seconds for the first change of transport on the control socket before data flows.
    #[arg(long, env = "FAIRLEAD_AWAIT_TRANSPORT", value_name = "SECONDS", requires = "control_socket")]
    pub(crate) await_transport: Option<u64>,
    /// Serve peer, stats and transport on this Unix socket.
    #[arg(long, env = "FAIRLEAD_CONTROL_SOCKET", value_name = "FILE")]
    pub(crate) control_socket: Option<PathBuf>,
    /// Cap on all streams together, decimal bits per second such as 2G.
    #[arg(long, env = "FAIRLEAD_BANDWIDTH", value_name = "RATE", value_parser = quantity::parse, conflicts_with = "bandwidth_file")]
    pub(crate) bandwidth: Option<u64>,
    /// File that holds the cap and is watched; empty means no cap.
    #[arg(long, env = "FAIRLEAD_BANDWIDTH_FILE", value_name = "FILE")]
    pub(crate) bandwidth_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct Clean {
    /// Directory that was received into.
    #[arg(long, env = "FAIRLEAD_DESTINATION", value_name = "DIR")]
    pub(crate) destination: PathBuf,
    /// Job whose partial files are removed.
    #[arg(long, env = "FAIRLEAD_JOB", value_parser = job)]
    pub(crate) job: String,
    /// Write the verdict here at the end.
    #[arg(long, env = "FAIRLEAD_TERMINATION_LOG", value_name = "FILE")]
    pub(crate) termination_log: Option<PathBuf>,
    /// Print events as lines of JSON on standard output.
    #[arg(long, env = "FAIRLEAD_JSON")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Ledger {
    /// The partial directory: .fairlead-<job> in the destination.
    pub(crate) directory: PathBuf,
    /// Print one JSON object.
    #[arg(long, env = "FAIRLEAD_JSON")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Credentials {
    /// Where to write; existing credentials are not replaced.
    pub(crate) directory: PathBuf,
    /// Job the credentials are for.
    #[arg(long, env = "FAIRLEAD_JOB", default_value = "local", value_parser = job)]
    pub(crate) job: String,
    /// Attempt the credentials are for.
    #[arg(long, env = "FAIRLEAD_ATTEMPT", default_value_t = 1)]
    pub(crate) attempt: u32,
}

fn job(text: &str) -> Result<String, String> {
    if job_is_valid(text) {
        Ok(text.to_owned())
    } else {
        Err("a job's name has 1 to 63 lower-case letters, digits and inner hyphens".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
