"""The operator as a process: what it hands to kopf."""

from __future__ import annotations

import asyncio
import gc
import getpass
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from typing import Any

import kopf
import pytest

from fairlead.handlers import process
from fairlead.handlers.options import read_options
from fairlead.handlers.process import TLS_BUFFER_BYTES, collect_garbage_rarely, keep_little_for_connections, run


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


def test_a_tls_connection_keeps_a_small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    keep_little_for_connections()

    context = ssl.create_default_context()

    async def kept_bytes() -> int:
        tracemalloc.start()
        try:
            connection = SSLProtocol(asyncio.get_running_loop(), asyncio.Protocol(), context, None)
            kept, _ = tracemalloc.get_traced_memory()
            assert connection is not None
        finally:
            tracemalloc.stop()
        return kept

    assert asyncio.run(kept_bytes()) < 2 * TLS_BUFFER_BYTES


@pytest.mark.usefixtures("collector")
def test_the_process_itself_collects_garbage_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    async def running(*_: Any, **__: Any) -> None:
        found.append(gc.get_threshold()[0])

    monkeypatch.setattr(kopf, "configure", lambda **_: None)
    monkeypatch.setattr(process, "run", running)
    assert process.main(["--mover-image", "mover", "--advisor-image", "advisor", "--log-level", "debug"]) == 0
    assert found == [50_000]
