"""What the operator writes into a DataTransferNode's status: conditions, the columns of `kubectl get dtn`, and its movers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairlead.api.datatransfernode import DataTransferNode, DataTransferNodeStatus
from fairlead.api.datatransfernode.status import MOST_SUMMARY, NodeSummary, TuningAdvice
from fairlead.api.reasons import DtnConditionType, DtnReason
from fairlead.api.shared.fields import ConditionStatus
from fairlead.api.shared.quantity import format_rate_rounded
from fairlead.core.conditions import Conditions
from fairlead.core.dtn import SILENT_AFTER, NodeInterface, doubt_of, interfaces_of
from fairlead.core.tuning.conclusion import Tuning, advice_of, set_tuned

TURNS_REMEMBERED: Final = timedelta(minutes=15)
"""For so long two agents that took turns are reported: longer than both need for a report each."""
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP: Final = 1024
_FIGURES_BELOW: Final = 10


@dataclass(frozen=True, slots=True)
class Reporters:
    """Which agents have reported of a node, as the operator saw them change: the last three with the time of each."""

    seen: tuple[tuple[str, datetime], ...] = ()

    def noted(self, instance: str | None, now: datetime) -> Reporters:
        """With the agent that reported last."""
        if instance is None or (self.seen and self.seen[-1][0] == instance):
            return self
        return Reporters((*self.seen, (instance, now))[-3:])

    def take_turns(self, now: datetime) -> bool:
        """Whether one has come back after another lately. An agent that is started again is another one and never comes back."""
        changes = 3
        return len(self.seen) == changes and self.seen[0][0] == self.seen[-1][0] and now - self.seen[-1][1] < TURNS_REMEMBERED


@dataclass(frozen=True, slots=True)
class NodeFindings:
    """What the operator knows of a node beside its DataTransferNode. `exists` is None where Kubernetes nodes cannot be listed."""

    jobs: int = 0
    exists: bool | None = None
    several_agents: bool = False
    tuning: Tuning | None = None
    """What the tuning rules say of its host; None before they were asked."""


def status_after(node: DataTransferNode, findings: NodeFindings, now: datetime) -> DataTransferNodeStatus:
    """The status with the operator's part as of `now`; what the agent has written stays."""
    conditions = Conditions(
        node.status.conditions, generation=node.metadata.generation, now=now.replace(microsecond=0), kinds=DtnConditionType
    )
    conditions.set(DtnConditionType.READY, *_readiness(node, findings, now))
    advice = _set_tuned(conditions, node, findings, now)
    return node.status.model_copy(
        update={
            "jobs": findings.jobs,
            "advice": advice,
            "summary": _summary(node, findings.jobs, now),
            "conditions": conditions.build(),
            "observed_generation": node.metadata.generation,
        }
    )


def _set_tuned(conditions: Conditions, node: DataTransferNode, findings: NodeFindings, now: datetime) -> tuple[TuningAdvice, ...]:
    """Sets `Tuned` and returns the advice. Before the rules were asked both stay as they are."""
    if not conditions.is_true(DtnConditionType.READY) or doubt_of(node, now) is not None:
        set_tuned(conditions, None)
        return ()
    if findings.tuning is None:
        return node.status.advice
    set_tuned(conditions, findings.tuning)
    return advice_of(findings.tuning)


def _readiness(node: DataTransferNode, findings: NodeFindings, now: datetime) -> tuple[ConditionStatus, DtnReason, str]:
    name = node.metadata.name
    if findings.exists is False:
        return "False", DtnReason.NODE_GONE, f"the cluster has no node {name}: delete this DataTransferNode if it does not come back"
    if findings.several_agents:
        message = (
            f"two agents report of node {name} in turn: stop one of them, see `kubectl get pods -A --field-selector spec.nodeName={name}`"
        )
        return "Unknown", DtnReason.SEVERAL_AGENTS, message
    doubt = doubt_of(node, now)
    if doubt is None or doubt is DtnReason.SEVERAL_AGENTS:
        return "True", DtnReason.AGENT_REPORTS, "status.lastReportTime says when the agent reported last"
    return "Unknown", doubt, _doubts(doubt, name)


def _doubts(doubt: DtnReason, name: str) -> str:
    if doubt is DtnReason.NEVER_REPORTED:
        return f"no agent has reported from node {name}: check that nodeAgent.enabled is set and that the node has the agent's label"
    if doubt is DtnReason.CLOCK_AHEAD:
        return f"the last report is from the future: set the clock of node {name}"
    minutes = round(SILENT_AFTER.total_seconds() / 60)
    return f"no report for more than {minutes} minutes: look at the agent's pod on node {name}, and at the node's clock"


def _summary(node: DataTransferNode, jobs: int, now: datetime) -> NodeSummary:
    carriers = [each for each in interfaces_of(node, now) if each.may_carry_data]
    free = ", ".join(format_bytes_rounded(each.free_bytes) for each in node.status.storage)
    return NodeSummary(interfaces=_listed(carriers), jobs=f"{jobs}/{node.spec.slots}", free=free if len(free) <= MOST_SUMMARY else "")


def _listed(interfaces: list[NodeInterface]) -> str:
    """Their names and rates, those without a carrier marked; of more than fit, how many there are besides."""
    text, most = "", MOST_SUMMARY - len(" and 64 more")
    for position, interface in enumerate(interfaces):
        rate = "" if interface.rate_bps is None else f" {format_rate_rounded(interface.rate_bps)}"
        carrier = " (no carrier)" if interface.carrier is False else ""
        added = f"{', ' if text else ''}{interface.name}{rate}{carrier}"
        if len(text) + len(added) > most:
            return f"{text} and {len(interfaces) - position} more"
        text += added
    return text


def format_bytes_rounded(count_bytes: int) -> str:
    """`count_bytes` for people, to two significant figures below 10 and whole above: `3.4Ti`, `812Gi`."""
    value, unit = float(count_bytes), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit and value < _FIGURES_BELOW else f"{value:.0f}{_UNITS[unit]}"
