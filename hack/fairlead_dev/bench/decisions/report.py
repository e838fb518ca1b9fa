"""The rows of `decisions.json` and the table for people. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead_dev.bench.decisions.figures import Group, groups, intervals, jain_of, of_all_loops, of_falcon, of_oracle
from fairlead_dev.bench.decisions.matrix import LOOPS, Policy
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.bench.decisions.timeline import adaptations_s
from fairlead_dev.bench.intervals import rounded_interval
from fairlead_dev.bench.rows import Goal, Row

GOALS = {
    "goodput_vs_oracle_mean": Goal("at_least", 0.97, "value"),
    "goodput_vs_oracle_worst": Goal("at_least", 0.88, "value"),
    "clean_vs_best_fixed": Goal("at_least", 0.97, "value"),
    "gain_over_cubic_bbr_background": Goal("at_least", 4.0, "value"),
    "jain_mean": Goal("at_least", 0.95, "value"),
    "jain_below_worse_fixed_most": Goal("at_most", 0.02, "value"),
    "adapt_s_median": Goal("at_most", 12.0, "value"),
    "adapt_s_p90": Goal("at_most", 25.0, "value"),
    "needless_switches_per_10_min": Goal("at_most", 0.5, "value"),
    "parallelism_vs_best_fixed": Goal("at_least", 0.95, "value"),
    "sidecar_cpu_most": Goal("at_most", 0.02, "value"),
    "sidecar_rss_most": Goal("at_most", 200.0, "value"),
}
LOWER_BOUNDS = {"goodput_vs_oracle_mean": 0.95}
"""Where the lower end of the interval is to reach something too."""
_UNITS = {
    "adapt_s_median": "s",
    "adapt_s_p90": "s",
    "first_data_s_median": "s",
    "needless_switches_per_10_min": "1/10 min",
    "sidecar_cpu_most": "cores",
    "sidecar_rss_most": "MiB",
}


def rows(
    outcomes: Sequence[CellOutcome],
    further: Mapping[str, float | None],
    about: Mapping[str, Any],
    falcon: Mapping[str, float | None] | None = None,
) -> list[Row]:
    """Figures first, with `further` ones of ours alone, each with its rivals' and the oracle's beside it, then every run.

    `falcon` has what Falcon's search reaches in some of the further ones.
    """
    loops, oracle = of_all_loops(outcomes), of_oracle(outcomes)
    # A goal whose figure was not measured has its row too.
    ours = {**dict.fromkeys(GOALS), **loops[Policy.OURS], **further}
    bounds = {policy: intervals(outcomes, policy) for policy in LOOPS}
    falcons = {**of_falcon(outcomes), **(falcon or {})}

    def beside(name: str, value: float | None) -> _Beside:
        return _Beside(
            value,
            paper=loops[Policy.PAPER].get(name),
            paper_own_path=loops[Policy.PAPER_OWN_PATH].get(name),
            one_stream=loops[Policy.ONE_STREAM].get(name),
            falcon=falcons.get(name),
            oracle=oracle.get(name),
        )

    return [
        Row("about", None, "", more=about),
        *(_row(name, beside(name, value), {policy: bounds[policy].get(name) for policy in LOOPS}) for name, value in ours.items()),
        *(_run(group, run) for group in groups(outcomes) for runs in group.runs.values() for run in runs),
        *(_change(outcome) for outcome in outcomes if not outcome.scene.stationary),
    ]


_Bounds = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class _Beside:
    """One figure of everybody who has it."""

    ours: float | None
    paper: float | None
    paper_own_path: float | None
    one_stream: float | None
    falcon: float | None
    oracle: float | None


def _row(name: str, figure: _Beside, bounds: Mapping[Policy, _Bounds]) -> Row:
    goal, value = GOALS.get(name), figure.ours
    bound, ratio = (None, None) if goal is None else (goal.bound, goal.margin(value))
    more = {
        "interval_95": rounded_interval(bounds[Policy.OURS]),
        "reached": None if goal is None else _reached(name, goal, value, bounds[Policy.OURS]),
        **({"lower_bound_goal": LOWER_BOUNDS[name]} if name in LOWER_BOUNDS else {}),
        "paper_loop": _rounded(figure.paper),
        "paper_loop_interval_95": rounded_interval(bounds[Policy.PAPER]),
        "paper_loop_own_path": _rounded(figure.paper_own_path),
        "paper_loop_own_path_interval_95": rounded_interval(bounds[Policy.PAPER_OWN_PATH]),
        **({} if figure.one_stream is None else {"one_stream": _rounded(figure.one_stream)}),
        **({} if figure.falcon is None else {"falcon": _rounded(figure.falcon)}),
        "oracle": _rounded(figure.oracle),
    }
    return Row(name, _rounded(value), _UNITS.get(name, "1"), bound, _rounded(ratio), more=more)


def _reached(name: str, goal: Goal, value: float | None, bounds: _Bounds) -> bool:
    """Whether figure and interval are as good as they are to be; what was not measured is not reached."""
    if value is None or math.isnan(value) or not goal.reached(value):
        return False
    return name not in LOWER_BOUNDS or (bounds is not None and bounds[0] >= LOWER_BOUNDS[name])


def _run(group: Group, run: CellOutcome) -> Row:
    oracle_bps, settled_bps = group.own_bps(group.oracle), group.own_bps(group.oracle, settled=True)
    more = {
        "settled_ratio": _rounded(run.own_settled_bps / settled_bps if settled_bps else None),
        "background_mbps": [round(flow_bps / 1e6, 3) for flow_bps in run.flows_bps],
        "jain": _rounded(jain_of(run)),
        "jain_settled": _rounded(jain_of(run, settled=True)),
        "first_data_s": _rounded(run.first_data_s),
        "in_force": _told(run),
        "oracle": str(group.oracle),
        "number": run.number,
        "machine": run.machine,
    }
    ratio = run.own_bps / oracle_bps if oracle_bps else None
    name = f"run_{group.path_id}_{group.background}_{run.policy}" + (f"_{run.number}" if run.number > 1 else "")
    return Row(name, round(run.own_bps / 1e6, 3), "Mb/s", round(oracle_bps / 1e6, 3), _rounded(ratio), more=more)


def _change(outcome: CellOutcome) -> Row:
    more = {
        "right": [[since_s, right] for since_s, right in outcome.scene.rights()],
        "in_force": _told(outcome),
        "adapt_s": [round(time_s, 1) for time_s in adaptations_s(outcome.in_force, outcome.scene.rights(), outcome.seconds)],
        "machine": outcome.machine,
    }
    name = f"change_{outcome.path_id}_{outcome.scene.name}_{outcome.policy}" + (f"_{outcome.number}" if outcome.number > 1 else "")
    return Row(name, round(outcome.own_bps / 1e6, 3), "Mb/s", more=more)


def _told(outcome: CellOutcome) -> list[list[object]]:
    return [[round(span.from_s, 1), span.control] for span in outcome.in_force]


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 4)


def table(all_rows: Sequence[Row]) -> str:
    """Figures with their goals, then the runs."""
    lines = [f"{'figure':34} {'ours':>9} {'goal':>8} {'':5} {'paper':>9} {'own path':>9} {'oracle':>9}  95 %"]
    for row in all_rows:
        if "paper_loop" in row.more:
            verdict = {True: "yes", False: "NO", None: ""}[row.more["reached"]]
            own = f"{_text(row.value):>9} {_text(row.reference):>8} {verdict:5}"
            beside = " ".join(f"{_text(row.more[key]):>9}" for key in ("paper_loop", "paper_loop_own_path", "oracle"))
            interval = "-".join(_text(bound) for bound in row.more["interval_95"] or ())
            falcon = f"  Falcon {_text(row.more['falcon'])}" if "falcon" in row.more else ""
            lines.append(f"{row.name:34} {own} {beside}  {interval}{falcon}")
    runs = [row for row in all_rows if row.name.startswith("run_")]
    if runs:
        lines += ["", f"{'run':34} {'Mb/s':>9} {'/oracle':>8} {'settled':>8} {'Jain':>7}  background Mb/s; in force"]
    for row in runs:
        more = row.more
        shown = (f"{_text(row.value):>9}", f"{_text(row.ratio):>8}", f"{_text(more['settled_ratio']):>8}", f"{_text(more['jain']):>7}")
        flows = " ".join(f"{flow:.1f}" for flow in more["background_mbps"]) or "-"
        lines.append(f"{row.name[4:]:34} {' '.join(shown)}  {flows}; {_controls(row)}")
    lines += [
        f"{row.name[7:]:44} adapted in {', '.join(f'{time_s:g}' for time_s in row.more['adapt_s'])} s; {_controls(row)}"
        for row in all_rows
        if "adapt_s" in row.more
    ]
    return "\n".join(lines)


def _controls(row: Row) -> str:
    return ", ".join(f"{control} from {since_s:g} s" for since_s, control in row.more["in_force"]) or "no data"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
