"""What the rules found, as the condition `Tuned` and `status.advice` of a DataTransferNode show it."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.api.datatransfernode.status import MOST_ADVICE, TuningAdvice
from fairlead.api.reasons import DtnConditionType, DtnReason
from fairlead.core.conditions import Conditions, shorten
from fairlead.core.tuning.facts import HostFacts
from fairlead.core.tuning.rules import RULES, TuningFinding, TuningRule

PAGES = "docs/how-to/tune"
_PAGE = {
    TuningRule.SOCKET_BUFFERS: "socket-buffers",
    TuningRule.MTU: "mtu",
    TuningRule.CONGESTION_CONTROLS: "congestion-controls",
    TuningRule.BONDING: "bonding",
    TuningRule.INTERRUPTS: "interrupts",
    TuningRule.CPU_GOVERNOR: "cpu-governor",
    TuningRule.QUEUEING_DISCIPLINE: "queueing-discipline",
    TuningRule.PACING: "pacing",
    TuningRule.CLOCK_SOURCE: "clock-source",
}
_NAMED = 3
_LONGEST_TEXT = 512


@dataclass(frozen=True, slots=True)
class Tuning:
    """The findings of one node, the worst first, and the rules for which nothing is known to judge by."""

    findings: tuple[TuningFinding, ...] = ()
    unknown: tuple[TuningRule, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether no rule could judge."""
        return len(self.unknown) == len(RULES)


def tuning_of(facts: HostFacts) -> Tuning:
    """What the rules say of a node."""
    said = {name: rule(facts) for name, rule in RULES.items()}
    return Tuning(
        findings=tuple(finding for findings in said.values() for finding in findings or ()),
        unknown=tuple(name for name, findings in said.items() if findings is None),
    )


def page_of(rule: TuningRule) -> str:
    """The page of a rule in the documentation."""
    return f"{PAGES}/{_PAGE[rule]}.md"


def advice_of(tuning: Tuning | None) -> tuple[TuningAdvice, ...]:
    """The findings for the status; none where the agent is not believed."""
    if tuning is None:
        return ()
    return tuple(
        TuningAdvice(
            rule=finding.rule.value,
            interface=finding.interface,
            found=shorten(finding.found, _LONGEST_TEXT),
            recommended=shorten(finding.recommended, _LONGEST_TEXT),
            why=shorten(finding.why, _LONGEST_TEXT),
            command=shorten(finding.command, _LONGEST_TEXT),
            page=page_of(finding.rule),
        )
        for finding in tuning.findings[:MOST_ADVICE]
    )


def set_tuned(conditions: Conditions, tuning: Tuning | None) -> None:
    """Sets `Tuned`. None: nothing that the agent reported is used."""
    if tuning is None or tuning.is_unknown:
        why = "the agent's report is not used, see Ready" if tuning is None else "nothing that the rules look at is known"
        conditions.set(DtnConditionType.TUNED, "Unknown", DtnReason.SETTINGS_UNKNOWN, why)
    elif tuning.findings:
        conditions.set(DtnConditionType.TUNED, "False", DtnReason.SETTINGS_TO_CHANGE, _worst(tuning.findings))
    else:
        unknown = f"; not known: {', '.join(tuning.unknown)}" if tuning.unknown else ""
        conditions.set(DtnConditionType.TUNED, "True", DtnReason.SETTINGS_AS_ADVISED, f"nothing to change{unknown}")


def _worst(findings: tuple[TuningFinding, ...]) -> str:
    named = [
        f"{finding.rule}{f' of {finding.interface}' if finding.interface else ''}: {finding.found}, should be {finding.recommended}"
        for finding in findings[:_NAMED]
    ]
    more = f"; {len(findings) - _NAMED} more" if len(findings) > _NAMED else ""
    return f"{'; '.join(named)}{more}; status.advice has the commands"
