"""The figures of the bench from its outcomes. Pure; every ratio is between runs of the same path, background and length."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fairlead_advisor.models.answer import BBR_CLASSES
from fairlead_dev.bench.decisions.matrix import FIXED, FIXED_CHOICES, LOOPS, Policy, policies_with, right_choice
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.bench.decisions.timeline import adaptations_s, needless_switches, right_share
from fairlead_dev.bench.intervals import intervals_95

PAPERS_OWN_CLASSES = ("B0-C1", "B1-C0")
"""One flow of CUBIC, one of BBR: where the paper gives Jain's index (0.99 and 0.96)."""
ABOUT_ALLOWED = 1.25
"""A fixed choice is fair whose part is at most this factor from that of one flow.

One that is starved is no measure either: beside `B1-C1` BBR often has 1.3 to 1.5 of its part, and CUBIC a fifth of it.
"""
_LEAST_GOODPUT_BPS = 1000.0
"""A lower rate counts as this one: a ratio to next to nothing has no meaning."""
_TEN_MINUTES_S = 600.0
_DRAWS = 1000
_T = TypeVar("_T")


def jain(goodputs_bps: Sequence[float]) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2); None for nobody, and for nothing carried."""
    squares = math.fsum(x * x for x in goodputs_bps)
    return math.fsum(goodputs_bps) ** 2 / (len(goodputs_bps) * squares) if squares else None


@dataclass(frozen=True, slots=True)
class Group:
    """All policies that a stationary cell of path and background is measured with, each with as many runs.

    What is allowed is one flow's part, however many streams ours has.
    """

    path_id: str
    background: str
    runs: Mapping[Policy, tuple[CellOutcome, ...]]

    @property
    def oracle(self) -> Policy:
        """The fixed choice with the most goodput of those with about the part that is allowed; if none has it, the nearest to that."""
        fixed = [policy for policy in FIXED_CHOICES if policy in self.runs]
        fair = [policy for policy in fixed if 1 / ABOUT_ALLOWED <= self.share_vs_allowed(policy) <= ABOUT_ALLOWED]
        return max(fair, key=self.own_bps) if fair else min(fixed, key=self._from_allowed)

    @property
    def rule(self) -> Policy:
        """The fixed choice that the paper's rule gives for the true class."""
        return Policy(right_choice(self.background))

    def share_vs_allowed(self, policy: Policy) -> float:
        """The transfer's mean part of all that was carried, over that of one flow among as many."""
        return statistics.fmean(_share(run) * (len(run.flows_bps) + 1) for run in self.runs[policy])

    def own_bps(self, policy: Policy, *, settled: bool = False) -> float:
        """Own goodput, the mean of the runs."""
        return statistics.fmean(run.own_settled_bps if settled else run.own_bps for run in self.runs[policy])

    def jain(self, policy: Policy, *, settled: bool = False) -> float | None:
        """The mean of the runs' Jain's indices over the transfer and the background flows; None without background."""
        return _mean([value for run in self.runs[policy] if (value := jain_of(run, settled=settled)) is not None])

    def from_first_byte_bps(self, policy: Policy) -> float:
        """Own goodput from the first byte on, the mean of the runs."""
        return statistics.fmean(run.own_bps * run.seconds / (run.seconds - (run.first_data_s or 0.0)) for run in self.runs[policy])

    def vs_best_fixed(self, policy: Policy) -> float:
        """From the first byte on, relative to the best of the fixed choices."""
        best_bps = max(self.from_first_byte_bps(fixed) for fixed in FIXED_CHOICES if fixed in self.runs)
        return self.from_first_byte_bps(policy) / max(_LEAST_GOODPUT_BPS, best_bps)

    def _from_allowed(self, policy: Policy) -> float:
        share = self.share_vs_allowed(policy)
        return abs(math.log(share)) if share else math.inf

    def ratio(self, policy: Policy, to: Policy, *, settled: bool = False) -> float:
        """Own goodput under one policy relative to another; settled: over the second half, when probing before the data is over."""
        own_bps, other_bps = self.own_bps(policy, settled=settled), self.own_bps(to, settled=settled)
        return max(_LEAST_GOODPUT_BPS, own_bps) / max(_LEAST_GOODPUT_BPS, other_bps)

    def vs_oracle(self, policy: Policy) -> float:
        """Own goodput relative to the oracle's, the time for probing included."""
        return self.ratio(policy, self.oracle)

    def vs_rule(self, policy: Policy) -> float:
        """Own goodput relative to that of the rule's choice."""
        return self.ratio(policy, self.rule)

    def loss_to_others(self, policy: Policy) -> float:
        """What the background flows together have lost against the oracle's runs, as a share of what they had there."""
        there_bps = self._others_bps(self.oracle)
        return 1 - self._others_bps(policy) / there_bps if there_bps else 0.0

    def below_worse_fixed(self, policy: Policy) -> float:
        """By how much Jain's index is below that of the worse fixed choice; 0 or less is good."""
        fixed = [value for one in FIXED if one in self.runs and (value := self.jain(one)) is not None]
        own = self.jain(policy)
        return min(fixed) - own if fixed and own is not None else 0.0

    @property
    def shared(self) -> bool:
        """Whether anybody else is there."""
        return bool(self.runs[self.oracle][0].flows_bps)

    def _others_bps(self, policy: Policy) -> float:
        return statistics.fmean(math.fsum(run.flows_bps) for run in self.runs[policy])


