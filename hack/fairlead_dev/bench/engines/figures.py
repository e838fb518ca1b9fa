"""What follows from the runs: what `Auto` would have chosen by the first ones, and what that was worth in the others. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean
from typing import Any, Literal

from fairlead.api.transferjob.status import EngineChoice, ProtocolInForce
from fairlead.core.paths.engines import EngineQuestion, choose
from fairlead.core.paths.model import EngineResult
from fairlead_dev.bench.engines.plan import COMPANIES, EVIDENCE_REPEATS, MEASURED, Company, HarmRun, MoveRun, allowed_protocols
from fairlead_dev.bench.intervals import interval_95, rounded_interval
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.testbed.sealed.engine_paths import EnginePath

GOALS = {
    "auto_vs_best_engine_mean": Goal("at_least", 0.95, "value"),
    "auto_vs_best_engine_worst": Goal("at_least", 0.85, "value"),
    "auto_udp_where_policed": Goal("at_most", 0, "value"),
}
HARM = "harm_worst_auto"
"""Its goal is the row beside it, `harm_one_more_cubic`."""


@dataclass(frozen=True, slots=True)
class EngineMove:
    """What one transfer got, and what the operator would keep of it; nothing of what was too small or had not ended."""

    goodput_bps: float
    kept: EngineResult | None


@dataclass(frozen=True, slots=True)
class EngineTrial:
    """All transfers on one path, by the protocol that each was to use, in the order of their repeats."""

    name: str
    path: EnginePath
    moves: Mapping[ProtocolInForce, Sequence[EngineMove]]
    cpus: int

    @property
    def choice(self) -> EngineChoice | None:
        """What `Auto` says to the first repeats; None where it has nothing to weigh."""
        kept = [move.kept for moves in self.moves.values() for move in moves[:EVIDENCE_REPEATS]]
        return choose(
            EngineQuestion(
                tuple(result for result in kept if result is not None),
                rtt_seconds=self.path.rtt_ms / 1000,
                allowed_bps=self.path.cap_bps,
                cpus=self.cpus,
            )
        )

    @property
    def chosen(self) -> ProtocolInForce:
        """The protocol that `Auto` uses after the first repeats."""
        choice = self.choice
        return "TCP" if choice is None else choice.protocol

    @property
    def best(self) -> ProtocolInForce:
        """Of the allowed protocols the one that was fastest in the other repeats."""
        return max(allowed_protocols(self.path), key=self.goodput_bps)

    @property
    def has_evidence(self) -> bool:
        """Whether every protocol has been moved over as often as the choice goes by."""
        return all(len(self.moves.get(protocol, ())) >= EVIDENCE_REPEATS for protocol in MEASURED)

    @property
    def is_complete(self) -> bool:
        """Whether every protocol has been scored at least once."""
        return all(len(self.moves.get(protocol, ())) > EVIDENCE_REPEATS for protocol in MEASURED)

    def goodput_bps(self, protocol: ProtocolInForce) -> float:
        """The mean over the repeats that the choice did not go by."""
        return fmean(move.goodput_bps for move in self.moves[protocol][EVIDENCE_REPEATS:])

    def score(self, protocol: ProtocolInForce) -> float:
        """Its goodput beside that of the best allowed one. What is not allowed gains nothing by being faster."""
        return min(1.0, self.goodput_bps(protocol) / self.goodput_bps(self.best))


@dataclass(frozen=True, slots=True)
class HarmTrial:
    """What somebody else's flow got on one path in each company, in bit/s, and what `Auto` was there."""

    name: str
    protocol: ProtocolInForce
    flow_bps: Mapping[Company, Sequence[float]]

    def harm(self, company: Company) -> float:
        """The part of what it got alone that it lost; 0 where it lost nothing."""
        return max(0.0, 1 - fmean(self.flow_bps[company]) / fmean(self.flow_bps["nobody"]))


def move_of(stored: Mapping[str, Any]) -> EngineMove:
    """The transfer in a run's file."""
    kept = stored["kept"]
    return EngineMove(
        float(stored["goodput_bps"]), None if kept is None else EngineResult(**{**kept, "at": datetime.fromisoformat(kept["at"])})
    )


def stored_move(move: EngineMove) -> dict[str, Any]:
    """A transfer as its run's file has it."""
    return {"goodput_bps": move.goodput_bps, "kept": None if move.kept is None else {**asdict(move.kept), "at": move.kept.at.isoformat()}}


