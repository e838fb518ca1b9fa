from __future__ import annotations

import logging
from email.utils import formatdate

import pytest

from fairlead.kube.clock import ServerClock

SERVER = 1_767_225_600.0
"""The API server's time when the test begins."""


class Bench:
    """A server that is right, and a machine whose clock is `ahead_seconds` ahead."""

    def __init__(self, ahead_seconds: float) -> None:
        self.steady = 5000.0
        self.clock = ServerClock(wall=lambda: SERVER + ahead_seconds, steady=lambda: self.steady)

    def ask(self, request_seconds: float = 0.1, *, of_it_on_the_way_back: float = 0.05, server_ahead_seconds: float = 0.0) -> None:
        sent_at = self.steady
        self.steady += request_seconds
        answered = SERVER + server_ahead_seconds + self.steady - 5000.0 - of_it_on_the_way_back
        self.clock.note(formatdate(int(answered), usegmt=True), sent_at)

    @property
    def error_seconds(self) -> float:
        return self.clock.time() - (SERVER + self.steady - 5000.0)


@pytest.mark.parametrize("ahead_seconds", [-3600.0, -121.0, 121.0, 3600.0, 1e9])
def test_a_wrong_clock_is_set_right_by_the_first_answer(ahead_seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ahead_seconds)
    bench.ask()
    assert abs(bench.error_seconds) < 1.1
    assert "of the API server's" in caplog.text


@pytest.mark.parametrize("ahead_seconds", [-1.9, 0.0, 1.9])
def test_a_clock_that_is_right_or_nearly_so_is_left_alone(ahead_seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ahead_seconds)
    for _ in range(20):
        bench.ask(0.3)
    assert bench.error_seconds == pytest.approx(ahead_seconds, abs=1e-6)
    assert caplog.records == []


def test_two_servers_that_are_a_little_apart_do_not_move_it_to_and_fro(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(0.0)
    for _ in range(10):
        bench.ask(server_ahead_seconds=1.5)
        bench.ask(server_ahead_seconds=-0.5)
    assert bench.error_seconds == 0.0


@pytest.mark.parametrize("way_back_seconds", [0.0, 29.0])
def test_an_answer_that_took_long_says_little(way_back_seconds: float) -> None:
    bench = Bench(20.0)
    bench.ask(30.0, of_it_on_the_way_back=way_back_seconds)
    assert abs(bench.error_seconds) <= 31.0
    bench.ask()
    assert abs(bench.error_seconds) <= 3.1


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 32 Jan 2026 00:00:00 GMT"])
def test_what_is_no_date_changes_nothing(date: str | None, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(0.0)
    with caplog.at_level(logging.WARNING):
        bench.clock.note(date, bench.steady)
    assert bench.error_seconds == 0.0
    assert caplog.records == []


def test_time_goes_on_by_the_clock_that_never_jumps() -> None:
    bench = Bench(0.0)
    bench.steady += 60.0
    assert bench.clock.now().timestamp() == SERVER + 60.0
