"""Rates and durations as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.shared.quantity import (
    RateError,
    format_duration,
    format_milliseconds,
    format_rate,
    format_rate_rounded,
    format_ratio,
    parse_rate,
)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("2G", 2 * 10**9), ("200M", 2 * 10**8), ("500k", 500_000), ("1.5M", 1_500_000), ("64000", 64_000), ("1T", 10**12), ("0", 0)],
)
def test_reads_decimal_bits_per_second(text: str, rate_bps: int) -> None:
    assert parse_rate(text) == rate_bps


@pytest.mark.parametrize("text", ["", "fast", "2Gi", "2g", "-1M", "1e9", " 2G", "2 G", "2G\n", "1.2345M", "٣M", "G"])
def test_refuses_anything_else_and_says_how_to_write_it(text: str) -> None:
    with pytest.raises(RateError, match="200M"):
        parse_rate(text)


@given(st.integers(0, 10**15 - 1))
def test_writing_and_reading_a_rate_loses_nothing(rate_bps: int) -> None:
    assert parse_rate(format_rate(rate_bps)) == rate_bps


@given(st.floats(0, 9e14))
def test_a_rounded_rate_is_within_half_a_per_cent_and_can_be_read(rate_bps: float) -> None:
    assert parse_rate(format_rate_rounded(rate_bps)) == pytest.approx(rate_bps, rel=0.0051, abs=1)


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(187_432_991, "187M"), (1_874_329_910, "1.87G"), (999_999, "1M"), (42, "42"), (0.4, "0"), (0, "0"), (-5, "0"), (100e6, "100M")],
)
def test_rounds_for_people(rate_bps: float, text: str) -> None:
    assert format_rate_rounded(rate_bps) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (42.4, "42s"), (65, "1m5s"), (3600, "1h0m0s"), (90061, "25h1m1s"), (-3, "0s")])
def test_writes_durations_as_kubernetes_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_writes_times_and_ratios_without_an_exponent() -> None:
    assert format_milliseconds(0.0602) == "60.2ms"
    assert format_ratio(0.001) == "0.001"
    assert format_ratio(0) == "0"
    assert format_ratio(1) == "1"
    assert format_ratio(1e-9) == "0"


@given(st.floats(), st.integers(0, 6))
def test_every_number_can_be_written(value: float, decimals: int) -> None:
    assert parse_rate(format_rate_rounded(value)) >= 0
    assert format_milliseconds(value, decimals).endswith("ms")
    assert float(format_ratio(value)) >= 0
    assert format_duration(value).endswith("s")
