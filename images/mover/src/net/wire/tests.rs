//! Both kinds of streams between a real dialler and a real acceptor over the loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlead_protocol::message::Encryption;
use fairlead_protocol::pack::{Header, Segment};
use rustix::event::{poll, PollFd, PollFlags};
use time::OffsetDateTime;

use super::{Inlet, Outlet, Payload, Records, WireError, CHUNK_BYTES};
use crate::net::accept::{listen, Acceptor, Reception, ServerStream, Terms};
use crate::net::dial::{Admission, Dialer, Greeted};
use crate::net::identity::{Identity, Role};
use crate::net::tcp::{Binding, Metered};
use crate::report::progress::Progress;

const MODES: [Encryption; 2] = [Encryption::Required, Encryption::None];
/// A record of them is as long as no record of the handshake.
const DATA: &[u8; 7] = b"at once";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Desk(Mutex<Sender<(Box<dyn Inlet>, u16)>>, Mutex<Sender<ServerStream>>);

impl Reception for Desk {
    fn control(&self, stream: ServerStream, _: SocketAddr, _: bool) {
        let _ = self.1.lock().unwrap().send(stream);
    }

    fn data(&self, inlet: Box<dyn Inlet>, number: u16) {
        let _ = self.0.lock().unwrap().send((inlet, number));
    }
}

/// Two ends that have greeted each other.
struct Ends {
    dialer: Dialer,
    admission: Admission,
    inlets: Receiver<(Box<dyn Inlet>, u16)>,
    stop: Arc<AtomicBool>,
    _control: (crate::net::dial::ClientStream, ServerStream),
}

impl Ends {
    fn new(encryption: Encryption) -> Self {
        let folder = tempfile::tempdir().unwrap();
        crate::credentials::make(folder.path(), "job", 1, OffsetDateTime::now_utc()).unwrap();
        let identity =
            |role: Role| Arc::new(Identity::load(&folder.path().join(role.name()), role, None, None).unwrap());
        let listener = listen(IpAddr::V4(Ipv4Addr::LOCALHOST), 0, None).unwrap();
        let peer = listener.local_addr().unwrap();
        let ((data, inlets), (control, controls), stop) = (channel(), channel(), Arc::new(AtomicBool::new(false)));
        let acceptor = Acceptor {
            listener,
            echo_port: 1,
            identity: identity(Role::Receiver),
            terms: Arc::new(Terms::new(encryption, false).unwrap()),
            progress: Arc::new(Progress::new()),
            reception: Desk(Mutex::new(data), Mutex::new(control)),
            stop: Arc::clone(&stop),
        };
        acceptor.start().unwrap();
        let dialer = Dialer {
            peer,
            binding: Binding::default(),
            encryption,
            source_is_memory: false,
            identity: identity(Role::Sender),
            progress: Arc::new(Progress::new()),
        };
        let Greeted { stream, admission, .. } = dialer.control(PATIENCE, &|| false).unwrap();
        let control = (stream, controls.recv_timeout(PATIENCE).unwrap());
        Self { dialer, admission, inlets, stop, _control: control }
    }

    fn stream(&self, number: u16) -> (Box<dyn Outlet>, Box<dyn Inlet>) {
        let outlet = self.dialer.data(&self.admission, number, "reno").unwrap();
        let (inlet, seen) = self.inlets.recv_timeout(PATIENCE).unwrap();
        assert_eq!(seen, number);
        (outlet, inlet)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn head(pack: u64, payload_bytes: u32) -> Vec<u8> {
    let mut head = Header::Data { pack, segments: 1, payload_bytes }.encode().to_vec();
    Segment { file: 0, block: pack as u32, length: payload_bytes, digest: [7; 32], is_hole: false }
        .encode_into(&mut head);
    head
}

/// Sleeps until the socket has something to say.
fn await_event(outlet: &dyn Outlet) {
    poll(&mut [PollFd::new(outlet.socket(), PollFlags::IN)], None).unwrap();
}

#[test]
fn packs_of_all_sizes_arrive_and_both_ends_agree_on_the_end() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outlet, mut inlet) = ends.stream(5);
        let sizes = [1usize, 4096, 16_384, 16_385, 300_000, 1 << 20];
        let sender = std::thread::spawn(move || {
            for (pack, size) in (0u64..).zip(sizes) {
                let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                outlet.send(&head(pack, size as u32), Payload::Bytes(&bytes)).unwrap();
            }
            outlet.send(&head(99, 1 << 20), Payload::Zeros(1 << 20)).unwrap();
            outlet.check().unwrap();
            outlet.finish().unwrap();
        });
        let mut table = Vec::new();
        for (pack, size) in (0u64..).zip(sizes) {
            let header = inlet.head(&mut table).unwrap();
            assert_eq!(header, Header::Data { pack, segments: 1, payload_bytes: size as u32 });
            let mut bytes = vec![0; size];
            inlet.read_exact(&mut bytes).unwrap();
            assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{mode:?} {size}");
        }
        inlet.head(&mut table).unwrap();
        let mut zeros = 0;
        inlet
            .skim(1 << 20, &mut |piece| {
                assert!(piece.iter().all(|byte| *byte == 0));
                zeros += piece.len();
            })
            .unwrap();
        assert_eq!(zeros, 1 << 20);
        assert_eq!(inlet.head(&mut table).unwrap(), Header::End);
        inlet.finish().unwrap();
        sender.join().unwrap();
    }
}

