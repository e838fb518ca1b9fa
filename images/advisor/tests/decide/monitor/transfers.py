"""A transfer beside changing traffic, as the watch sees it: sawtooth, noise and a queue, and looks that cost time."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead_advisor.decide.monitor import change_detector, probe_budget
from fairlead_advisor.decide.monitor.change_detector import ChangeDetector, PathChange, PathSample
from fairlead_advisor.decide.monitor.probe_budget import ProbeBudget, ProbeReason

CAPACITY_BPS = 100e6
FLOOR_S = 0.06
REST_PERIOD_S, ALERT_PERIOD_S = 3.0, 1.0


@dataclass(frozen=True)
class Level:
    """What a transfer gets beside some traffic: a share of the path, the queue in seconds, the depth of the sawtooth of both."""

    share: float
    queue_s: float
    sawtooth: float = 0.15
    loss_ratio: float = 0.0005


ALONE = Level(0.95, 0.05)
BESIDE_CUBIC = Level(0.75, 0.055)
BBR_ARRIVED = Level(0.35, 0.06, loss_ratio=0.01)
BBR_BESIDE_BBR = Level(0.5, 0.03, 0.05)
BBR_ALONE = Level(0.95, 0.01, 0.05)

Background = Callable[[float], Level]


def step(before: Level, after: Level, at_s: float) -> Background:
    return lambda now_s: after if now_s > at_s else before


def always(level: Level) -> Background:
    return lambda _now_s: level


@dataclass
class Watched:
    """Sights every three seconds, every second while one stands out; a look takes `look_s` and finds `news(now_s)`."""

    background: Background
    seed: int = 1
    awaited: frozenset[change_detector.Step] = change_detector.ANY_STEP
    noise: float = 0.04
    period_s: float = 14.0
    look_s: float = 7.0
    regrowth_s: float = 0.0
    """After a look the rate begins at half of what it was, and what is missing falls to 1/e in so long."""
    remembers: bool = True
    news: Callable[[float], bool] = lambda _now_s: False
    sure: bool | None = True
    looks: list[tuple[float, ProbeReason]] = field(default_factory=list)
    changes: list[tuple[float, PathChange]] = field(default_factory=list)
    quiet_s: float = 0.0
    now_s: float = 0.0
    resumed_s: float = -math.inf

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.phase_s = self.random.uniform(0, self.period_s)
        self.detector: ChangeDetector = change_detector.begin(0.0, FLOOR_S, self.awaited)
        self.account = ProbeBudget(0.0, {None: ProbeReason.UNKNOWN, True: None, False: ProbeReason.UNSURE}[self.sure])

    def run(self, until_s: float) -> "Watched":
        while self.now_s < until_s:
            seconds = ALERT_PERIOD_S if self.detector.hint else REST_PERIOD_S
            self.now_s += seconds
            self.detector = change_detector.add_sample(self.detector, self.sample(seconds))
            if self.detector.change:
                self.changes.append((self.now_s, self.detector.change))
            why = probe_budget.due(self.account, self.now_s, self.detector.change)
            if why is not None:
                self._look(why)
        return self

    def _look(self, why: ProbeReason) -> None:
        self.looks.append((self.now_s, why))
        change = self.detector.change
        self.now_s += self.look_s
        self.resumed_s = self.now_s
        self.quiet_s += self.look_s
        cost_s = probe_budget.price_s(self.look_s, change)
        news = self.news(self.now_s)
        self.account = probe_budget.probed(self.account, why, self.now_s, cost_s, news=news, sure=self.sure)
        begun = change_detector.begin(self.now_s, FLOOR_S, self.awaited)
        self.detector = change_detector.resume(self.detector, self.now_s, FLOOR_S) if self.remembers and not news else begun

    def sample(self, seconds: float) -> PathSample:
        level = self.background(self.now_s)
        # Between -1 and 1 over the period; the queue follows the rate.
        saw = 2 * (((self.now_s + self.phase_s) % self.period_s) / self.period_s) - 1
        rate = level.share * (1 + level.sawtooth * (saw - 1) / 2) * (1 + self.random.gauss(0, self.noise / math.sqrt(seconds)))
        if self.regrowth_s:
            rate *= 1 - 0.5 * math.exp((self.resumed_s - self.now_s) / self.regrowth_s)
        queue_s = level.queue_s * (1 + 2 * level.sawtooth * (saw - 1))
        jitter_s = abs(self.random.gauss(0, 0.0005))
        loss_ratio = max(0.0, self.random.gauss(level.loss_ratio, level.loss_ratio / 2))
        return PathSample(
            self.now_s, seconds, max(0.0, rate) * CAPACITY_BPS, loss_ratio, FLOOR_S + 0.8 * queue_s, FLOOR_S + queue_s + jitter_s
        )
