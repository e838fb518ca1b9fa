//! Strangers at the receiver's port, many and from many addresses: the sender comes in beside them, and its transfer runs.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::opening::{Opening, OPENING_BYTES};
use support::{inventory, noise, Bench, PATIENCE};

/// Connects to a port of the loopback from one of its addresses.
fn connect_from(source: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(source.into(), 0).into())?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket.into())
}

/// Threads that connect without end, from 250 addresses, and keep their last connections open.
struct Flood {
    over: Arc<AtomicBool>,
    connected: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(port: u16, opening: &'static [u8], pause: Duration) -> Self {
        let (over, connected) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = |lane: u8| {
            let (over, connected) = (Arc::clone(&over), Arc::clone(&connected));
            std::thread::spawn(move || {
                let mut kept = std::collections::VecDeque::new();
                for number in (0u8..250).cycle() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let Ok(mut stranger) = connect_from(Ipv4Addr::new(127, 1, lane, number + 1), port) else {
                        continue;
                    };
                    let _ = stranger.write_all(opening);
                    kept.push_back(stranger);
                    if kept.len() > 300 {
                        kept.pop_front();
                    }
                    connected.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(pause);
                }
            })
        };
        let threads = (0..2).map(thread).collect();
        Self { over, connected, threads }
    }

    fn await_connections(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.connected.load(Ordering::Relaxed) < count {
            assert!(Instant::now() < deadline, "the receiver takes no connections any more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn a_flood_of_strangers_that_say_nothing_or_nonsense_keeps_nobody_out() {
    for opening in [&b""[..], b"FLMC", b"FLMC-and-thirty-two-bytes-of-nonsense-here"] {
        let bench = Bench::new();
        bench.write("file", &noise(8 << 20, 1));
        let (receiver, port) = bench.receiver(&[]);
        let flood = Flood::start(port, opening, Duration::from_micros(500));
        // Many times what the receiver holds at once.
        flood.await_connections(3000);
        let sender = bench.sender(port, &["--streams", "16"]).end();
        assert_eq!(sender.reason(), "Verified", "{sender:?}");
        assert_eq!(receiver.end().reason(), "Verified");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
    }
}

#[test]
fn idle_connections_from_one_address_leave_the_receiver_its_descriptors_and_the_sender_its_place() {
    let bench = Bench::new();
    bench.write("file", &noise(4 << 20, 2));
    let (receiver, port) = bench.receiver(&[]);
    let mut idle = Vec::new();
    for _ in 0..900 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", receiver.id())).unwrap().count();
    let deadline = Instant::now() + PATIENCE;
    while descriptors() > 160 {
        assert!(Instant::now() < deadline, "{} descriptors", descriptors());
        std::thread::sleep(Duration::from_millis(10));
    }
    let sender = bench.sender(port, &[]).end();
    assert_eq!((sender.reason(), receiver.end().reason()), ("Verified", "Verified"), "{sender:?}");
}

#[test]
fn a_recorded_opening_opens_nothing_and_holders_of_other_credentials_are_told() {
    let bench = Bench::new();
    bench.make_credentials("others");
    let (receiver, port) = bench.receiver(&[]);
    let opening = bench.opening_key().seal(Opening::Control, [7; 16]);
    let ask = |bytes: &[u8]| {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.write_all(bytes).unwrap();
        let _ = connection.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        answer
    };
    assert_eq!(ask(&opening), [0u8; 0], "the handshake that follows is cut, without an answer");
    assert_eq!(ask(&opening), [0u8; 0]);
    let mut foreign = opening;
    foreign[OPENING_BYTES - 1] ^= 1;
    assert_eq!(ask(&foreign), [21, 3, 3, 0, 2, 2, 48], "the alert unknown_ca");
    assert_eq!(ask(b"GET / HTTP/1.1\r\nHost: receiver.example\r\n\r\n"), [0u8; 0]);
    let stranger = bench.sender_with(port, "others/sender", &["--source", "zero:1M"]).end();
    assert_eq!((stranger.code(), stranger.reason()), (Some(1), "PeerRejected"), "{stranger:?}");
    receiver.signal("TERM");
    receiver.end();
}
