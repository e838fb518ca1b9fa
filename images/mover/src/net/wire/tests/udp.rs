//! The same over the engines that use UDP.

use super::*;

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
