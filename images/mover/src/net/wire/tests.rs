//! Streams between a real dialler and a real acceptor over the loopback.

mod udp;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlead_protocol::index::{BlockIndex, FileIndex, PackId, PathIndex};
use fairlead_protocol::keyed::{Secret, ANSWER_BYTES, GREETING_BYTES, TAG_BYTES};
use fairlead_protocol::message::Encryption;
use fairlead_protocol::pack::{Header, Segment};
use rustix::event::{poll, PollFd, PollFlags};
use time::OffsetDateTime;

use super::buffers::Unread;
use super::{KeyedPackReceiver, KeyedPackSender, PackReceiver, PackSender, Payload, Records, WireError, CHUNK_BYTES};
use crate::net::connect::accept::{listen, Acceptor, ConnectionHandler, DataGreeter, ServerStream, Terms};
use crate::net::connect::dial::{Admission, Dialer, Greeted};
use crate::net::connect::identity::{Identity, Role};
use crate::net::echo::Echo;
use crate::net::engine::{DataCall, DataService, Protocol};
use crate::net::paths::{PathEnds, Paths};
use crate::net::tcp::{Binding, Metered};
use crate::progress::Progress;

const MODES: [Encryption; 2] = [Encryption::Required, Encryption::None];
/// A record of them is as long as no record of the handshake.
const DATA: &[u8; 7] = b"at once";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

struct Handler(Mutex<Sender<(Box<dyn PackReceiver>, u16)>>, Mutex<Sender<ServerStream>>, Arc<AtomicBool>);

impl ConnectionHandler for Handler {
    fn authenticated(&self, _: IpAddr) {}

    fn control(&self, stream: ServerStream, _: SocketAddr, _: bool) {
        let _ = self.1.lock().unwrap().send(stream);
    }

    fn suspend(&self) -> Option<u64> {
        None
    }

    fn resume(&self, _: std::io::Result<(ServerStream, SocketAddr)>, _: u64) {}

    fn data(&self, incoming: Box<dyn PackReceiver>, number: u16) {
        let _ = self.0.lock().unwrap().send((incoming, number));
        while !self.2.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Two ends that have greeted each other.
struct Ends {
    dialer: Dialer,
    admission: Admission,
    protocol: Protocol,
    inlets: Receiver<(Box<dyn PackReceiver>, u16)>,
    stop: Arc<AtomicBool>,
    _control: (crate::net::connect::dial::ClientStream, ServerStream),
}

impl Ends {
    fn new(encryption: Encryption) -> Self {
        Self::of(encryption, false)
    }

    /// `undigested`: from memory to nowhere.
    fn of(encryption: Encryption, undigested: bool) -> Self {
        Self::over(Protocol::Tcp, encryption, undigested)
    }

    fn over(protocol: Protocol, encryption: Encryption, undigested: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        crate::credentials::make(folder.path(), "job", 1, OffsetDateTime::now_utc()).unwrap();
        let identity =
            |role: Role| Arc::new(Identity::load(&folder.path().join(role.name()), role, None, None).unwrap());
        // Of those that the kernel chooses, another test may have one for UDP.
        let (listener, socket) = std::iter::repeat_with(|| {
            let listener = listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), None, None).unwrap();
            let socket = UdpSocket::bind(listener.local_addr().unwrap());
            (listener, socket)
        })
        .find_map(|(listener, socket)| socket.ok().map(|socket| (listener, socket)))
        .unwrap();
        let peer = listener.local_addr().unwrap();
        let ((data, inlets), (control, controls), stop) = (channel(), channel(), Arc::new(AtomicBool::new(false)));
        let terms = Arc::new(Terms::new(encryption, protocol.on_the_wire(), undigested, false).unwrap());
        let greeter = Arc::new(DataGreeter::new(identity(Role::Receiver), terms));
        let handler: Arc<dyn ConnectionHandler> =
            Arc::new(Handler(Mutex::new(data), Mutex::new(control), Arc::clone(&stop)));
        if protocol != Protocol::Tcp {
            let service = DataService {
                sockets: vec![socket],
                echo: Echo::default(),
                greeter: Arc::clone(&greeter),
                handler: Arc::clone(&handler),
                progress: Arc::new(Progress::new()),
                stop: Arc::clone(&stop),
            };
            protocol.engine().serve(service).unwrap();
        }
        let acceptor = Acceptor {
            unread: Some(Unread::STORED),
            listeners: vec![listener],
            echo_port: 1,
            greeter,
            progress: Arc::new(Progress::new()),
            handler,
            stop: Arc::clone(&stop),
        };
        acceptor.start().unwrap();
        let ends = vec![PathEnds { binding: Binding::default(), peer }];
        let dialer = Dialer {
            check_only: false,
            paths: Paths::start(ends, &Arc::new(Progress::new())).unwrap(),
            encryption,
            protocol: protocol.on_the_wire(),
            source_is_memory: undigested,
            identity: identity(Role::Sender),
            progress: Arc::new(Progress::new()),
        };
        let Greeted { stream, admission, .. } = dialer.control(PATIENCE, &|| false).unwrap();
        assert_eq!(admission.undigested, undigested);
        let control = (stream, controls.recv_timeout(PATIENCE).unwrap());
        Self { dialer, admission, protocol, inlets, stop, _control: control }
    }

