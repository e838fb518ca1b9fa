from __future__ import annotations

import pytest

from fairlead_dev.bench.fairness.figures import Write, cap_errors, convergence_s, excess, mean_rate_bps, normalised_jain, parse_counters
from fairlead_dev.bench.lab.rates import InterfaceSample

M = 1e6


def flow(*stretches: tuple[float, float], step_s: float = 0.1) -> list[InterfaceSample]:
    """Samples of a counter that grows at a rate in bits per second for so many seconds, one stretch after the other."""
    samples, time_s, total = [InterfaceSample(0.0, 0)], 0.0, 0.0
    for rate_bps, seconds in stretches:
        for _ in range(round(seconds / step_s)):
            time_s, total = time_s + step_s, total + rate_bps * step_s / 8
            samples.append(InterfaceSample(time_s, int(total)))
    return samples


def test_counters_are_read_by_name_and_a_torn_last_line_is_left_out() -> None:
    found = parse_counters("1.0 a 10 1\n1.1 a 20 2 b 7 1\n1.2 a 30 3 b 9")
    assert found == {"a": [InterfaceSample(1.0, 10), InterfaceSample(1.1, 20)], "b": [InterfaceSample(1.1, 7)]}


def test_the_mean_is_over_the_span_alone() -> None:
    samples = flow((8 * M, 10), (80 * M, 10))
    assert mean_rate_bps(samples, 2, 9) == pytest.approx(8 * M, rel=1e-3)
    assert mean_rate_bps(samples, 5, 15) == pytest.approx(44 * M, rel=1e-2)
    assert mean_rate_bps([], 0, 5) == 0.0


@pytest.mark.parametrize(
    ("rates", "index"),
    [
        ({"a": 10 * M, "b": 20 * M, "c": 40 * M}, 1.0),
        ({"a": 5 * M, "b": 10 * M, "c": 20 * M}, 1.0),
        ({"a": 70 * M, "b": 0.0, "c": 0.0}, 1 / 3),
    ],
    ids=["as due", "all half", "one has it all"],
)
def test_the_index_counts_what_each_has_over_what_it_is_due(rates: dict[str, float], index: float) -> None:
    assert normalised_jain(rates, {"a": 10 * M, "b": 20 * M, "c": 40 * M}) == pytest.approx(index)


def test_the_index_is_nothing_while_nobody_sends() -> None:
    assert normalised_jain({"a": 0.0}, {"a": 1.0}) == 0.0


def test_excess_is_that_of_the_highest_second() -> None:
    samples = flow((100 * M, 5), (110 * M, 1), (90 * M, 5))
    assert excess(samples, 100 * M, 0, 11) == pytest.approx(0.1, abs=0.005)
    assert excess(samples, 100 * M, 7, 11) == pytest.approx(-0.1, abs=0.005)


def test_convergence_is_the_slowest_jobs_first_second_that_is_near_and_stays_near() -> None:
    series = {"quick": flow((10 * M, 20)), "slow": flow((2 * M, 4), (10 * M, 16))}
    due = {"quick": 10 * M, "slow": 10 * M}
    assert convergence_s(series, due, 0, 20) == pytest.approx(4.9, abs=0.3)
    assert convergence_s(series, {"quick": 10 * M}, 0, 20) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("late", [flow((10 * M, 15), (5 * M, 5)), flow((2 * M, 20)), []], ids=["falls back", "never near", "was not seen"])
def test_a_job_that_is_not_near_at_the_end_has_not_converged(late: list[InterfaceSample]) -> None:
    assert convergence_s({"a": flow((10 * M, 20)), "b": late}, {"a": 10 * M, "b": 10 * M}, 0, 20) is None


def test_a_cap_is_judged_over_the_longest_time_that_it_stood_and_never_while_the_job_was_away() -> None:
    series = {"a": flow((10 * M, 10), (21 * M, 30), (0.0, 40), (10 * M, 8))}
    writes = [Write(0, "a", 0, 10 * M), Write(10, "a", 10 * M, 20 * M), Write(40, "a", 20 * M, 0.0), Write(80, "a", 0, 10 * M)]
    assert cap_errors(series, writes, 0, 88) == pytest.approx({"a": 0.05}, abs=0.002)


def test_a_cap_that_stood_for_a_moment_says_nothing() -> None:
    assert cap_errors({"a": flow((10 * M, 5))}, [Write(0, "a", 0, 10 * M)], 0, 5) == {}
