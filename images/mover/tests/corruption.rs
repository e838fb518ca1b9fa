//! What a path damages past every checksum is found whatever protects the wire.
#![allow(clippy::unwrap_used)]

mod support;

use support::namespaces::Namespaces;
use support::{inventory, noise, Bench};

#[test]
fn what_a_path_corrupts_past_every_checksum_gets_into_no_file() {
    // Whether it is the mover's own checks that find it, or the transport's.
    let ways: [(&[&str], bool); 4] = [
        (&["--encryption", "Required"], true),
        (&["--encryption", "None"], true),
        (&["--protocol", "QUIC"], false),
        (&["--protocol", "UDT"], false),
    ];
    for (way, is_counted) in ways {
        let mut bench = Bench::new();
        let path = ["--rate", "200M", "--delay", "5ms", "--corrupt", "0.001", "--reorder", "0.01,2ms"];
        let Some(namespaces) = Namespaces::over(&path) else { return };
        bench.namespaces = Some(namespaces);
        bench.write("file", &noise(16 << 20, 8));
        let (receiver, sender) = bench.transfer(way, way);
        assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{way:?} {receiver:?} {sender:?}");
        assert_eq!(inventory(&bench.source()), inventory(&bench.destination()), "{way:?}");
        let damaged = receiver.verdict["blocks_damaged"].as_u64();
        assert_eq!(damaged > Some(0), is_counted, "{way:?} {receiver:?}");
    }
}
