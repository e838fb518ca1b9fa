//! Streams to and from Debian's libudt (`libudt-dev`): whoever connects, whoever sends, under every policy of ours, with and without
//! loss. The peer is compiled here.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/support/skip.rs"]
mod skip;

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fairlead_udt::{Config, Connection, Connector, Ended, Listener, ListenerAnswer, RatePolicy};
use skip::skip;

const BYTES: usize = 4 << 20;
/// Of packets one is lost, where any are.
const LOSSES: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(120);
const PACKET_BYTES: u32 = 1500;
const ROOM: u32 = 8192;
const OWN_ID: u32 = 77;

/// The program, compiled once; nothing where libudt is not installed.
fn peer() -> Option<&'static Path> {
    static PEER: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let made = PEER.get_or_init(|| {
        if !["/usr/include/udt/udt.h", "/usr/include/udt/udt"].iter().any(|header| Path::new(header).exists()) {
            skip("libudt is not installed here (apt-get install libudt-dev)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("peer");
        let source = Path::new("tests/libudt/peer.cpp");
        let mut compiler = Command::new("g++");
        compiler.args(["-O1", "-I/usr/include/udt", "-o"]).arg(&program).arg(source).args(["-ludt", "-lpthread"]);
        match compiler.status() {
            Ok(status) => assert!(status.success(), "the peer does not compile"),
            Err(error) => {
                skip(&format!("there is no g++ here to compile the peer over libudt ({error})"));
                return None;
            }
        }
        Some((folder, program))
    });
    made.as_ref().map(|(_, program)| &**program)
}

/// The peer's process; ended when dropped.
struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(program: &Path, role: &str, port: u16, way: &str) -> Self {
        let arguments = [role, &port.to_string(), way, &BYTES.to_string()].map(str::to_owned);
        let mut process = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A socket that loses one packet of `every`, both ways, once data flow.
struct Lossy {
    socket: UdpSocket,
    every: Option<u64>,
    seen: u64,
}

impl Lossy {
    fn drops(&mut self, bytes: &[u8]) -> bool {
        // Handshakes get through, and shutdowns, which libudt sends once.
        if matches!(bytes, [0x80, 0 | 5, ..]) {
            return false;
        }
        self.seen += 1;
        self.every.is_some_and(|every| self.seen % every == 0)
    }

    fn send(&mut self, bytes: &[u8], to: SocketAddr) {
        if !self.drops(bytes) {
            // A full buffer is one more loss.
            let _ = self.socket.send_to(bytes, to);
        }
    }

    /// Nothing if none comes in time.
    fn receive(&mut self, buffer: &mut [u8], within: Duration) -> Option<(usize, SocketAddr)> {
        self.socket.set_read_timeout(Some(within.max(Duration::from_micros(50)))).unwrap();
        match self.socket.recv_from(buffer) {
            Ok((length, from)) => (!self.drops(&buffer[..length])).then_some((length, from)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) =>
            {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A connection with its socket.
struct End {
    lossy: Lossy,
    peer: SocketAddr,
    connection: Connection,
    began: Instant,
}

/// One that waits for libudt as long as the test does: either process may stand still.
fn config(policy: RatePolicy) -> Config {
    Config { policy, receive_packets: ROOM as usize, idle_timeout: PATIENCE, ..Config::default() }
}

impl End {
    fn connect(mut lossy: Lossy, peer: SocketAddr, policy: RatePolicy) -> Self {
        let began = Instant::now();
        let mut connector = Connector::new(OWN_ID, 0x7fff_fff0, PACKET_BYTES, ROOM, peer.ip());
        let mut buffer = [0; 2048];
        loop {
            assert!(began.elapsed() < PATIENCE, "no connection");
            let mut bytes = Vec::new();
            if connector.poll_transmit(began.elapsed(), &mut bytes) {
                lossy.send(&bytes, peer);
            }
            let Some((length, _)) = lossy.receive(&mut buffer, Duration::from_millis(50)) else { continue };
            if let Some(agreed) = connector.handle(&buffer[..length]).unwrap() {
                let connection = Connection::new(config(policy), &agreed, began.elapsed());
                return Self { lossy, peer, connection, began };
            }
        }
    }

    fn accept(mut lossy: Lossy, policy: RatePolicy) -> Self {
        let (began, mut listener) = (Instant::now(), Listener::new(99, PACKET_BYTES, ROOM));
        let mut buffer = [0; 2048];
        loop {
            assert!(began.elapsed() < PATIENCE, "no connection");
            let Some((length, peer)) = lossy.receive(&mut buffer, Duration::from_millis(50)) else { continue };
            match listener.handle(began.elapsed(), peer, &buffer[..length], OWN_ID) {
                Some(ListenerAnswer::Send(bytes)) => lossy.send(&bytes, peer),
                Some(ListenerAnswer::Accept(agreed, bytes)) => {
                    lossy.send(&bytes, peer);
                    let connection = Connection::new(config(policy), &agreed, began.elapsed());
                    return Self { lossy, peer, connection, began };
                }
                None => {}
            }
        }
    }

    /// Sends what is due and takes in what comes until the next thing is due.
    fn step(&mut self) {
        assert!(self.began.elapsed() < PATIENCE, "{:?}", self.connection.stats(self.began.elapsed()));
        let mut bytes = Vec::new();
        while self.connection.poll_transmit(self.began.elapsed(), &mut bytes) {
            self.lossy.send(&bytes, self.peer);
            bytes.clear();
        }
        let due = self.connection.timeout().unwrap_or_default();
        let within = due.saturating_sub(self.began.elapsed()).min(Duration::from_millis(5));
        let mut buffer = [0; 2048];
        if let Some((length, _)) = self.lossy.receive(&mut buffer, within) {
            self.connection.handle(self.began.elapsed(), &buffer[..length]);
        }
    }
}

fn pattern() -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(BYTES).collect()
}

fn hash(bytes: &[u8]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211);
    format!("{:016x}", bytes.iter().fold(14_695_981_039_346_656_037, fold))
}

/// A stream to libudt under a policy of ours, or one from libudt.
fn carry(ours: Option<RatePolicy>, connects: bool, every: Option<u64>) {
    let Some(program) = peer() else { return };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let lossy = Lossy { socket, every, seen: 0 };
    let (way, policy) = (if ours.is_some() { "receive" } else { "send" }, ours.unwrap_or(RatePolicy::Udt));
    let (mut peer, mut end) = if connects {
        let mut peer = Peer::start(program, "listen", 0, way);
        let port: u16 = peer.line().parse().unwrap();
        (peer, End::connect(lossy, (Ipv4Addr::LOCALHOST, port).into(), policy))
    } else {
        let peer = Peer::start(program, "connect", port, way);
        (peer, End::accept(lossy, policy))
    };
    let bytes = pattern();
    if ours.is_some() {
        let mut written = 0;
        while written < bytes.len() || !end.connection.is_flushed() {
            written += end.connection.write(&bytes[written..]);
            match end.connection.ended() {
                None => end.step(),
                // libudt hands the last bytes on before it acknowledges them, and may have closed before it does.
                Some(Ended::There) if written == bytes.len() => break,
                why => panic!("{written} bytes were written: {why:?}"),
            }
        }
        assert_eq!(peer.line(), hash(&bytes));
        end.connection.close();
        end.step();
    } else {
        let mut read = Vec::new();
        while read.len() < bytes.len() {
            assert!(matches!(end.connection.ended(), None | Some(Ended::There)), "{:?}", end.connection.ended());
            end.step();
            while let Some(piece) = end.connection.read() {
                read.extend(piece);
            }
        }
        assert!(read == bytes, "the bytes are others");
        // libudt waits for the acknowledgement.
        while end.connection.ended().is_none() {
            end.step();
        }
        assert_eq!(end.connection.ended(), Some(Ended::There));
    }
}

/// The cases of each sender: a policy of ours, or libudt, which has a rate of its own.
macro_rules! matrix {
    ($($sender:ident: $ours:expr;)*) => {
        // Every policy is a sender.
        const _: () = assert!([$($ours),*].len() == RatePolicy::ALL.len() + 1);
        $( mod $sender {
            use super::{carry, RatePolicy, LOSSES};
            const OURS: Option<RatePolicy> = $ours;

            #[test]
            fn arrives_where_libudt_listens() {
                carry(OURS, true, None);
            }

            #[test]
            fn arrives_where_libudt_connects() {
                carry(OURS, false, None);
            }

            #[test]
            fn arrives_with_losses_where_libudt_listens() {
                carry(OURS, true, Some(LOSSES));
            }

            #[test]
            fn arrives_with_losses_where_libudt_connects() {
                carry(OURS, false, Some(LOSSES));
            }
        } )*
    };
}

matrix! {
    libudt: None;
    udt: Some(RatePolicy::Udt);
    fixed: Some(RatePolicy::Fixed);
    reported: Some(RatePolicy::Reported);
    blast: Some(RatePolicy::Blast);
}
