//! The same over the engines that use UDP.

use super::*;
use crate::net::pacing::gate::Gate;

const PROTOCOLS: [Protocol; 2] = [Protocol::Quic, Protocol::Udt];

#[test]
fn a_receiver_that_lets_go_of_a_stream_confirms_nothing() {
    for protocol in PROTOCOLS {
        let ends = Ends::over(protocol, Encryption::Required, false);
        for number in 0..10 {
            let (mut outgoing, mut incoming) = ends.stream(number);
            let sender = std::thread::spawn(move || {
                outgoing.send(&head(0, 10), Payload::Bytes(&[1; 10])).unwrap();
                outgoing.finish()
            });
            let mut table = Vec::new();
            incoming.head(&mut table).unwrap();
            incoming.skim(10, &mut |_| {}).unwrap();
            assert_eq!(incoming.head(&mut table).unwrap(), Header::End);
            drop(incoming);
            assert!(sender.join().unwrap().is_err(), "{protocol:?}");
        }
    }
}

#[test]
fn strangers_are_given_no_answer() {
    let ends = Ends::over(Protocol::Quic, Encryption::Required, false);
    let stranger = UdpSocket::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    stranger.connect(ends.dialer.paths.ends(PathIndex(0)).peer).unwrap();
    // First packets of QUIC (RFC 9000, sections 17.2 and 17.2.2): of another version, with an ID that is too short, and with a token.
    let starts: [&[u8]; 3] = [
        &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0],
        &[0xc0, 0, 0, 0, 1, 4, 1, 2, 3, 4, 0, 0, 0x44, 0x9e],
        &[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 7, 0x44, 0x9e],
    ];
    for start in starts {
        let mut datagram = vec![0; 1200];
        datagram[..start.len()].copy_from_slice(start);
        stranger.send(&datagram).unwrap();
    }
    // What came before this stream's packets was looked at before them.
    let _stream = ends.stream(0);
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(stranger.recv(&mut [0; 1500]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_receiver_holds_little_unread_of_a_stream_that_it_has_not_begun_to_read() {
    let ends = Ends::over(Protocol::Quic, Encryption::Required, false);
    let streams: Vec<_> = (0..3)
        .map(|number| {
            let (mut outgoing, incoming) = ends.stream(number);
            let link = outgoing.link().unwrap();
            outgoing.pace(Arc::new(Gate::new()));
            let sender = std::thread::spawn(move || outgoing.send(&head(0, 0), Payload::Zeros(200 << 20)));
            (link, sender, incoming)
        })
        .collect();
    for (link, ..) in &streams {
        let acked = loop {
            let state = link.state().unwrap();
            if state.window_closed && state.bytes_acked >= 4 << 20 {
                break state.bytes_acked;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(acked < 5 << 20, "{acked}");
    }
    // One that is read may send more ahead.
    let (link, _, mut incoming) = streams.into_iter().next().unwrap();
    incoming.skim(5 << 20, &mut |_| {}).unwrap();
    while link.state().unwrap().bytes_acked < 32 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
