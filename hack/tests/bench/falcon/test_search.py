"""Falcon's search by hand, against what the authors' own program does with the same utilities."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fairlead_dev.bench.falcon.search import FalconSample, FalconSearch, begin, sample_of, step

MOST = 32


def tried(worth_mbps: Callable[[int], float], steps: int, most: int = MOST) -> list[int]:
    """The counts that are tried where each has a utility of its own."""
    search, counts = begin(most), []
    for _ in range(steps):
        counts.append(search.streams)
        search = step(search, worth_mbps(search.streams))
    return counts


@pytest.mark.parametrize(
    ("streams", "loss_ratio", "utility_mbps"), [(1, 0.0, 100 / 1.02), (10, 0.0, 82.0348), (1, 0.01, 88.0392), (1, 0.2, -101.9608)]
)
def test_a_stream_costs_two_per_cent_and_loss_ten_times_itself(streams: int, loss_ratio: float, utility_mbps: float) -> None:
    assert FalconSample(100.0, loss_ratio).utility_mbps(streams) == pytest.approx(utility_mbps, abs=1e-4)


@pytest.mark.parametrize(
    ("search", "utility_mbps", "streams", "same_way"),
    [
        # From its first stream to two, whatever that was worth.
        (FalconSearch(MOST, MOST, streams=1), 5.0, 2, 0),
        # Twice as much with twice the streams: a half more for each, as often as steps went up.
        (FalconSearch(MOST, MOST, streams=2, before=(1, 10.0)), 20.0, 4, 1),
        (FalconSearch(MOST, MOST, streams=4, before=(2, 10.0), same_way=2), 20.0, 10, 3),
        # A turn begins with short steps again.
        (FalconSearch(MOST, MOST, streams=10, before=(8, 20.0), same_way=3), 19.0, 9, -1),
        (FalconSearch(MOST, MOST, streams=9, before=(10, 19.0), same_way=-1), 19.5, 7, -2),
        (FalconSearch(MOST, MOST, streams=7, before=(9, 20.0), same_way=-2), 19.0, 8, 1),
        # Equally good: it stays.
        (FalconSearch(MOST, MOST, streams=8, before=(7, 20.0), same_way=1), 20.0, 8, 2),
        # Never back to one, and no further than there may be.
        (FalconSearch(MOST, MOST, streams=2, before=(3, 10.0), same_way=-4), 20.0, 2, -5),
        (FalconSearch(MOST, MOST, streams=20, before=(10, 1.0), same_way=3, best_mbps=99.0), 90.0, 32, 4),
        # At the same count a gain leads down.
        (FalconSearch(MOST, MOST, streams=12, before=(12, 20.0), same_way=1), 21.0, 11, -1),
        # After nothing at all, Mb/s are the change.
        (FalconSearch(MOST, MOST, streams=2, before=(1, 0.0)), 3.0, 8, 1),
    ],
)
def test_a_step(search: FalconSearch, utility_mbps: float, streams: int, same_way: int) -> None:
    after = step(search, utility_mbps)
    assert (after.streams, after.same_way) == (streams, same_way)


def test_it_goes_no_further_than_ten_beyond_its_best_count() -> None:
    after = step(FalconSearch(MOST, MOST, streams=4, before=(2, 1.0), same_way=5), 9.0)
    assert (after.streams, after.limit_streams, after.best_mbps) == (14, 14, 9.0)
    worse = step(after, 5.0)
    assert (worse.limit_streams, worse.best_mbps) == (14, 9.0)


def test_where_every_stream_brings_as_much_it_goes_up() -> None:
    assert tried(lambda streams: streams * 10 / 1.02**streams, 8) == [1, 2, 4, 8, 14, 22, 27, 32]


def test_where_one_stream_fills_the_path_it_stays_with_few() -> None:
    assert max(tried(lambda streams: 100 / 1.02**streams, 40)) <= 3


def authors(utilities_mbps: Sequence[float], most: int) -> list[int]:
    """What `gradient_opt_fast` tries, in its own terms: costs are utilities below zero, `theta` counts the steps one way."""
    counts, costs, theta, least, limit = [1], [-utilities_mbps[0]], 0, 0.0, most
    for number in range(1, len(utilities_mbps)):
        if costs[-1] < least:
            least, limit = costs[-1], min(counts[-1] + 10, most)
        if len(counts) == 1:
            counts.append(2)
        else:
            rise = costs[-1] - costs[-2] if counts[-1] > counts[-2] else costs[-2] - costs[-1]
            gradient = rise / max(1, abs(counts[-1] - counts[-2]))
            change = abs(gradient / costs[-2]) if costs[-2] else abs(gradient)
            theta = (theta - 1 if theta <= 0 else -1) if gradient > 0 else (theta + 1 if theta >= 0 else 1)
            counts.append(min(max(counts[-1] + int(theta * -(-counts[-1] * change // 1)), 2), limit))
        costs.append(-utilities_mbps[number])
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_it_tries_what_the_authors_program_tries(seed: int) -> None:
    utilities_mbps = [random.Random(seed * 1000 + number).uniform(-5, 100) for number in range(60)]
    search, counts = begin(MOST), []
    for utility_mbps in utilities_mbps:
        counts.append(search.streams)
        search = step(search, utility_mbps)
    assert counts == authors(utilities_mbps, MOST)


def stats(**streams: tuple[int | None, int | None]) -> dict[str, Any]:
    return {"streams": [{"id": name, "bytes_sent": sent, "retransmits": resent} for name, (sent, resent) in streams.items()]}


@pytest.mark.parametrize(
    ("before", "after", "goodput_mbps", "loss_ratio"),
    [
        (stats(a=(1_000_000, 5)), stats(a=(3_000_000, 5)), 8.0, 0.0),
        (stats(a=(0, 0)), stats(a=(1448 * 99, 1)), 1448 * 99 * 4e-6, 0.01),
        # One was closed, another one opened, a third connected anew.
        (stats(a=(9_000_000, 0), b=(5_000_000, 7)), stats(b=(1_000_000, 0), c=(1_000_000, 0)), 8.0, 0.0),
        (stats(a=(None, None)), stats(a=(2_000_000, None)), 8.0, 0.0),
        (stats(a=(0, 0)), stats(a=(0, 3)), 0.0, 0.0),
        (stats(), stats(), 0.0, 0.0),
    ],
)
def test_a_sample_is_what_all_streams_carried_and_lost(
    before: dict[str, Any], after: dict[str, Any], goodput_mbps: float, loss_ratio: float
) -> None:
    assert sample_of(before, after, 2.0) == FalconSample(pytest.approx(goodput_mbps), pytest.approx(loss_ratio))
