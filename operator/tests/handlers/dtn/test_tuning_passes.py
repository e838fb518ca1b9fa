"""When the tuning rules are asked again, and how much of the time that may take."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.handlers.dtn.tuning import MOST_TIME, TuningPasses

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _node(version: str, governor: str) -> DataTransferNode:
    return DataTransferNode.from_object(
        {
            "metadata": {"name": "dtn-a", "uid": "1", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
            "status": {"kernel": {"cpuGovernor": governor}, "lastReportTime": NOW.isoformat()},
        }
    )


class _Bench:
    def __init__(self) -> None:
        self.time = 0.0
        self.step = 0.0
        self.nodes = [_node("1", "powersave")]
        self.asked = 0
        self.passes = TuningPasses(self._nodes, tuple, self._monotonic)

    def _nodes(self) -> list[DataTransferNode]:
        return self.nodes

    def _monotonic(self) -> float:
        self.time += self.step
        return self.time

    def findings(self) -> list[str]:
        return [finding.found for finding in self.passes.latest["dtn-a"].findings]


async def test_a_change_is_judged_anew() -> None:
    bench = _Bench()
    await bench.passes.renew(NOW)
    assert bench.findings() == ["powersave"]
    bench.nodes = [_node("2", "performance")]
    await bench.passes.renew(NOW)
    assert bench.findings() == []
    bench.nodes = []
    await bench.passes.renew(NOW)
    assert bench.passes.latest == {}


async def test_without_a_change_nothing_is_judged() -> None:
    bench = _Bench()
    await bench.passes.renew(NOW)
    first = bench.passes.latest
    await bench.passes.renew(NOW)
    assert bench.passes.latest is first


async def test_after_a_pass_that_took_long_the_next_one_waits() -> None:
    bench = _Bench()
    bench.step = 2.0
    await bench.passes.renew(NOW)
    bench.nodes = [_node("2", "performance")]
    bench.step = 0.0
    bench.time += 2.0 / MOST_TIME - 1.0
    await bench.passes.renew(NOW)
    assert bench.findings() == ["powersave"]
    bench.time += 1.0
    await bench.passes.renew(NOW)
    assert bench.findings() == []
