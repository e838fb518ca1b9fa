//! TCP: the kernel's connections, in TLS or in the clear with keyed blocks. They begin at the same door as control connections.

mod link;

use std::io;
use std::sync::Arc;

use fairlead_protocol::message::{Encryption, Hello, Purpose};
use fairlead_protocol::opening::Opening;
use fairlead_protocol::Fault;

pub(crate) use self::link::TcpLink;
use super::{DataCall, DataService, Protocol, TransportEngine};
use crate::net::connect::accept::DataGreeter;
use crate::net::connect::dial::{broken, greet, DialError, Dialer};
use crate::net::tcp::{self, Metered};
use crate::net::wire::{
    KeyedPackReceiver, KeyedPackSender, PackReceiver, PackSender, Records, TlsPackReceiver, TlsPackSender,
};

/// The kernel's congestion control that leaves the path to everybody else, TCP-LP.
pub(crate) const GIVES_WAY: &str = "lp";

/// The engine.
pub(crate) struct Tcp;

impl TransportEngine for Tcp {
    fn protocol(&self) -> Protocol {
        Protocol::Tcp
    }

    fn connect(&self, dialer: &Dialer, call: DataCall<'_>) -> Result<Box<dyn PackSender>, DialError> {
        let DataCall { path, admission, stream, congestion_control } = call;
        let open = |opening| dialer.open(path, opening, Some(congestion_control), admission.buffer_bytes);
        if dialer.encryption == Encryption::None {
            let socket = open(Opening::Keyed)?;
            return Ok(Box::new(KeyedPackSender::greet(socket, &admission.secret, stream, admission.undigested)?));
        }
        let connection = dialer.identity.connect_data().map_err(|fault| DialError::Rejected(fault.message))?;
        let mut records = Records::new(connection, open(Opening::Data)?);
        records.handshake().map_err(broken)?;
        dialer.check_peer(records.state().peer_certificates())?;
        let token = admission.token();
        greet(&mut records, &Hello { token, stream: u32::from(stream), ..dialer.hello(Purpose::Data) })?;
        Ok(Box::new(TlsPackSender::new(records)?))
    }

    fn serve(&self, service: DataService) -> io::Result<()> {
        let DataService { sockets, echo, greeter, stop, .. } = service;
        sockets.into_iter().try_for_each(|socket| echo.start(socket, greeter.echo_key(), Arc::clone(&stop)))
    }

    fn check_congestion_control(&self, name: &str) -> Result<(), Fault> {
        tcp::check_congestion_control(name)
    }

    fn gives_way(&self, name: &str) -> bool {
        name == GIVES_WAY
    }

    fn congestion_controls(&self) -> Vec<String> {
        tcp::available_congestion_controls()
    }
}

/// Greets whoever opened a data connection. The stream and its number.
pub(crate) fn accept(
    opening: Opening,
    metered: Metered,
    greeter: &DataGreeter,
) -> io::Result<(Box<dyn PackReceiver>, u16)> {
    let terms = greeter.terms();
    match (opening, terms.encryption, terms.agreed()) {
        (Opening::Data, Encryption::Required, Some(_)) => {
            let connection = greeter.identity().accept_data().map_err(io::Error::other)?;
            let mut records = Records::new(connection, metered);
            records.handshake()?;
            let peer = greeter.identity().check_peer(records.state().peer_certificates());
            let number = greeter.greet(&mut records, peer)?;
            Ok((Box::new(TlsPackReceiver::new(records)?), number))
        }
        (Opening::Keyed, Encryption::None, Some((secret, undigested))) => {
            let (number, incoming) = KeyedPackReceiver::accept(metered, &secret, undigested)?;
            Ok((Box::new(incoming), number))
        }
        _ => Err(io::Error::other("it is for something that is not due here")),
    }
}
