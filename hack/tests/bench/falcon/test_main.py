"""The search over a mover's control socket."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.bench.falcon import __main__ as program
from fairlead_dev.errors import NoAnswerError


class EndedError(Exception):
    """The mover's time is over."""


class Mover:
    """Carries 10 Mb/s a stream from the moment at which data flow; its clock is that of whoever sleeps."""

    def __init__(self, *, flows_from_s: float = 0.0, silent_s: tuple[float, float] = (0.0, 0.0), ends_s: float = 16.0) -> None:
        self.now_s = 0.0
        self.asked: list[tuple[float, int]] = []
        self._flows_from_s, self._silent_s, self._ends_s = flows_from_s, silent_s, ends_s
        self._sent: dict[int, float] = {0: 0.0}

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s >= self._flows_from_s:
            self._sent = {name: sent + seconds * 1_250_000 for name, sent in self._sent.items()}
        if self.now_s > self._ends_s:
            raise EndedError

    def answer(self, _control: Path, method: str, _path: str, body: Mapping[str, int] | None = None) -> Any:
        if self._silent_s[0] <= self.now_s < self._silent_s[1]:
            raise NoAnswerError("nobody")
        if method == "PATCH":
            assert body is not None
            self.asked.append((round(self.now_s, 2), body["streams"]))
            self._sent = {name: self._sent.get(name, 0.0) for name in range(body["streams"])}
            return None
        flows = self.now_s >= self._flows_from_s
        streams = [{"id": name, "bytes_sent": int(sent), "retransmits": 0} for name, sent in self._sent.items()]
        return {"stage": "Transferring" if flows else "Connecting", "streams": streams if flows else []}


def searched(mover: Mover, monkeypatch: pytest.MonkeyPatch, most_streams: int = 32) -> list[dict[str, Any]]:
    monkeypatch.setattr(program, "ask_mover", mover.answer)
    record = io.StringIO()
    with pytest.raises(EndedError):
        program.search_on(Path("control"), most_streams, record, lambda: mover.now_s, mover.sleep)
    return [json.loads(line) for line in record.getvalue().splitlines()]


def test_every_count_is_kept_for_three_seconds_from_the_first_data_on(monkeypatch: pytest.MonkeyPatch) -> None:
    mover = Mover(flows_from_s=2.0, ends_s=16.0)
    told = searched(mover, monkeypatch)
    assert mover.asked == [(2.0, 1), (5.0, 2), (8.0, 4), (11.0, 8), (14.0, 14)]
    assert [one["streams"] for one in told] == [1, 2, 4, 8]
    assert [one["time_s"] for one in told] == pytest.approx([3, 6, 9, 12], abs=0.1)
    # The second in which a stream is new does not count.
    assert [one["goodput_mbps"] for one in told] == pytest.approx([10, 20, 40, 80], rel=1e-3)
    assert told[1]["utility_mbps"] == pytest.approx(20 / 1.02**2, rel=1e-3)


def test_a_count_whose_sample_was_not_answered_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mover = Mover(silent_s=(2.9, 4.0), ends_s=11.0)
    told = searched(mover, monkeypatch)
    assert [streams for _, streams in mover.asked] == [1, 1, 2, 4]
    assert [one["streams"] for one in told] == [1, 2]


def test_no_more_streams_are_asked_for_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    mover = Mover(ends_s=40.0)
    searched(mover, monkeypatch, most_streams=4)
    assert max(streams for _, streams in mover.asked) == 4