def jain_of(run: CellOutcome, *, settled: bool = False) -> float | None:
    """Jain's index of one run; None without background."""
    own_bps, flows_bps = (run.own_settled_bps, run.flows_settled_bps) if settled else (run.own_bps, run.flows_bps)
    return jain((own_bps, *flows_bps)) if flows_bps else None


def _share(run: CellOutcome) -> float:
    carried_bps = run.own_bps + math.fsum(run.flows_bps)
    return run.own_bps / carried_bps if carried_bps else 0.0


def groups(outcomes: Iterable[CellOutcome]) -> tuple[Group, ...]:
    """The stationary cells that every policy has a run of, in the order of the outcomes, each with equally many repetitions.

    A repetition counts where every policy has it. Where some cell has fewer of those, the last ones of the others do not count: no cell
    is looked at more often than another, whatever came out of it.
    """
    found: dict[tuple[str, str], dict[Policy, dict[int, CellOutcome]]] = {}
    for outcome in outcomes:
        if outcome.scene.stationary:
            found.setdefault((outcome.path_id, outcome.background), {}).setdefault(outcome.policy, {})[outcome.number] = outcome
    common = {
        cell: sorted(set.intersection(*(set(of_policy) for of_policy in runs.values())))
        for cell, runs in found.items()
        if set(policies_with(cell[1])) <= runs.keys()
    }
    complete = {cell: numbers for cell, numbers in common.items() if numbers}
    repeats = min(map(len, complete.values()), default=0)
    return tuple(
        Group(*cell, {policy: tuple(runs[number] for number in numbers[:repeats]) for policy, runs in found[cell].items()})
        for cell, numbers in complete.items()
    )


