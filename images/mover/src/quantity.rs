//! Rates and sizes as people write them: decimal, with the suffixes `k M G T`.

/// Why text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a rate; write bits per second such as 500M or 2G (suffixes k M G T)")]
pub(crate) struct QuantityError(String);

/// Parses a decimal quantity such as `2G` or `1.5M`; at least 1.
pub(crate) fn parse(text: &str) -> Result<u64, QuantityError> {
    let error = || QuantityError(text.to_owned());
    let trimmed = text.trim();
    let (digits, exponent) = match trimmed.as_bytes().last() {
        Some(b'k' | b'K') => (&trimmed[..trimmed.len() - 1], 3),
        Some(b'M') => (&trimmed[..trimmed.len() - 1], 6),
        Some(b'G') => (&trimmed[..trimmed.len() - 1], 9),
        Some(b'T') => (&trimmed[..trimmed.len() - 1], 12),
        _ => (trimmed, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > exponent {
        return Err(error());
    }
    let scale = 10u64.pow(exponent as u32);
    let whole: u64 = whole.parse().map_err(|_| error())?;
    let part = match fraction {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| error())? * 10u64.pow((exponent - digits.len()) as u32),
    };
    let value = whole.checked_mul(scale).and_then(|value| value.checked_add(part)).ok_or_else(error)?;
    if value == 0 {
        return Err(error());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn quantities_are_read_by_the_table() {
        for (text, expected) in [
            ("1", Some(1)),
            ("200M", Some(200_000_000)),
            ("2G", Some(2_000_000_000)),
            ("1.5M", Some(1_500_000)),
            ("64k", Some(64_000)),
            (" 3T\n", Some(3_000_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1.5", None),
            ("2Gi", None),
            ("1e9", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse(text).ok(), expected, "{text:?}");
        }
    }
}
