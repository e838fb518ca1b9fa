"""The figures of the bench from the samples of its runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.core.allocation import jain_index
from fairlead_dev.bench.intervals import interval_95, rounded_interval
from fairlead_dev.bench.rows import Goal, Row
from fairlead_dev.bench.shares.plan import (
    ARRIVAL_S,
    DEPARTURE_S,
    OWN_BACK_S,
    OWN_SHARES_S,
    SCENES,
    VISIT_S,
    SceneName,
    ShareRun,
)

HEADERS_RATIO = 1448 / 1500
"""Payload in an IP packet: the path's counter has headers, the mover's has not."""
_SMOOTH_S = 3.0
_HOLDS_S = 10.0
_FAIR_SHARE, _WHOLE_SHARE = 0.625, 0.9
"""1.25 times one half; and of what the path can carry of payload."""
_ALLOWED = Goal("within", 0.8, "value", upper=1.25)
OWN_SCENES: tuple[SceneName, ...] = ("two", "four")
"""Jobs of ours together."""
SETTLED_S = 45.0
"""From here on flows of the same kind have mostly found their parts."""

Sample = Mapping[str, Any]
_ByPath = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run by its path, scene and sender (`ours`, or the fixed choice as `1-cubic`)."""

    path: str
    scene: SceneName
    who: str
    number: int
    """The repetition: runs of one number are one block."""
    samples: tuple[Sample, ...]
    lateness_p99_us: float
    rate_mbps: float
    """Of the path, with headers."""

    @property
    def payload_mbps(self) -> float:
        """What the path can carry of payload."""
        return HEADERS_RATIO * self.rate_mbps


def outcome_of(run: ShareRun, result: Mapping[str, Any]) -> Outcome:
    """The outcome in a run's file."""
    late_us = max(float(result["emulator"][direction]["write_lateness_us"]["p99"]) for direction in ("ab", "ba"))
    return Outcome(run.path.name, run.scene, run.who, run.number, tuple(result["samples"]), late_us, run.path.rate_mbps)


def complete(outcomes: Sequence[Outcome], choices: Mapping[str, frozenset[str]]) -> list[Outcome]:
    """The runs of complete blocks, of every path equally many: means of choices with unequal repetitions compare different things.

    `choices` has who there is in each scene. A path without any complete block is in no figure of that scene.
    """
    there: dict[tuple[str, str], dict[int, set[str]]] = {}
    for one in outcomes:
        there.setdefault((one.scene, one.path), {}).setdefault(one.number, set()).add(one.who)
    whole = {cell: sorted(number for number, who in blocks.items() if who >= choices[cell[0]]) for cell, blocks in there.items()}
    counts: dict[str, list[int]] = {}
    for (scene, _), numbers in whole.items():
        counts.setdefault(scene, []).extend([len(numbers)] if numbers else [])
    return [
        one
        for one in outcomes
        if one.number in whole[one.scene, one.path][: min(counts[one.scene], default=0)] and one.who in choices[one.scene]
    ]


def own_mbps(outcome: Outcome, from_s: float = 0.0, to_s: float = math.inf) -> float:
    """Our mean goodput over a time."""
    return _mean([sample["own_mbps"] for sample in outcome.samples if from_s < sample["time_s"] <= to_s])


def other_mbps(outcome: Outcome, from_s: float = 0.0, to_s: float = math.inf) -> float:
    """What the path delivered beside ours, as payload."""
    return max(
        0.0,
        HEADERS_RATIO * _mean([s["all_mbps"] for s in outcome.samples if from_s < s["time_s"] <= to_s]) - own_mbps(outcome, from_s, to_s),
    )


def share(outcome: Outcome, from_s: float, to_s: float = math.inf) -> float:
    """Our part of what was carried."""
    own, other = own_mbps(outcome, from_s, to_s), other_mbps(outcome, from_s, to_s)
    return own / (own + other) if own + other > 0 else 0.0


def jain_of_share(part: float) -> float:
    """Jain's index of two flows of which one has that part."""
    return jain_index((part, 1 - part)) or 0.0


