"""Rates and durations as the resources write them: decimal bits per second (`2G`), ratios and seconds (`60.2ms`, `1m5s`)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

RATE_PATTERN: Final = r"^[0-9]{1,15}(\.[0-9]{1,3})?[kMGT]?$"
"""What a rate may look like; the schema uses the same pattern."""

_RATE = re.compile(RATE_PATTERN)
_SUFFIXES: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_HIGHEST_BPS: Final = 1e18
_LONGEST_SECONDS: Final = 1e9
_LARGEST_RATIO: Final = 1e6
_DESCENDING: Final = tuple(reversed(_SUFFIXES.items()))


class RateError(ValueError):
    """A rate that cannot be read; the message says how to write one."""


def _within(value: float, most: float) -> float:
    """`value` between 0 and `most`, so that every number can be written; 0 for NaN."""
    return min(max(0.0, value), most)


def parse_rate(text: str) -> int:
    """Bits per second of `text`, e.g. `2G`, `1.5M`, `500k`, `64000`. Raises RateError."""
    if not _RATE.fullmatch(text):
        raise RateError(f"{text!r} is not a rate: write decimal bits per second with an optional suffix k, M, G or T, e.g. 200M")
    suffix = text[-1] if text[-1] in _SUFFIXES else ""
    rate_bps = Decimal(text.removesuffix(suffix)) * _SUFFIXES[suffix]
    return int(rate_bps)


def format_rate(rate_bps: int) -> str:
    """`rate_bps` exactly, with the largest suffix that leaves a whole number: 1500000000 is `1500M`."""
    for suffix, factor in _DESCENDING:
        if rate_bps and rate_bps % factor == 0:
            return f"{rate_bps // factor}{suffix}"
    return str(rate_bps)


def format_rate_rounded(rate_bps: float) -> str:
    """`rate_bps` to three significant figures, for people: 187432991 is `187M`, 1874329910 is `1.87G`."""
    whole = int(Decimal(f"{_within(rate_bps, _HIGHEST_BPS):.3g}"))
    for suffix, factor in _DESCENDING:
        if whole >= factor:
            scaled = Decimal(whole) / factor
            return f"{scaled.normalize():f}{suffix}"
    return "0"


PART_PATTERN: Final = r"^([0-9]{1,2}(\.[0-9]{1,3})?%|[0-9]{1,15}(\.[0-9]{1,3})?[kMGT]?)$"
"""What a part of a rate may look like: a percentage below 100, or a rate."""


def parse_part(text: str, whole_bps: int) -> int:
    """Bits per second of `text`, which is a percentage of `whole_bps` (`10%`) or a rate (`500M`). Raises RateError."""
    if not text.endswith("%"):
        return parse_rate(text)
    if not re.fullmatch(PART_PATTERN, text):
        raise RateError(f"{text!r} is not a percentage: write e.g. 10%")
    return int(Decimal(text.removesuffix("%")) * whole_bps / 100)


def format_milliseconds(seconds: float, decimals: int = 1) -> str:
    """A short time in milliseconds, e.g. `60.2ms`."""
    return f"{_within(seconds, _LONGEST_SECONDS) * 1000:.{decimals}f}ms"


def parse_milliseconds(text: str) -> float | None:
    """Seconds of what `format_milliseconds` wrote; None for anything else."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)ms", text)
    return float(found[1]) / 1000 if found else None


def format_ratio(ratio: float) -> str:
    """A ratio or probability without an exponent, e.g. `0.001`."""
    text = f"{_within(ratio, _LARGEST_RATIO):.4f}".rstrip("0").rstrip(".")
    return text or "0"


def format_duration(seconds: float) -> str:
    """Whole seconds as Kubernetes writes durations, e.g. `42s`, `1m5s`, `2h0m0s`."""
    minutes, rest = divmod(round(_within(seconds, _LONGEST_SECONDS)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
