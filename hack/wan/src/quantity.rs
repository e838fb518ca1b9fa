//! Quantities as people write them: `200M`, `30ms`, `3MB`, `1.5BDP`, `0.0001`.

use std::fmt;

/// Longest one-way delay accepted, in nanoseconds (ten seconds).
pub const MAX_DELAY_NS: u64 = 10_000_000_000;
/// Highest rate accepted, in bits per second; above it a link is as good as unlimited here.
pub const MAX_RATE_BPS: u64 = 100_000_000_000;
/// Lowest rate accepted, in bits per second: a 1500-byte packet then takes twelve seconds.
pub const MIN_RATE_BPS: u64 = 1_000;
/// Largest buffer accepted, in bytes.
pub const MAX_BUFFER_BYTES: u64 = 4 << 30;
/// Smallest buffer accepted, in bytes: one full Ethernet-sized packet.
pub const MIN_BUFFER_BYTES: u64 = 1_500;

/// The caller gave a field a value it cannot have; trying the same again will not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// The name of the field, as the caller wrote it.
    pub field: String,
    /// What is wrong with the value and what would be right.
    pub message: String,
}

impl FieldError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// A buffer as asked for: bytes, or a multiple of the bandwidth-delay product of its direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BufferSize {
    /// That many bytes.
    Bytes(u64),
    /// That many times rate × round-trip time.
    BandwidthDelayProducts(f64),
}

/// Parses a rate in decimal bits per second (`200M`, `1.5G`, `64000`); `unlimited` is `None`.
pub fn parse_rate_bps(field: &str, text: &str) -> Result<Option<u64>, FieldError> {
    if text.trim() == "unlimited" {
        return Ok(None);
    }
    let (number, unit) = split(field, text, "bits per second such as 200M, 1.5G or unlimited")?;
    let scale = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(unknown_unit(field, text, unit, "k, M, G or none (bits per second)")),
    };
    within(field, text, number * scale, MIN_RATE_BPS, MAX_RATE_BPS, "bits per second").map(Some)
}

/// Parses a time (`30ms`, `1.5ms`, `0.03s`, `200us`) into nanoseconds.
pub fn parse_delay_ns(field: &str, text: &str) -> Result<u64, FieldError> {
    let (number, unit) = split(field, text, "a time such as 30ms, 1.5ms or 0.03s")?;
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if number == 0.0 => 1.0,
        _ => return Err(unknown_unit(field, text, unit, "ns, us, ms or s")),
    };
    within(field, text, number * scale, 0, MAX_DELAY_NS, "nanoseconds")
}

/// Parses a buffer (`3MB`, `256KiB`, `65536`, `1.5BDP`).
pub fn parse_buffer(field: &str, text: &str) -> Result<BufferSize, FieldError> {
    let (number, unit) = split(field, text, "bytes such as 3MB, 256KiB or 65536, or 1.0BDP")?;
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "BDP" if number > 0.0 => return Ok(BufferSize::BandwidthDelayProducts(number)),
        "BDP" => return Err(FieldError::new(field, format!("{text:?} must be more than 0"))),
        _ => return Err(unknown_unit(field, text, unit, "B, kB, MB, GB, KiB, MiB, GiB, BDP or none (bytes)")),
    };
    within(field, text, number * scale, MIN_BUFFER_BYTES, MAX_BUFFER_BYTES, "bytes").map(BufferSize::Bytes)
}

/// Parses a share of packets, from 0 to 1.
pub fn parse_share(field: &str, text: &str) -> Result<f64, FieldError> {
    let (number, unit) = split(field, text, "a ratio from 0 to 1 such as 0.0001")?;
    if !unit.is_empty() {
        return Err(unknown_unit(field, text, unit, "none: a ratio from 0 to 1, so 1% is 0.01"));
    }
    if number > 1.0 {
        return Err(FieldError::new(field, format!("{text:?} is over 1; give a ratio from 0 to 1, so 1% is 0.01")));
    }
    Ok(number)
}

/// Parses `true` or `false`.
pub fn parse_flag(field: &str, text: &str) -> Result<bool, FieldError> {
    text.trim().parse().map_err(|_| FieldError::new(field, format!("{text:?} is neither true nor false")))
}

/// Splits `text` into a plain decimal number, never negative, and the unit after it.
fn split<'a>(field: &str, text: &'a str, expected: &str) -> Result<(f64, &'a str), FieldError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    // "1e-4" is what a program prints for a small ratio; a unit cannot begin with e.
    let (number, unit) = match unit.strip_prefix(['e', 'E']) {
        Some(exponent) if exponent.parse::<i8>().is_ok() => (trimmed, ""),
        _ => (number, unit),
    };
    let value: f64 = number.parse().map_err(|_| FieldError::new(field, format!("{text:?} is not {expected}")))?;
    if !value.is_finite() {
        return Err(FieldError::new(field, format!("{text:?} is too large")));
    }
    Ok((value, unit.trim_start()))
}

fn unknown_unit(field: &str, text: &str, unit: &str, known: &str) -> FieldError {
    FieldError::new(field, format!("{text:?} has the unit {unit:?}; use {known}"))
}

fn within(field: &str, text: &str, value: f64, min: u64, max: u64, unit: impl fmt::Display) -> Result<u64, FieldError> {
    let rounded = value.round();
    if rounded < min as f64 || rounded > max as f64 {
        return Err(FieldError::new(field, format!("{text:?} is outside {min} to {max} {unit}")));
    }
    Ok(rounded as u64)
}
