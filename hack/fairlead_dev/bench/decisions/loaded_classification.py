"""How well loaded classification recognises BBR beside own data: replayed over the probes of the runs with a fixed choice.

No run is needed for it: every run's own probe has sampled the loaded path, at twice the rate of the sidecar's.
"""

from __future__ import annotations

import contextlib
import statistics
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.monitor.loaded_answers import (
    PERIOD_S,
    SETTLE_S,
    UNANSWERED_S,
    WINDOW_S,
    LoadedAnswers,
    add_answer,
    contradiction,
    interrupted,
)
from fairlead_advisor.errors import TraceError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace, read_trace
from fairlead_advisor.serve.run import WATCH_RATE_HZ
from fairlead_dev.bench.decisions.matrix import FIXED, PROBE_RATE_HZ, CellScene, Policy, right_choice
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.testbed.runs.plans import TRACE

Classify = Callable[[Trace, float], Background]


@dataclass(frozen=True, slots=True)
class ReplayedClassification:
    """When it would have found BBR beside one run, in s after the first byte: against a wrong answer and the right one; None never."""

    control: str
    right: str
    against_wrong_s: float | None
    against_right_s: float | None


def is_replayed(scene: CellScene, policy: Policy) -> bool:
    """Whether it is replayed over such a run: a stationary one with a fixed choice."""
    return scene.stationary and policy in FIXED


def watched(trace: Trace) -> Trace:
    """A run's own probe at the rate of the sidecar's."""
    every = round(PROBE_RATE_HZ / WATCH_RATE_HZ)
    return Trace(trace.send_times_s[::every], trace.rtts_ms[::every])


def watched_in(runs: Path) -> Callable[[str], Trace]:
    """What was watched beside a run, by the name of its folder in `runs`. TraceError if it cannot be read."""
    return lambda run: watched(read_trace(runs / run / TRACE))


def replay(outcomes: Iterable[CellOutcome], traces: Callable[[str], Trace], classify: Classify) -> list[ReplayedClassification]:
    """Beside every run that it is replayed over, with what was watched beside it by its name."""
    found = []
    for outcome in outcomes:
        if is_replayed(outcome.scene, outcome.policy) and outcome.first_data_s is not None:
            found.append(beside(outcome, _answers(traces(outcome.run), outcome.first_data_s, outcome.seconds, classify)))
    return found


def beside(outcome: CellOutcome, answers: Sequence[tuple[float, Background | None]]) -> ReplayedClassification:
    """From the answers beside one run, each with its s after the first byte."""
    right = right_choice(outcome.background)
    bbr, none = _certain("B1-C0"), _certain("B0-C1")
    truth, error = (bbr, none) if right == Policy.BBR else (none, bbr)
    return ReplayedClassification(
        outcome.policy, right, _contradicted_s(outcome.policy, answers, error), _contradicted_s(outcome.policy, answers, truth)
    )


def figures(replayed: Sequence[ReplayedClassification]) -> dict[str, float | None]:
    """`listening_found_share`: of the runs of CUBIC beside BBR; `listening_wrong_share`: of all."""
    starved = [one.against_wrong_s for one in replayed if one.control == Policy.CUBIC and one.right == Policy.BBR]
    found_s = [time_s for time_s in starved if time_s is not None]
    return {
        "listening_found_share": len(found_s) / len(starved) if starved else None,
        "listening_found_s_median": statistics.median(found_s) if found_s else None,
        "listening_wrong_share": sum(one.against_right_s is not None for one in replayed) / len(replayed) if replayed else None,
    }


def _answers(trace: Trace, first_data_s: float, until_s: float, classify: Classify) -> list[tuple[float, Background | None]]:
    answers: list[tuple[float, Background | None]] = []
    end_s = first_data_s + SETTLE_S + WINDOW_S
    while end_s + UNANSWERED_S <= until_s:
        answer = None
        # Where too few requests were answered the sidecar classifies nothing either.
        with contextlib.suppress(TraceError):
            answer = classify(_window(trace, end_s), WINDOW_S)
        answers.append((end_s + UNANSWERED_S - first_data_s, answer))
        end_s += PERIOD_S
    return answers


def _window(trace: Trace, end_s: float) -> Trace:
    # As much more as the sidecar takes: a window is covered only if samples reach to its beginning.
    chosen = [index for index, time_s in enumerate(trace.send_times_s) if end_s - WINDOW_S - UNANSWERED_S <= time_s <= end_s]
    return Trace(array("d", (trace.send_times_s[index] for index in chosen)), array("d", (trace.rtts_ms[index] for index in chosen)))


def _contradicted_s(control: str, answers: Sequence[tuple[float, Background | None]], known: Background) -> float | None:
    answers_so_far = LoadedAnswers(control)
    for time_s, answer in answers:
        answers_so_far = interrupted(answers_so_far) if answer is None else add_answer(answers_so_far, answer)
        if contradiction(answers_so_far, known):
            return time_s
    return None


def _certain(name: str) -> Background:
    probabilities = {each: float(each == name) for each in CLASSES}
    return Background(probabilities, probabilities["B1-C0"], 1.0, abstained=False, model="the truth")
