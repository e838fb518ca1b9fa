//! The parameters of a path, and changes to them that are applied wholly or not at all.

use serde::{Deserialize, Serialize};

use crate::mishap::{parse_reordering, Reordering};
use crate::police::{parse_policing, Policing};
use crate::quantity::{self, BufferSize, FieldError, MAX_BUFFER_BYTES};
use crate::queue::{parse_queue, QueueKind};
use crate::receiver::{parse_receiver, SlowReceiver};
use crate::thin::{parse_thinning, Thinning};

/// Least buffer given to a link with a rate for which none was asked, in bytes.
const LEAST_DEFAULT_BUFFER_BYTES: u64 = 64 * 1024;

/// What one direction of the path does to packets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectionParameters {
    /// Bits per second; absent means that packets never queue.
    pub rate_bps: Option<u64>,
    /// One-way delay after the queue, in nanoseconds.
    pub delay_ns: u64,
    /// Buffer in bytes, the packet being sent included; present wherever a rate is.
    pub buffer_bytes: Option<u64>,
    /// How the queue in the buffer treats its packets.
    pub queue: QueueKind,
    /// What all packets together are held to before the queue; absent means that nothing is.
    pub police: Option<Policing>,
    /// What UDP is held to before the queue.
    pub police_udp: Option<Policing>,
    /// How bare TCP acknowledgements are thinned before the queue.
    pub thin_acks: Option<Thinning>,
    /// Share of packets lost at random after the queue, from 0 to 1.
    pub loss: f64,
    /// How packets that are not lost come late; absent means that they keep their order.
    pub reorder: Option<Reordering>,
    /// Share of packets that are not lost and come with other content, from 0 to 1.
    pub corrupt: f64,
    /// How the host behind the path takes packets; absent means as they come.
    pub receiver: Option<SlowReceiver>,
    /// Whether nothing passes.
    pub down: bool,
}

/// Both directions of the path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathParameters {
    /// From device A to device B.
    pub ab: DirectionParameters,
    /// From device B to device A.
    pub ba: DirectionParameters,
}

/// Which way a change applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From A to B only.
    Ab,
    /// From B to A only.
    Ba,
    /// Both ways.
    #[default]
    Both,
}

/// New values for some fields of a direction, as people write them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WrittenChange {
    /// See [`quantity::parse_rate_bps`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// See [`quantity::parse_delay_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// See [`quantity::parse_buffer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<String>,
    /// See [`parse_queue`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// See [`parse_policing`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<String>,
    /// See [`parse_policing`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police_udp: Option<String>,
    /// See [`parse_thinning`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin_acks: Option<String>,
    /// See [`quantity::parse_share`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// See [`parse_reordering`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<String>,
    /// See [`quantity::parse_share`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    /// See [`parse_receiver`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// See [`quantity::parse_flag`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<String>,
}

/// New values for some fields of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Change {
    rate_bps: Option<Option<u64>>,
    delay_ns: Option<u64>,
    buffer: Option<BufferSize>,
    queue: Option<QueueKind>,
    police: Option<Option<Policing>>,
    police_udp: Option<Option<Policing>>,
    thin_acks: Option<Option<Thinning>>,
    loss: Option<f64>,
    reorder: Option<Option<Reordering>>,
    corrupt: Option<f64>,
    receiver: Option<Option<SlowReceiver>>,
    down: Option<bool>,
}

impl WrittenChange {
    /// Reads the values; an error names the field with `suffix` added, such as `rate-ab`.
    pub fn parse(&self, suffix: &str) -> Result<Change, FieldError> {
        fn read<T>(
            name: &str,
            suffix: &str,
            text: &Option<String>,
            parse: impl Fn(&str, &str) -> Result<T, FieldError>,
        ) -> Result<Option<T>, FieldError> {
            text.as_deref().map(|text| parse(&format!("{name}{suffix}"), text)).transpose()
        }
        Ok(Change {
            rate_bps: read("rate", suffix, &self.rate, quantity::parse_rate_bps)?,
            delay_ns: read("delay", suffix, &self.delay, quantity::parse_delay_ns)?,
            buffer: read("buffer", suffix, &self.buffer, quantity::parse_buffer)?,
            queue: read("queue", suffix, &self.queue, parse_queue)?,
            police: read("police", suffix, &self.police, parse_policing)?,
            police_udp: read("police-udp", suffix, &self.police_udp, parse_policing)?,
            thin_acks: read("thin-acks", suffix, &self.thin_acks, parse_thinning)?,
            loss: read("loss", suffix, &self.loss, quantity::parse_share)?,
            reorder: read("reorder", suffix, &self.reorder, parse_reordering)?,
            corrupt: read("corrupt", suffix, &self.corrupt, quantity::parse_share)?,
            receiver: read("receiver", suffix, &self.receiver, parse_receiver)?,
            down: read("down", suffix, &self.down, quantity::parse_flag)?,
        })
    }
}

