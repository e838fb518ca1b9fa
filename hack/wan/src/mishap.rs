//! What else may happen to a packet on its way: it comes late, behind those sent after it, or with other content.

use crate::quantity::{self, FieldError};

const MAX_EXTRA_NS: u64 = 1_000_000_000;
/// A shorter packet is hardly more than headers, and keeps its content.
const LEAST_CORRUPTED_BYTES: usize = 128;

/// How many packets come late, and by how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reordering {
    /// Share of packets, from 0 to 1.
    pub share: f64,
    /// What they take longer than the others, in nanoseconds; 1 at least.
    pub extra_ns: u64,
}

/// Parses `SHARE,EXTRA`, such as `0.01,5ms`; `0` is `None`: packets keep their order.
pub fn parse_reordering(field: &str, text: &str) -> Result<Option<Reordering>, FieldError> {
    let Some((share, extra)) = text.split_once(',') else {
        return match quantity::parse_share(field, text)? {
            0.0 => Ok(None),
            _ => Err(FieldError::new(
                field,
                format!("{text:?} does not say how late; give SHARE,EXTRA such as 0.01,5ms"),
            )),
        };
    };
    let (share, extra_ns) = (quantity::parse_share(field, share)?, quantity::parse_delay_ns(field, extra)?);
    if !(1..=MAX_EXTRA_NS).contains(&extra_ns) {
        return Err(FieldError::new(field, format!("{text:?} is not later by more than 0 and at most 1s")));
    }
    Ok((share > 0.0).then_some(Reordering { share, extra_ns }))
}

/// Exchanges two different 16-bit words in the second half of an IP packet; `draw` says which. Whether there were two.
///
/// The Internet checksum of TCP and UDP is a sum of words, the same in any order (RFC 1071, section 2), and does not show it, as it would
/// show another bit.
pub fn corrupt(packet: &mut [u8], draw: u64) -> bool {
    if packet.len() < LEAST_CORRUPTED_BYTES {
        return false;
    }
    let words = packet.len() / 2;
    let (first, count) = (words / 2, words - words / 2);
    let word = |index: usize| first + index % count;
    let one = word(draw as usize % count);
    let other = (1..count)
        .map(|step| word(one - first + step))
        .find(|other| packet[2 * one..][..2] != packet[2 * other..][..2]);
    let Some(other) = other else { return false };
    packet.swap(2 * one, 2 * other);
    packet.swap(2 * one + 1, 2 * other + 1);
    true
}