def first_byte_s(outcome: Outcome) -> float:
    """When the first of our data had been acknowledged: to the second before."""
    times_s = [0.0, *(sample["time_s"] for sample in outcome.samples)]
    return next((before_s for before_s, sample in zip(times_s, outcome.samples, strict=False) if sample["own_mbps"] > 0), 0.0)


def gives_way_s(outcome: Outcome) -> float:
    """From the arrival until ours is at most 1.25 of a half, over 3 s, and stays so for 10 s; the whole visit if it never does."""
    return _lasting(outcome, ARRIVAL_S, DEPARTURE_S, lambda moment_s: share(outcome, moment_s - _SMOOTH_S, moment_s) <= _FAIR_SHARE)


def takes_over_s(outcome: Outcome) -> float:
    """From the departure until ours is nine tenths of what the path can carry, likewise; the rest of the run if it never is."""
    whole_mbps = _WHOLE_SHARE * outcome.payload_mbps
    return _lasting(outcome, DEPARTURE_S, VISIT_S, lambda moment_s: own_mbps(outcome, moment_s - _SMOOTH_S, moment_s) >= whole_mbps)


def _lasting(outcome: Outcome, from_s: float, to_s: float, holds: Callable[[float], bool]) -> float:
    """Seconds until `holds`, of the end of what is looked at, begins to be true for 10 s; all of the time if it never does."""
    since_s: float | None = None
    for sample in outcome.samples:
        moment_s = sample["time_s"]
        if not from_s + _SMOOTH_S <= moment_s <= to_s:
            continue
        if not holds(moment_s):
            since_s = None
            continue
        since_s = moment_s if since_s is None else since_s
        if moment_s - since_s >= _HOLDS_S:
            return since_s - from_s
    return to_s - from_s


