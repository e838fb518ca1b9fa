"""The figures of the bench from its outcomes. Pure; every ratio is between runs of the same path, background and length."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fairlead_advisor.models.answer import BBR_CLASSES
from fairlead_dev.bench.decisions.matrix import FIXED, LOOPS, Policy, policies_with, right_choice
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.bench.decisions.timeline import adaptations_s, needless_switches, right_share

PAPERS_OWN_CLASSES = ("B0-C1", "B1-C0")
"""One flow of CUBIC, one of BBR: where the paper gives Jain's index (0.99 and 0.96)."""
_LEAST_GOODPUT_BPS = 1000.0
"""A lower rate counts as this one: a ratio to next to nothing has no meaning."""
_TEN_MINUTES_S = 600.0
DOUBTFUL = 0.15
"""What is this far from the oracle's, to either side, is more likely chance in these few runs than the choice."""
_T = TypeVar("_T")


def jain(goodputs_bps: Sequence[float]) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2); None for nobody, and for nothing carried."""
    squares = math.fsum(x * x for x in goodputs_bps)
    return math.fsum(goodputs_bps) ** 2 / (len(goodputs_bps) * squares) if squares else None


@dataclass(frozen=True, slots=True)
class Group:
    """All policies that a stationary cell of path and background is measured with."""

    path_id: str
    background: str
    runs: Mapping[Policy, CellOutcome]

    @property
    def oracle(self) -> CellOutcome:
        """The run of the fixed choice that the rule gives for the true class."""
        return self.runs[Policy(right_choice(self.background))]

    def jain(self, policy: Policy, *, settled: bool = False) -> float | None:
        """Jain's index over the transfer and the background flows; None without background."""
        run = self.runs[policy]
        own_bps, flows_bps = (run.own_settled_bps, run.flows_settled_bps) if settled else (run.own_bps, run.flows_bps)
        return jain((own_bps, *flows_bps)) if flows_bps else None

    def ratio(self, policy: Policy, to: Policy) -> float:
        """Own goodput under one policy relative to another."""
        return max(_LEAST_GOODPUT_BPS, self.runs[policy].own_bps) / max(_LEAST_GOODPUT_BPS, self.runs[to].own_bps)

    def vs_oracle(self, policy: Policy) -> float:
        """Own goodput relative to the oracle's, the time for probing included."""
        return self.ratio(policy, self.oracle.policy)

    def vs_oracle_settled(self, policy: Policy) -> float:
        """The same over the second half of the transfer, when probing before the data is over."""
        return max(_LEAST_GOODPUT_BPS, self.runs[policy].own_settled_bps) / max(_LEAST_GOODPUT_BPS, self.oracle.own_settled_bps)

    def loss_to_others(self, policy: Policy) -> float:
        """What the background flows together have lost against the oracle's run, as a share of what they had there."""
        there_bps = math.fsum(self.oracle.flows_bps)
        return 1 - math.fsum(self.runs[policy].flows_bps) / there_bps if there_bps else 0.0

    def below_worse_fixed(self, policy: Policy) -> float:
        """By how much Jain's index is below that of the worse fixed choice; 0 or less is good."""
        fixed = [value for one in FIXED if one in self.runs and (value := self.jain(one)) is not None]
        own = self.jain(policy)
        return min(fixed) - own if fixed and own is not None else 0.0


def groups(outcomes: Iterable[CellOutcome]) -> tuple[Group, ...]:
    """The stationary cells that every policy has a run of, in the order of the outcomes; of several runs the one of median goodput."""
    found: dict[tuple[str, str], dict[Policy, list[CellOutcome]]] = {}
    for outcome in outcomes:
        if outcome.scene.stationary:
            found.setdefault((outcome.path_id, outcome.background), {}).setdefault(outcome.policy, []).append(outcome)
    return tuple(
        Group(path_id, background, {policy: _middle(of_policy) for policy, of_policy in runs.items()})
        for (path_id, background), runs in found.items()
        if set(policies_with(background)) <= runs.keys()
    )


