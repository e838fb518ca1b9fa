"""What finished cells have left, read from their manifests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.bench.decisions.matrix import Cell, CellScene, Policy
from fairlead_dev.bench.decisions.timeline import ControlSpan
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.runs.batch import RUNS, is_recorded
from fairlead_dev.testbed.runs.record import MANIFEST


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """One run: the transfer's goodput over its whole time and over its second half, and the same of every background flow.

    `run` is its folder's name.
    """

    run: str
    path_id: str
    scene: CellScene
    policy: Policy
    seconds: float
    own_bps: float
    own_settled_bps: float
    first_data_s: float | None
    flows_bps: tuple[float, ...]
    flows_settled_bps: tuple[float, ...]
    in_force: tuple[ControlSpan, ...]
    number: int = 1
    """Which repetition it is: runs of one number are one block."""
    machine: str = ""
    """What it is, and which one by its boot."""
    squares_s: float = 0.0
    """What a million squares took of its processor."""

    @property
    def background(self) -> str:
        """The class that the scene begins with; the class of a stationary one."""
        return str(self.scene.classes[0][1])


def read_outcomes(cells: Iterable[Cell], folder: Path, *, disturbed_too: bool = False) -> Iterator[CellOutcome]:
    """The outcomes of the cells that `folder` has a good run of, or with `disturbed_too` any run of.

    UsageError naming a manifest that cannot be read as one.
    """
    for cell in cells:
        if is_recorded(cell, folder, disturbed_too=disturbed_too):
            file = folder / RUNS / cell.name / MANIFEST
            try:
                yield outcome_of(cell, json.loads(file.read_text(encoding="utf-8")))
            except (KeyError, TypeError, ValueError) as error:
                raise CommandUsageError(
                    f"{file}: is not what this bench writes ({error!r}): remove its folder to measure it again"
                ) from None


def outcome_of(cell: Cell, manifest: Mapping[str, Any]) -> CellOutcome:
    """The outcome in a manifest."""
    own, flows = manifest["own"], manifest["flows"]
    settled = manifest["settled_flows_bps"]
    return CellOutcome(
        run=cell.name,
        path_id=cell.path_id,
        scene=cell.scene,
        policy=cell.policy,
        seconds=cell.seconds,
        own_bps=float(own["goodput_bps"]),
        own_settled_bps=float(own["settled_goodput_bps"]),
        first_data_s=own["first_data_s"],
        flows_bps=tuple(float(flow["goodput_bps"]) for flow in flows),
        flows_settled_bps=tuple(float(settled[flow["name"]]) for flow in flows),
        in_force=tuple(ControlSpan(**span) for span in own["in_force"]),
        number=cell.number,
        machine=f"{manifest['machine']['description']}, boot {manifest['machine']['boot']}",
        squares_s=float(manifest["machine"]["squares_s"]),
    )


def machines(outcomes: Iterable[CellOutcome]) -> list[dict[str, Any]]:
    """Every machine that runs were made on, with their number and the least and most that a million squares took there."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.machine, []).append(outcome.squares_s)
    return [{"machine": name, "runs": len(taken_s), "squares_s": [min(taken_s), max(taken_s)]} for name, taken_s in found.items()]
