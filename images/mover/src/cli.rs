//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairlead_protocol::limits::{PATHS, STREAMS};
use fairlead_protocol::message;
use fairlead_protocol::name::job_is_valid;
use fairlead_protocol::{Fault, Reason};

use crate::fs::metadata::Preserve;
use crate::fs::survey::Overwrite;
use crate::fs::volume_path::VolumePath;
use crate::quantity;

const EXIT_CODES: &str = "\
Exit codes:
  0    succeeded: verified, durable and in place
  1    failed; a retry may help
  2    usage
  3    failed; a retry cannot help before somebody changes something
  130  stopped by SIGINT; resumable
  143  stopped by SIGTERM; resumable";

/// Moves a directory between two hosts over parallel TCP streams, encrypted and verified.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Take a directory from a sender.
    #[command(after_help = EXIT_CODES)]
    Receive(ReceiveArguments),
    /// Send a directory to a receiver.
    #[command(after_help = EXIT_CODES)]
    Send(SendArguments),
    /// Remove the partial files of a job.
    #[command(after_help = EXIT_CODES)]
    Clean(CleanArguments),
    /// Show what a partial directory holds and what a later attempt could keep of it.
    Ledger(LedgerArguments),
    /// Make credentials for a transfer by hand: sender/ and receiver/ below DIR.
    Credentials(CredentialsArguments),
}

/// What both ends of a transfer take.
#[derive(Args)]
pub(crate) struct Common {
    /// Folder with ca.crt, tls.crt and tls.key of this end.
    #[arg(long, env = "FAIRLEAD_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: PathBuf,
    /// Volume that the directory lies in: below it no symbolic link is followed.
    #[arg(long, env = "FAIRLEAD_VOLUME", value_name = "DIR")]
    pub(crate) volume: Option<PathBuf>,
    /// Job; by default the one in the certificate.
    #[arg(long, env = "FAIRLEAD_JOB", value_parser = job)]
    pub(crate) job: Option<String>,
    /// Attempt of the job; by default the one in the certificate.
    #[arg(long, env = "FAIRLEAD_ATTEMPT")]
    pub(crate) attempt: Option<u32>,
    /// Interface that carries the data, or auto; several with commas carry it at once.
    #[arg(long = "interface", env = "FAIRLEAD_INTERFACE", value_delimiter = ',', value_name = "NAME,...|auto")]
    pub(crate) interfaces: Vec<String>,
    /// CPUs that the threads run on: those beside the interface, on its NUMA node, or all that the process may use.
    #[arg(long, env = "FAIRLEAD_CPU_AFFINITY", default_value = "Interface")]
    pub(crate) cpu_affinity: CpuAffinity,
    /// Own address of all connections, instead of the interface's first one; with several interfaces one of each.
    #[arg(long = "address", env = "FAIRLEAD_ADDRESS", value_delimiter = ',', value_name = "IP,...")]
    pub(crate) addresses: Vec<IpAddr>,
    /// Serve health, metrics, endpoint and progress here.
    #[arg(long, env = "FAIRLEAD_HTTP", value_name = "ADDRESS:PORT", value_parser = listener)]
    pub(crate) http: Option<SocketAddr>,
    /// Write the verdict here at the end.
    #[arg(long, env = "FAIRLEAD_TERMINATION_LOG", value_name = "FILE")]
    pub(crate) termination_log: Option<PathBuf>,
    /// Seconds to wait for the other end.
    #[arg(long, env = "FAIRLEAD_PEER_TIMEOUT", default_value_t = 120, value_name = "SECONDS")]
    pub(crate) peer_timeout: u64,
    /// Seconds without any progress after which the transfer fails with the cause.
    #[arg(long, env = "FAIRLEAD_STALL_TIMEOUT", default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub(crate) stall_timeout: u64,
    /// Give up when more bytes than this were sent in vain; by default twice the total and 1 GiB.
    #[arg(long, env = "FAIRLEAD_RESEND_BUDGET", value_name = "BYTES", value_parser = quantity::parse)]
    pub(crate) resend_budget: Option<u64>,
    /// Whether data connections are encrypted; both ends must say the same.
    #[arg(long, env = "FAIRLEAD_ENCRYPTION", default_value = "Required")]
    pub(crate) encryption: EncryptionArgument,
    /// What carries the data; both ends must say the same.
    #[arg(long, env = "FAIRLEAD_PROTOCOL", default_value = "TCP")]
    pub(crate) protocol: ProtocolArgument,
    /// Send and receive buffer of each data connection in bytes; by default what rate and RTT need, or the kernel's own.
    #[arg(long, env = "FAIRLEAD_SOCKET_BUFFER", value_name = "BYTES", value_parser = socket_buffer)]
    pub(crate) socket_buffer: Option<u32>,
    /// Check everything that can be checked before data flow, and move nothing; both ends must say the same.
    #[arg(long, env = "FAIRLEAD_CHECK")]
    pub(crate) check: bool,
    /// Print events as lines of JSON on standard output.
    #[arg(long, env = "FAIRLEAD_JSON")]
    pub(crate) json: bool,
}

