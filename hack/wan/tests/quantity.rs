//! Quantities as people write them.

use fairlead_wan::quantity::{parse_buffer, parse_delay_ns, parse_flag, parse_rate_bps, parse_share, BufferSize};

#[test]
fn rates_are_decimal_bits_per_second() {
    for (text, rate_bps) in [
        ("200M", Some(200_000_000)),
        ("1.5G", Some(1_500_000_000)),
        ("64k", Some(64_000)),
        ("64000", Some(64_000)),
        (" 10 M ", Some(10_000_000)),
        ("unlimited", None),
    ] {
        assert_eq!(parse_rate_bps("rate", text), Ok(rate_bps), "{text}");
    }
}

#[test]
fn delays_carry_their_unit() {
    for (text, delay_ns) in
        [("30ms", 30_000_000), ("1.5ms", 1_500_000), ("0.03s", 30_000_000), ("200us", 200_000), ("7ns", 7), ("0", 0)]
    {
        assert_eq!(parse_delay_ns("delay", text), Ok(delay_ns), "{text}");
    }
}

#[test]
fn buffers_are_bytes_or_bandwidth_delay_products() {
    for (text, bytes) in [
        ("3MB", 3_000_000),
        ("64kB", 64_000),
        ("256KiB", 262_144),
        ("2MiB", 2_097_152),
        ("65536", 65_536),
        ("1GB", 1_000_000_000),
    ] {
        assert_eq!(parse_buffer("buffer", text), Ok(BufferSize::Bytes(bytes)), "{text}");
    }
    assert_eq!(parse_buffer("buffer", "1.5BDP"), Ok(BufferSize::BandwidthDelayProducts(1.5)));
}

#[test]
fn losses_are_ratios() {
    for (text, loss) in [("0", 0.0), ("0.0001", 0.0001), ("1e-4", 0.0001), ("1", 1.0), (".5", 0.5)] {
        assert_eq!(parse_share("loss", text), Ok(loss), "{text}");
    }
}

#[test]
fn every_bad_value_is_refused_with_its_field() {
    for text in ["", "fast", "-5M", "5m", "5Mb", "0", "999", "101G", "nan", "inf", "1.2.3M", "1e999", "5 M M"] {
        let error = parse_rate_bps("rate-ab", text).expect_err(text);
        assert_eq!(error.field, "rate-ab", "{text}");
        assert!(error.message.contains(&format!("{text:?}")), "{error}");
    }
    for text in ["", "30", "-1ms", "30m", "11s", "ms"] {
        assert_eq!(parse_delay_ns("delay", text).expect_err(text).field, "delay");
    }
    for text in ["", "3mb", "100", "5GiB", "0BDP", "-1BDP", "BDP", "3Mb"] {
        assert_eq!(parse_buffer("buffer", text).expect_err(text).field, "buffer");
    }
    for text in ["", "1.01", "-0.1", "1%", "nan"] {
        assert_eq!(parse_share("loss", text).expect_err(text).field, "loss");
    }
    for text in ["", "yes", "1"] {
        assert_eq!(parse_flag("down", text).expect_err(text).field, "down");
    }
}
