"""The advisor's stream count against the best fixed one: the bench of its own, scene by scene, so that it resumes too."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.bench.rows import write_whole
from fairlead_dev.checkout import BINARIES
from fairlead_dev.errors import LabError

PROGRAM = "fairlead_dev.bench.parallelism"
_BENCHES = Path(__file__).parents[1]
SCENES = ("clean", "lossy", "shared")
FOLDER = "parallelism"
_FIGURE = "parallelism_vs_best_fixed"


@dataclass(frozen=True, slots=True)
class Sweep:
    """The fixed counts to compare with, and the seconds measured after the first 20 s with data."""

    fixed: tuple[int, ...]
    seconds: float


QUICK = Sweep((4, 8, 16), 15.0)
WHOLE = Sweep((1, 4, 8, 16), 40.0)


def sources() -> list[Path]:
    """What a sweep depends on beside the advisor: it has the programs of the checkout, whichever the cells have."""
    own = [_BENCHES / "parallelism.py", *sorted((_BENCHES / "falcon").glob("*.py"))]
    return [*own, *(program for name in ("fairlead-mover", "fairlead-wan") if (program := BINARIES / name).exists())]


async def measure(folder: Path, sweep: Sweep, fingerprint: str, ended: Callable[[], None] = lambda: None) -> None:
    """Run the scenes that `folder` has no result of this sweep and these programs of; `ended` follows each. LabError if one fails."""
    for scene in SCENES:
        if _read(folder, scene, sweep, fingerprint) is None:
            write_rows(folder, scene, sweep, fingerprint, await _measured(folder / FOLDER / f"{scene}.rows", scene, sweep))
            ended()


def write_rows(folder: Path, scene: str, sweep: Sweep, fingerprint: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Leaves a scene's result in `folder`."""
    write_whole(folder / FOLDER / f"{scene}.json", {"fingerprint": key(sweep, fingerprint), "rows": list(rows)})


async def _measured(file: Path, scene: str, sweep: Sweep) -> list[dict[str, Any]]:
    file.parent.mkdir(parents=True, exist_ok=True)
    options = ("--only", scene, "--seconds", f"{sweep.seconds:g}", "--output", file, "--fixed", *sweep.fixed)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", PROGRAM, *(str(option) for option in options))
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            # It tears its namespaces down on an interruption as at its end.
            process.send_signal(signal.SIGINT)
            await process.wait()
    if code != 0:
        raise LabError(f"the stream counts of {scene}: {PROGRAM} ended with {code}, and has said why")
    return _taken(file)


def _taken(file: Path) -> list[dict[str, Any]]:
    rows = list(json.loads(file.read_text(encoding="utf-8")))
    file.unlink()
    return rows


def read_rows(folder: Path, sweep: Sweep, fingerprint: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every scene that was measured."""
    return {scene: rows for scene in SCENES if (rows := _read(folder, scene, sweep, fingerprint)) is not None}


def _read(folder: Path, scene: str, sweep: Sweep, fingerprint: str) -> list[dict[str, Any]] | None:
    try:
        done = json.loads((folder / FOLDER / f"{scene}.json").read_text(encoding="utf-8"))
        return list(done["rows"]) if done["fingerprint"] == key(sweep, fingerprint) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def key(sweep: Sweep, fingerprint: str) -> str:
    """What rows depend on."""
    return f"{fingerprint}/{'-'.join(map(str, sweep.fixed))}/{sweep.seconds:g}"


def figures(scenes: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float | None]:
    """`parallelism_vs_best_fixed` is that of the worst scene; None unless all were measured; the sidecar's cost is the most of any."""
    found: dict[str, float | None] = {}
    for scene, rows in scenes.items():
        mbps = _goodputs_mbps(scene, rows)
        own, best = mbps["advisor"], _best_fixed(mbps)
        found[f"{_FIGURE}_{scene}"] = own / best
        if "competing" in mbps:
            found[f"{_FIGURE}_{scene}_competing"] = mbps["competing"] / best
        found |= {f"parallelism_vs_{count}_{scene}": own / mbps[count] for count in ("4", "8", "16") if mbps.get(count)}
    for what in ("cpu", "rss"):
        costs = [float(row["value"]) for rows in scenes.values() for row in rows if str(row["name"]).endswith(f"_{what}")]
        if costs:
            found[f"sidecar_{what}_most"] = max(costs)
    return {**_worst(scenes, found), **found}


def falcon_figures(scenes: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float | None]:
    """The same of Falcon's search: that of every scene over its best fixed count, and of the worst."""
    found: dict[str, float | None] = {}
    for scene, rows in scenes.items():
        mbps = _goodputs_mbps(scene, rows)
        found[f"{_FIGURE}_{scene}"] = mbps["falcon"] / _best_fixed(mbps)
    return {**_worst(scenes, found), **found}


def _goodputs_mbps(scene: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {str(row["name"]).removeprefix(f"parallelism_{scene}_"): float(row["value"]) for row in rows if row["unit"] == "Mb/s"}


def _best_fixed(mbps: Mapping[str, float]) -> float:
    return max(rate for who, rate in mbps.items() if who.isdigit())


def _worst(scenes: Collection[str], found: Mapping[str, float | None]) -> dict[str, float | None]:
    worst = min((found[f"{_FIGURE}_{scene}"] or math.nan for scene in scenes), default=None)
    return {_FIGURE: worst if set(scenes) == set(SCENES) else None}
