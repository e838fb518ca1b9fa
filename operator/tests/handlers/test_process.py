"""The operator as a process: what it hands to kopf."""

from __future__ import annotations

import asyncio
import gc
import getpass
from collections.abc import Iterator
from typing import Any

import kopf
import pytest

from fairlead.handlers import process
from fairlead.handlers.options import read_options
from fairlead.handlers.process import collect_garbage_rarely, run


def test_the_operator_runs_as_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    given: dict[str, Any] = {}

    async def spawn_tasks(**settings: Any) -> list[asyncio.Task[None]]:
        given.update(settings)
        return [asyncio.create_task(asyncio.sleep(0))]

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
    asyncio.run(run(read_options(["--mover-image", "mover", "--advisor-image", "advisor"])))
    assert given["identity"]


@pytest.fixture
def collector() -> Iterator[None]:
    """Puts the garbage collector back to what it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_a_round_of_many_jobs_is_not_searched_for_garbage() -> None:
    searches: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        searches.append(phase)

    collect_garbage_rarely()
    gc.collect()
    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(40_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == 40_000
    assert searches == []


@pytest.mark.usefixtures("collector")
def test_the_process_itself_collects_garbage_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    async def running(*_: Any, **__: Any) -> None:
        found.append(gc.get_threshold()[0])

    monkeypatch.setattr(kopf, "configure", lambda **_: None)
    monkeypatch.setattr(process, "run", running)
    assert process.main(["--mover-image", "mover", "--advisor-image", "advisor", "--log-level", "debug"]) == 0
    assert found == [50_000]