#[test]
fn data_that_come_together_with_the_handshakes_last_word_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    crate::credentials::make(folder.path(), "job", 1, OffsetDateTime::now_utc()).unwrap();
    let identity = |role: Role| Identity::load(&folder.path().join(role.name()), role, None, None).unwrap();
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Metered::new(here, Arc::new(Progress::new()), None), listener.accept().unwrap().0)
    };
    let ((client, mut from_client), (server, mut to_server)) = (pair(), pair());
    let client = Records::new(identity(Role::Sender).connect_data().unwrap(), client);
    let server = Records::new(identity(Role::Receiver).accept_data().unwrap(), server);
    let sending = std::thread::spawn(move || {
        let mut client = client;
        client.handshake().unwrap();
        client.send(DATA).unwrap();
        client.flush().unwrap();
        client
    });
    let receiving = std::thread::spawn(move || {
        let (mut server, mut bytes) = (server, [0; DATA.len()]);
        server.handshake().unwrap();
        server.read_exact(&mut bytes).unwrap();
        bytes
    });
    // The client's hello and the server's answer pass; what follows is held until the data are there, too.
    to_server.write_all(&read_record(&mut from_client)).unwrap();
    let (mut answer, mut to_client) = (to_server.try_clone().unwrap(), from_client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut answer, &mut to_client));
    let (mut held, data_bytes) = (Vec::new(), 5 + DATA.len() + 1 + 16);
    loop {
        let record = read_record(&mut from_client);
        held.extend_from_slice(&record);
        if record.len() == data_bytes {
            break;
        }
    }
    to_server.write_all(&held).unwrap();
    assert_eq!(&receiving.join().unwrap(), DATA);
    drop(sending.join().unwrap());
}

/// One TLS record with its header.
fn read_record(stream: &mut TcpStream) -> Vec<u8> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record).unwrap();
    record.resize(5 + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
    stream.read_exact(&mut record[5..]).unwrap();
    record
}

#[test]
fn a_receiver_that_merely_closes_has_not_read_the_stream() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outlet, mut inlet) = ends.stream(0);
        outlet.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut table = Vec::new();
            inlet.head(&mut table).unwrap();
            inlet.skim(10, &mut |_| {}).unwrap();
            assert_eq!(inlet.head(&mut table).unwrap(), Header::End);
        });
        assert!(outlet.finish().is_err(), "{mode:?}");
        receiver.join().unwrap();
    }
}

#[test]
fn a_sender_that_merely_closes_has_not_ended_the_stream() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outlet, mut inlet) = ends.stream(0);
        outlet.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        drop(outlet);
        let mut table = Vec::new();
        inlet.head(&mut table).unwrap();
        inlet.skim(10, &mut |_| {}).unwrap();
        match inlet.head(&mut table) {
            Err(WireError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{mode:?}"),
            other => panic!("{mode:?}: {other:?}"),
        }
    }
}

#[test]
fn the_end_of_an_idle_stream_is_noticed_and_silence_is_not_the_end() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outlet, inlet) = ends.stream(0);
        for _ in 0..3 {
            outlet.check().unwrap();
        }
        drop(inlet);
        await_event(&*outlet);
        assert!(outlet.check().is_err(), "{mode:?}: closed");
        let (mut outlet, inlet) = ends.stream(1);
        // Closing with bytes unread resets the connection.
        outlet.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        await_acknowledgement(&*outlet);
        drop(inlet);
        await_event(&*outlet);
        assert!(outlet.check().is_err(), "{mode:?}: reset");
    }
}

/// Returns when the peer has acknowledged everything.
fn await_acknowledgement(outlet: &dyn Outlet) {
    let deadline = Instant::now() + PATIENCE;
    while fairlead_sys::tcp_info(outlet.socket()).unwrap().unacknowledged > 0 {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn bytes_that_are_not_the_senders_end_the_stream_as_damage() {
    let strange: [(&str, Vec<u8>); 4] = [
        ("plain text", [&head(0, 10)[..], &[0; 64]].concat()),
        ("a record that is too long", [&[0x17, 3, 3, 0xff, 0xff][..], &[0; 70_000]].concat()),
        ("a record of somebody else", [&[0x17, 3, 3, 0, 40][..], &[9; 40], &[0; 64]].concat()),
        ("noise", (0..200u8).collect()),
    ];
    for mode in MODES {
        let ends = Ends::new(mode);
        for (number, (what, bytes)) in (0..).zip(&strange) {
            let (outlet, mut inlet) = ends.stream(number);
            let (mut socket, bytes) = (outlet.socket().try_clone().unwrap(), bytes.clone());
            // The receiver may close before everything is written.
            let writing = std::thread::spawn(move || drop(socket.write_all(&bytes)));
            let error = inlet.head(&mut Vec::new()).unwrap_err();
            assert!(error.is_damage(), "{mode:?}: {what}: {error}");
            drop(inlet);
            writing.join().unwrap();
        }
    }
}

#[test]
fn zeros_come_in_pieces_that_add_up() {
    for bytes in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 1 << 20] {
        let pieces: Vec<&[u8]> = Payload::Zeros(bytes).pieces().collect();
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), bytes);
        assert!(pieces.iter().all(|piece| (1..=CHUNK_BYTES).contains(&piece.len())));
    }
}