def _middle(runs: Sequence[CellOutcome]) -> CellOutcome:
    return sorted(runs, key=lambda run: run.own_bps)[(len(runs) - 1) // 2]


def doubtful(runs: Iterable[CellOutcome]) -> frozenset[tuple[str, str]]:
    """Path and background of the cells where ours is far above or below the oracle's: they need a median, or one of more runs."""
    return frozenset((group.path_id, group.background) for group in groups(runs) if abs(group.vs_oracle(Policy.OURS) - 1) > DOUBTFUL)


def figures(outcomes: Sequence[CellOutcome], policy: Policy) -> dict[str, float | None]:
    """Every figure of one policy, by its name; None where no run measures it."""
    complete = groups(outcomes)
    with_bbr = [group for group in complete if group.background in BBR_CLASSES]
    shared = [group for group in complete if group.oracle.flows_bps]
    papers = [group for group in complete if group.background in PAPERS_OWN_CLASSES]
    vs_oracle = [group.vs_oracle(policy) for group in complete]
    stationary = [one for one in outcomes if one.policy is policy and one.scene.stationary]
    changing = [one for one in outcomes if one.policy is policy and not one.scene.stationary]
    return {
        "goodput_vs_oracle_mean": _mean(vs_oracle),
        "goodput_vs_oracle_worst": min(vs_oracle, default=None),
        "goodput_vs_oracle_settled_mean": _mean([group.vs_oracle_settled(policy) for group in complete]),
        "gain_over_cubic_bbr_background": _geometric_mean([group.ratio(policy, Policy.CUBIC) for group in with_bbr]),
        "gain_over_cubic_single_bbr": _geometric_mean(
            [group.ratio(policy, Policy.CUBIC) for group in with_bbr if group.background == "B1-C0"]
        ),
        "jain_mean": _mean_of(papers, lambda group: group.jain(policy)),
        "jain_settled_mean": _mean_of(papers, lambda group: group.jain(policy, settled=True)),
        "jain_all_classes_mean": _mean_of(shared, lambda group: group.jain(policy)),
        "jain_below_worse_fixed_most": max((group.below_worse_fixed(policy) for group in shared), default=None),
        "loss_to_others_mean": _mean([group.loss_to_others(policy) for group in shared]),
        "first_data_s_median": _median([one.first_data_s for one in stationary if one.first_data_s is not None]),
        "right_choice_share": _mean_of(stationary, lambda one: right_share(one.in_force, one.scene.rights())),
        "right_choice_share_changing": _mean_of(changing, lambda one: right_share(one.in_force, one.scene.rights())),
        "needless_switches_per_10_min": needless_per_10_min(stationary),
        "adapt_s_median": _median([time_s for one in changing for time_s in adaptations_s(one.in_force, one.scene.rights(), one.seconds)]),
    }


def needless_per_10_min(stationary: Sequence[CellOutcome]) -> float | None:
    """Switches away from the right choice where nothing changed, in ten minutes of transfer; None without any transfer."""
    seconds = math.fsum(one.seconds for one in stationary)
    switches = sum(needless_switches(one.in_force, one.scene.rights()) for one in stationary)
    return switches * _TEN_MINUTES_S / seconds if seconds else None


def of_all_loops(outcomes: Sequence[CellOutcome]) -> dict[Policy, dict[str, float | None]]:
    """The figures of the paper's loop and of ours."""
    return {policy: figures(outcomes, policy) for policy in LOOPS}


def of_oracle(outcomes: Sequence[CellOutcome]) -> dict[str, float | None]:
    """What the oracle's own runs reach in the figures that are not relative to it: no loop can be much better there."""
    complete = groups(outcomes)
    with_bbr = [group for group in complete if group.background in BBR_CLASSES]
    papers = [group for group in complete if group.background in PAPERS_OWN_CLASSES]
    shared = [group for group in complete if group.oracle.flows_bps]
    return {
        "gain_over_cubic_bbr_background": _geometric_mean([group.ratio(group.oracle.policy, Policy.CUBIC) for group in with_bbr]),
        "gain_over_cubic_single_bbr": _geometric_mean(
            [group.ratio(group.oracle.policy, Policy.CUBIC) for group in with_bbr if group.background == "B1-C0"]
        ),
        "jain_mean": _mean_of(papers, lambda group: group.jain(group.oracle.policy)),
        "jain_settled_mean": _mean_of(papers, lambda group: group.jain(group.oracle.policy, settled=True)),
        "jain_all_classes_mean": _mean_of(shared, lambda group: group.jain(group.oracle.policy)),
        "jain_below_worse_fixed_most": max((group.below_worse_fixed(group.oracle.policy) for group in shared), default=None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _geometric_mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None


def _mean_of(items: Iterable[_T], value: Callable[[_T], float | None]) -> float | None:
    return _mean([found for item in items if (found := value(item)) is not None])
