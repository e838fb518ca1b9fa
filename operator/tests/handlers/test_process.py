"""The operator as a process: what it hands to kopf."""

from __future__ import annotations

import asyncio
import getpass
from typing import Any

import kopf
import pytest

from fairlead.handlers.options import read_options
from fairlead.handlers.process import run


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
