"""When a report is written: at once if somebody decides by what changed, otherwise as a sign of life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.agent.news import JITTER, LEAST_INTERVAL, interval_of, is_news, status_patch, write_after
from fairlead.api.datatransfernode.status import AgentStatus, InterfaceStatus, KernelStatus, NodeReport, StorageStatus
from fairlead.core.dtn import REPORT_INTERVAL

DATA0 = InterfaceStatus(name="data0", carrier=True)
SPACE = StorageStatus(path="/data", total_bytes=1000, free_bytes=500)
KERNEL = KernelStatus(release="6.12")
REPORT = NodeReport(agent=AgentStatus(instance="one"), interfaces=(DATA0,), kernel=KERNEL, storage=(SPACE,), load="Idle")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"last_report_time": datetime(2026, 1, 1, tzinfo=UTC)}, False),
        ({"storage": (SPACE.model_copy(update={"free_bytes": 460}),)}, False),
        ({"storage": (SPACE.model_copy(update={"free_bytes": 450}),)}, True),
        ({"storage": (SPACE.model_copy(update={"total_bytes": 2000}),)}, True),
        ({"storage": ()}, True),
        ({"interfaces": (DATA0.model_copy(update={"carrier": False}),)}, True),
        ({"interfaces": ()}, True),
        ({"interfaces": (DATA0.model_copy(update={"interrupt_cpus": "3"}),)}, False),
        ({"load": "High"}, True),
        ({"kernel": KernelStatus(release="6.13")}, True),
        ({"agent": AgentStatus(instance="two")}, True),
    ],
)
def test_what_is_news(change: dict[str, Any], expected: bool) -> None:
    assert is_news(REPORT, REPORT.model_copy(update=change)) is expected


NEWS = REPORT.model_copy(update={"load": "High"})
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("before", "after", "since", "expected"),
    [
        (None, REPORT, timedelta(), timedelta()),
        (REPORT, NEWS, REPORT_INTERVAL / 2, timedelta()),
        (REPORT, NEWS, 3 * SECOND, LEAST_INTERVAL - 3 * SECOND),
        (REPORT, REPORT, REPORT_INTERVAL - SECOND, SECOND),
        (REPORT, REPORT, 2 * REPORT_INTERVAL, timedelta()),
    ],
)
def test_when_a_report_is_due(before: NodeReport | None, after: NodeReport, since: timedelta, expected: timedelta) -> None:
    assert write_after(before, after, since, REPORT_INTERVAL) == expected


@pytest.mark.parametrize(
    ("chance", "first", "expected"),
    [
        (0.0, False, REPORT_INTERVAL),
        (1.0, False, REPORT_INTERVAL * (1 - JITTER)),
        (0.5, True, REPORT_INTERVAL / 2),
        (0.0, True, LEAST_INTERVAL),
    ],
)
def test_agents_that_start_together_do_not_report_together(chance: float, first: bool, expected: timedelta) -> None:
    assert interval_of(chance, first=first) == expected


def test_a_patch_removes_what_is_unknown_now_and_leaves_what_the_operator_wrote() -> None:
    status = status_patch(NodeReport(kernel=KernelStatus(release="6.13")))["status"]
    assert status["kernel"]["release"] == "6.13"
    assert status["kernel"]["cpuGovernor"] is None
    assert (status["agent"], status["load"], status["interfaces"]) == (None, None, [])
    assert not {"conditions", "summary", "jobs", "observedGeneration"} & status.keys()
    assert "kernel" in status_patch(REPORT)["status"] and status_patch(NodeReport())["status"]["kernel"] is None
