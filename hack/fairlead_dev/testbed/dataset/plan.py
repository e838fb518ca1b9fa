"""Every run of a data set with its class, kind and split; a pure function of the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.testbed.dataset.bursts import bursts_of
from fairlead_dev.testbed.dataset.classes import BackgroundClass, Split, TrafficKind
from fairlead_dev.testbed.dataset.draw import DatasetPath, draw_paths
from fairlead_dev.testbed.dataset.specification import FixedPath, KindRuns, Specification
from fairlead_dev.testbed.dataset.traffic import flows_of, path_of_kind, warm_up_s
from fairlead_dev.testbed.scenario.expand import derived_seed, draws
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.testbed.scenario.model import Scenario, ScenarioProbe


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One recording. `seed_name` identifies a recording among those of its path and class."""

    path_id: str
    background: BackgroundClass
    seed_name: str
    kind: TrafficKind
    split: Split
    scenario: Scenario

    @property
    def name(self) -> str:
        """The folder's and the trace's name: `<path>__<class>__<seed>`."""
        return f"{self.path_id}__{self.background}__{self.seed_name}"


def plan_runs(specification: Specification) -> tuple[PlannedRun, ...]:
    """All runs of the data set, in the order of their paths."""
    return tuple(_runs(specification))


def write_plan(file: Path, plan: Sequence[PlannedRun]) -> None:
    """One line of JSON per run: name, path, class, seed, kind, split and the whole scenario."""
    lines = []
    for run in plan:
        labels = {"path_id": run.path_id, "class": run.background, "seed": run.seed_name, "kind": run.kind, "split": run.split}
        lines.append(json.dumps({"name": run.name, **labels, "scenario": run.scenario.model_dump(mode="json")}) + "\n")
    file.write_text("".join(lines))


def _runs(specification: Specification) -> Iterator[PlannedRun]:
    for fixed in specification.fixed_paths:
        yield from _fixed(specification, fixed)
    paths = draw_paths(specification)
    for drawn in paths:
        for seed in range(_seeds(specification, drawn)):
            known = Split.TRAIN if seed < specification.train_seeds else Split.TEST_SEEDS
            split = Split.TEST_PATHS if drawn.unseen else known
            yield from _every_class(
                specification,
                drawn.id,
                drawn.path,
                kind=TrafficKind.STEADY,
                seed_name=f"s{seed}",
                split=split,
                duration_s=specification.duration_s,
            )
        for seed in range(0 if drawn.unseen else specification.burst_seeds):
            yield from _every_class(
                specification,
                drawn.id,
                drawn.path,
                kind=TrafficKind.BURSTS,
                seed_name=f"b{seed}",
                split=Split.BURSTS,
                duration_s=specification.duration_s,
            )
    for number, kind_runs in enumerate(specification.kinds):
        yield from _of_kind(specification, kind_runs, number, [(drawn.id, drawn.path) for drawn in paths if not drawn.training_only])


def _seeds(specification: Specification, drawn: DatasetPath) -> int:
    if drawn.training_only:
        return 1
    return specification.unseen_path_seeds if drawn.unseen else specification.train_seeds + specification.test_seeds


def _fixed(specification: Specification, fixed: FixedPath) -> Iterator[PlannedRun]:
    for seed in range(fixed.train_seeds + fixed.test_seeds):
        split = Split.TRAIN if seed < fixed.train_seeds else Split.TEST_SEEDS
        yield from _every_class(
            specification, fixed.id, fixed.path, kind=TrafficKind.STEADY, seed_name=f"s{seed}", split=split, duration_s=fixed.duration_s
        )
    active_s = fixed.active_duration_s or fixed.duration_s
    for seed in range(fixed.active_seeds):
        # Active recordings are a set of their own: no classifier of passive traces sees them.
        yield from _every_class(
            specification, fixed.id, fixed.path, kind=TrafficKind.ACTIVE, seed_name=f"a{seed}", split=Split.ACTIVE, duration_s=active_s
        )


def _every_class(
    specification: Specification, path_id: str, path: NetworkPath, *, kind: TrafficKind, seed_name: str, split: Split, duration_s: float
) -> Iterator[PlannedRun]:
    for background in BackgroundClass:
        yield _run(specification, path_id, path, background, kind=kind, seed_name=seed_name, split=split, duration_s=duration_s)


def _of_kind(specification: Specification, kind_runs: KindRuns, number: int, paths: list[tuple[str, NetworkPath]]) -> Iterator[PlannedRun]:
    chosen = draws(specification.seed, "kinds", number).sample(paths, min(kind_runs.paths, len(paths)))
    for path_id, path in sorted(chosen, key=lambda one: one[0]):
        for background in kind_runs.classes:
            seed_name = kind_runs.kind.replace("_", "-")
            yield _run(
                specification,
                path_id,
                path,
                background,
                kind=kind_runs.kind,
                seed_name=seed_name,
                split=Split.TEST_KINDS,
                duration_s=specification.duration_s,
            )


def _run(
    specification: Specification,
    path_id: str,
    path: NetworkPath,
    background: BackgroundClass,
    *,
    kind: TrafficKind,
    seed_name: str,
    split: Split,
    duration_s: float,
) -> PlannedRun:
    seed = derived_seed(specification.seed, path_id, background, seed_name)
    generator = draws(seed, "traffic")
    path = path_of_kind(path, kind, generator)
    scenario = Scenario(
        name=f"{path_id}.{background.lower()}.{seed_name}",
        duration_s=duration_s,
        warm_up_s=warm_up_s(path),
        seed=seed,
        path=path,
        probe=ScenarioProbe(rate_hz=specification.probe_rate_hz, bursts=bursts_of(path, duration_s) if kind is TrafficKind.BURSTS else ()),
        flows=flows_of(background, kind, path, most_per_side=specification.most_flows_per_side, duration_s=duration_s, generator=generator),
    )
    return PlannedRun(path_id, background, seed_name, kind, split, scenario)
