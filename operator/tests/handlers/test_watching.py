"""What kopf would end the process for, and what becomes of its watches instead."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import kopf
import pytest
from kopf._cogs.clients import errors, fetching, watching
from kopf._cogs.structs.credentials import LoginError

from fairlead.handlers import watching as own_watching
from fairlead.handlers.registry import operator_settings
from fairlead.handlers.timings import Timings
from fairlead.handlers.watching import AT_ONCE, EndlessBackoffs, Take, outlive_errors, take_events

pytestmark = pytest.mark.asyncio


def _answer(code: int) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}


@pytest.mark.parametrize(
    "failure",
    [
        _answer(500),
        _answer(410),
        _answer(429),
        errors.APIUnauthorizedError(status=401, headers={}),
        errors.APINotFoundError(status=404, headers={}),
        errors.APIClientError("the list's pages have expired", status=410, headers={}),
        errors.APIServerError(status=504, headers={}),
        LoginError("ran out of valid credentials"),
        ValueError("a line that is cut off"),
    ],
    ids=lambda failure: f"event {failure['object']['code']}" if isinstance(failure, dict) else type(failure).__name__,
)
@pytest.mark.parametrize("is_list", [True, False], ids=["list", "watch"])
async def test_a_watch_outlives_every_error_and_begins_anew_with_a_list(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | dict[str, Any], is_list: bool
) -> None:
    if is_list and isinstance(failure, dict):
        return
    lists = 0

    async def fetch_objs(**_: Any) -> AsyncIterator[tuple[list[Any], str]]:
        nonlocal lists
        lists += 1
        if is_list and lists == 1 and isinstance(failure, Exception):
            raise failure
        yield [{"metadata": {"name": f"of list {lists}"}}], "7"

    async def watch_objs(*, operator_pause_waiter: Any, **_: Any) -> AsyncIterator[Any]:
        if lists > 1:
            operator_pause_waiter.set_result(None)
        elif isinstance(failure, Exception):
            raise failure
        else:
            yield failure

    monkeypatch.setattr(fetching, "fetch_objs", fetch_objs)
    monkeypatch.setattr(watching, "watch_objs", watch_objs)
    monkeypatch.setattr(watching, "continuous_watch", watching.continuous_watch)
    outlive_errors(retry_seconds=0.0)
    pods = kopf.Resource("", "v1", "pods")
    stream = watching.infinite_watch(settings=operator_settings(Timings()), resource=pods, namespace=None, _iterations=2)
    seen = [event["object"]["metadata"]["name"] async for event in stream if isinstance(event, dict)]
    assert seen[-1] == "of list 2"


async def test_a_request_is_tried_for_as_long_as_it_takes() -> None:
    backoffs = operator_settings(Timings()).networking.error_backoffs
    assert isinstance(backoffs, EndlessBackoffs)
    for _ in range(2):
        pauses = list(itertools.islice(backoffs, 1000))
        assert pauses[0] == 1.0
        assert pauses[-1] == max(pauses) == 30.0


async def _shown(monkeypatch: pytest.MonkeyPatch, plural: str, events: list[Any], takers: dict[str, Take]) -> list[Any]:
    """What is left to kopf of these events of a watch of such a kind."""

    async def continuous_watch(**_: Any) -> AsyncIterator[Any]:
        for event in events:
            yield event

    monkeypatch.setattr(own_watching, "_continuous_watch", continuous_watch)
    monkeypatch.setattr(watching, "continuous_watch", watching.continuous_watch)
    outlive_errors(retry_seconds=0.0)
    take_events(takers, lambda: None)
    kind: Any = kopf.Resource("", "v1", plural)
    watch: Any = watching.continuous_watch
    return [event async for event in watch(resource=kind, namespace=None)]


def _event(kind: str | None, name: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name}}}


async def test_events_of_kinds_that_are_taken_never_reach_kopf_and_one_that_fails_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[tuple[str | None, str]] = []

    def take(kind: str | None, body: Mapping[str, Any]) -> None:
        if body["metadata"]["name"] == "odd":
            raise KeyError("spec")
        taken.append((kind, body["metadata"]["name"]))

    events = [_event(None, "a"), watching.Bookmark.LISTED, _event("ADDED", "odd"), _event("BOOKMARK", "no object"), _event("DELETED", "b")]
    assert await _shown(monkeypatch, "pods", events, {"pods": take}) == [watching.Bookmark.LISTED]
    assert taken == [(None, "a"), ("DELETED", "b")]
    assert "pods /odd cannot be taken in" in caplog.text


async def test_events_of_other_kinds_are_left_to_kopf(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [_event("ADDED", "a")]
    assert await _shown(monkeypatch, "customresourcedefinitions", events, {"pods": lambda kind, body: None}) == events


async def test_a_watch_waits_for_nothing_but_kopf_which_may_cancel_it_when_it_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    await _shown(monkeypatch, "pods", [_event("MODIFIED", "a")] * (5 * AT_ONCE), {"pods": lambda kind, body: None})
    task.cancel()
    assert turns == 0


async def test_a_long_list_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, at_turn = 0, []

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    await _shown(monkeypatch, "pods", [_event(None, "a")] * (5 * AT_ONCE), {"pods": lambda kind, body: at_turn.append(turns)})
    task.cancel()
    assert len(set(at_turn)) >= 3


async def test_a_list_ends_a_gap_in_which_deletions_were_missed_also_the_first_after_the_operators_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gaps: list[str] = []

    async def continuous_watch(**_: Any) -> AsyncIterator[Any]:
        yield watching.Bookmark.LISTED

    monkeypatch.setattr(own_watching, "_continuous_watch", continuous_watch)
    monkeypatch.setattr(watching, "continuous_watch", watching.continuous_watch)
    outlive_errors(retry_seconds=0.0)
    take_events({"pods": lambda kind, body: None}, lambda: gaps.append("gap"))
    watch: Any = watching.continuous_watch

    async def follow(plural: str, namespace: str | None) -> int:
        assert [event async for event in watch(resource=kopf.Resource("", "v1", plural), namespace=namespace)]
        return len(gaps)

    assert await follow("customresourcedefinitions", None) == 0
    assert await follow("pods", "lab") == 1
    assert await follow("pods", "other") == 2
    assert await follow("pods", "lab") == 3
