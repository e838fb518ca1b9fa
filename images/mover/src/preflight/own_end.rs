//! What each end checks alone, before it listens or connects.

use std::net::{IpAddr, SocketAddr};

use fairlead_protocol::{Fault, Reason};

use super::destination::ReadOnlyDestination;
use super::{route, Checklist};
use crate::cli::{Common, Destination, ProtocolArgument, ReceiveArguments, SendArguments, SourceArgument};
use crate::fs::block_source::BlockSource;
use crate::fs::source::{Filter, SourceTree};
use crate::net::engine::Protocol;
use crate::net::interface;
use crate::net::paths::PathEnds;
use crate::net::tcp::Binding;
use crate::progress::Progress;

/// A sender's ends of its paths, the i-th from its i-th interface to the receiver's i-th address, and its source. The fault has
/// everything that keeps it from connecting.
pub(crate) fn check_sender(args: &SendArguments, progress: &Progress) -> Result<(Vec<PathEnds>, BlockSource), Fault> {
    let mut checklist = Checklist::new(progress);
    let control = args.congestion_control();
    let protocol = engine_of(&args.common);
    let offered = protocol.engine().check_congestion_control(control);
    let offered = offered.map(|()| format!("{} offers {control}", protocol.name()));
    let interfaces = interface::list();
    let ends = path_ends(args);
    let checked = ends.iter().map(|PathEnds { binding: Binding { interface, address }, peer }| {
        let usable = usable(&interfaces, interface.as_deref(), *address);
        let route = usable.is_ok().then(|| route::check(&interfaces, interface.as_deref(), peer.ip()));
        (route, usable)
    });
    let checked: Vec<_> = checked.collect();
    let one_works = checked.iter().any(|(route, _)| matches!(route, Some(Ok(_))));
    for (route, usable) in checked {
        if let Some(route) = route {
            checklist.note_path("Route", route, one_works);
        }
        checklist.note_path("Interface", usable, one_works);
    }
    checklist.note("CongestionControl", offered);
    let source = checklist.take("Source", open_source(args), |source| match source {
        BlockSource::Tree(_) => "the source can be listed".to_owned(),
        BlockSource::Zeros(bytes) => format!("{bytes} bytes from memory"),
    });
    checklist.end()?;
    let source = source.ok_or_else(|| Fault::new(Reason::InternalError, "the source was not opened"))?;
    Ok((ends, source))
}

/// The protocol that was asked for.
pub(crate) fn engine_of(common: &Common) -> Protocol {
    match common.protocol {
        ProtocolArgument::Tcp => Protocol::Tcp,
        ProtocolArgument::Quic => Protocol::Quic,
        ProtocolArgument::Udt => Protocol::Udt,
    }
}

fn path_ends(args: &SendArguments) -> Vec<PathEnds> {
    let Common { interfaces, addresses, .. } = &args.common;
    let path = |(at, peer): (usize, &SocketAddr)| {
        let interface = interfaces.get(at).filter(|name| *name != "auto").cloned();
        PathEnds { binding: Binding { interface, address: addresses.get(at).copied() }, peer: *peer }
    };
    args.connect.iter().enumerate().map(path).collect()
}

fn usable(interfaces: &[interface::Interface], name: Option<&str>, address: Option<IpAddr>) -> Result<String, Fault> {
    if let Some(name) = name {
        interface::check(interfaces, name)?;
        interface::check_up(interfaces, name)?;
    }
    if let Some(address) = address {
        interface::check_address(interfaces, address)?;
    }
    Ok(name.map_or("the kernel chooses by its routes".to_owned(), |name| format!("{name} is up")))
}

fn open_source(args: &SendArguments) -> Result<BlockSource, Fault> {
    let directory = match &args.source {
        SourceArgument::Zeros(size) => return Ok(BlockSource::Zeros(*size)),
        SourceArgument::Directory(directory) => directory,
    };
    let filter = Filter::new(&args.include, &args.exclude)
        .map_err(|error| Fault::new(Reason::NameNotAllowed, format!("a pattern is malformed: {error}")))?;
    SourceTree::open(&args.common.place(directory)?, filter).map(BlockSource::Tree)
}

/// A receiver's interfaces and addresses. The destination is looked at and not changed. The fault has everything that was found.
pub(crate) fn check_receiver(
    args: &ReceiveArguments,
    progress: &Progress,
) -> Result<Vec<(Option<String>, IpAddr)>, Fault> {
    let mut checklist = Checklist::new(progress);
    let interfaces = interface::list();
    let Common { interfaces: wanted, addresses, .. } = &args.common;
    let fault = |(name, _): &(Option<String>, IpAddr)| interface::check_up(&interfaces, name.as_deref()?).err();
    // Nothing can listen at the address of an interface that is down; without a carrier it can.
    let waits = |(name, _): &(Option<String>, IpAddr)| {
        interfaces.iter().any(|interface| interface.up && Some(&interface.name) == name.as_ref())
    };
    let chosen = interface::choose_all(&interfaces, wanted, addresses, args.node_address).and_then(|chosen| {
        let one_works = chosen.iter().any(|place| fault(place).is_none());
        for (place, fault) in chosen.iter().filter_map(|place| Some((place, fault(place)?))) {
            if !one_works || !waits(place) {
                return Err(fault);
            }
            checklist.note_path("Interface", Err(fault), one_works);
        }
        Ok(chosen)
    });
    let shown = |(name, address): &(Option<String>, IpAddr)| match name {
        Some(name) => format!("{name} is up and has {address}"),
        None => format!("any with {address}"),
    };
    let working = |chosen: &Vec<(Option<String>, IpAddr)>| {
        chosen.iter().filter(|place| fault(place).is_none()).map(shown).collect::<Vec<_>>().join(", ")
    };
    let chosen = checklist.take("Interface", chosen, working);
    if let Destination::Directory(directory) = &args.destination {
        let opened = args.common.place(directory).and_then(|place| ReadOnlyDestination::open(&place));
        checklist.note("Destination", opened.map(|_| format!("{} can be written", directory.display())));
    }
    checklist.end()?;
    chosen.ok_or_else(|| Fault::new(Reason::InternalError, "no interface was chosen"))
}