def interval(by_path: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    """95 % of the mean over all runs, by drawing paths with replacement; None with fewer than two paths."""
    return interval_95(list(by_path.values()), lambda drawn: _mean([value for values in drawn for value in values]))


def rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each figure, with its interval, its single runs, the rival's figure as reference, and the emulator's lateness."""
    return [*_beside(outcomes), *_harm(outcomes), *_alone(outcomes), *_visited(outcomes), *_together(outcomes)]


def _beside(outcomes: Sequence[Outcome]) -> list[Row]:
    found: list[Row] = []
    for scene, rival in (("cubic", "1-cubic"), ("bbr", "1-bbr"), ("apart", "1-cubic")):
        settled = {who: _by_path(outcomes, scene, who, lambda one: share(one, SETTLED_S)) for who in ("ours", rival)}
        jain, allowed = _each(settled, jain_of_share), _each(settled, lambda part: 2 * part)
        whole = {who: _by_path(outcomes, scene, who, lambda one: jain_of_share(share(one, 0.0))) for who in ("ours", rival)}
        row = _Rows(_lateness(outcomes, scene))
        found += row(f"jain_ours_default_{scene}", jain["ours"], jain[rival], goal=Goal("at_least", 0.95, "value"))
        found += row(f"jain_ours_default_{scene}_from_the_start", whole["ours"], whole[rival])
        found += row(f"share_vs_allowed_{scene}", allowed["ours"], allowed[rival])
        found += row.worst(f"share_vs_allowed_{scene}_worst", allowed["ours"], allowed[rival], farthest_from_one, goal=_ALLOWED)
    return found


def farthest_from_one(ratios: Sequence[float]) -> float:
    """The ratio that is furthest off, upwards or downwards: a half is as far as two."""
    return max(ratios, key=lambda ratio: abs(math.log(ratio)) if ratio > 0 else math.inf)


def _alone(outcomes: Sequence[Outcome]) -> list[Row]:
    found: list[Row] = []
    goal = Goal("at_least", 0.97, "value")
    kinds: tuple[tuple[str, Callable[[Outcome], float], Goal | None], ...] = (
        ("", own_mbps, goal),
        ("_from_the_first_byte", lambda one: own_mbps(one, first_byte_s(one)), None),
        ("_settled", lambda one: own_mbps(one, SETTLED_S), None),
    )
    for scene in ("clean", "lossy"):
        row = _Rows(_lateness(outcomes, scene))
        for suffix, of, judged_by in kinds:
            best, own = _best_fixed(outcomes, scene, of), _by_path(outcomes, scene, "ours", of)
            ratio = {path: [value / best[path] for value in values] for path, values in own.items() if best.get(path)}
            found += row(f"{scene}_vs_best_fixed{suffix}", ratio, {}, goal=judged_by)
    return found


def _visited(outcomes: Sequence[Outcome]) -> list[Row]:
    found: list[Row] = []
    row = _Rows(_lateness(outcomes, "visit"))
    for name, of in (("gives_way_s", gives_way_s), ("takes_over_s", takes_over_s)):
        values = {who: _by_path(outcomes, "visit", who, of) for who in ("ours", "1-cubic")}
        found += row(name, values["ours"], values["1-cubic"], "s")
        found += row.worst(f"{name}_worst", values["ours"], values["1-cubic"], max, unit="s", goal=Goal("at_most", 20.0, "value"))
    return found


def _harm(outcomes: Sequence[Outcome]) -> list[Row]:
    """What a CUBIC flow loses of what it gets alone: to the job, where that is most, and to one more CUBIC flow there."""
    had = {
        who: {path: _mean(values) for path, values in _by_path(outcomes, "cubic", who, lambda one: other_mbps(one, SETTLED_S)).items()}
        for who in ("nobody", "ours", "1-cubic")
    }
    harm = {
        path: {who: round(1 - had[who][path] / alone, 4) for who in ("ours", "1-cubic")}
        for path, alone in had["nobody"].items()
        if alone > 0 and path in had["ours"] and path in had["1-cubic"]
    }
    if not harm:
        return []
    worst = max(harm, key=lambda path: harm[path]["ours"])
    beyond = max(harm, key=lambda path: harm[path]["ours"] - harm[path]["1-cubic"])
    ours, cubic = harm[worst]["ours"], harm[worst]["1-cubic"]
    note = f"on {worst}, where the job does most harm of {len(harm)} paths"
    more = {"paths": harm, "lateness_p99_us": round(_lateness(outcomes, "cubic"))}
    return [
        Row("bystander_harm_worst", ours, "share", cubic, None, note, more, Goal("at_most", cubic, "value")),
        Row("bystander_harm_beyond_worst", round(harm[beyond]["ours"] - harm[beyond]["1-cubic"], 4), "share", note=f"on {beyond}"),
    ]


def jain_own(outcome: Outcome) -> float:
    """Jain's index over our jobs in the minute before the visitor comes."""
    arrives_s = SCENES[outcome.scene].arrives_s
    rows_of_jobs = [
        [job["mbps"] for job in sample["jobs"]] for sample in outcome.samples if arrives_s - OWN_SHARES_S < sample["time_s"] <= arrives_s
    ]
    return jain_index(tuple(_mean(rates) for rates in zip(*rows_of_jobs, strict=True))) or 0.0


def back_on_cubic_s(outcome: Outcome) -> float:
    """From when the BBR visitor has left until every stream of every job has CUBIC, to the end; all of that time if some never has."""
    leaves_s = SCENES[outcome.scene].leaves_s
    after = [sample for sample in outcome.samples if sample["time_s"] > leaves_s]
    last = max((number for number, sample in enumerate(after) if _controls(sample) - {"cubic"}), default=-1)
    if last + 1 >= len(after):
        return OWN_BACK_S
    return float(after[last + 1]["time_s"] - leaves_s) if last >= 0 else 0.0


def went_to_bbr(outcome: Outcome) -> bool:
    """Whether a job of ours was on BBR before the visitor had left: without that nothing had to go back."""
    leaves_s = SCENES[outcome.scene].leaves_s
    return any("bbr" in _controls(sample) for sample in outcome.samples if sample["time_s"] <= leaves_s)


def _controls(sample: Sample) -> set[str]:
    return {control for job in sample["jobs"] for control in job["controls"]}


def _together(outcomes: Sequence[Outcome]) -> list[Row]:
    found: list[Row] = []
    for scene in OWN_SCENES:
        row = _Rows(_lateness(outcomes, scene))
        jain, back = (_by_path(outcomes, scene, "ours", of) for of in (jain_own, back_on_cubic_s))
        found += row(f"jain_own_{scene}", jain, {}, goal=Goal("at_least", 0.98, "value"))
        found += row.worst(f"jain_own_{scene}_worst", jain, {}, min)
        found += row(f"back_on_cubic_s_{scene}", back, {}, "s")
        found += row.worst(f"back_on_cubic_s_{scene}_worst", back, {}, max, unit="s", goal=Goal("at_most", 60.0, "value"))
        found += row(f"went_to_bbr_{scene}", _by_path(outcomes, scene, "ours", went_to_bbr), {})
    return found


def _best_fixed(outcomes: Sequence[Outcome], scene: str, of: Callable[[Outcome], float]) -> dict[str, float]:
    """The best mean of a fixed choice on each path."""
    means: dict[tuple[str, str], list[float]] = {}
    for one in outcomes:
        if one.scene == scene and one.who != "ours":
            means.setdefault((one.path, one.who), []).append(of(one))
    best: dict[str, float] = {}
    for (path, _), values in means.items():
        best[path] = max(best.get(path, 0.0), _mean(values))
    return best


def _by_path(outcomes: Sequence[Outcome], scene: str, who: str, of: Callable[[Outcome], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in outcomes:
        if (one.scene, one.who) == (scene, who):
            found.setdefault(one.path, []).append(of(one))
    return found


def _lateness(outcomes: Sequence[Outcome], scene: str) -> float:
    return max((one.lateness_p99_us for one in outcomes if one.scene == scene), default=0.0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one scene, which share the emulator's lateness."""

    late_us: float

    def __call__(self, name: str, ours: _ByPath, rival: _ByPath, unit: str = "", goal: Goal | None = None) -> list[Row]:
        """The mean over all runs, with its interval over paths."""
        values, theirs = _all(ours), _all(rival)
        if not values:
            return []
        bounds = interval(ours)
        note = "" if bounds is None else f"95 % of draws of the paths: {bounds[0]:.3g} to {bounds[1]:.3g}"
        more = {"interval_95": rounded_interval(bounds), **self._kept(ours)}
        return [_referred(Row(name, _mean(values), unit, note=note, more=more, goal=goal), _mean(theirs) if theirs else None)]

    def worst(
        self,
        name: str,
        ours: _ByPath,
        rival: _ByPath,
        choose: Callable[[Sequence[float]], float],
        *,
        unit: str = "",
        goal: Goal | None = None,
    ) -> list[Row]:
        """The worst run, which `choose` finds."""
        values, theirs = _all(ours), _all(rival)
        if not values:
            return []
        worst = choose(values)
        path = next(path for path, of_path in ours.items() if worst in of_path)
        row = Row(name, worst, unit, note=f"the worst of {len(values)} runs, on {path}", more=self._kept(ours), goal=goal)
        return [_referred(row, choose(theirs) if theirs else None)]

    def _kept(self, ours: _ByPath) -> dict[str, Any]:
        runs = {path: [round(value, 3) for value in of_path] for path, of_path in ours.items()}
        return {"runs": runs, "lateness_p99_us": round(self.late_us)}


def _referred(row: Row, reference: float | None) -> Row:
    """The row beside the rival's figure, all of them rounded."""
    value = row.value or 0.0
    rival = None if reference is None else round(reference, 4)
    return replace(row, value=round(value, 4), reference=rival, ratio=round(value / reference, 4) if reference else None)


def _all(by_path: _ByPath) -> list[float]:
    return [value for of_path in by_path.values() for value in of_path]


def _each(values: Mapping[str, _ByPath], of: Callable[[float], float]) -> dict[str, _ByPath]:
    return {who: {path: [of(value) for value in of_path] for path, of_path in by_path.items()} for who, by_path in values.items()}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
