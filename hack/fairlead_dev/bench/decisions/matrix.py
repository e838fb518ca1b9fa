"""Which cells are measured: a path, a scene on it, and a policy. Pure: the same settings give the same cells and traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from fairlead_advisor.models.answer import BBR_CLASSES
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.classes import BackgroundClass, TrafficKind
from fairlead_dev.testbed.dataset.draw import draw_paths
from fairlead_dev.testbed.dataset.specification import Specification
from fairlead_dev.testbed.dataset.traffic import flows_of, warm_up_s
from fairlead_dev.testbed.scenario.expand import derived_seed, draws
from fairlead_dev.testbed.scenario.model import Path, Scenario, ScenarioProbe, TrafficFlow
from fairlead_dev.testbed.sealed.sets import load_sealed, sealed_ids

SEED = 20261121
TRANSFER = "transfer"
"""The planned flow whose place the mover takes: it is in the scenario so that what a cell costs is known, and nobody else sends it."""
PROBE_RATE_HZ = 20.0
REPEATS = 3
"""How often every cell of the whole matrix is run, whatever comes out of it."""
ARRIVAL_S, DEPARTURE_S, CHANGING_S = 60.0, 120.0, 180.0

NEVER_DRAWN = {
    "new-30": Path(rate_bps=30_000_000, rtt_ms=60, buffer_bdp=1.0),
    "new-80": Path(rate_bps=80_000_000, rtt_ms=180, buffer_bdp=0.5),
}
"""Of no data set, at values that a person would choose."""


class Policy(StrEnum):
    """Who chooses the congestion control."""

    CUBIC = "cubic"
    BBR = "bbr"
    PAPER = "paper"
    """Its loop, with a classifier that is trained on many paths, as ours is."""
    PAPER_OWN_PATH = "paper-own-path"
    """The same loop, with a classifier that is trained on the path itself, as the paper has it."""
    OURS = "ours"
    """The default job: as many streams as its advisor takes."""
    CUBIC_4 = "cubic-4"
    CUBIC_8 = "cubic-8"
    CUBIC_16 = "cubic-16"
    FALCON = "falcon"
    """Streams of CUBIC, as many as Falcon's search takes."""
    ONE_STREAM = "one-stream"
    """The advisor with the congestion control alone to choose, as all of ours was until 2026-11-28."""


MAIN = (Policy.CUBIC, Policy.BBR, Policy.PAPER, Policy.PAPER_OWN_PATH, Policy.OURS)
FIXED = (Policy.CUBIC, Policy.BBR)
"""Over one stream: one flow among others."""
COUNTS = (Policy.CUBIC_4, Policy.CUBIC_8, Policy.CUBIC_16)
"""More streams than one: rivals where nobody else is, and all of the path is allowed."""
FIXED_CHOICES = {
    Policy.CUBIC: ("cubic", 1),
    Policy.BBR: ("bbr", 1),
    Policy.CUBIC_4: ("cubic", 4),
    Policy.CUBIC_8: ("cubic", 8),
    Policy.CUBIC_16: ("cubic", 16),
}
"""Congestion control and streams."""
PAPER_LOOPS = (Policy.PAPER, Policy.PAPER_OWN_PATH)
LOOPS = (*PAPER_LOOPS, Policy.OURS)
ADVISED = (Policy.OURS, Policy.ONE_STREAM)


@dataclass(frozen=True, slots=True)
class CellScene:
    """A background: the class from each moment (s of the transfer's clock) on. A stationary one has a single class."""

    name: str
    classes: tuple[tuple[float, BackgroundClass], ...]

    @property
    def stationary(self) -> bool:
        """Whether nothing changes."""
        return len(self.classes) == 1

    def rights(self) -> tuple[tuple[float, str], ...]:
        """The congestion control that the rule gives for the true class, from each moment on."""
        return tuple((since_s, right_choice(background)) for since_s, background in self.classes)


def right_choice(background: str) -> str:
    """The paper's rule: BBR if BBR is in the background, else CUBIC [Anvari 2021, section 5.5]."""
    return "bbr" if background in BBR_CLASSES else "cubic"


