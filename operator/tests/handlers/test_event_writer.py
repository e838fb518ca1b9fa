from __future__ import annotations

import asyncio

import pytest

from fairlead.handlers import event_writer
from fairlead.handlers.event_writer import MOST_IN_LINE, EventWriter
from fairlead.kube.client import KubeObject

pytestmark = pytest.mark.asyncio


def event(number: int, uid: str = "job-uid") -> KubeObject:
    return {"involvedObject": {"uid": uid}, "reason": str(number)}


class Pen:
    """Notes what is written, once it may write."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.may_write = asyncio.Event()

    async def write(self, body: KubeObject) -> None:
        await self.may_write.wait()
        if body["reason"] == "13":
            raise ZeroDivisionError
        self.written.append(body["reason"])


@pytest.fixture
def pen() -> Pen:
    return Pen()


async def test_events_of_one_object_come_in_their_order_and_all_that_wait_are_written_at_the_end(pen: Pen) -> None:
    writer = EventWriter(pen.write)
    writer.start()
    assert all(writer.post(event(number)) for number in range(10))
    pen.may_write.set()
    await writer.stop()
    assert pen.written == [str(number) for number in range(10)]


async def test_who_posts_is_told_when_too_many_wait_and_when_none_is_taken_any_more(pen: Pen) -> None:
    writer = EventWriter(pen.write)
    taken = [writer.post(event(number)) for number in range(MOST_IN_LINE + 1)]
    assert taken == [True] * MOST_IN_LINE + [False]
    pen.may_write.set()
    writer.start()
    await writer.stop()
    assert len(pen.written) == MOST_IN_LINE - 1
    assert not writer.post(event(1))


async def test_the_end_does_not_wait_for_ever(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "DRAIN_SECONDS", 0.01)
    writer = EventWriter(pen.write)
    writer.start()
    writer.post(event(1))
    await asyncio.wait_for(writer.stop(), timeout=60)
    assert pen.written == []


async def test_a_defect_in_one_event_leaves_the_others(pen: Pen, caplog: pytest.LogCaptureFixture) -> None:
    writer = EventWriter(pen.write)
    writer.start()
    pen.may_write.set()
    for number in (13, 14):
        writer.post(event(number))
    await writer.stop()
    assert pen.written == ["14"]
    assert "event 13" in caplog.text
