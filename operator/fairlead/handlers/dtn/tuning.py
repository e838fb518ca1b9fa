"""Keeps what should be set on which node: concluded anew when nodes or paths have changed, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.networkpath import NetworkPath
from fairlead.core.tuning.conclusion import Tuning, tuning_of
from fairlead.core.tuning.facts import NodesAndPaths

MOST_TIME = 0.01
"""The part of the time that passes over all nodes may take: a change among a thousand nodes may wait for some seconds more."""


class TuningPasses:
    """Runs passes over all nodes. `nodes` and `paths` give those that are known now; `monotonic` is a clock in seconds."""

    def __init__(
        self, nodes: Callable[[], Iterable[DataTransferNode]], paths: Callable[[], Iterable[NetworkPath]], monotonic: Callable[[], float]
    ) -> None:
        self._nodes = nodes
        self._paths = paths
        self._monotonic = monotonic
        self._rests_until = monotonic()
        self._seen: frozenset[tuple[str, str]] = frozenset()
        self._latest: Mapping[str, Tuning] = {}

    @property
    def latest(self) -> Mapping[str, Tuning]:
        """What was concluded last, by node."""
        return self._latest

    async def renew(self, now: datetime) -> None:
        """Makes a pass if something has changed since the last one, unless the last one took so long that the next has to wait."""
        nodes, paths = tuple(self._nodes()), tuple(self._paths())
        metadata = [node.metadata for node in nodes] + [path.metadata for path in paths]
        seen = frozenset((each.uid, each.resource_version) for each in metadata)
        began = self._monotonic()
        if seen == self._seen or began < self._rests_until:
            return
        self._latest = await asyncio.to_thread(tunings, nodes, paths, now)
        self._seen, ended = seen, self._monotonic()
        self._rests_until = ended + (ended - began) / MOST_TIME


def tunings(nodes: Iterable[DataTransferNode], paths: Iterable[NetworkPath], now: datetime) -> dict[str, Tuning]:
    """What should be set on each node, by its name."""
    nodes = tuple(nodes)
    surroundings = NodesAndPaths(nodes, paths, now)
    return {node.metadata.name: tuning_of(surroundings.facts_of(node)) for node in nodes}
