"""Bytes of streams that come and go."""

import pytest

from fairlead_dev.bench.shares.jobs import grown


@pytest.mark.parametrize(
    ("before", "now", "bytes_grown"),
    [
        ({}, {0: 10, 1: 20}, 30),
        ({0: 10, 1: 20}, {0: 15, 1: 20}, 5),
        ({0: 10, 1: 20}, {0: 15}, 5),
        # Another stream of the same number.
        ({0: 10}, {0: 4}, 4),
        ({0: 10}, {}, 0),
    ],
)
def test_what_streams_have_sent_since_the_sample_before(before: dict[int, int], now: dict[int, int], bytes_grown: int) -> None:
    assert grown(before, now) == bytes_grown
