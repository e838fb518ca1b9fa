"""Which runs are made: paths drawn from a seed, what is on them, and who sends. Pure: the same seed gives the same runs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ALONE_S, STATIONARY_S, VISIT_S = 220.0, 90.0, 130.0
"""From the sender's start on. Who is alone has lost up to ten seconds with probing before its first byte, as long as the bench of decisions
lets a transfer win them back; beside others it is the settled share that counts."""
ARRIVAL_S, DEPARTURE_S = 45.0, 90.0
HEAD_START_S = 15.0
"""For a flow that is there before the job."""

DEVELOPMENT_SEED = 20261123
OPENED_SEEDS = frozenset({DEVELOPMENT_SEED})
"""Whose runs were looked at, as docs/explanation/decisions-bench.md lists them: paths of theirs are a development set."""
DEVELOPMENT_PATHS, FINAL_PATHS = 3, 8

OWN_APART_S = 20.0
"""Jobs of ours on one path start one after the other, as they do where one probes at a time."""
OWN_SETTLE_S = OWN_SHARES_S = VISITOR_S = 60.0
"""After the start of the last one; then their shares are looked at; then a BBR flow visits."""
OWN_BACK_S = 90.0
"""What is left after it: more than the minute within which all are to be on CUBIC again."""

SceneName = Literal["clean", "lossy", "cubic", "bbr", "apart", "visit", "two", "four"]


@dataclass(frozen=True, slots=True)
class SharePath:
    """One bottleneck and its buffer."""

    rate_mbps: float
    rtt_ms: float
    buffer_bdp: float

    @property
    def name(self) -> str:
        """What it is, in a word."""
        return f"{self.rate_mbps:g}M-{self.rtt_ms:g}ms-{self.buffer_bdp:g}bdp"


@dataclass(frozen=True, slots=True)
class ShareScene:
    """What is on a path: random loss, the bottleneck's queue, so many jobs of ours, and one flow of somebody else's.

    That is there from `arrives_s` after the first sender's start until `leaves_s`.
    """

    name: SceneName
    seconds: float = STATIONARY_S
    loss_ratio: float = 0.0
    other: str | None = None
    arrives_s: float = -HEAD_START_S
    leaves_s: float = math.inf
    jobs: int = 1
    queue: str = "drop-tail"


def _own(name: SceneName, jobs: int) -> ShareScene:
    """Several jobs of ours, and a BBR flow that comes and goes."""
    arrives_s = OWN_APART_S * (jobs - 1) + OWN_SETTLE_S + OWN_SHARES_S
    leaves_s = arrives_s + VISITOR_S
    return ShareScene(name, leaves_s + OWN_BACK_S, other="bbr", arrives_s=arrives_s, leaves_s=leaves_s, jobs=jobs)


SCENES: dict[SceneName, ShareScene] = {
    scene.name: scene
    for scene in (
        ShareScene("clean", ALONE_S),
        ShareScene("lossy", ALONE_S, loss_ratio=1e-3),
        ShareScene("cubic", other="cubic"),
        ShareScene("bbr", other="bbr"),
        ShareScene("apart", other="cubic", queue="fq-codel"),
        ShareScene("visit", VISIT_S, other="cubic", arrives_s=ARRIVAL_S, leaves_s=DEPARTURE_S),
        _own("two", 2),
        _own("four", 4),
    )
}
NOBODY = (0, "nobody")
"""In place of a job: what the other flow gets alone."""
FIXED: dict[SceneName, tuple[tuple[int, str], ...]] = {
    "clean": ((1, "cubic"), (4, "cubic"), (16, "cubic"), (4, "bbr")),
    "lossy": ((8, "cubic"), (16, "cubic"), (4, "bbr")),
    "cubic": ((1, "cubic"), NOBODY),
    "bbr": ((1, "bbr"),),
    "apart": ((1, "cubic"),),
    "visit": ((1, "cubic"),),
    "two": (),
    "four": (),
}
"""Rivals: streams and congestion control. Beside others one flow of the kind that shares evenly with them. With random loss fewer than
eight streams of CUBIC are no rivals: more have more."""


def choices() -> dict[str, frozenset[str]]:
    """Who sends in each scene: a block is complete with all of them."""
    return {scene: frozenset(run.who for run in _runs(scene, SharePath(1, 1, 1), 0)) for scene in SCENES}


@dataclass(frozen=True, slots=True)
class ShareRun:
    """One transfer; `fixed` None is the default job with its advisor."""

    path: SharePath
    scene: SceneName
    fixed: tuple[int, str] | None
    number: int

    @property
    def who(self) -> str:
        """`ours`, `nobody`, or the fixed choice as `1-cubic`."""
        if self.fixed is None or self.fixed == NOBODY:
            return "ours" if self.fixed is None else "nobody"
        return f"{self.fixed[0]}-{self.fixed[1]}"

    @property
    def jobs(self) -> int:
        """How many senders of ours it has."""
        return 0 if self.fixed == NOBODY else SCENES[self.scene].jobs

    @property
    def advised(self) -> bool:
        """Whether an advisor takes part."""
        return self.fixed is None

    @property
    def name(self) -> str:
        """Names its file."""
        return f"{self.path.name}__{self.scene}__{self.who}__{self.number}"


def draw_paths(seed: int, count: int) -> tuple[SharePath, ...]:
    """Paths of 20 to 100 Mb/s, 20 to 200 ms and 0.5 to 2 BDP of buffer, each drawn evenly by its logarithm."""
    chance = random.Random(f"paths {seed}")
    return tuple(SharePath(_drawn(chance, 20, 100), _drawn(chance, 20, 200), _drawn(chance, 0.5, 2)) for _ in range(count))


def _drawn(chance: random.Random, low: float, high: float) -> float:
    return float(f"{math.exp(chance.uniform(math.log(low), math.log(high))):.2g}")


def plan(seed: int, paths: int, repeats: int) -> tuple[ShareRun, ...]:
    """All runs; each repetition of a path is one block in random order, so that a disturbance meets all choices alike."""
    return tuple(run for number in range(repeats) for path in draw_paths(seed, paths) for run in _block(seed, path, number))


def _block(seed: int, path: SharePath, number: int) -> Iterator[ShareRun]:
    runs = [run for scene in SCENES for run in _runs(scene, path, number)]
    random.Random(f"order {seed} {path} {number}").shuffle(runs)
    yield from runs


def _runs(scene: SceneName, path: SharePath, number: int) -> Iterator[ShareRun]:
    yield from (ShareRun(path, scene, fixed, number) for fixed in (None, *FIXED[scene]))
