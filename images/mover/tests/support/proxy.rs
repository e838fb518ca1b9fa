//! Stands between two movers and does to their connections what a network or an attacker does.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fairlead_protocol::opening::OPENING_BYTES;

/// What becomes of the bytes from the sender to the receiver on the first data connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mischief {
    /// One bit of the byte at this offset is flipped.
    Flip(usize),
    /// The connection ends in order after so many bytes, in both directions.
    Cut(usize),
    /// These bytes come in at this offset.
    Insert(usize, &'static [u8]),
    /// Nothing.
    Watch,
}

/// One connection through the proxy.
pub(crate) struct Passage {
    /// What the connection is for, with its tag.
    pub(crate) opening: [u8; OPENING_BYTES],
    /// What the sender sent first behind it.
    pub(crate) said: Arc<Mutex<Vec<u8>>>,
    /// Towards the sender and towards the receiver.
    /// Nothing once the proxy has closed them.
    ends: Option<[TcpStream; 2]>,
}

impl Passage {
    /// Ends it with FIN in both directions.
    pub(crate) fn close(&self) {
        self.ends.iter().flatten().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    /// Ends it with RST in both directions.
    pub(crate) fn reset(&self) {
        let now = Some(std::time::Duration::ZERO);
        self.ends.iter().flatten().for_each(|end| socket2::SockRef::from(end).set_linger(now).unwrap());
        self.ends.iter().flatten().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    pub(crate) fn is_data(&self) -> bool {
        !self.opening.starts_with(b"FLMC")
    }
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) passages: Arc<Mutex<Vec<Passage>>>,
    over: Arc<AtomicBool>,
}

/// Bytes kept of what a sender sends first.
const KEPT: usize = 4096;

impl Proxy {
    pub(crate) fn start(receiver: u16, mischief: Mischief) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let passages: Arc<Mutex<Vec<Passage>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let (kept, stop, done) = (Arc::clone(&passages), Arc::clone(&over), Arc::new(AtomicBool::new(false)));
        std::thread::spawn(move || {
            for inward in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (kept, done) = (Arc::clone(&kept), Arc::clone(&done));
                std::thread::spawn(move || pass(inward, receiver, &kept, &done, mischief));
            }
        });
        Self { port, passages, over }
    }

    pub(crate) fn data_connections(&self) -> usize {
        self.passages.lock().unwrap().iter().filter(|passage| passage.is_data()).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pass(mut inward: TcpStream, receiver: u16, passages: &Mutex<Vec<Passage>>, done: &AtomicBool, mischief: Mischief) {
    let Ok(mut outward) = TcpStream::connect(("127.0.0.1", receiver)) else { return };
    let mut opening = [0; OPENING_BYTES];
    if inward.read_exact(&mut opening).is_err() || outward.write_all(&opening).is_err() {
        return;
    }
    let said = Arc::new(Mutex::new(Vec::new()));
    let ends = [inward.try_clone().unwrap(), outward.try_clone().unwrap()];
    let passage = Passage { opening, said: Arc::clone(&said), ends: Some(ends) };
    let chosen = passage.is_data() && !done.swap(passage.is_data() || done.load(Ordering::Acquire), Ordering::AcqRel);
    let number = {
        let mut passages = passages.lock().unwrap();
        passages.push(passage);
        passages.len() - 1
    };
    let (mut back_from, mut back_to) = (outward.try_clone().unwrap(), inward.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Write);
    });
    let mischief = if chosen { mischief } else { Mischief::Watch };
    if forward(&mut inward, &mut outward, &said, mischief).is_err() {
        // Nobody reads what the sender still has to say: with the last handle gone the kernel tells it so.
        let _ = inward.shutdown(Shutdown::Both);
        passages.lock().unwrap()[number].ends = None;
    }
    let _ = outward.shutdown(Shutdown::Write);
}

fn forward(from: &mut TcpStream, to: &mut TcpStream, said: &Mutex<Vec<u8>>, mischief: Mischief) -> std::io::Result<()> {
    let (mut buffer, mut at) = (vec![0; 64 << 10], 0);
    loop {
        let bytes = from.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let (piece, here) = (&mut buffer[..bytes], at..at + bytes);
        at += bytes;
        {
            let mut said = said.lock().unwrap();
            if said.len() < KEPT {
                said.extend_from_slice(piece);
            }
        }
        match mischief {
            Mischief::Flip(offset) if here.contains(&offset) => piece[offset - here.start] ^= 0x10,
            Mischief::Cut(offset) if here.contains(&offset) => {
                to.write_all(&piece[..offset - here.start])?;
                to.shutdown(Shutdown::Both)?;
                return from.shutdown(Shutdown::Both);
            }
            Mischief::Insert(offset, strange) if here.contains(&offset) => {
                to.write_all(&piece[..offset - here.start])?;
                to.write_all(strange)?;
                to.write_all(&piece[offset - here.start..])?;
                continue;
            }
            _ => {}
        }
        to.write_all(piece)?;
    }
}