impl Common {
    /// Whether threads are to be pinned beside the interface.
    pub(crate) fn is_pinned(&self) -> bool {
        self.cpu_affinity == CpuAffinity::Interface
    }

    /// Checks what is asked of interfaces and addresses, at an end that has so many paths, if that is known.
    fn check_interfaces(&self, paths: Option<usize>) -> Result<(), String> {
        let Self { interfaces, addresses, .. } = self;
        if interfaces.len() > 1 && interfaces.iter().any(|name| name == "auto" || name.is_empty()) {
            return Err("--interface names several interfaces: auto and empty names stand for none of them".into());
        }
        let named = paths.unwrap_or(interfaces.len().max(addresses.len()));
        if named > PATHS {
            return Err(format!("{named} paths are more than the {PATHS} that a transfer may have"));
        }
        for (flag, given) in [("--interface", interfaces.len()), ("--address", addresses.len())] {
            if given > 0 && given != named.max(1) {
                return Err(format!("{flag} has {given} and there are {named} paths; give one for each"));
            }
        }
        Ok(())
    }

    /// The transfer's directory, reached as `--volume` asks for.
    pub(crate) fn place(&self, directory: &Path) -> Result<VolumePath, Fault> {
        place(directory, self.volume.as_deref())
    }
}

fn place(directory: &Path, volume: Option<&Path>) -> Result<VolumePath, Fault> {
    VolumePath::new(directory, volume).map_err(|why| Fault::new(Reason::NameNotAllowed, why))
}

/// Which CPUs the threads run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum CpuAffinity {
    /// Those of the process that are on the NUMA node of its data interfaces, where that is known.
    Interface,
    /// All that the process may use.
    None,
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

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceArgument {
    /// A directory's content.
    Directory(PathBuf),
    /// So many zeros from memory.
    Zeros(u64),
}

/// The kubelet fills in a node's address of IPv6 as it is, without the brackets that a person writes.
fn listener(text: &str) -> Result<SocketAddr, String> {
    let split = text.rsplit_once(':').and_then(|(address, port)| {
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        Some(SocketAddr::new(bare.unwrap_or(address).parse().ok()?, port.parse().ok()?))
    });
    split.ok_or_else(|| format!("{text} is not ADDRESS:PORT, such as 127.0.0.1:9000 or [::1]:9000"))
}

fn source(text: &str) -> Result<SourceArgument, String> {
    match text.strip_prefix("zero:") {
        None => Ok(SourceArgument::Directory(text.into())),
        Some(size) => match quantity::parse(size) {
            Ok(size) if size > MEMORY_BYTES => Err(format!("zero:SIZE goes up to {MEMORY_BYTES} bytes")),
            Ok(size) => Ok(SourceArgument::Zeros(size)),
            Err(why) => {
                Err(format!("zero:SIZE wants bytes, such as zero:10G: {why} (a directory of that name is ./{text})"))
            }
        },
    }
}

/// Where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Below a directory.
    Directory(PathBuf),
    /// Nowhere: it is checked and thrown away.
    Null,
}

fn destination(text: &str) -> Result<Destination, String> {
    Ok(if text == "null" { Destination::Null } else { Destination::Directory(text.into()) })
}

/// Whether data connections are encrypted; the control connection always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum EncryptionArgument {
    /// TLS 1.3.
    Required,
    /// In the clear, with both ends authenticated and every block keyed.
    None,
}

