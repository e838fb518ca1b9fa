//! The protocol between two movers: wire format, names, digests and session logic.
//!
//! Nothing here opens a socket or a file or reads a clock: bytes and events come in, messages and effects go out, so that
//! every failure can be replayed as a unit test.
#![forbid(unsafe_code)]

pub mod fault;
pub mod index;
pub mod ledger;
pub mod limits;
mod session;
mod tree;
mod wire;

pub use fault::{Fault, Reason};
use session::path_loads;
pub use session::{assembly, kept, liveness, receiver, replay, schedule, sender};
pub use tree::{digest, listing, name};
pub use wire::{frame, keyed, message, opening, pack, sealed};
