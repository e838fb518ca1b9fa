"""A job that catches up after a stop is told from one that does not keep to its cap."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.cap_excess import BLOCK_BITS, CATCH_UP_SECONDS, TOLERANCE, Arrived, CapExcess, excess_after
from fairlead.guard import program

CAP_BPS = 20e6
STREAMS = 4
LOOK_SECONDS = 3.0


def reported(rates_bps: Iterable[float], streams: int = STREAMS) -> list[Arrived]:
    """Reports three seconds apart; each rate is that since the report before."""
    counts = accumulate((rate * LOOK_SECONDS / 8 for rate in rates_bps), initial=0.0)
    return [Arrived(1000.0 + LOOK_SECONDS * number, int(count), streams) for number, count in enumerate(counts)]


def history(reports: Iterable[Arrived], cap_bps: float = CAP_BPS) -> list[CapExcess]:
    """The excess after each report."""
    found: list[CapExcess] = []
    for report in reports:
        after = excess_after(found[-1] if found else None, report, cap_bps)
        assert after is not None
        found.append(after)
    return found


def first_proven_seconds(rates_bps: Iterable[float], cap_bps: float = CAP_BPS) -> float:
    """How long after the first report it is proven that the cap is not kept; infinite if it never is."""
    found = (number * LOOK_SECONDS for number, excess in enumerate(history(reported(rates_bps), cap_bps)) if excess.is_proven)
    return next(found, math.inf)


# As measured behind the node guard's rule: kept, held back by a paused probe, then a full bucket at once; after it, as the guard lets it.
PAUSED_PROBE = [20.6e6, 20.6e6, 4e6, 0.0, 2e6, 29e6, 21e6, 21e6]


@pytest.mark.parametrize(
    ("rates_bps", "description"),
    [
        ([20e6] * 100, "kept exactly"),
        ([20.9e6] * 100, "kept within the tolerance"),
        (PAUSED_PROBE * 10, "a paused probe every half minute"),
        (([20e6] * 5 + [0.0, 40e6]) * 10, "a disk of the receiver that stops for three seconds again and again"),
    ],
)
def test_a_job_that_keeps_to_its_cap_and_catches_up_after_stops_is_never_accused(rates_bps: list[float], description: str) -> None:
    assert first_proven_seconds(rates_bps) == math.inf, description


@pytest.mark.parametrize(("rate_bps", "longest_seconds"), [(200e6, 3.0), (40e6, 9.0), (30e6, 15.0), (23e6, 60.0), (21.5e6, 250.0)])
def test_the_more_a_job_exceeds_its_cap_the_sooner_it_is_found(rate_bps: float, longest_seconds: float) -> None:
    assert first_proven_seconds([rate_bps] * 200) <= longest_seconds


def test_whole_blocks_of_every_stream_may_come_at_once_under_a_small_cap() -> None:
    blocks_bps = STREAMS * BLOCK_BITS / LOOK_SECONDS
    assert first_proven_seconds([0.0, 0.0, blocks_bps, 0.0], cap_bps=64_000) == math.inf
    assert first_proven_seconds([0.0, 0.0, blocks_bps, blocks_bps], cap_bps=64_000) == 12.0


def test_the_excess_is_soon_over_once_the_cap_is_kept_again() -> None:
    proven = [excess.is_proven for excess in history(reported([200e6] * 100 + [19.5e6] * 5))]
    assert proven[100]
    assert not proven[-1]


def test_a_counter_that_fell_is_that_of_a_new_attempt() -> None:
    ahead = history(reported([200e6] * 3))[-1]
    assert ahead.is_proven
    assert excess_after(ahead, Arrived(ahead.last.at + 3, 5, STREAMS), CAP_BPS) == CapExcess(Arrived(ahead.last.at + 3, 5, STREAMS))


def test_without_a_report_nothing_changes_and_without_a_cap_there_is_no_excess() -> None:
    ahead = history(reported([200e6] * 3))[-1]
    assert excess_after(None, None, CAP_BPS) is None
    assert excess_after(ahead, None, CAP_BPS) == ahead
    uncapped = excess_after(ahead, Arrived(ahead.last.at + 3, 10**12, STREAMS), math.inf)
    assert uncapped is not None
    assert uncapped.bits == 0.0


def test_what_is_ahead_drains_at_the_cap_and_its_tolerance() -> None:
    excesses = history(reported([60e6, 10e6, 10e6]))
    drained = [before.bits - after.bits for before, after in pairwise(excesses[1:])]
    assert drained == pytest.approx([(CAP_BPS * TOLERANCE - 10e6) * LOOK_SECONDS] * 2)
    assert excesses[1].allowed_bits == pytest.approx(CAP_BPS * CATCH_UP_SECONDS + STREAMS * BLOCK_BITS)


LATE_SECONDS = 3.5


@given(st.lists(st.tuples(st.floats(0.2, 20.0), st.floats(0.0, 1.0), st.floats(0.0, LATE_SECONDS)), max_size=60))
def test_what_the_guard_lets_pass_is_never_accused_though_it_stops_and_comes_late(reports: list[tuple[float, float, float]]) -> None:
    # Each time a part of what the guard's bucket has is sent, and the receiver counts what was sent some seconds ago.
    times, sent_bits, bucket_bits = [0.0], [0.0], program.DEPTH_SECONDS * CAP_BPS
    arrived = [Arrived(0.0, 0, STREAMS)]
    for seconds, part, late_seconds in reports:
        available_bits = bucket_bits + program.TOLERANCE * CAP_BPS * seconds
        times.append(times[-1] + seconds)
        sent_bits.append(sent_bits[-1] + part * available_bits)
        bucket_bits = min((1 - part) * available_bits, program.DEPTH_SECONDS * CAP_BPS)
        count_bytes = int(np.interp(times[-1] - late_seconds, times, sent_bits) / 8)
        arrived.append(Arrived(times[-1], max(count_bytes, arrived[-1].count_bytes), STREAMS))
    assert not any(excess.is_proven for excess in history(arrived))
