//! Runs the real binary in folders of its own over the loopback.
// Each test file uses its part of this, and a failed expectation is a panic here.
#![allow(dead_code, clippy::unwrap_used)]

mod mounts;
pub(crate) mod namespaces;
pub(crate) mod pages;
pub(crate) mod proxy;
mod skip;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fairlead_protocol::opening::OpeningKey;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
pub(crate) use skip::skip;

const BINARY: &str = env!("CARGO_BIN_EXE_fairlead-mover");
/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// How often a case is tried at most that says nothing where a process stands still.
const TRIES: usize = 3;

/// A folder with credentials, a source and a destination.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    /// Where the ends run; both on the loopback without.
    pub(crate) namespaces: Option<namespaces::Namespaces>,
    /// Whether the ends may do what movers in pods may, and no more: files' modes hold for them.
    pub(crate) unprivileged: bool,
}

/// One end of a transfer.
pub(crate) struct Mover {
    child: Child,
    events: BufReader<std::process::ChildStdout>,
    log: PathBuf,
    said: std::fs::File,
}

/// How an end ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) verdict: Value,
    /// What it said on standard error.
    pub(crate) said: String,
}

impl End {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn reason(&self) -> &str {
        self.verdict["reason"].as_str().unwrap_or("")
    }

    pub(crate) fn message(&self) -> &str {
        self.verdict["message"].as_str().unwrap_or("")
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap(), namespaces: None, unprivileged: false };
        bench.make_credentials("tls");
        std::fs::create_dir(bench.source()).unwrap();
        bench
    }

    pub(crate) fn make_credentials(&self, name: &str) {
        self.make_credentials_of(name, 1);
    }

    fn make_credentials_of(&self, name: &str, attempt: u32) {
        let mut command = Command::new(BINARY);
        let command = command.arg("credentials").arg(self.path(name)).args(["--attempt", &attempt.to_string()]);
        assert!(command.status().unwrap().success());
    }

    /// Credentials of the first attempt that hold from so many hours from now on, for `hours`.
    pub(crate) fn make_dated_credentials(&self, name: &str, from_hours: i64, hours: i64) {
        let begin = time::OffsetDateTime::now_utc() + time::Duration::hours(from_hours);
        let params = || {
            let mut params = CertificateParams::default();
            (params.not_before, params.not_after) = (begin, begin + time::Duration::hours(hours));
            params
        };
        let mut authority = params();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority_key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(authority, authority_key);
        for role in ["sender", "receiver"] {
            let mut end = params();
            end.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let uri = format!("fairlead://job/local/1/{role}");
            end.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
            let key = KeyPair::generate().unwrap();
            let certificate = end.signed_by(&key, &issuer).unwrap().pem();
            let folder = self.path(name).join(role);
            std::fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("ca.crt", &root), ("tls.crt", &certificate), ("tls.key", &key.serialize_pem())] {
                std::fs::write(folder.join(file), text).unwrap();
            }
        }
    }

    /// Folder of an attempt's credentials, made when it is first asked for.
    fn credentials(&self, attempt: u32) -> String {
        let name = if attempt == 1 { "tls".to_owned() } else { format!("tls-{attempt}") };
        if !self.path(&name).exists() {
            self.make_credentials_of(&name, attempt);
        }
        name
    }

    /// The key of connections to the receiver of the first attempt.
    pub(crate) fn opening_key(&self) -> OpeningKey {
        let authority = CertificateDer::from_pem_file(self.path("tls/sender/ca.crt")).unwrap();
        OpeningKey::new(&authority)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.path("source")
    }

    pub(crate) fn destination(&self) -> PathBuf {
        self.path("destination")
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let path = self.source().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Puts a file of the source where the transfer is to put it, with its modification time.
    pub(crate) fn copy_to_destination(&self, name: &str) {
        let (from, to) = (self.source().join(name), self.destination().join(name));
        std::fs::copy(&from, &to).unwrap();
        let modified = from.metadata().unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(to).unwrap().set_modified(modified).unwrap();
    }

    pub(crate) fn receiver(&self, extra: &[&str]) -> (Mover, u16) {
        self.receiver_of(1, extra, &[]).unwrap()
    }

    /// A receiver with its pages: its data port, and the address of the pages.
    pub(crate) fn receiver_with_http(&self) -> (Mover, u16, String) {
        self.served_receiver(1, &[], &[])
    }

    /// As `receiver_with_http`, of an attempt, with these variables in its environment.
    pub(crate) fn served_receiver(&self, attempt: u32, extra: &[&str], env: &[(&str, &str)]) -> (Mover, u16, String) {
        let credentials = format!("{}/receiver", self.credentials(attempt));
        let mut arguments = self.destination_arguments();
        arguments.extend(["--http", "127.0.0.1:0"].map(str::to_owned));
        let mut mover = self.start("receive", "receiver", &credentials, &arguments, extra, env);
        let address = mover.await_event("http")["address"].as_str().unwrap().to_owned();
        let port = mover.await_event("listening")["port"].as_u64().unwrap() as u16;
        (mover, port, address)
    }

    /// The receiver of an attempt with these variables in its environment, or how it ended before it listened.
    pub(crate) fn receiver_of(&self, attempt: u32, extra: &[&str], env: &[(&str, &str)]) -> Result<(Mover, u16), End> {
        let credentials = format!("{}/receiver", self.credentials(attempt));
        let mut arguments = self.destination_arguments();
        if extra.contains(&"--destination") {
            arguments.drain(..2);
        }
        let mut mover = self.start("receive", "receiver", &credentials, &arguments, extra, env);
        match mover.next_event("listening") {
            Some(endpoint) => Ok((mover, endpoint["port"].as_u64().unwrap() as u16)),
            None => Err(mover.end()),
        }
    }

    pub(crate) fn sender_of(&self, attempt: u32, port: u16, extra: &[&str]) -> Mover {
        self.sender_with(port, &format!("{}/sender", self.credentials(attempt)), extra)
    }

    /// Runs both ends of an attempt to their ends: receiver, sender.
    pub(crate) fn attempt(&self, attempt: u32, receiver: &[&str], sender: &[&str]) -> (End, End) {
        let (receiver, port) = self.receiver_of(attempt, receiver, &[]).unwrap();
        let sender = self.sender_of(attempt, port, sender).end();
        (receiver.end(), sender)
    }

    fn destination_arguments(&self) -> Vec<String> {
        let destination = self.destination().display().to_string();
        let mut arguments = ["--destination", &destination, "--port", "0"].map(str::to_owned).to_vec();
        arguments.extend(match self.wires() {
            Some(wires) => ["--interface".to_owned(), wires],
            None => ["--address".to_owned(), self.address().to_owned()],
        });
        arguments
    }

    /// The interfaces of both ends where there is more than one.
    fn wires(&self) -> Option<String> {
        let wires = self.namespaces.as_ref().map_or(1, |namespaces| namespaces.wires);
        (wires > 1).then(|| (0..wires).map(|wire| format!("wire{wire}")).collect::<Vec<_>>().join(","))
    }

    fn peers(&self, port: u16) -> String {
        let Some(namespaces) = self.namespaces.as_ref().filter(|namespaces| namespaces.wires > 1) else {
            return format!("{}:{port}", self.address());
        };
        let peers = (0..namespaces.wires).map(|wire| format!("{}:{port}", namespaces::address(wire)));
        peers.collect::<Vec<_>>().join(",")
    }

    fn address(&self) -> &'static str {
        if self.namespaces.is_some() {
            namespaces::ADDRESS
        } else {
            "127.0.0.1"
        }
    }

    pub(crate) fn sender(&self, port: u16, extra: &[&str]) -> Mover {
        self.sender_with(port, "tls/sender", extra)
    }

    pub(crate) fn sender_with(&self, port: u16, credentials: &str, extra: &[&str]) -> Mover {
        self.start_sender(port, credentials, extra, &[])
    }

    /// The sender of an attempt with these variables in its environment.
    pub(crate) fn sender_under(&self, attempt: u32, port: u16, extra: &[&str], env: &[(&str, &str)]) -> Mover {
        self.start_sender(port, &format!("{}/sender", self.credentials(attempt)), extra, env)
    }

    fn start_sender(&self, port: u16, credentials: &str, extra: &[&str], env: &[(&str, &str)]) -> Mover {
        let (source, peer) = (self.source().display().to_string(), self.peers(port));
        // The kernel's default is allowed to everybody; others may not be.
        let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        let mut arguments = vec!["--connect".to_owned(), peer];
        arguments.extend(self.wires().into_iter().flat_map(|wires| ["--interface".to_owned(), wires]));
        if !extra.contains(&"--source") {
            arguments.extend(["--source".to_owned(), source]);
        }
        let has_own = ["QUIC", "UDT"].iter().any(|protocol| extra.contains(protocol));
        if !has_own && !extra.contains(&"--congestion-control") {
            let control = default.trim();
            arguments.extend(["--congestion-control".to_owned(), control.to_owned()]);
        }
        self.start("send", "sender", credentials, &arguments, extra, env)
    }

    /// How a command with exactly these arguments ended that needs no other end.
    pub(crate) fn end_of(&self, arguments: &[&str], credentials: &str) -> End {
        let rest: Vec<String> = arguments[1..].iter().map(|word| (*word).to_owned()).collect();
        self.start(arguments[0], "alone", credentials, &rest, &[], &[]).end()
    }

    fn start(
        &self,
        command: &str,
        role: &str,
        credentials: &str,
        arguments: &[String],
        extra: &[&str],
        env: &[(&str, &str)],
    ) -> Mover {
        let log = self.path(&format!("{role}.json"));
        let _ = std::fs::remove_file(&log);
        let mut words = Vec::new();
        if let Some(namespaces) = &self.namespaces {
            let name = if command == "receive" { &namespaces.receiver } else { &namespaces.sender };
            words.extend(["ip", "netns", "exec", name]);
        }
        if self.unprivileged {
            words.extend(["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]);
        }
        words.push(BINARY);
        // A file of its own: one of this role that began before may write to the file that was there.
        let _ = std::fs::remove_file(self.said(role));
        let said = std::fs::File::create_new(self.said(role)).unwrap();
        let mut program = Command::new(words[0]);
        let mut child = program
            .args(&words[1..])
            .arg(command)
            .args(arguments)
            .args(if extra.contains(&"--peer-timeout") { &[][..] } else { &["--peer-timeout", "120"] })
            .args(["--json", "--tls-dir"])
            .arg(self.path(credentials))
            .arg("--termination-log")
            .arg(&log)
            .args(extra)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Mover { child, events, log, said: std::fs::File::open(self.said(role)).unwrap() }
    }

    /// Runs both ends to their ends: receiver, sender.
    pub(crate) fn transfer(&self, receiver: &[&str], sender: &[&str]) -> (End, End) {
        let (receiver, port) = self.receiver(receiver);
        let sender = self.sender(port, sender).end();
        (receiver.end(), sender)
    }

    /// What the end that began last in a role has said on standard error.
    pub(crate) fn said(&self, role: &str) -> PathBuf {
        self.path(&format!("{role}.stderr"))
    }

    /// Whether either end has called the other silent.
    fn has_silence(&self) -> bool {
        let calls_silent =
            |role| std::fs::read_to_string(self.said(role)).is_ok_and(|said| said.contains("peer silent"));
        ["sender", "receiver"].into_iter().any(calls_silent)
    }

    /// Waits until that end has said this.
    pub(crate) fn await_said(&self, role: &str, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(self.said(role)).unwrap().contains(words) {
            assert!(Instant::now() < deadline, "the {role} does not say: {words}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A file with a cap, and its path as an argument. Until another one is set, or none, the transfer is held back, however busy the
    /// machine is.
    pub(crate) fn cap(&self, cap: &str) -> (PathBuf, String) {
        let file = self.path("cap");
        set_cap(&file, cap);
        let argument = file.display().to_string();
        (file, argument)
    }

    pub(crate) fn partial(&self) -> PathBuf {
        self.destination().join(".fairlead-local")
    }
}

impl Mover {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Reads events until one of that kind.
    pub(crate) fn await_event(&mut self, kind: &str) -> Value {
        let event = self.next_event(kind);
        event.unwrap_or_else(|| panic!("the mover ended before {kind}: {:?}", std::fs::read_to_string(&self.log)))
    }

    /// The next event of that kind, or nothing when the mover ends before.
    pub(crate) fn next_event(&mut self, kind: &str) -> Option<Value> {
        let mut line = String::new();
        while self.events.read_line(&mut line).unwrap() > 0 {
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == kind {
                return Some(event["data"].clone());
            }
            line.clear();
        }
        None
    }

    /// Reads progress events until one satisfies the condition.
    pub(crate) fn await_progress(&mut self, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let progress = self.await_event("progress");
            if condition(&progress) {
                return progress;
            }
        }
    }

    pub(crate) fn end(mut self) -> End {
        let mut child = self.child;
        let reader = std::thread::spawn(move || std::io::copy(&mut self.events, &mut std::io::sink()));
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("a mover hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        reader.join().unwrap().unwrap();
        let verdict = std::fs::read(&self.log).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let said = std::io::read_to_string(self.said).unwrap();
        End { status, verdict: verdict.unwrap_or(Value::Null), said }
    }
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> ExitStatus {
    Command::new(BINARY).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}

/// Runs a command to its end; its exit code and what it printed.
pub(crate) fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(BINARY).args(arguments).stderr(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// One HTTP request; status and body.
pub(crate) fn http(mut stream: impl Read + Write, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: mover\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    http(TcpStream::connect(address).unwrap(), "GET", path, "")
}

/// Waits until there is something at a path.
pub(crate) fn await_path(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connects to a control socket as soon as it is there.
pub(crate) fn control(path: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether any data have arrived, by an event of progress.
pub(crate) fn moved(progress: &Value) -> bool {
    progress["bytes_transferred"].as_u64().unwrap_or(0) > 0
}

/// Carries out a case, each time on a bench of its own, and tries again where it fails and an end calls the other silent: an end that gets
/// no processor for as long as the other waits is rightly called so. Any other failure is the test's, and so is the last.
pub(crate) fn unless_starved<T>(case: impl Fn(&Bench) -> T) -> T {
    for _ in 1..TRIES {
        let bench = Bench::new();
        match catch_unwind(AssertUnwindSafe(|| case(&bench))) {
            Ok(done) => return done,
            Err(panic) if !bench.has_silence() => resume_unwind(panic),
            Err(_) => {}
        }
    }
    case(&Bench::new())
}

/// Stops the first of two ends with a signal, and awaits both. An end has a second to tell the other why; one that gets no processor for
/// as long ends without a word, and then that is tried again.
pub(crate) fn stop_one(begin: impl Fn(&Bench) -> (Mover, Mover)) -> (Bench, End, End) {
    let attempt = || {
        let bench = Bench::new();
        let (stopped, other) = begin(&bench);
        let signalled = Instant::now();
        stopped.signal("TERM");
        let stopped = stopped.end();
        let is_late = signalled.elapsed() >= Duration::from_secs(1);
        let other = other.end();
        let is_wordless = is_late && other.reason() == "PeerLost";
        (bench, stopped, other, is_wordless)
    };
    let told = (1..TRIES).map(|_| attempt()).find(|(.., is_wordless)| !is_wordless);
    let (bench, stopped, other, _) = told.unwrap_or_else(attempt);
    (bench, stopped, other)
}

/// How a sender ends whose receiver freezes once data have moved.
pub(crate) fn end_beside_frozen(mut sender: Mover, receiver: Mover) -> End {
    sender.await_progress(moved);
    receiver.signal("STOP");
    let sender = sender.end();
    receiver.signal("CONT");
    receiver.end();
    sender
}

/// Every name below a folder with kind, mode, time and content, for comparison.
pub(crate) fn inventory(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = if meta.is_dir() {
                open.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("{:?}", std::fs::read_link(&path).unwrap())
            } else {
                blake3::hash(&std::fs::read(&path).unwrap()).to_string()
            };
            let name = path.strip_prefix(folder).unwrap().to_owned();
            found.push(format!("{name:?} {:o} {}.{} {content}", meta.mode(), meta.mtime(), meta.mtime_nsec()));
        }
    }
    found.sort();
    found
}

/// Bytes that no compression or chance makes equal to others.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Writes a file of caps at once, as the kubelet does it: one that is only begun says that there is no cap.
pub(crate) fn set_cap(file: &Path, caps: &str) {
    let next = file.with_extension("next");
    std::fs::write(&next, caps).unwrap();
    std::fs::rename(next, file).unwrap();
}