def repeats_counted(complete: Iterable[Group]) -> int:
    """How many repetitions of every cell count: as many as the cell has that has the fewest."""
    return min((len(runs) for group in complete for runs in group.runs.values()), default=0)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What figures are made of: complete cells, and all runs of a policy."""

    groups: Sequence[Group]
    stationary: Sequence[CellOutcome]
    changing: Sequence[CellOutcome]


def figures(outcomes: Sequence[CellOutcome], policy: Policy) -> dict[str, float | None]:
    """Every figure of one policy, by its name; None where no run measures it."""
    return _figures(_measured(outcomes, policy), policy)


def intervals(outcomes: Sequence[CellOutcome], policy: Policy) -> dict[str, tuple[float, float] | None]:
    """The middle 95 % of each figure over draws of the paths; empty with a single path."""
    whole = _measured(outcomes, policy)
    paths = dict.fromkeys([*(group.path_id for group in whole.groups), *(one.path_id for one in whole.changing)])
    by_path = [
        _Measured(
            [group for group in whole.groups if group.path_id == path_id],
            [one for one in whole.stationary if one.path_id == path_id],
            [one for one in whole.changing if one.path_id == path_id],
        )
        for path_id in paths
    ]
    return intervals_95(by_path, lambda drawn: _figures(_joined(drawn), policy), draws=_DRAWS)


def _measured(outcomes: Sequence[CellOutcome], policy: Policy) -> _Measured:
    of_policy = [one for one in outcomes if one.policy is policy]
    return _Measured(
        [group for group in groups(outcomes) if policy in group.runs],
        [one for one in of_policy if one.scene.stationary],
        [one for one in of_policy if not one.scene.stationary],
    )


def _joined(parts: Sequence[_Measured]) -> _Measured:
    return _Measured(
        [group for part in parts for group in part.groups],
        [one for part in parts for one in part.stationary],
        [one for part in parts for one in part.changing],
    )


def _figures(measured: _Measured, policy: Policy) -> dict[str, float | None]:
    complete, stationary, changing = measured.groups, measured.stationary, measured.changing
    with_bbr = [group for group in complete if group.background in BBR_CLASSES]
    shared = [group for group in complete if group.shared]
    papers = [group for group in complete if group.background in PAPERS_OWN_CLASSES]
    vs_oracle = [group.vs_oracle(policy) for group in complete]
    vs_rule = [group.vs_rule(policy) for group in complete]
    allowed = [group.share_vs_allowed(policy) for group in shared]
    adapted_s = [time_s for one in changing for time_s in adaptations_s(one.in_force, one.scene.rights(), one.seconds)]
    return {
        "goodput_vs_oracle_mean": _mean(vs_oracle),
        "goodput_vs_oracle_worst": min(vs_oracle, default=None),
        "goodput_vs_oracle_settled_mean": _mean([group.ratio(policy, group.oracle, settled=True) for group in complete]),
        "goodput_vs_rule_mean": _mean(vs_rule),
        "goodput_vs_rule_worst": min(vs_rule, default=None),
        "goodput_vs_rule_settled_mean": _mean([group.ratio(policy, group.rule, settled=True) for group in complete]),
        "share_vs_allowed_mean": _mean(allowed),
        "share_vs_allowed_most": max(allowed, default=None),
        "clean_vs_best_fixed": _mean([group.vs_best_fixed(policy) for group in complete if not group.shared]),
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
        "adapt_s_median": _median(adapted_s),
        "adapt_s_p90": p90(adapted_s),
    }


def needless_per_10_min(stationary: Sequence[CellOutcome]) -> float | None:
    """Switches away from the right choice where nothing changed, in ten minutes of transfer; None without any transfer."""
    seconds = math.fsum(one.seconds for one in stationary)
    switches = sum(needless_switches(one.in_force, one.scene.rights()) for one in stationary)
    return switches * _TEN_MINUTES_S / seconds if seconds else None


def of_all_loops(outcomes: Sequence[CellOutcome]) -> dict[Policy, dict[str, float | None]]:
    """The figures of both of the paper's loops, of the default job, and of ours over one stream: none where that was not measured."""
    return {policy: figures(outcomes, policy) for policy in (*LOOPS, Policy.ONE_STREAM)}


def of_falcon(outcomes: Sequence[CellOutcome]) -> dict[str, float | None]:
    """What Falcon's search reaches where it is measured: on empty paths alone."""
    return {"clean_vs_best_fixed": figures(outcomes, Policy.FALCON)["clean_vs_best_fixed"]}


def of_oracle(outcomes: Sequence[CellOutcome]) -> dict[str, float | None]:
    """What the oracle's own runs reach in the figures that are not relative to it: no loop can be much better there."""
    complete = groups(outcomes)
    with_bbr = [group for group in complete if group.background in BBR_CLASSES]
    papers = [group for group in complete if group.background in PAPERS_OWN_CLASSES]
    shared = [group for group in complete if group.shared]
    allowed = [group.share_vs_allowed(group.oracle) for group in shared]
    return {
        "goodput_vs_rule_mean": _mean([group.vs_rule(group.oracle) for group in complete]),
        "share_vs_allowed_mean": _mean(allowed),
        "share_vs_allowed_most": max(allowed, default=None),
        "gain_over_cubic_bbr_background": _geometric_mean([group.ratio(group.oracle, Policy.CUBIC) for group in with_bbr]),
        "gain_over_cubic_single_bbr": _geometric_mean(
            [group.ratio(group.oracle, Policy.CUBIC) for group in with_bbr if group.background == "B1-C0"]
        ),
        "jain_mean": _mean_of(papers, lambda group: group.jain(group.oracle)),
        "jain_settled_mean": _mean_of(papers, lambda group: group.jain(group.oracle, settled=True)),
        "jain_all_classes_mean": _mean_of(shared, lambda group: group.jain(group.oracle)),
        "jain_below_worse_fixed_most": max((group.below_worse_fixed(group.oracle) for group in shared), default=None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def p90(values: Sequence[float]) -> float | None:
    """The least of the values that nine tenths of them do not exceed."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else None


def _geometric_mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None


def _mean_of(items: Iterable[_T], value: Callable[[_T], float | None]) -> float | None:
    return _mean([found for item in items if (found := value(item)) is not None])
