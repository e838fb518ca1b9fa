"""What the bench of load makes of what it read."""

from __future__ import annotations

from collections import Counter

import pytest
from load.measure import reads_of, writes_of
from load.operator import Figures, quantile
from load.processors import TICKS_PER_SECOND, cpu_seconds


def test_a_quantile_lies_within_the_bucket_that_has_it() -> None:
    before = {0.1: 10.0, 0.5: 10.0, float("inf"): 10.0}
    after = {0.1: 60.0, 0.5: 110.0, float("inf"): 110.0}
    assert quantile(before, after, 0.5) == pytest.approx(0.1)
    assert quantile(before, after, 0.75) == pytest.approx(0.3)


def test_a_quantile_beyond_the_last_bound_is_that_bound_and_that_of_nothing_is_none() -> None:
    counted = {0.1: 1.0, float("inf"): 100.0}
    assert quantile({}, counted, 0.99) == 0.1
    assert quantile(counted, counted, 0.99) is None


def test_metrics_are_added_up_over_their_labels_and_their_bounds_are_read() -> None:
    counters = ["# TYPE a counter", 'a_total{verb="x"} 1', 'a_total{verb="y"} 2', "a_total_more 9"]
    page = [*counters, "# TYPE b histogram", 'b_bucket{le="+Inf"} 4']
    figures = Figures("\n".join(page) + "\n")
    assert figures.sum("a_total") == 3.0
    assert figures.buckets("b") == {float("inf"): 4.0}


def test_processor_time_is_read_whatever_the_process_is_called() -> None:
    times = " ".join(str(number) for number in range(3, 53))
    assert cpu_seconds(f"7 (a) b (c) {times}") == (14 + 15) / TICKS_PER_SECOND


def test_renewals_of_the_lease_and_watches_are_neither_writes_nor_reads() -> None:
    asked = Counter({"patch/pods": 2, "get/nodes": 3, "list/pods": 1, "watch/pods": 5, "patch/leases": 7, "get/leases": 9})
    assert writes_of(asked) == {"patch/pods": 2}
    assert reads_of(asked) == {"get/nodes": 3, "list/pods": 1}