impl EncryptionArgument {
    /// As it is said to the peer.
    pub(crate) fn on_the_wire(self) -> message::Encryption {
        match self {
            Self::Required => message::Encryption::Required,
            Self::None => message::Encryption::None,
        }
    }
}

/// What carries the data; the control connection is TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum ProtocolArgument {
    /// The kernel's TCP.
    Tcp,
    /// QUIC, over UDP; TCP where UDP is blocked.
    Quic,
    /// UDT, paced by its sender, over UDP; TCP where UDP is blocked.
    Udt,
}

#[derive(Args)]
pub(crate) struct ReceiveArguments {
    /// Directory to receive into, made if it is missing; null checks everything and stores nothing.
    #[arg(long, env = "FAIRLEAD_DESTINATION", value_name = "DIR|null", value_parser = destination)]
    pub(crate) destination: Destination,
    /// Port for data (TCP) and echo (UDP); 0 chooses one.
    #[arg(long, env = "FAIRLEAD_PORT")]
    pub(crate) port: u16,
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
pub(crate) struct SendArguments {
    /// Directory whose content is sent, or zero:SIZE for so many zeros from memory, to measure a path.
    #[arg(long, env = "FAIRLEAD_SOURCE", value_name = "DIR|zero:SIZE", value_parser = source)]
    pub(crate) source: SourceArgument,
    /// The receiver; with several interfaces one address for each, with commas.
    #[arg(long, env = "FAIRLEAD_CONNECT", required = true, value_delimiter = ',', value_name = "IP:PORT,...")]
    pub(crate) connect: Vec<SocketAddr>,
    /// Parallel data streams on each path, 1 to 64 over all of them.
    #[arg(long, env = "FAIRLEAD_STREAMS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS)))]
    pub(crate) streams: u16,
    /// Fewest streams that the control socket may ask for.
    #[arg(long, env = "FAIRLEAD_STREAMS_MIN", default_value_t = 1, value_name = "STREAMS", value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS)))]
    pub(crate) streams_min: u16,
    /// Most streams that the control socket may ask for.
    #[arg(long, env = "FAIRLEAD_STREAMS_MAX", default_value_t = STREAMS, value_name = "STREAMS", value_parser = clap::value_parser!(u16).range(1..=i64::from(STREAMS)))]
    pub(crate) streams_max: u16,
    /// Congestion control of the data streams; by default cubic, over UDT udt.
    #[arg(long = "congestion-control", env = "FAIRLEAD_CONGESTION_CONTROL", value_name = "NAME")]
    pub(crate) named_congestion_control: Option<String>,
    /// Congestion controls that the control socket may ask for; by default whatever the kernel offers.
    #[arg(long, env = "FAIRLEAD_CONGESTION_CONTROLS", value_delimiter = ',', value_name = "NAME,...")]
    pub(crate) congestion_controls: Vec<String>,
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
    /// File that holds a cap for each path, with commas, and is watched; empty means no such caps.
    #[arg(long, env = "FAIRLEAD_PATH_BANDWIDTH_FILE", value_name = "FILE")]
    pub(crate) path_bandwidth_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl SendArguments {
    /// The congestion control that was named, or the protocol's usual one.
    pub(crate) fn congestion_control(&self) -> &str {
        let usual = match self.common.protocol {
            ProtocolArgument::Tcp | ProtocolArgument::Quic => "cubic",
            ProtocolArgument::Udt => "udt",
        };
        self.named_congestion_control.as_deref().unwrap_or(usual)
    }
}

#[derive(Args)]
pub(crate) struct CleanArguments {
    /// Directory that was received into.
    #[arg(long, env = "FAIRLEAD_DESTINATION", value_name = "DIR")]
    pub(crate) destination: PathBuf,
    /// Volume that the directory lies in: below it no symbolic link is followed.
    #[arg(long, env = "FAIRLEAD_VOLUME", value_name = "DIR")]
    pub(crate) volume: Option<PathBuf>,
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

impl CleanArguments {
    /// The destination, reached as `--volume` asks for.
    pub(crate) fn place(&self) -> Result<VolumePath, Fault> {
        place(&self.destination, self.volume.as_deref())
    }
}

#[derive(Args)]
pub(crate) struct LedgerArguments {
    /// The partial directory: .fairlead-<job> in the destination.
    pub(crate) directory: PathBuf,
    /// Print one JSON object.
    #[arg(long, env = "FAIRLEAD_JSON")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CredentialsArguments {
    /// Where to write; existing credentials are not replaced.
    pub(crate) directory: PathBuf,
    /// Job the credentials are for.
    #[arg(long, env = "FAIRLEAD_JOB", default_value = "local", value_parser = job)]
    pub(crate) job: String,
    /// Attempt the credentials are for.
    #[arg(long, env = "FAIRLEAD_ATTEMPT", default_value_t = 1)]
    pub(crate) attempt: u32,
}

/// Most bytes of a transfer from memory: 16 TiB, whose blocks take some 512 MiB to keep track of.
const MEMORY_BYTES: u64 = 1 << 44;
/// Bounds of a socket's buffer: below, no window is left; the kernel takes no more than an `int` of bytes, doubled.
pub(crate) const SOCKET_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

fn socket_buffer(text: &str) -> Result<u32, String> {
    match quantity::parse(text) {
        Ok(bytes) if SOCKET_BUFFER_BYTES.contains(&bytes) => Ok(bytes as u32),
        Ok(_) => {
            Err(format!("a socket's buffer has {} to {} bytes", SOCKET_BUFFER_BYTES.start(), SOCKET_BUFFER_BYTES.end()))
        }
        Err(why) => Err(why.to_string()),
    }
}

impl Cli {
    /// Refuses what each flag allows and all together do not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let place = match &self.command {
            Command::Receive(ReceiveArguments { destination: Destination::Directory(path), common, .. })
            | Command::Send(SendArguments { source: SourceArgument::Directory(path), common, .. }) => {
                common.place(path).map(drop)
            }
            Command::Clean(args) => args.place().map(drop),
            _ => Ok(()),
        };
        place.map_err(|fault| fault.message)?;
        match &self.command {
            Command::Receive(args) => args.common.check_interfaces(None)?,
            Command::Send(args) => args.common.check_interfaces(Some(args.connect.len()))?,
            _ => {}
        }
        match &self.command {
            Command::Receive(ReceiveArguments { common, .. }) | Command::Send(SendArguments { common, .. })
                if common.protocol != ProtocolArgument::Tcp && common.encryption == EncryptionArgument::None =>
            {
                let name = format!("{:?}", common.protocol).to_uppercase();
                return Err(format!(
                    "--protocol {name} encrypts in any case; use --encryption Required, or --protocol TCP"
                ));
            }
            _ => {}
        }
        match &self.command {
            Command::Receive(args) if args.destination == Destination::Null && args.verify == Verify::ReadBack => Err(
                "--verify ReadBack reads what was stored, and --destination null stores nothing; use --verify Checksum"
                    .into(),
            ),
            Command::Send(args)
                if matches!(args.source, SourceArgument::Zeros(_))
                    && !(args.include.is_empty() && args.exclude.is_empty()) =>
            {
                Err("--include and --exclude choose from a directory; --source zero:SIZE has nothing to choose from"
                    .into())
            }
            Command::Send(args)
                if args.connect.len() * usize::from(args.streams.max(args.streams_min)) > usize::from(STREAMS) =>
            {
                Err(format!(
                    "{} streams on each of {} paths are more than {STREAMS}; give --streams and --streams-min less",
                    args.streams.max(args.streams_min),
                    args.connect.len()
                ))
            }
            Command::Send(args) if !(args.streams_min..=args.streams_max).contains(&args.streams) => Err(format!(
                "--streams {} is not within --streams-min {} and --streams-max {}",
                args.streams, args.streams_min, args.streams_max
            )),
            _ => Ok(()),
        }
    }
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
    use super::{destination, listener, source, Cli, Destination, SourceArgument};
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_listener_may_have_an_address_of_ipv6_with_brackets_or_as_the_kubelet_writes_it() {
        for (text, meant) in [
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("[fd00::1]:24001", "[fd00::1]:24001"),
            ("fd00::1:24001", "[fd00::1]:24001"),
        ] {
            assert_eq!(listener(text), Ok(meant.parse().unwrap()));
        }
        for wrong in ["", "9000", "127.0.0.1", "here:9000", "[fd00::1:24001", "127.0.0.1:70000"] {
            assert!(listener(wrong).unwrap_err().contains("ADDRESS:PORT"), "{wrong}");
        }
    }

