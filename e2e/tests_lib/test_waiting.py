"""Waiting ends with the condition, or says what did not come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2e.lib.waiting import WaitedTooLongError, stays_true, wait_until


class FakeClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float, /) -> None:
        self.now_s += seconds


def test_the_first_true_result_is_returned() -> None:
    results: Iterator[str | None] = iter([None, "", "here"])
    assert wait_until(lambda: next(results), "it", 10, clock=FakeClock()) == "here"


def test_what_did_not_come_is_named_with_what_was_seen_last() -> None:
    with pytest.raises(WaitedTooLongError, match=r"not within 5 s: the pod; last seen: \[\]"):
        wait_until(list, "the pod", 5, clock=FakeClock())


def test_a_condition_that_comes_true_in_the_last_moment_counts() -> None:
    clock = FakeClock()
    assert wait_until(lambda: clock.now_s >= 5, "five seconds", 5, interval_s=4, clock=clock)


def test_an_error_of_the_check_is_not_swallowed() -> None:
    def broken() -> bool:
        raise ValueError("no cluster")

    with pytest.raises(ValueError, match="no cluster"):
        wait_until(broken, "it", 5, clock=FakeClock())


def test_an_error_that_means_not_yet_is_waited_out_and_told_at_the_end() -> None:
    results: Iterator[str] = iter(["here"])

    def twice() -> str:
        if clock.now_s < 3:
            raise OSError("no such file")
        return next(results)

    clock = FakeClock()
    assert wait_until(twice, "it", 5, clock=clock, not_yet=(OSError,)) == "here"
    clock.now_s = -100
    with pytest.raises(WaitedTooLongError, match="last seen: OSError: no such file"):
        wait_until(twice, "it", 5, clock=clock, not_yet=(OSError,))


def test_what_must_stay_true_is_looked_at_until_the_end() -> None:
    clock = FakeClock()
    with pytest.raises(AssertionError, match="quiet"):
        stays_true(lambda: clock.now_s < 4.9, "quiet", 5, clock=clock)
    stays_true(lambda: True, "quiet", 5, clock=clock)


def test_what_is_shown_as_last_seen_is_what_was_there_when_the_time_was_over() -> None:
    clock = FakeClock()
    with pytest.raises(WaitedTooLongError, match=r"not within 5 s: a share; last seen: 5\.0$"):
        wait_until(lambda: None, "a share", 5, clock=clock, last_seen=lambda: clock.now_s)