    fn control(&self) -> &'static str {
        match self.protocol {
            Protocol::Udt => "udt",
            Protocol::Tcp | Protocol::Quic => "reno",
        }
    }

    fn stream(&self, number: u16) -> (Box<dyn PackSender>, Box<dyn PackReceiver>) {
        let call = DataCall {
            path: PathIndex(0),
            admission: &self.admission,
            stream: number,
            congestion_control: self.control(),
        };
        let outgoing = self.protocol.engine().connect(&self.dialer, call).unwrap();
        let (incoming, seen) = self.inlets.recv_timeout(PATIENCE).unwrap();
        assert_eq!(seen, number);
        (outgoing, incoming)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn head(pack: u64, payload_bytes: u32) -> Vec<u8> {
    let mut head = Header::Data { pack: PackId(pack), segments: 1, payload_bytes }.encode().to_vec();
    Segment {
        file: FileIndex(0),
        block: BlockIndex(pack as u32),
        length: payload_bytes,
        digest: [7; 32],
        is_hole: false,
    }
    .encode_into(&mut head);
    head
}

fn socket(outgoing: &dyn PackSender) -> TcpStream {
    outgoing.link().unwrap().socket().unwrap()
}

/// Sleeps until the socket can be read.
fn await_event(socket: &TcpStream) {
    poll(&mut [PollFd::new(socket, PollFlags::IN)], None).unwrap();
}

#[test]
fn packs_of_all_sizes_arrive_and_both_ends_agree_on_the_end() {
    for (mode, undigested) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let ends = Ends::of(mode, undigested);
        let (mut outgoing, mut incoming) = ends.stream(5);
        let sizes = [1usize, 4096, 16_384, 16_385, 131_072, 131_073, 300_000, 1 << 20];
        let sender = std::thread::spawn(move || {
            for (pack, size) in (0u64..).zip(sizes) {
                let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                outgoing.send(&head(pack, size as u32), Payload::Bytes(&bytes)).unwrap();
            }
            for zeros in [1 << 20, 700_001, 1 << 20] {
                outgoing.send(&head(99, zeros), Payload::Zeros(zeros as usize)).unwrap();
            }
            outgoing.check().unwrap();
            outgoing.finish().unwrap();
        });
        let mut table = Vec::new();
        for (pack, size) in (0u64..).zip(sizes) {
            let header = incoming.head(&mut table).unwrap();
            assert_eq!(header, Header::Data { pack: PackId(pack), segments: 1, payload_bytes: size as u32 });
            let mut bytes = vec![0; size];
            incoming.read_exact(&mut bytes).unwrap();
            assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{mode:?} {size}");
        }
        for expected in [1 << 20, 700_001, 1 << 20] {
            incoming.head(&mut table).unwrap();
            let (mut zeros, mut are_zero) = (0, true);
            // A block is not taken whole: others may be in the same pack.
            for part in [10, expected - 10] {
                let sink = &mut |piece: &[u8]| {
                    are_zero &= piece.iter().all(|byte| *byte == 0);
                    zeros += piece.len();
                };
                incoming.skim(part, sink).unwrap();
            }
            assert_eq!((zeros, are_zero), (expected, true), "{mode:?}");
        }
        assert_eq!(incoming.head(&mut table).unwrap(), Header::End);
        incoming.finish().unwrap();
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
        let (mut outgoing, mut incoming) = ends.stream(0);
        outgoing.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut table = Vec::new();
            incoming.head(&mut table).unwrap();
            incoming.skim(10, &mut |_| {}).unwrap();
            assert_eq!(incoming.head(&mut table).unwrap(), Header::End);
        });
        assert!(outgoing.finish().is_err(), "{mode:?}");
        receiver.join().unwrap();
    }
}

#[test]
fn a_sender_that_merely_closes_has_not_ended_the_stream() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outgoing, mut incoming) = ends.stream(0);
        outgoing.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        drop(outgoing);
        let mut table = Vec::new();
        incoming.head(&mut table).unwrap();
        incoming.skim(10, &mut |_| {}).unwrap();
        match incoming.head(&mut table) {
            Err(WireError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{mode:?}"),
            other => panic!("{mode:?}: {other:?}"),
        }
    }
}

