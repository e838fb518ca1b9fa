//! The messages on the control socket.

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::mishap::Reordering;
use crate::parameters::{Direction, DirectionParameters, WrittenChange};
use crate::police::Policing;
use crate::quantity::FieldError;
use crate::receiver::SlowReceiver;
use crate::thin::Thinning;

/// The version of the protocol; a request with another is refused.
pub const VERSION: u64 = 1;
/// Longest request accepted, in bytes.
pub const MAX_REQUEST_BYTES: u64 = 64 * 1024;

/// What a client may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmulatorCommand {
    /// Counters and parameters.
    Stats,
    /// Measure from now on how late packets are written, and forget what was; answered as `Stats`.
    Measure,
    /// Change the live path.
    Set(Box<SetCommand>),
}

/// New values for a direction, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetCommand {
    /// Which way it applies.
    #[serde(default)]
    pub direction: Direction,
    /// The fields to change.
    #[serde(default)]
    pub change: WrittenChange,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The field at fault, if one is.
    pub field: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self { field: Some(error.field), message: error.message }
    }
}

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }
}

/// Parameters as they are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownParameters {
    /// Bits per second; null is unlimited.
    pub rate_bps: Option<u64>,
    /// One-way delay in milliseconds.
    pub delay_ms: f64,
    /// Buffer in bytes; null if the rate is unlimited and none was given.
    pub buffer_bytes: Option<u64>,
    /// The kind of queue with all its options, as the command line takes it.
    pub queue: String,
    /// What all packets together are held to; null if they are not.
    pub police: Option<ShownPolicing>,
    /// What UDP is held to; null if it is not.
    pub police_udp: Option<ShownPolicing>,
    /// How acknowledgements are thinned; null if they are not.
    pub thin_acks: Option<ShownThinning>,
    /// Share of packets lost at random, from 0 to 1.
    pub loss: f64,
    /// How packets come late; null if they keep their order.
    pub reorder: Option<ShownReordering>,
    /// Share of packets that come with other content, from 0 to 1.
    pub corrupt: f64,
    /// How the host behind the path takes packets; null if as they come.
    pub receiver: Option<ShownReceiver>,
    /// Whether nothing passes.
    pub down: bool,
}

/// A policer as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPolicing {
    /// Bits per second.
    pub rate_bps: u64,
    /// The size of the bucket in bytes.
    pub burst_bytes: u64,
}

/// Thinning of acknowledgements as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownThinning {
    /// Of so many in a row the last goes on.
    pub keep_each: u32,
    /// How long one is held, in milliseconds.
    pub hold_ms: f64,
}

/// Late packets as they are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownReordering {
    /// Share of packets, from 0 to 1.
    pub share: f64,
    /// What they take longer than the others, in milliseconds.
    pub extra_ms: f64,
}

/// A slow receiver as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownReceiver {
    /// What a packet takes it, in microseconds.
    pub cost_us: f64,
    /// Packets in its queue at most, the one at work included.
    pub room_packets: usize,
}

impl From<Policing> for ShownPolicing {
    fn from(policing: Policing) -> Self {
        Self { rate_bps: policing.rate_bps, burst_bytes: policing.burst_bytes }
    }
}

impl From<Thinning> for ShownThinning {
    fn from(thinning: Thinning) -> Self {
        Self { keep_each: thinning.keep_each, hold_ms: thinning.hold_ns as f64 / 1e6 }
    }
}

impl From<Reordering> for ShownReordering {
    fn from(reordering: Reordering) -> Self {
        Self { share: reordering.share, extra_ms: reordering.extra_ns as f64 / 1e6 }
    }
}

impl From<SlowReceiver> for ShownReceiver {
    fn from(receiver: SlowReceiver) -> Self {
        Self { cost_us: receiver.cost_ns as f64 / 1e3, room_packets: receiver.room_packets }
    }
}

impl From<&DirectionParameters> for ShownParameters {
    fn from(parameters: &DirectionParameters) -> Self {
        Self {
            rate_bps: parameters.rate_bps,
            delay_ms: parameters.delay_ns as f64 / 1e6,
            buffer_bytes: parameters.buffer_bytes,
            queue: parameters.queue.to_string(),
            police: parameters.police.map(Into::into),
            police_udp: parameters.police_udp.map(Into::into),
            thin_acks: parameters.thin_acks.map(Into::into),
            loss: parameters.loss,
            reorder: parameters.reorder.map(Into::into),
            corrupt: parameters.corrupt,
            receiver: parameters.receiver.map(Into::into),
            down: parameters.down,
        }
    }
}

/// The request as a line of JSON, its newline included.
pub fn encode_request(command: &EmulatorCommand) -> String {
    format!("{}\n", json!({"version": VERSION, "command": command}))
}

/// Reads a request.
pub fn decode_request(line: &str) -> Result<EmulatorCommand, Refusal> {
    let mut request: Value =
        serde_json::from_str(line).map_err(|error| Refusal::new(format!("the request is not JSON: {error}")))?;
    match request.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => return Err(Refusal::new(format!("version {other} is not spoken here; send version {VERSION}"))),
        None => return Err(Refusal::new(format!("the request lacks \"version\": {VERSION}"))),
    }
    let command =
        request.get_mut("command").map(Value::take).ok_or_else(|| Refusal::new("the request lacks \"command\""))?;
    serde_json::from_value(command).map_err(|error| Refusal::new(format!("the command cannot be read: {error}")))
}

/// The answer as a line of JSON, its newline included.
pub fn encode_answer(answer: &Result<Value, Refusal>) -> String {
    let line = match answer {
        Ok(result) => json!({"version": VERSION, "result": result}),
        Err(refusal) => json!({"version": VERSION, "error": refusal}),
    };
    format!("{line}\n")
}

/// Reads an answer.
pub fn decode_answer(line: &str) -> Result<Value, Refusal> {
    let mut answer: Value = serde_json::from_str(line)
        .map_err(|error| Refusal::new(format!("the answer is not JSON, is this the right socket? {error}")))?;
    if let Some(result) = answer.get_mut("result") {
        return Ok(result.take());
    }
    match answer.get_mut("error").map(|error| serde_json::from_value(error.take())) {
        Some(Ok(refusal)) => Err(refusal),
        _ => Err(Refusal::new("the answer has neither a result nor an error")),
    }
}
