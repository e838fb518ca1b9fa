//! Engines: the transport protocols that carry data connections. Each is a folder here and a line in `ENGINES`
//! (docs/how-to/add-a-transport.md). Whatever the engine, the control connection is TCP, the per-job certificates identify both
//! ends, and packs are the same.

pub(crate) mod quic;
pub(crate) mod tcp;
pub(crate) mod udt;

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::index::PathIndex;
use fairlead_protocol::message::DataProtocol;
use fairlead_protocol::Fault;

use super::connect::accept::{ConnectionHandler, DataGreeter};
use super::connect::dial::{Admission, DialError, Dialer};
use super::echo::Echo;
use super::send_buffer::SendBuffer;
use super::wire::PackSender;
use crate::progress::Progress;

/// Every engine.
const ENGINES: [&dyn TransportEngine; 3] = [&tcp::Tcp, &quic::Quic, &udt::Udt];

/// A transport protocol for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Quic,
    Udt,
}

impl Protocol {
    #[cfg(test)]
    const ALL: &[Self] = &[Self::Tcp, Self::Quic, Self::Udt];

    /// As it is said to the peer.
    pub(crate) fn on_the_wire(self) -> DataProtocol {
        match self {
            Self::Tcp => DataProtocol::Tcp,
            Self::Quic => DataProtocol::Quic,
            Self::Udt => DataProtocol::Udt,
        }
    }

    /// As people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Quic => "QUIC",
            Self::Udt => "UDT",
        }
    }

    pub(crate) fn engine(self) -> &'static dyn TransportEngine {
        let own = ENGINES.iter().find(|engine| engine.protocol() == self);
        // A test holds that there is one for each protocol.
        *own.unwrap_or(&ENGINES[0])
    }
}

/// A data connection that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct DataCall<'a> {
    pub(crate) path: PathIndex,
    pub(crate) admission: &'a Admission,
    /// The stream's number.
    pub(crate) stream: u16,
    pub(crate) congestion_control: &'a str,
}

/// What the receiver needs to take data connections.
pub(crate) struct DataService {
    /// A UDP socket at each place where the receiver listens, under the same port. The echo's requests come there.
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) echo: Echo,
    pub(crate) greeter: Arc<DataGreeter>,
    pub(crate) handler: Arc<dyn ConnectionHandler>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// How data are carried.
pub(crate) trait TransportEngine: Send + Sync {
    fn protocol(&self) -> Protocol;

    /// Makes a data connection, known to be the receiver's and greeted.
    fn connect(&self, dialer: &Dialer, call: DataCall<'_>) -> Result<Box<dyn PackSender>, DialError>;

    /// Takes data connections at the receiver until `stop` is set, and answers the echo's requests. Those of TCP come to the
    /// listeners of the control connection.
    fn serve(&self, service: DataService) -> io::Result<()>;

    /// Whether a congestion control can be had, with the remedy if not.
    fn check_congestion_control(&self, name: &str) -> Result<(), Fault>;

    /// Whether a congestion control leaves the path to everybody else.
    fn gives_way(&self, name: &str) -> bool;

    /// What may be asked for.
    fn congestion_controls(&self) -> Vec<String>;
}

/// A live connection as those see it who watch and steer it while others move its bytes.
pub(crate) trait DataLink: Send + Sync {
    /// What the connection counts.
    fn state(&self) -> io::Result<LinkState>;

    /// The congestion control that is really in use.
    fn congestion_control(&self) -> io::Result<String>;

    /// Switches the congestion control and returns the one that is in use then.
    fn set_congestion_control(&self, name: &str) -> io::Result<String>;

    /// Asks for a send buffer, which ends its growth by itself; nothing is asked without bytes.
    fn set_send_buffer(&self, buffer: SendBuffer) -> io::Result<()>;

    /// Bytes that the send buffer holds now; 0 if that is not known.
    fn send_buffer_bytes(&self) -> u64;

    /// Limits the rate in bits per second of payload, and what waits unsent; nothing lifts the limit.
    fn pace(&self, rate_bps: Option<u64>, unsent_bytes: Option<u64>) -> io::Result<()>;

    /// The limit in bytes per second; `u64::MAX` without one.
    fn pacing_limit_bytes_per_second(&self) -> io::Result<u64>;

    /// Ends the connection at once; what waits in its buffers is forgotten.
    fn abort(&self);

    /// The TCP socket beneath, if there is one.
    #[cfg(test)]
    fn socket(&self) -> Option<std::net::TcpStream> {
        None
    }
}

/// What a connection counts. Payload is what the connection carries, with what encryption adds to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    /// Headers of every packet: IP and the transport's.
    pub(crate) header_bytes: u64,
    /// Payload of a full packet.
    pub(crate) segment_bytes: u32,
    /// Payload sent, that sent again included.
    pub(crate) bytes_sent: u64,
    /// Payload that was acknowledged.
    pub(crate) bytes_acked: u64,
    /// Payload sent again.
    pub(crate) bytes_retransmitted: u64,
    /// Packets sent, modulo 2^32.
    pub(crate) packets_sent: u32,
    /// Packets sent again.
    pub(crate) retransmits: u32,
    /// Smoothed; 0 if it is not known yet.
    pub(crate) rtt_us: u32,
    pub(crate) rtt_min_us: u32,
    pub(crate) delivery_rate_bytes_per_second: u64,
    pub(crate) pacing_rate_bytes_per_second: u64,
    pub(crate) congestion_window_segments: u32,
    /// Bytes that the receiver allows in flight.
    pub(crate) window_bytes: u32,
    /// Something was sent and not acknowledged.
    pub(crate) awaits_acknowledgement: bool,
    /// And it was sent again, in vain.
    pub(crate) sends_again: bool,
    /// Bytes wait to be sent, and only the receiver's window keeps them.
    pub(crate) window_closed: bool,
    /// Time in which something was under way.
    pub(crate) busy: Duration,
    /// Of it, held back by the receiver's window alone.
    pub(crate) receive_window_limited: Duration,
    /// Of it, held back by the send buffer alone.
    pub(crate) send_buffer_limited: Duration,
}

/// Of a packet to `peer`, without options.
fn ip_header_bytes(peer: IpAddr) -> u64 {
    if peer.is_ipv4() {
        20
    } else {
        40
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_its_engine() {
        for protocol in Protocol::ALL.iter().copied() {
            assert_eq!(protocol.engine().protocol(), protocol);
        }
    }
}
