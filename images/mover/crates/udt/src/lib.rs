//! UDT version 4 in streaming mode, from draft-gg-udt-03: reliable bytes in both directions over datagrams, with selective negative
//! acknowledgements, a flow window, and a rate that a policy chooses ([`RatePolicy`]). No rate is ever above the limit that is given.
//!
//! There are no sockets, clocks or threads: whoever has those hands packets in ([`Connection::handle`]), takes packets out
//! ([`Connection::poll_transmit`]) and comes back when [`Connection::timeout`] says. Times are durations since any fixed start.
//!
//! Not here: messages (`SOCK_DGRAM`), rendezvous. Where this differs from the draft, the place says so.

mod connect;
mod connection;
mod estimate;
pub mod packet;
mod ranges;
mod rate;
mod receive;
mod send;
mod sequence;

pub use connect::{Connector, Established, HandshakeError, Listener, ListenerAnswer};
pub use connection::{Config, Connection, Ended, Stats};
pub use rate::{increase_packets, RatePolicy};
pub use sequence::SEQUENCES;

use std::time::Duration;

/// Interval of the rate control and of acknowledgements (draft, section 4).
pub const SYN: Duration = Duration::from_millis(10);