#[test]
fn the_end_of_an_idle_stream_is_noticed_and_silence_is_not_the_end() {
    for mode in MODES {
        let ends = Ends::new(mode);
        let (mut outgoing, incoming) = ends.stream(0);
        for _ in 0..3 {
            outgoing.check().unwrap();
        }
        let beneath = socket(&*outgoing);
        drop(incoming);
        await_event(&beneath);
        assert!(outgoing.check().is_err(), "{mode:?}: closed");
        let (mut outgoing, incoming) = ends.stream(1);
        // Closing with bytes unread resets the connection.
        outgoing.send(&head(0, 10), Payload::Zeros(10)).unwrap();
        await_acknowledgement(&*outgoing);
        let beneath = socket(&*outgoing);
        drop(incoming);
        await_event(&beneath);
        assert!(outgoing.check().is_err(), "{mode:?}: reset");
    }
}

/// Returns when the peer has acknowledged everything.
fn await_acknowledgement(outgoing: &dyn PackSender) {
    let deadline = Instant::now() + PATIENCE;
    while outgoing.link().unwrap().state().unwrap().awaits_acknowledgement {
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
            let (outgoing, mut incoming) = ends.stream(number);
            let (mut socket, bytes) = (socket(&*outgoing), bytes.clone());
            // The receiver may close before everything is written.
            let writing = std::thread::spawn(move || drop(socket.write_all(&bytes)));
            let error = incoming.head(&mut Vec::new()).unwrap_err();
            assert!(error.is_damage(), "{mode:?}: {what}: {error}");
            drop(incoming);
            writing.join().unwrap();
        }
    }
}

/// What the sender put on the wire, bent on its way by whoever is between.
#[test]
fn payload_without_digests_cannot_be_changed_repeated_or_exchanged_on_the_wire() {
    let secret = Secret::new([5; 32]);
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Metered::new(here, Arc::new(Progress::new()), None), listener.accept().unwrap().0)
    };
    let head_bytes = head(0, 10).len() + 32;
    let (piece, tag) = (10usize, 16usize);
    let pack = head_bytes + piece + tag;
    type Bend = fn(&mut Vec<u8>, usize, usize);
    let ways: [(&str, Bend); 5] = [
        ("a bit of the payload", |bytes, head, _| bytes[head + 3] ^= 1),
        ("a bit of the tag", |bytes, head, _| bytes[head + 10] ^= 1),
        ("two payloads exchanged", |bytes, head, pack| {
            let (first, second) = bytes.split_at_mut(pack);
            first[head..].swap_with_slice(&mut second[head..pack]);
        }),
        ("a pack repeated", |bytes, _, pack| bytes.copy_within(..pack, pack)),
        ("nothing", |_, _, _| {}),
    ];
    for (what, bend) in ways {
        let ((sender, mut from_sender), (receiver, mut to_receiver)) = (pair(), pair());
        let (here, there) = (secret.clone(), secret.clone());
        let sending = std::thread::spawn(move || {
            let mut outgoing = KeyedPackSender::greet(sender, &here, 0, true).unwrap();
            for (pack, byte) in [(0, 1), (1, 2)] {
                outgoing.send(&head(pack, 10), Payload::Bytes(&[byte; 10])).unwrap();
            }
            outgoing
        });
        let receiving = std::thread::spawn(move || {
            let (_, mut incoming) = KeyedPackReceiver::accept(receiver, &there, true)?;
            let mut table = Vec::new();
            for _ in 0..2 {
                incoming.head(&mut table)?;
                incoming.skim(10, &mut |_| {})?;
            }
            Ok::<(), WireError>(())
        });
        let pass = |from: &mut TcpStream, to: &mut TcpStream, bytes: usize| {
            let mut buffer = vec![0; bytes];
            from.read_exact(&mut buffer).unwrap();
            to.write_all(&buffer).unwrap();
        };
        pass(&mut from_sender, &mut to_receiver, GREETING_BYTES);
        pass(&mut to_receiver, &mut from_sender, ANSWER_BYTES);
        pass(&mut from_sender, &mut to_receiver, TAG_BYTES);
        let mut bytes = vec![0; 2 * pack];
        from_sender.read_exact(&mut bytes).unwrap();
        bend(&mut bytes, head_bytes, pack);
        to_receiver.write_all(&bytes).unwrap();
        match receiving.join().unwrap() {
            Ok(()) => assert_eq!(what, "nothing"),
            Err(error) => assert!(error.is_damage() && what != "nothing", "{what}: {error}"),
        }
        drop(sending.join().unwrap());
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

#[test]
fn a_control_connection_goes_on_with_no_session_but_its_own() {
    let ends = Ends::new(Encryption::Required);
    let resume = |token: &[u8]| ends.dialer.resume(token, 0, &|| false).map(drop).unwrap_err();
    assert!(resume(b"another").contains("belongs to no session here"));
    assert!(resume(&[]).contains("belongs to no session here"));
    assert!(resume(&ends.admission.token()).contains("no session to go on with"), "it ends with its connection");
}
