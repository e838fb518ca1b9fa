"""Recordings with bursts: each cycle of 20 s passive and 10 s active gives the first step's answer and the second step's features."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairlead_advisor.assess.metrics import Scores, confusion, macro_f1
from fairlead_advisor.features.series import Window
from fairlead_advisor.features.vector import extract
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.model import Model
from fairlead_advisor.train.candidates import boosting
from fairlead_advisor.train.windows import thin
from fairlead_dev.bench.classifier.active.response import Probed, Sent, describe, path_rate_bps
from fairlead_dev.testbed.data import BurstPackets, Recording, read_burst_packets, read_split
from fairlead_dev.testbed.dataset.bursts import ACTIVE_S, PASSIVE_S

WINDOW_S = 10.0
REPEATS = 3
"""Of every cross-validation, with other seeds of the learners."""
_RATE_HZ = 30.0
_SMALLEST = 1e-4

Floats = npt.NDArray[np.float64]
Table = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BurstSamples:
    """A row for every cycle. `first` and `longer`: the first step's log probabilities, from 10 s and from 20 s before the bursts.

    `passive`: the features of those 10 s. `rate_bps`: what the trains say of the path's rate (NaN: nothing), and what it was.
    `response`: what the pushes showed, in the order of `response.describe`. `truth`: class numbers.
    """

    first: Table
    longer: Table
    passive: Table
    rate_bps: Floats
    true_rate_bps: Floats
    response: Table
    truth: npt.NDArray[np.intp]
    path: npt.NDArray[np.str_]

    def rate_errors(self) -> Floats:
        """By how much of it each cycle's trains missed the path's rate; NaN where they gave none."""
        return np.asarray(np.abs(np.log(self.rate_bps / self.true_rate_bps)))


@dataclass(frozen=True, slots=True)
class BurstResult:
    """One second step: figures over all cycles, and over paths their standard deviation."""

    name: str
    learner: str
    cycles: int
    macro_f1: float
    macro_f1_spread: float
    any_bbr: float
    any_bbr_spread: float


def look(folder: Path, model: Model) -> BurstSamples:
    """All cycles of the data set in `folder`, with `model` as the first step."""
    packets = read_burst_packets(folder)
    rows = [row for recording in read_split(folder, "bursts") for row in _cycles(recording, packets[recording.name])]
    response = np.array([list(row.response.values()) for row in rows])
    passive = np.stack([extract(row.last) for row in rows])
    first, _ = model.predict(passive)
    longer, _ = model.predict(np.stack([extract(row.longer) for row in rows]))
    return BurstSamples(
        first=_logs(first),
        longer=_logs(longer),
        passive=passive,
        rate_bps=np.array([row.rate_bps for row in rows]),
        true_rate_bps=np.array([row.true_rate_bps for row in rows]),
        response=np.nan_to_num(response, nan=0.0).astype(np.float32),
        truth=np.array([CLASSES.index(row.class_name) for row in rows], dtype=np.intp),
        path=np.array([row.path for row in rows]),
    )


def compare(looks: BurstSamples, by_rate: Mapping[str, Sequence[Floats]]) -> Iterator[BurstResult]:
    """The first step as it is, and `by_rate` (answers from elsewhere); then second steps that are trained on the other paths' cycles."""
    yield figures("passive 10 s", "the model alone", looks, [np.exp(looks.first.astype(np.float64))])
    yield figures("passive 20 s", "the model alone", looks, [np.exp(looks.longer.astype(np.float64))])
    for name, answers in by_rate.items():
        yield figures(name, "boosting on the data set", looks, answers)
    rated = [_logs(np.mean(answers, axis=0)) for answers in list(by_rate.values())[-1:]]
    inputs: Mapping[str, Table] = {
        "passive 10 s": looks.first,
        "passive 20 s": looks.longer,
        "passive 10 s, bursts 10 s": np.hstack([looks.first, looks.response]),
        "passive 20 s, bursts 10 s": np.hstack([looks.longer, looks.response]),
        "passive 10 s, trains and bursts": np.hstack([looks.first, *rated, looks.response]),
    }
    for learner, make in LEARNERS.items():
        for name, table in inputs.items():
            answers = [_held_out(table, looks, make, seed) for seed in range(1, REPEATS + 1)]
            yield figures(name, learner, looks, answers)