def trials_of(paths: Mapping[str, EnginePath], moves: Mapping[MoveRun, EngineMove], cpus: int) -> list[EngineTrial]:
    """The trials of all paths, of what has been measured so far; nothing that comes after a repeat that is missing."""
    by_path: dict[str, dict[ProtocolInForce, list[EngineMove]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(moves, key=lambda run: run.number):
        before = by_path[run.path][run.protocol]
        if len(before) == run.number:
            before.append(moves[run])
    return [EngineTrial(name, path, by_path[name], cpus) for name, path in paths.items()]


def harm_trials_of(trials: Sequence[EngineTrial], flows_bps: Mapping[HarmRun, float]) -> list[HarmTrial]:
    """The trials of those paths on which somebody else's flow was measured in every company."""
    by_path: dict[str, dict[Company, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, rate_bps in flows_bps.items():
        by_path[run.path][run.company].append(rate_bps)
    return [HarmTrial(trial.name, trial.chosen, flows) for trial in trials if set(flows := by_path.get(trial.name, {})) >= set(COMPANIES)]


def rows(trials: Sequence[EngineTrial], harms: Sequence[HarmTrial]) -> list[Row]:
    """All figures and a row for each path, of the paths that are complete."""
    complete = [trial for trial in trials if trial.is_complete]
    if not complete:
        return []
    return [
        *_scores("auto_vs_best_engine", complete, "chosen"),
        *_scores("auto_without_evidence_vs_best", complete, "TCP"),
        _udp_where_barred(complete),
        *_harm_rows(harms),
        *(_path_row(trial) for trial in complete),
    ]


def _scores(name: str, trials: Sequence[EngineTrial], protocol: ProtocolInForce | Literal["chosen"]) -> list[Row]:
    scores = {trial.name: trial.score(trial.chosen if protocol == "chosen" else protocol) for trial in trials}
    open_to_udp = [scores[trial.name] for trial in trials if not trial.path.bars_udp]
    worst = min(scores, key=lambda path: scores[path])
    more = {
        "interval_95": rounded_interval(interval_95(list(scores.values()), fmean)),
        "mean_where_udp_is_open": round(fmean(open_to_udp), 4) if open_to_udp else None,
        "paths": {path: round(score, 4) for path, score in scores.items()},
    }
    mean, least = f"{name}_mean", f"{name}_worst"
    return [
        Row(mean, round(fmean(scores.values()), 4), "ratio", goal=GOALS.get(mean), more=more),
        Row(least, round(scores[worst], 4), "ratio", goal=GOALS.get(least), more={"path": worst}),
    ]


def _udp_where_barred(trials: Sequence[EngineTrial]) -> Row:
    barring = [trial for trial in trials if trial.path.bars_udp]
    wrong = [trial.name for trial in barring if trial.chosen != "TCP"]
    name = "auto_udp_where_policed"
    note = f"of {len(barring)} paths with UDP policed or blocked"
    return Row(name, float(len(wrong)), "paths", note=note, goal=GOALS[name], more={"paths": wrong})


def _harm_rows(harms: Sequence[HarmTrial]) -> list[Row]:
    """The path on which the job does most harm, beside what one more CUBIC flow does there; and the most that it does beyond that."""
    if not harms:
        return []
    worst = max(harms, key=lambda trial: trial.harm("auto"))
    auto, cubic = round(worst.harm("auto"), 4), round(worst.harm("cubic"), 4)
    beyond = max(harms, key=lambda trial: trial.harm("auto") - trial.harm("cubic"))
    note = f"lost of what a CUBIC flow gets alone, on {worst.name}, where the job does most harm of {len(harms)} paths"
    return [
        Row(
            HARM,
            auto,
            "share",
            cubic,
            round(auto / cubic, 4) if cubic else None,
            f"{note}; {worst.protocol}, the default job with its advisor",
            {"paths": {trial.name: _harm_shown(trial) for trial in harms}},
            Goal("at_most", cubic, "value"),
        ),
        Row("harm_one_more_cubic", cubic, "share", note=f"{note}; beside one more CUBIC flow below the job's limit"),
        Row(
            "harm_beyond_one_more_cubic",
            round(beyond.harm("auto") - beyond.harm("cubic"), 4),
            "share",
            note=f"the same of the job less that of the flow, on {beyond.name}, where that is most",
        ),
    ]


def _harm_shown(trial: HarmTrial) -> dict[str, Any]:
    return {
        "protocol": trial.protocol,
        "harm": {company: round(trial.harm(company), 4) for company in trial.flow_bps},
        "flow_mbps": {company: rounded(rate / 1e6 for rate in rates) for company, rates in trial.flow_bps.items()},
    }


def _path_row(trial: EngineTrial) -> Row:
    path, chosen, choice = trial.path, trial.chosen, trial.choice
    more = {
        "chosen": chosen,
        "best": trial.best,
        "why": None if choice is None else choice.message,
        "verdicts": {} if choice is None else {each.protocol: each.verdict for each in choice.weighed},
        "allowed": list(allowed_protocols(path)),
        "goodput_mbps": {protocol: rounded(move.goodput_bps / 1e6 for move in moves) for protocol, moves in trial.moves.items()},
        "kept": {protocol: [_kept(move.kept) for move in moves] for protocol, moves in trial.moves.items()},
    }
    return Row(
        f"path_{trial.name}", round(trial.score(chosen), 4), "ratio", note=f"{chosen}; best allowed {trial.best}; {shown(path)}", more=more
    )


def _kept(result: EngineResult | None) -> dict[str, Any] | None:
    return None if result is None else {key: value for key, value in asdict(result).items() if key not in ("at", "protocol")}


def shown(path: EnginePath) -> str:
    """The path in a line."""
    udp = "UDP blocked" if path.udp_blocked else f"UDP {path.police_udp.rate_bps / 1e6:g} Mb/s" if path.police_udp else ""
    cap = "" if path.cap_bps is None else f"cap {path.cap_bps / 1e6:g} Mb/s"
    loss = f"loss {path.loss_ratio:.2%}" if path.loss_ratio else ""
    parts = (f"{path.rate_bps / 1e6:g} Mb/s", f"{path.rtt_ms:g} ms", f"{path.buffer_bdp:g} BDP", loss, udp, cap)
    return ", ".join(part for part in parts if part)
