//! A block damaged after its digest was taken is found, sent again and counted. Needs the feature `fault-injection`.
#![allow(clippy::unwrap_used)]

mod support;

use support::{inventory, noise, Bench};

#[test]
fn a_damaged_block_is_sent_again_and_counted() {
    let bench = Bench::new();
    bench.write("large", &noise(6 << 20, 8));
    bench.write("small", b"x");
    std::env::set_var("FAIRLEAD_FAULT_DAMAGE_PACK", "3");
    let (receiver, sender) = bench.transfer(&[], &[]);
    assert_eq!((receiver.code(), sender.code()), (Some(0), Some(0)), "{receiver:?} {sender:?}");
    assert_eq!(receiver.verdict["blocks_damaged"], 1);
    assert_eq!(sender.verdict["blocks_damaged"], 1);
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}
