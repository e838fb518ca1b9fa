//! ACK thinning: of a flow's bare acknowledgements only each N-th goes on, as in cable modems and access points that wait for their turn to
//! send (ACK filtering and decimation, RFC 3449, sections 5.2.1 and 5.2.2).

use crate::packet::{FlowKey, PacketFacts};
use crate::quantity::{self, FieldError};

const MAX_KEEP_EACH: u32 = 1000;
/// How long an acknowledgement waits for a newer one if nothing else is said: about one cycle of request and grant of a cable modem.
const DEFAULT_HOLD_NS: u64 = 5_000_000;
const MAX_HOLD_NS: u64 = 1_000_000_000;

/// How acknowledgements are thinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thinning {
    /// Of so many in a row the last goes on; 2 at least.
    pub keep_each: u32,
    /// No acknowledgement is held longer, in nanoseconds.
    pub hold_ns: u64,
}

/// Parses `N[,HOLD]`, such as `4` or `4,2ms`; `1` is `None`: every acknowledgement goes on.
pub fn parse_thinning(field: &str, text: &str) -> Result<Option<Thinning>, FieldError> {
    let (count, hold) = text.split_once(',').map_or((text, None), |(count, hold)| (count, Some(hold)));
    let keep_each = count.trim().parse::<u32>().ok().filter(|count| (1..=MAX_KEEP_EACH).contains(count));
    let Some(keep_each) = keep_each else {
        let message =
            format!("{text:?} does not begin with a whole number from 1 (none is dropped) to {MAX_KEEP_EACH}");
        return Err(FieldError::new(field, message));
    };
    let hold_ns = hold.map_or(Ok(DEFAULT_HOLD_NS), |hold| quantity::parse_delay_ns(field, hold))?;
    if !(1..=MAX_HOLD_NS).contains(&hold_ns) {
        return Err(FieldError::new(field, format!("{text:?} holds acknowledgements for no time or over 1s")));
    }
    Ok((keep_each > 1).then_some(Thinning { keep_each, hold_ns }))
}

/// What comes of a packet that enters.
#[derive(Debug, PartialEq, Eq)]
pub struct Thinned<T> {
    /// An older acknowledgement, of which the packet says more.
    pub superseded: Option<T>,
    /// What goes on now, in this order.
    pub passed: [Option<T>; 2],
}

struct Held<T> {
    flow: FlowKey,
    acknowledged: u32,
    count: u32,
    release_ns: u64,
    packet: T,
}

/// Holds the newest acknowledgement of each flow until the N-th, other news of that flow, or the end of its time.
///
/// One is dropped only once a newer one is here, so that a sender always learns what has arrived.
pub struct AckThinner<T> {
    thinning: Option<Thinning>,
    // The oldest first: all are held equally long.
    held: Vec<Held<T>>,
}

impl<T> AckThinner<T> {
    /// A thinner that holds nothing.
    pub fn new(thinning: Option<Thinning>) -> Self {
        Self { thinning, held: vec![] }
    }

    /// Takes a packet.
    pub fn offer(&mut self, now_ns: u64, facts: &PacketFacts, packet: T) -> Thinned<T> {
        let passed = |first, second| Thinned { superseded: None, passed: [first, second] };
        let (Some(thinning), Some(flow)) = (self.thinning, facts.flow) else { return passed(Some(packet), None) };
        let at = self.held.iter().position(|held| held.flow == flow);
        let (Some(acknowledged), None) = (facts.bare_ack, at) else {
            let Some(at) = at else { return passed(Some(packet), None) };
            return self.follow(at, thinning, facts.bare_ack, packet);
        };
        self.held.push(Held { flow, acknowledged, count: 1, release_ns: now_ns + thinning.hold_ns, packet });
        passed(None, None)
    }

    /// Takes the next packet of a flow of which one is held.
    fn follow(&mut self, at: usize, thinning: Thinning, bare_ack: Option<u32>, packet: T) -> Thinned<T> {
        let held = &mut self.held[at];
        // Acknowledgement numbers go round; one that is no newer tells of a loss or of a window, and is left alone.
        let newer = bare_ack.filter(|number| number.wrapping_sub(held.acknowledged) as i32 > 0);
        let Some(acknowledged) = newer else {
            let before = self.held.remove(at).packet;
            return Thinned { superseded: None, passed: [Some(before), Some(packet)] };
        };
        if held.count + 1 == thinning.keep_each {
            let before = self.held.remove(at).packet;
            return Thinned { superseded: Some(before), passed: [Some(packet), None] };
        }
        held.count += 1;
        held.acknowledged = acknowledged;
        let before = std::mem::replace(&mut held.packet, packet);
        Thinned { superseded: Some(before), passed: [None, None] }
    }

    /// When the next held acknowledgement goes on by itself, in nanoseconds.
    pub fn next_release_ns(&self) -> Option<u64> {
        self.held.first().map(|held| held.release_ns)
    }

    /// Takes out the acknowledgement that has been held longest.
    pub fn release(&mut self) -> Option<T> {
        (!self.held.is_empty()).then(|| self.held.remove(0).packet)
    }

    /// Thins as `thinning` says from now on; what is held is the caller's to release first.
    pub fn change(&mut self, thinning: Option<Thinning>) {
        self.thinning = thinning;
    }

    /// Acknowledgements held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
