"""Whether a disturbance met its transfer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e.chaos.transfer import made
from e2e.chaos.verdict import MISSED

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.kubectl import CommandError


class Transfer:
    """One whose data have been sent after so many seconds; also the clock that it goes by."""

    def __init__(self, seconds: float) -> None:
        self._ends_s, self._now_s = seconds, 0.0
        self.log: list[str] = []

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float, /) -> None:
        self._now_s += seconds

    def over(self) -> bool:
        return self._now_s >= self._ends_s

    @contextmanager
    def disturbed(self, after_s: float) -> Iterator[None]:
        """A disturbance that takes so long to be made, and needs the transfer to run."""
        self.sleep(after_s)
        self.log.append("begun")
        try:
            yield
        finally:
            self.log.append("mended")

    @contextmanager
    def broken(self, after_s: float) -> Iterator[None]:
        """One whose commands fail."""
        self.sleep(after_s)
        raise CommandError(("pgrep",), 1, "", "no process")
        yield


def test_a_disturbance_of_a_transfer_that_runs_took_place_and_lasts_as_long_as_it_shall() -> None:
    transfer = Transfer(20.0)
    assert made(transfer.disturbed(5.0), 30.0, transfer.over, transfer)
    assert (transfer.monotonic(), transfer.log) == (35.0, ["begun", "mended"])


def test_a_disturbance_that_came_when_all_was_sent_was_missed_and_is_mended_at_once() -> None:
    transfer = Transfer(20.0)
    assert not made(transfer.disturbed(21.0), 30.0, transfer.over, transfer)
    assert (transfer.monotonic(), transfer.log) == (21.0, ["begun", "mended"])


def test_a_disturbance_that_found_nothing_to_disturb_any_more_was_missed() -> None:
    transfer = Transfer(20.0)
    assert not made(transfer.broken(21.0), 30.0, transfer.over, transfer)


def test_a_disturbance_that_could_not_be_made_while_the_transfer_ran_is_an_error() -> None:
    transfer = Transfer(20.0)
    with pytest.raises(CommandError, match="no process"):
        made(transfer.broken(5.0), 30.0, transfer.over, transfer)


def test_the_machines_clock_is_one() -> None:
    transfer = Transfer(1.0)
    assert made(transfer.disturbed(0.0), 0.0, transfer.over, time)


def test_make_expects_that_a_round_may_be_missed() -> None:
    (expected,) = re.findall(r"^export FAIRLEAD_EXPECTED_SKIPS \?= (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert re.search(expected, MISSED)
