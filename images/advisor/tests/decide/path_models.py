"""Simple models of paths under n streams, and a transfer over one that the optimizer steers.

A transfer has windows, in units of the path: what they exceed it by stands in the queue. Streams that leave take theirs along, those that
come fill theirs within a second, and all drift to the steady state in some five seconds, as was measured with CUBIC over an emulated path.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fairlead_advisor.decide.optimizer import CountTrial, Observation, StreamSearch, start, step

CAPACITY_BPS = 100e6
DRIFT_S = 5.0


@dataclass(frozen=True)
class Load:
    """The steady state under a number of streams; `window` is that of all together relative to what fills their part of the path."""

    goodput_bps: float
    loss_ratio: float
    busy_ratio: float | None
    window: float = 1.5
    waits_apart: bool = False


PathModel = Callable[[int], Load]


def clean(streams: int) -> Load:
    """Any count fills the path and its queue; more of them lose more."""
    return Load(CAPACITY_BPS * 0.96, 5e-5 * streams, 1.0)


def lossy(per_stream_bps: float = 25e6) -> PathModel:
    """Random loss holds each stream to a rate; together they fill the path gradually."""

    def model(streams: int) -> Load:
        offered = streams * per_stream_bps / CAPACITY_BPS
        used = 0.97 * (1 - math.exp(-offered))
        return Load(CAPACITY_BPS * used, 1e-4, used**2, window=1.0)

    return model


def capped(cap_bps: float) -> PathModel:
    """The mover paces all streams together: the path's queue stays empty."""
    return lambda _streams: Load(cap_bps, 0.0, 0.02, window=3.0)


def capped_at(cap_bps: float) -> PathModel:
    """The same as it is observed: at its cap the transfer has all that it may have, as on a full path."""
    return lambda streams: replace(capped(cap_bps)(streams), busy_ratio=1.0)


def shared(others: int) -> PathModel:
    """Each stream gets the share of one: more streams take from others."""
    return lambda streams: Load(CAPACITY_BPS * 0.96 * streams / (streams + others), 1e-4 * (streams + others), 1.0)


def shared_sawtooth(others: int) -> PathModel:
    """The same beside a sawtooth whose low points pass for an empty queue."""
    return lambda streams: replace(shared(others)(streams), busy_ratio=0.9)


def fair_queue(others: int) -> PathModel:
    """The bottleneck gives each flow a queue of its own, so that the echo finds none, and a share, however many are ours."""
    return lambda streams: replace(shared(others)(streams), busy_ratio=0.0, waits_apart=True)


def unseen(model: PathModel) -> PathModel:
    """The same without any RTT samples."""
    return lambda streams: Load(model(streams).goodput_bps, model(streams).loss_ratio, None)


@dataclass
class Transfer:
    """Goodput follows the windows; each second's figure is noisy, as a sawtooth makes it."""

    model: PathModel
    streams: int = 4
    minimum: int = 1
    maximum: int = 32
    noise: float = 0.02
    seed: int = 1
    shares: int | None = 4
    company: bool = False
    opens: Callable[[int], int] = staticmethod(lambda wanted: wanted)  # noqa: RUF009 - a plain function
    now_s: float = 0.0
    goodput_bps: float = 0.0
    window: float = 0.5
    changes: list[tuple[float, int]] = field(default_factory=list)
    outcomes: list[CountTrial] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    goodputs_bps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.open = self.opens(self.streams)
        self.state: StreamSearch = start(self.streams, self.minimum, self.maximum, 0.0, shares=self.shares, company=self.company)

    def run(self, seconds: int) -> "Transfer":
        for _ in range(seconds):
            self.now_s += 1
            load = self.model(self.open)
            self.window += (load.window - self.window) * (1 - math.exp(-1 / DRIFT_S))
            self.goodput_bps = load.goodput_bps * min(1.0, self.window)
            seen_bps = self.goodput_bps * (1 + self.random.gauss(0, self.noise))
            found = load.loss_ratio, load.busy_ratio
            seen = Observation(self.now_s, 1.0, self.open, max(0.0, seen_bps), *found, waits_apart=load.waits_apart)
            made = step(self.state, seen)
            self.state = made.state
            self.counts.append(self.open)
            self.goodputs_bps.append(self.goodput_bps)
            if made.outcome:
                self.outcomes.append(made.outcome)
            if made.change:
                self.changes.append((self.now_s, made.change.streams))
                before, self.open = self.open, self.opens(made.change.streams)
                # Relative to what fills the part of the path that the streams now have.
                kept = min(self.open, before) / before * self.model(before).goodput_bps / self.model(self.open).goodput_bps
                joined = max(0, self.open - before) / self.open
                self.window = self.window * kept + joined
        return self

    def mean_bps(self, first_s: int, last_s: int) -> float:
        return math.fsum(self.goodputs_bps[first_s:last_s]) / (last_s - first_s)


def best_fixed_bps(model: PathModel, maximum: int = 32) -> float:
    return max(model(streams).goodput_bps for streams in range(1, maximum + 1))