impl Change {
    /// This change with the fields that `other` sets taken from `other`.
    pub fn overridden_by(self, other: Change) -> Change {
        Change {
            rate_bps: other.rate_bps.or(self.rate_bps),
            delay_ns: other.delay_ns.or(self.delay_ns),
            buffer: other.buffer.or(self.buffer),
            queue: other.queue.or(self.queue),
            police: other.police.or(self.police),
            police_udp: other.police_udp.or(self.police_udp),
            thin_acks: other.thin_acks.or(self.thin_acks),
            loss: other.loss.or(self.loss),
            reorder: other.reorder.or(self.reorder),
            corrupt: other.corrupt.or(self.corrupt),
            receiver: other.receiver.or(self.receiver),
            down: other.down.or(self.down),
        }
    }

    fn apply_without_buffer(&self, to: &mut DirectionParameters) {
        to.rate_bps = self.rate_bps.unwrap_or(to.rate_bps);
        to.delay_ns = self.delay_ns.unwrap_or(to.delay_ns);
        to.queue = self.queue.unwrap_or(to.queue);
        to.police = self.police.unwrap_or(to.police);
        to.police_udp = self.police_udp.unwrap_or(to.police_udp);
        to.thin_acks = self.thin_acks.unwrap_or(to.thin_acks);
        to.loss = self.loss.unwrap_or(to.loss);
        to.reorder = self.reorder.unwrap_or(to.reorder);
        to.corrupt = self.corrupt.unwrap_or(to.corrupt);
        to.receiver = self.receiver.unwrap_or(to.receiver);
        to.down = self.down.unwrap_or(to.down);
    }
}

impl PathParameters {
    /// The parameters of a new path; a direction with a rate and no buffer gets one bandwidth-delay product.
    pub fn initial(ab: Change, ba: Change) -> Result<Self, FieldError> {
        let mut path = Self::default();
        ab.apply_without_buffer(&mut path.ab);
        ba.apply_without_buffer(&mut path.ba);
        let rtt_ns = path.rtt_ns();
        for (direction, change, name) in [(&mut path.ab, ab, "buffer-ab"), (&mut path.ba, ba, "buffer-ba")] {
            direction.buffer_bytes = match (change.buffer, direction.rate_bps) {
                (Some(buffer), rate_bps) => Some(buffer_bytes(name, buffer, rate_bps, rtt_ns)?),
                (None, Some(rate_bps)) => {
                    Some(product_bytes(1.0, rate_bps, rtt_ns).clamp(LEAST_DEFAULT_BUFFER_BYTES, MAX_BUFFER_BYTES))
                }
                (None, None) => None,
            };
        }
        Ok(path)
    }

    /// These parameters after `change`; `self` stays as it is, so that an error changes nothing.
    ///
    /// A buffer given in BDP is worked out once, from the rate and delays after the change.
    pub fn changed(&self, direction: Direction, change: Change) -> Result<Self, FieldError> {
        let mut path = self.clone();
        let (ab, ba) = (direction != Direction::Ba, direction != Direction::Ab);
        if ab {
            change.apply_without_buffer(&mut path.ab);
        }
        if ba {
            change.apply_without_buffer(&mut path.ba);
        }
        let rtt_ns = path.rtt_ns();
        for (applies, parameters, name) in [(ab, &mut path.ab, "a to b"), (ba, &mut path.ba, "b to a")] {
            if !applies {
                continue;
            }
            if let Some(buffer) = change.buffer {
                parameters.buffer_bytes = Some(buffer_bytes("buffer", buffer, parameters.rate_bps, rtt_ns)?);
            }
            if parameters.rate_bps.is_some() && parameters.buffer_bytes.is_none() {
                let message = format!("the direction {name} gets a rate and has no buffer; give a buffer with it");
                return Err(FieldError::new("buffer", message));
            }
        }
        Ok(path)
    }

    fn rtt_ns(&self) -> u64 {
        self.ab.delay_ns + self.ba.delay_ns
    }
}

fn buffer_bytes(field: &str, buffer: BufferSize, rate_bps: Option<u64>, rtt_ns: u64) -> Result<u64, FieldError> {
    match (buffer, rate_bps) {
        (BufferSize::Bytes(bytes), _) => Ok(bytes),
        (BufferSize::BandwidthDelayProducts(_), None) => {
            Err(FieldError::new(field, "a size in BDP needs a rate in the same direction; give bytes or a rate"))
        }
        (BufferSize::BandwidthDelayProducts(factor), Some(rate_bps)) => {
            let bytes = product_bytes(factor, rate_bps, rtt_ns);
            if (quantity::MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&bytes) {
                return Ok(bytes);
            }
            let message = format!(
                "{factor}BDP is {bytes} bytes with the rate and delays in force, outside {} to {MAX_BUFFER_BYTES}; give bytes",
                quantity::MIN_BUFFER_BYTES
            );
            Err(FieldError::new(field, message))
        }
    }
}

fn product_bytes(factor: f64, rate_bps: u64, rtt_ns: u64) -> u64 {
    (factor * rate_bps as f64 * rtt_ns as f64 / 8e9).round() as u64
}
