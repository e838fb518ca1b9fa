//! The HTTP port and the control socket beside idle, slow and endless clients: others are answered, and the transfer goes on.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use support::{control, get, http, noise, Bench, Mover, PATIENCE};

/// A transfer that crawls until its cap is lifted: sender, receiver, address of the receiver's pages.
fn crawling(bench: &Bench, sender: &[&str]) -> (Mover, Mover, String) {
    bench.write("file", &noise(16 << 20, 1));
    let (receiver, port, address) = bench.receiver_with_http();
    let (_, file) = bench.cap("1M");
    let mut sender = bench.sender(port, &[sender, &["--bandwidth-file", &file]].concat());
    sender.await_progress(|progress| progress["bandwidth"]["measured_bps"].as_u64() > Some(100_000));
    (sender, receiver, address)
}

fn finish(bench: &Bench, sender: Mover, receiver: Mover) {
    bench.cap("");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
}

fn descriptors(mover: &Mover) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", mover.id())).unwrap().count()
}

/// Reads until the server has ended the connection.
fn await_end(connection: &mut (impl Read + ?Sized)) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    answer
}

#[test]
fn idle_connections_take_few_descriptors_and_leave_others_their_answers() {
    let bench = Bench::new();
    let (sender, receiver, address) = crawling(&bench, &[]);
    let before = descriptors(&receiver);
    let idle: Vec<TcpStream> = (0..800).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..20 {
        assert_eq!(get(&address, "/v1/progress").0, 200);
    }
    assert!(descriptors(&receiver) <= before + 70, "{} and {before} before", descriptors(&receiver));
    drop(idle);
    finish(&bench, sender, receiver);
}

/// One question over a connection that stays open.
fn ask(served: &mut TcpStream) -> std::io::Result<()> {
    served.write_all(b"GET /healthz HTTP/1.1\r\nHost: mover\r\n\r\n")?;
    let mut answer = [0; 15];
    served.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n\r\nok") {
        let mut byte = [0];
        served.read_exact(&mut byte)?;
        rest.push(byte[0]);
    }
    Ok(())
}

/// Asks over one connection while others come. False where it ended after nearly five seconds without a question, and rightly.
fn is_served_beside_others(address: &str) -> bool {
    let mut asked = Instant::now();
    let mut served = TcpStream::connect(address).unwrap();
    let mut is_answered = || {
        let before = std::mem::replace(&mut asked, Instant::now());
        let answer = ask(&mut served);
        assert!(answer.is_ok() || before.elapsed() >= Duration::from_secs(4), "{answer:?}");
        answer.is_ok()
    };
    let mut idle = Vec::new();
    for _ in 0..30 {
        if !is_answered() {
            return false;
        }
        idle.extend((0..10).map(|_| TcpStream::connect(address).unwrap()));
    }
    assert_eq!(get(address, "/healthz").0, 200, "all before it were taken in");
    is_answered()
}

#[test]
fn a_connection_that_is_served_is_left_alone_by_those_that_come() {
    let bench = Bench::new();
    let (sender, receiver, address) = crawling(&bench, &[]);
    // One that asks too seldom, as where this process stands still, tells nothing.
    assert!((0..4).any(|_| is_served_beside_others(&address)), "no connection was asked often enough");
    finish(&bench, sender, receiver);
}

#[test]
fn a_slow_header_a_huge_one_and_an_endless_body_end_their_connection() {
    let bench = Bench::new();
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (sender, receiver, address) = crawling(&bench, &["--control-socket", &path]);
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    // A byte now and then must not keep it open.
    while slow.write_all(b"x").is_ok() {
        match slow.read(&mut [0; 64]) {
            Ok(_) => break,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        assert!(Instant::now() < deadline, "a header may take for ever");
    }
    let mut huge = TcpStream::connect(&address).unwrap();
    huge.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    while huge.write_all(&b"X-Fill: 0123456789\r\n".repeat(100)).is_ok() {
        assert!(Instant::now() < deadline, "a header may have any size");
    }
    let head = |length: &str| {
        format!("PATCH /v1/transport HTTP/1.1\r\nHost: mover\r\nContent-Type: application/json\r\n{length}\r\n\r\n")
    };
    let ask = |head: String, body: &[u8]| {
        let mut connection: UnixStream = control(&socket);
        connection.write_all(head.as_bytes()).unwrap();
        let _ = connection.write_all(body);
        String::from_utf8_lossy(&await_end(&mut connection)).into_owned()
    };
    let unfinished = ask(head("Content-Length: 100"), b"{\"streams\":");
    assert!(unfinished.starts_with("HTTP/1.1 408"), "{unfinished}");
    let large = ask(head("Content-Length: 5000\r\nConnection: close"), &[b' '; 5000]);
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
    assert_eq!(http(control(&socket), "PATCH", "/v1/transport", r#"{"streams":2}"#).0, 200);
    finish(&bench, sender, receiver);
}