@dataclass(frozen=True, slots=True)
class _Cycle:
    class_name: str
    path: str
    last: Window
    longer: Window
    rate_bps: float
    true_rate_bps: float
    response: dict[str, float]


def _cycles(recording: Recording, packets: BurstPackets) -> Iterator[_Cycle]:
    run, times_s, rtts_ms = recording.run, recording.send_times_s, recording.rtts_ms
    bursts = list(_sent(run["bursts"], packets))
    cycle_s = PASSIVE_S + ACTIVE_S
    for number in range(int(run["duration_s"] // cycle_s)):
        start_s = number * cycle_s
        active_s, end_s = start_s + PASSIVE_S, start_s + cycle_s
        last = _window(times_s, rtts_ms, active_s - WINDOW_S, WINDOW_S)
        longer = _window(times_s, rtts_ms, active_s - PASSIVE_S, PASSIVE_S)
        seen = (times_s >= active_s - WINDOW_S) & (times_s < end_s)
        of_cycle = [burst for burst in bursts if active_s <= burst.send_times_s[0] < end_s]
        rate_bps = path_rate_bps([burst for burst in of_cycle if burst.rate_bps is None])
        response = describe(Probed(times_s[seen], rtts_ms[seen]), of_cycle)
        yield _Cycle(run["class"], run["path_id"], last, longer, rate_bps, run["rate_bps"], response)


def _sent(plan: Sequence[Mapping[str, Any]], packets: BurstPackets) -> Iterator[Sent]:
    first = 0
    for burst in plan:
        part = slice(first, first + burst["packets"])
        yield Sent(burst["rate_bps"], packets.send_times_s[part], packets.rtts_ms[part])
        first = part.stop


def _window(times_s: Floats, rtts_ms: Floats, start_s: float, seconds: float) -> Window:
    first, after = np.searchsorted(times_s, (start_s - 0.005, start_s + seconds - 0.005))
    return thin(Window(times_s[first:after], rtts_ms[first:after], seconds), _RATE_HZ)


def _logs(probabilities: Floats) -> Table:
    return np.log(np.maximum(probabilities, _SMALLEST)).astype(np.float32)


def _held_out(table: Table, looks: BurstSamples, make: Callable[[int], Any], seed: int) -> Floats:
    """Every cycle's probabilities by a learner that saw no cycle of its path."""
    answers = np.zeros((len(looks.truth), len(CLASSES)))
    for path in np.unique(looks.path):
        testing = looks.path == path
        answers[testing] = make(seed).fit(table[~testing], looks.truth[~testing]).predict_proba(table[testing])
    return answers


def figures(name: str, learner: str, looks: BurstSamples, answers: Sequence[Floats]) -> BurstResult:
    """The figures of some repeats' `answers`, probabilities of shape (cycles, 6)."""
    everything = np.ones(len(looks.truth), dtype=np.bool_)
    whole = [Scores(one, looks.truth, everything) for one in answers]
    rows_of = [looks.path == path for path in np.unique(looks.path)]
    parts = [Scores(one[rows], looks.truth[rows], everything[rows]) for one in answers for rows in rows_of]
    f1_of_all, f1_of_paths = (np.array([macro_f1(confusion(one)) for one in scored], dtype=np.float64) for scored in (whole, parts))
    return BurstResult(
        name,
        learner,
        len(looks.truth),
        float(f1_of_all.mean()),
        float(f1_of_paths.std()),
        float(np.mean([one.any_bbr_right.mean() for one in whole])),
        float(np.std([one.any_bbr_right.mean() for one in parts])),
    )


def _linear(_seed: int) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=2000))


def _boosting(seed: int) -> Any:
    # Some hundred rows: a quarter of the trees, and leaves that are not single recordings.
    return boosting(seed).set_params(n_estimators=60, num_leaves=6, min_child_samples=8)


LEARNERS: Mapping[str, Callable[[int], Any]] = {"linear": _linear, "boosting": _boosting}
