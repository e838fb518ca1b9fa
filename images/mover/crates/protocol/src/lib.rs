//! What two movers say to each other: wire format, names, digests and session logic.
//!
//! Nothing here opens a socket or a file or reads a clock: bytes and events come in, messages and effects go out, so that
//! every failure can be replayed as a unit test.
#![forbid(unsafe_code)]

pub mod assembly;
pub mod digest;
pub mod fault;
pub mod frame;
pub mod kept;
pub mod keyed;
pub mod ledger;
pub mod limits;
pub mod listing;
pub mod liveness;
pub mod message;
pub mod name;
pub mod pack;
pub mod receiver;
pub mod schedule;
pub mod sender;

pub use fault::{Fault, Reason};
