//! The kinds of queue, as people write them: `fq-codel`, `codel:target=10ms`.

use std::fmt;

use super::codel::CoDelParameters;
use super::fq_codel::FqCoDelParameters;
use crate::quantity::{self, FieldError};

const KINDS: &str = "drop-tail, drop-tail-packets, codel or fq-codel";
const FLOWS: std::ops::RangeInclusive<u32> = 1..=65_536;
const QUANTUM_BYTES: std::ops::RangeInclusive<u32> = 64..=1_000_000;

/// How a direction's queue treats its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueKind {
    /// First in, first out; a packet that does not fit into the buffer's bytes is dropped.
    #[default]
    DropTail,
    /// The same, but the buffer holds as many packets of any size as it has room for full ones.
    DropTailPackets,
    /// RFC 8289, drop-tail where the buffer is full.
    CoDel(CoDelParameters),
    /// RFC 8290; where the buffer is full the fattest flow loses packets.
    FqCoDel(FqCoDelParameters),
}

/// Parses a kind with its options, such as `fq-codel:target=5ms,interval=100ms,flows=1024,quantum=1500`.
pub fn parse_queue(field: &str, text: &str) -> Result<QueueKind, FieldError> {
    let (name, options) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    let mut kind = match name {
        "drop-tail" => QueueKind::DropTail,
        "drop-tail-packets" => QueueKind::DropTailPackets,
        "codel" => QueueKind::CoDel(CoDelParameters::default()),
        "fq-codel" => QueueKind::FqCoDel(FqCoDelParameters::default()),
        _ => return Err(FieldError::new(field, format!("{text:?} is no kind of queue; use {KINDS}"))),
    };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        kind.set(field, option)?;
    }
    if let QueueKind::CoDel(codel) | QueueKind::FqCoDel(FqCoDelParameters { codel, .. }) = kind {
        if !(1..=codel.interval_ns).contains(&codel.target_ns) {
            return Err(FieldError::new(field, format!("{text:?}: target must be more than 0 and at most interval")));
        }
    }
    Ok(kind)
}

impl QueueKind {
    fn set(&mut self, field: &str, option: &str) -> Result<(), FieldError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let slot = match (self, name) {
            (Self::CoDel(codel), _) => codel.slot(name),
            (Self::FqCoDel(fq), "flows") => {
                fq.flows = whole(field, option, value, FLOWS)?;
                return Ok(());
            }
            (Self::FqCoDel(fq), "quantum") => {
                fq.quantum_bytes = whole(field, option, value, QUANTUM_BYTES)?;
                return Ok(());
            }
            (Self::FqCoDel(fq), _) => fq.codel.slot(name),
            (Self::DropTail | Self::DropTailPackets, _) => None,
        };
        let Some(slot) = slot else {
            let known = "codel has target and interval, fq-codel also flows and quantum, drop-tail has none";
            return Err(FieldError::new(field, format!("{option:?} is no option of this queue: {known}")));
        };
        *slot = quantity::parse_delay_ns(field, value)?;
        Ok(())
    }
}

impl CoDelParameters {
    fn slot(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "target" => Some(&mut self.target_ns),
            "interval" => Some(&mut self.interval_ns),
            _ => None,
        }
    }
}

impl fmt::Display for QueueKind {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match self {
            Self::DropTail => write!(output, "drop-tail"),
            Self::DropTailPackets => write!(output, "drop-tail-packets"),
            Self::CoDel(codel) => {
                write!(output, "codel:target={}ms,interval={}ms", ms(codel.target_ns), ms(codel.interval_ns))
            }
            Self::FqCoDel(FqCoDelParameters { codel, flows, quantum_bytes }) => {
                let (target_ms, interval_ms) = (ms(codel.target_ns), ms(codel.interval_ns));
                write!(
                    output,
                    "fq-codel:target={target_ms}ms,interval={interval_ms}ms,flows={flows},quantum={quantum_bytes}"
                )
            }
        }
    }
}

fn whole(field: &str, option: &str, value: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, FieldError> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        FieldError::new(field, format!("{option:?} is no whole number from {} to {}", range.start(), range.end()))
    })
}