    #[test]
    fn memory_is_told_from_directories() {
        assert_eq!(source("zero:10G"), Ok(SourceArgument::Zeros(10_000_000_000)));
        for directory in ["zero", "./zero:10G", "/data"] {
            assert_eq!(source(directory), Ok(SourceArgument::Directory(directory.into())));
        }
        for wrong in ["zero:", "zero:0", "zero:ten", "zero:1000T"] {
            assert!(source(wrong).unwrap_err().contains("zero:SIZE"), "{wrong}");
        }
        assert_eq!(destination("null"), Ok(Destination::Null));
        assert_eq!(destination("./null"), Ok(Destination::Directory("./null".into())));
    }

    #[test]
    fn a_sender_must_be_told_where_the_receiver_is() {
        let words = ["fairlead-mover", "send", "--source", "zero:1G", "--tls-dir", "x"];
        let error = Cli::try_parse_from(words).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::MissingRequiredArgument, 2));
        assert!(error.to_string().contains("--connect"), "{error}");
    }

    #[test]
    fn combinations_that_make_no_sense_are_refused_with_the_flag() {
        let receive = ["receive", "--port", "0", "--tls-dir", "x", "--destination"];
        let send = ["send", "--connect", "127.0.0.1:1", "--tls-dir", "x", "--source"];
        let cases: [(&[&str], &[&str], Option<&str>); 23] = [
            (&send, &["zero:1G", "--protocol", "QUIC"], None),
            (&send, &["zero:1G", "--protocol", "QUIC", "--encryption", "None"], Some("--protocol QUIC")),
            (&send, &["zero:1G", "--protocol", "UDT", "--encryption", "None"], Some("--protocol UDT")),
            (&receive, &["null", "--protocol", "QUIC", "--encryption", "None"], Some("--protocol QUIC")),
            (&receive, &["null"], None),
            (&receive, &["null", "--verify", "ReadBack"], Some("--verify ReadBack")),
            (&receive, &["/data", "--verify", "ReadBack"], None),
            (&send, &["zero:1G"], None),
            (&send, &["zero:1G", "--include", "*"], Some("--include")),
            (&send, &["zero:1G", "--streams-min", "2", "--streams-max", "4"], None),
            (&send, &["zero:1G", "--streams-max", "3"], Some("--streams-max 3")),
            (&send, &["zero:1G", "--streams-min", "5"], Some("--streams-min 5")),
            (&receive, &["null", "--interface", "a,b"], None),
            (&receive, &["null", "--interface", "a,b", "--address", "127.0.0.1,127.0.0.2"], None),
            (&receive, &["null", "--interface", "a,b", "--address", "127.0.0.1"], Some("--address has 1")),
            (&receive, &["null", "--interface", "a,auto"], Some("--interface")),
            (&receive, &["null", "--interface", "a,b,c,d,e,f,g,h,i"], Some("9 paths")),
            (&send, &["zero:1G", "--interface", "a", "--address", "127.0.0.1"], None),
            (&send, &["zero:1G", "--interface", "a,b"], None),
            (&send, &["zero:1G", "--interface", "a"], Some("--interface has 1")),
            (&send, &["zero:1G", "--interface", "a,b,c"], Some("--interface has 3")),
            (&send, &["zero:1G", "--interface", "a,b", "--streams", "32"], None),
            (&send, &["zero:1G", "--interface", "a,b", "--streams", "33"], Some("33 streams on each of 2 paths")),
        ];
        for (command, more, refusal) in cases {
            let mut words = [&["fairlead-mover"], command, more].concat();
            // One path, unless the case is about two.
            let is_about_two = more.contains(&"--interface") && !more.contains(&"--address");
            if let Some(at) = words.iter().position(|word| *word == "127.0.0.1:1").filter(|_| is_about_two) {
                words[at] = "127.0.0.1:1,127.0.0.2:1";
            }
            let cli = Cli::try_parse_from(words).unwrap();
            match (cli.check(), refusal) {
                (Ok(()), None) => {}
                (Err(why), Some(flag)) => assert!(why.contains(flag), "{why}"),
                (result, _) => panic!("{more:?}: {result:?}"),
            }
        }
    }
}
