"""Keeps kopf's watches going where kopf would end the process, and takes what they show straight from them.

Whatever fails, the watch begins anew with a list. What kopf does of its own for every event, a task for each object with causes and a
patch, took as long as deciding about it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import orjson
from kopf._cogs.clients import api, watching  # kopf names no public way to outlive an error of a watch

Take = Callable[[str | None, Mapping[str, Any]], None]
"""Takes in an event: its type, None for an object of a list, and the object."""

AT_ONCE = 20
"""Events that are taken in before anything else has its turn: a list has thousands."""

logger = logging.getLogger(__name__)

_continuous_watch = watching.continuous_watch


class EndlessBackoffs:
    """Pauses between the tries of one request, for as long as the API server does not carry it out."""

    def __init__(self, pauses_seconds: Sequence[float]) -> None:
        self._pauses_seconds = pauses_seconds

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(self._pauses_seconds, itertools.repeat(self._pauses_seconds[-1]))


@dataclass(frozen=True)
class _Taken:
    """Who takes what watches show, by the plural of a kind, and what is called after each of their lists."""

    takers: Mapping[str, Take]
    on_gap: Callable[[], None]


_taken: ContextVar[_Taken] = ContextVar("taken")
"""Each operator has its own, as tests run several in one process."""
_NOTHING_TAKEN = _Taken({}, lambda: None)


def take_events(takers: Mapping[str, Take], on_gap: Callable[[], None]) -> None:
    """Watches that tasks begin which this one makes from now on give the events of these kinds, by their plurals, to these.

    `on_gap` is called when such a watch has begun with a list.
    """
    _taken.set(_Taken(takers, on_gap))


def outlive_errors(retry_seconds: float) -> None:
    """From now on no watch of kopf's ends by an error; it begins anew after that pause."""

    async def forgiving_watch(*, resource: Any, namespace: Any, **arguments: Any) -> AsyncIterator[Any]:
        stream = _continuous_watch(resource=resource, namespace=namespace, **arguments)
        taken = _taken.get(_NOTHING_TAKEN)
        take = taken.takers.get(resource.plural)
        turns = itertools.cycle([*itertools.repeat(False, AT_ONCE - 1), True])
        try:
            async for event in stream:
                if take is not None and event is watching.Bookmark.LISTED:
                    # It shows nothing of what was deleted before: since the watch before it ended, or since the operator's own first list.
                    taken.on_gap()
                if take is None or not isinstance(event, dict):
                    yield event
                    continue
                if event["type"] != "BOOKMARK":
                    _take(take, resource, event)
                if event["type"] is None and next(turns):
                    # Not while it watches: kopf cancels a silent watch wherever its task then waits, and does not expect it here.
                    await asyncio.sleep(0)
        except Exception as error:
            # An error in mid-watch, a list whose pages have expired, a line that is cut off, credentials that are refused for a while.
            where = "all namespaces" if namespace is None else f"namespace {namespace}"
            logger.warning("the watch of %s in %s begins anew: %s: %s", resource, where, type(error).__name__, error)
            await asyncio.sleep(retry_seconds)

    watching.continuous_watch = forgiving_watch
    # Most of what the operator reads are events of watches.
    vars(api)["json"] = SimpleNamespace(loads=orjson.loads)


def _take(take: Take, resource: Any, event: Mapping[str, Any]) -> None:
    """Hands over one event. An object that cannot be taken in must not keep the others from it."""
    try:
        take(event["type"], event["object"])
    except Exception:
        metadata = event["object"].get("metadata") or {}
        logger.exception("%s %s/%s cannot be taken in", resource.plural, metadata.get("namespace", ""), metadata.get("name", ""))
