//! Where the receiver listens.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use fairlead_protocol::index::PathIndex;
use fairlead_protocol::{Fault, Reason};

use crate::cli::{self, ReceiveArguments};
use crate::control::http::{EndpointPlace, MoverEndpoint};
use crate::net::affinity::Affinity;
use crate::net::connect::accept::{address_fault, listen};
use crate::net::echo::bind_echo;
use crate::report::output;
use crate::threads::lock;
use crate::transfer::TransferContext;

/// With port 0 the kernel chooses one that is free for TCP; so many others are tried where it is taken for UDP.
const CHOICES: usize = 16;

/// Where this end listens: for connections and for the probes of the path, at an address of each interface.
#[derive(Default)]
pub(super) struct ListeningPlaces {
    pub(super) endpoints: Vec<EndpointPlace>,
    pub(super) listeners: Vec<TcpListener>,
    pub(super) echoes: Vec<UdpSocket>,
}

impl ListeningPlaces {
    /// Binds all of the interfaces and addresses that were chosen. A fault if an address is in use.
    pub(super) fn bind(args: &ReceiveArguments, chosen: &[(Option<String>, IpAddr)]) -> Result<Self, Fault> {
        // Kept until the end, so that the kernel chooses others.
        let mut taken = Vec::new();
        loop {
            let mut places = Self::default();
            match places.take(args, chosen) {
                Ok(()) => return Ok(places),
                Err(fault) if args.port == 0 && fault.reason == Reason::AddressInUse && taken.len() < CHOICES => {
                    taken.push(places);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    fn take(&mut self, args: &ReceiveArguments, chosen: &[(Option<String>, IpAddr)]) -> Result<(), Fault> {
        let cli::Common { interfaces, socket_buffer, .. } = &args.common;
        // With several, what is sent on a connection leaves by its own interface, whatever the routes say.
        let bound = |name: &Option<String>| name.clone().filter(|_| interfaces.len() > 1);
        let mut port = args.port;
        for (name, address) in chosen {
            let (place, device) = (SocketAddr::new(*address, port), bound(name));
            let listener = listen(place, device.as_deref(), *socket_buffer)?;
            let place = listener.local_addr().map_err(|error| address_fault(place, &error))?;
            port = place.port();
            self.endpoints.push(EndpointPlace::new(name.clone(), Some(place.ip()), port));
            self.listeners.push(listener);
            let in_udp = |error| {
                let fault = address_fault(place, &error);
                Fault { message: format!("for UDP {}", fault.message), ..fault }
            };
            self.echoes.push(bind_echo(place, device.as_deref()).map_err(in_udp)?);
        }
        Ok(())
    }
}

/// Says where this end listens.
pub(super) fn announce(
    args: &ReceiveArguments,
    context: &TransferContext,
    endpoints: Vec<EndpointPlace>,
    affinity: Affinity,
) {
    for EndpointPlace { interface, address, port, .. } in &endpoints {
        tracing::info!(%address, port, ?interface, "waiting for the sender");
    }
    let endpoint = MoverEndpoint::new("receiver", endpoints, PathIndex(0), affinity);
    output::event(args.common.json, "listening", &serde_json::to_value(&endpoint).unwrap_or_default());
    *lock(&context.pages.endpoint) = Some(endpoint);
}
