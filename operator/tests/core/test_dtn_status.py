"""What the operator says of a data transfer node: readiness with the remedy, and the columns of `kubectl get dtn`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from dtn_builders import DATA0, DATA1, ETH0, NOW, a_dtn

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.datatransfernode.status import MOST_SUMMARY
from fairlead.core.dtn import SILENT_AFTER
from fairlead.core.dtn_status import TURNS_REMEMBERED, NodeFindings, Reporters, format_bytes_rounded, status_after
from fairlead.core.tuning.conclusion import Tuning
from fairlead.core.tuning.rules import TuningFinding, TuningRule

LATER = NOW + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("reported", "findings", "expected"),
    [
        (NOW, NodeFindings(), ("True", "AgentReports", "lastReportTime")),
        (NOW, NodeFindings(exists=True), ("True", "AgentReports", "lastReportTime")),
        (None, NodeFindings(), ("Unknown", "NeverReported", "nodeAgent.enabled")),
        (NOW - 2 * SILENT_AFTER, NodeFindings(), ("Unknown", "AgentSilent", "pod on node dtn-a")),
        (NOW + timedelta(hours=1), NodeFindings(), ("Unknown", "ClockAhead", "clock of node dtn-a")),
        (NOW, NodeFindings(several_agents=True), ("Unknown", "SeveralAgents", "spec.nodeName=dtn-a")),
        (NOW, NodeFindings(exists=False), ("False", "NodeGone", "no node dtn-a")),
        (NOW, NodeFindings(exists=False, several_agents=True), ("False", "NodeGone", "no node dtn-a")),
    ],
)
def test_readiness_says_why_and_what_to_do(reported: datetime | None, findings: NodeFindings, expected: tuple[str, str, str]) -> None:
    condition = status_after(a_dtn(reported=reported), findings, NOW).conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("Ready", *expected[:2])
    assert expected[2] in condition.message


def test_agents_that_no_longer_take_turns_are_believed_again() -> None:
    doubted = status_after(a_dtn(), NodeFindings(several_agents=True), NOW)
    again = status_after(a_dtn(conditions=[each.to_object() for each in doubted.conditions]), NodeFindings(), LATER)
    assert (again.conditions[0].reason, again.conditions[0].last_transition_time) == ("AgentReports", LATER.replace(microsecond=0))


def test_what_the_agent_wrote_stays_and_so_does_what_others_concluded() -> None:
    tuned = {"type": "Tuned", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    node = a_dtn(DATA0, conditions=[tuned], cpus=4)
    status = status_after(node, NodeFindings(jobs=3), NOW)
    assert (status.interfaces, status.cpus, status.jobs) == (node.status.interfaces, 4, 3)
    assert [condition.type for condition in status.conditions] == ["Ready", "Tuned"]
    assert status.observed_generation == 1


def summary(*found: dict[str, Any], jobs: int = 0, **fields: Any) -> tuple[str, str, str]:
    shown = status_after(a_dtn(*found, **fields), NodeFindings(jobs=jobs), NOW).summary
    assert shown is not None
    return shown.interfaces, shown.jobs, shown.free


def test_the_columns_name_interfaces_that_may_carry_data_jobs_and_space() -> None:
    storage = [{"path": "/a", "totalBytes": 2**44, "freeBytes": 3 * 2**42}, {"path": "/b", "totalBytes": 2**40, "freeBytes": 2**39}]
    assert summary(DATA0, DATA1, ETH0, jobs=3, storage=storage, spec={"slots": 4}) == ("data0 100G, data1", "3/4", "12Ti, 512Gi")
    assert summary({**DATA0, "carrier": False}, spec={"interfaces": [{"name": "data0"}]})[0] == "data0 100G (no carrier)"
    assert summary() == ("", "0/8", "")


def test_more_interfaces_than_fit_are_counted() -> None:
    found = [{**DATA0, "name": f"interface-{number:02}"} for number in range(64)]
    text = summary(*found)[0]
    assert len(text) <= MOST_SUMMARY
    assert text.startswith("interface-00 100G, ")
    named, more = text.count("100G"), int(text.split()[-2])
    assert named + more == 64


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0"), (1023, "1023"), (1536, "1.5Ki"), (2**40 * 12, "12Ti"), (2**62 - 1, "4.0Ei"), (2**30 * 800, "800Gi")]
)
def test_bytes_for_people(count: int, expected: str) -> None:
    assert format_bytes_rounded(count) == expected


def turns(*instances: str | None) -> Reporters:
    reporters = Reporters()
    for instance in instances:
        reporters = reporters.noted(instance, NOW)
    return reporters


@pytest.mark.parametrize(
    ("instances", "expected"),
    [
        ((), False),
        (("a", "a", "a"), False),
        (("a", "b"), False),
        (("a", "b", "c"), False),
        (("a", None, "a"), False),
        (("a", "b", "a"), True),
        (("x", "a", "b", "b", "a"), True),
    ],
)
def test_two_agents_are_told_from_one_that_was_started_again(instances: tuple[str | None, ...], expected: bool) -> None:
    assert turns(*instances).take_turns(LATER) is expected


def test_turns_are_forgotten_when_one_agent_is_left() -> None:
    assert not turns("a", "b", "a").take_turns(NOW + TURNS_REMEMBERED)


def _tuned(node: DataTransferNode) -> tuple[str, str]:
    return next((each.status, each.reason) for each in node.status.conditions if each.type == "Tuned")


def test_what_should_be_set_stands_in_the_status_while_the_agent_is_believed() -> None:
    finding = TuningFinding(TuningRule.CLOCK_SOURCE, "hpet", "tsc", "slow", "echo tsc")
    first = a_dtn()
    assert status_after(first, NodeFindings(), NOW).advice == ()
    assert {each.type for each in status_after(first, NodeFindings(), NOW).conditions} == {"Ready"}
    advised = first.model_copy(update={"status": status_after(first, NodeFindings(tuning=Tuning((finding,))), NOW)})
    assert _tuned(advised) == ("False", "SettingsToChange")
    assert [each.command for each in advised.status.advice] == ["echo tsc"]
    # The operator has started again, and has not asked the rules yet.
    kept = advised.model_copy(update={"status": status_after(advised, NodeFindings(), NOW)})
    assert (kept.status.advice, _tuned(kept)) == (advised.status.advice, ("False", "SettingsToChange"))
    for doubted in (NodeFindings(tuning=Tuning((finding,)), several_agents=True), NodeFindings(tuning=Tuning((finding,)), exists=False)):
        after = kept.model_copy(update={"status": status_after(kept, doubted, NOW)})
        assert (after.status.advice, _tuned(after)) == ((), ("Unknown", "SettingsUnknown"))
