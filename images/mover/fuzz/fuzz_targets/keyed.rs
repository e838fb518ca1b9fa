#![no_main]

#[path = "../../crates/protocol/tests/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::keyed(bytes));