def policies_with(background: str) -> tuple[Policy, ...]:
    """Whom a background is measured with.

    Where nobody else is, the wrong fixed choice harms nobody, and is no measure of any figure; what more streams get there is.
    """
    if background != BackgroundClass.NONE:
        return MAIN
    return (*(policy for policy in MAIN if policy is not Policy.BBR), *COUNTS, Policy.FALCON)


STATIONARY = {str(background): CellScene(background.lower(), ((0.0, background),)) for background in BackgroundClass}
CHANGING = (
    CellScene(
        "bbr-visits-nobody",
        ((0.0, BackgroundClass.NONE), (ARRIVAL_S, BackgroundClass.BBR), (DEPARTURE_S, BackgroundClass.NONE)),
    ),
    CellScene(
        "bbr-visits-cubic",
        ((0.0, BackgroundClass.CUBIC), (ARRIVAL_S, BackgroundClass.BBR_AND_CUBIC), (DEPARTURE_S, BackgroundClass.CUBIC)),
    ),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. `fingerprint` identifies programs and models, so that a result of other ones is not taken for this one's."""

    path_id: str
    path: Path
    scene: CellScene
    policy: Policy
    seconds: float
    fingerprint: str
    number: int = 1
    """From 2 on: the same once more."""

    @property
    def name(self) -> str:
        """The folder's name."""
        first = f"{self.path_id}__{self.scene.name}__{self.policy}"
        return first if self.number == 1 else f"{first}__{self.number}"

    @property
    def scenario(self) -> Scenario:
        """Path and traffic with the transfer as its foreground flow. The background is the same for every policy."""
        return _scenario(self)


@cache
def _scenario(cell: Cell) -> Scenario:
    seed = derived_seed(SEED, cell.path_id, cell.scene.name)
    return Scenario(
        name=f"{cell.path_id}.{cell.scene.name}.{cell.policy}.{cell.fingerprint[:12]}",
        duration_s=cell.seconds,
        warm_up_s=warm_up_s(cell.path),
        seed=seed,
        path=cell.path,
        probe=ScenarioProbe(rate_hz=PROBE_RATE_HZ),
        flows=(*_background(cell, seed), TrafficFlow(name=TRANSFER, role="foreground", congestion_control="cubic", start_s=0.0)),
    )


def background_of(scenario: Scenario) -> Scenario:
    """What the test bed's traffic agent is to send: everything but the transfer."""
    return scenario.model_copy(update={"flows": tuple(flow for flow in scenario.flows if flow.name != TRANSFER)})


def _background(cell: Cell, seed: int) -> tuple[TrafficFlow, ...]:
    (_, first), generator = cell.scene.classes[0], draws(seed, "traffic")
    # One flow a source, as in the paper: shares are then per flow, and Jain's index needs no weights.
    steady = flows_of(first, TrafficKind.STEADY, cell.path, most_per_side=1, duration_s=cell.seconds, generator=generator)
    if cell.scene.stationary:
        return steady
    return (*steady, TrafficFlow(name="visitor-bbr", congestion_control="bbr", start_s=ARRIVAL_S, stop_s=DEPARTURE_S))


@dataclass(frozen=True, slots=True)
class Matrix:
    """What is measured: which classes on which paths, for how long, and where the background changes how."""

    stationary: tuple[tuple[str, str], ...]
    changing: tuple[str, ...]
    scenes: tuple[CellScene, ...]
    seconds: float


SUBSET = Matrix(
    # Every class once. The paper's two cases are on its own path's shape, the others on an unseen shallow path and on one never drawn.
    stationary=(
        ("overlay-1-tenth", "B0-C1"),
        ("overlay-1-tenth", "B1-C0"),
        ("p00", "B0-C0"),
        ("p00", "B1-C1"),
        ("new-30", "B1-B1"),
        ("new-30", "C1-C1"),
    ),
    changing=("overlay-1-tenth",),
    scenes=CHANGING[-1:],
    seconds=220.0,
)
_FULL_PATHS = ("overlay-1", "overlay-1-tenth", "p00", "p31", "new-30", "new-80")
FULL = Matrix(
    stationary=tuple((path_id, str(background)) for path_id in _FULL_PATHS for background in BackgroundClass),
    changing=("overlay-1-tenth", "p31", "new-30"),
    scenes=CHANGING,
    # As in the subset, whose runs are then among these.
    seconds=SUBSET.seconds,
)


def known_paths(specification: Specification) -> dict[str, Path]:
    """Every path that a matrix may name: the data set's fixed and drawn ones, and those of no data set."""
    drawn = {one.id: one.path for one in draw_paths(specification)}
    sealed = {name: path for one in load_sealed().sets for name, path in one.paths.items()}
    return {**{one.id: one.path for one in specification.fixed_paths}, **drawn, **NEVER_DRAWN, **sealed}


def cells(
    matrix: Matrix,
    paths: Mapping[str, Path],
    fingerprints: Mapping[Policy, str],
    seconds: float | None = None,
    extra: Sequence[Policy] = (),
) -> tuple[Cell, ...]:
    """All cells of `matrix`, the stationary ones `seconds` long, with `extra` loops. UsageError if it names a path not in `paths`."""
    missing = sorted({*(path_id for path_id, _ in matrix.stationary), *matrix.changing} - paths.keys())
    if missing:
        raise CommandUsageError(f"{', '.join(missing)}: the data set's specification has no such path; it has {', '.join(sorted(paths))}")
    length_s = matrix.seconds if seconds is None else seconds
    steady = [
        Cell(path_id, paths[path_id], STATIONARY[background], policy, length_s, fingerprints[policy])
        for path_id, background in matrix.stationary
        for policy in (*policies_with(background), *extra)
    ]
    # A fixed choice adapts to nothing.
    changing = [
        Cell(path_id, paths[path_id], scene, policy, CHANGING_S, fingerprints[policy])
        for path_id in matrix.changing
        for scene in matrix.scenes
        for policy in (*LOOPS, *extra)
    ]
    return (*steady, *changing)


def interleaved(all_cells: Sequence[Cell], repeats: int) -> tuple[Cell, ...]:
    """Every cell `repeats` times.

    Each repetition is a block in random order, so that what disturbs the machine meets all policies alike.
    """
    order: list[Cell] = []
    for number in range(1, repeats + 1):
        block = [replace(cell, number=number) for cell in all_cells]
        draws(SEED, "order", number).shuffle(block)
        order += block
    return tuple(order)


def sealed_matrix(paths: Mapping[str, Path]) -> Matrix:
    """All classes on all of these paths, and the changing scenes on those with the shortest, the middle and the longest RTT."""
    stationary = tuple((path_id, str(background)) for path_id in paths for background in BackgroundClass)
    ranked = sorted(paths, key=lambda path_id: (paths[path_id].rtt_ms, path_id))
    changing = dict.fromkeys((ranked[0], ranked[len(ranked) // 2], ranked[-1]))
    return Matrix(stationary, tuple(changing), CHANGING, SUBSET.seconds)


def kind_of_path(path_id: str, specification: Specification) -> str:
    """What training knew of a path: `known`, `unseen` (drawn, never trained on), `never drawn`, or `sealed`."""
    if path_id in NEVER_DRAWN:
        return "never drawn"
    if path_id in sealed_ids():
        return "sealed"
    unseen = {one.id for one in draw_paths(specification) if one.unseen}
    return "unseen" if path_id in unseen else "known"


def matching(all_cells: Sequence[Cell], text: str | None) -> tuple[Cell, ...]:
    """The cells whose names contain `text`. UsageError naming some if there are none."""
    chosen = tuple(cell for cell in all_cells if text is None or text in cell.name)
    if not chosen:
        raise CommandUsageError(
            f"--cell {text}: no cell has that in its name; there are {', '.join(cell.name for cell in all_cells[:8])}, …"
        )
    return chosen
