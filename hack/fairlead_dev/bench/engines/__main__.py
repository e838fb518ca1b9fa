"""Measures how good `protocol: Auto` is: prints a table, writes build/bench/engines.json.

Transfers of the mover over emulated paths, over each protocol in turn. The first repeat of each is the evidence that the operator's own
rule is given; what it chooses is scored by the other repeats, beside the best protocol that is allowed on the path: four streams, no
advisor. Then a CUBIC flow of iperf3 alone, beside one more, and beside the default job over what was chosen, with its advisor. An hour on
two idle cores.
One JSON per finished run in the folder; the same command goes on where it was. Needs root.
Exit codes: 0 everything was measured, 1 something is missing, 2 wrong use, 130 interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fairlead_dev.bench.engines.figures import (
    EngineMove,
    EngineTrial,
    harm_trials_of,
    move_of,
    rows,
    shown,
    stored_move,
    trials_of,
)
from fairlead_dev.bench.engines.measure import EnginesLab, flow_bps, move, scout_bps
from fairlead_dev.bench.engines.plan import (
    EVIDENCE_REPEATS,
    FULL,
    QUICK,
    Effort,
    HarmRun,
    MoveRun,
    harm_runs,
    move_runs,
    one_of_each_kind,
    transfer_bytes,
)
from fairlead_dev.bench.lab.machine import description, install, load, need, need_root, scratch_folder
from fairlead_dev.bench.lab.mover import MoverProgram
from fairlead_dev.bench.rows import Row, heading, line, markdown, write, write_whole
from fairlead_dev.bench.runner import IDLE_LOAD, BenchCommand, exit_with, rows_of_file
from fairlead_dev.bench.sealed import about_set, add_reason, log_opening
from fairlead_dev.checkout import BENCH_RESULTS, BINARIES
from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.netlab.pair import remove_leftovers
from fairlead_dev.testbed.sealed.engine_paths import EnginePath, draw_engine_paths
from fairlead_dev.testbed.sealed.openings import Opened
from fairlead_dev.testbed.sealed.sets import ENGINES, engine_specification, sealed_engine_paths

PROGRAMS = ("ip", "ss", "sysctl", "setpriv", "iperf3", "nft")
DEVELOPMENT_SEED = 1
OVERHEAD_S = 5.0
"""To set a path up and to take it down."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which paths, how much, and where finished runs are kept."""
    parser.add_argument("--sealed", choices=(ENGINES,), help="the sealed paths in place of those of --seed; needs --reason")
    add_reason(parser)
    parser.add_argument("--seed", type=int, default=DEVELOPMENT_SEED, help="draws the paths of a development set [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="three paths and short transfers: shows that all works (5 minutes)")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print the table of a written file for the documentation and stop")
    parser.add_argument("--folder", type=Path, default=BENCH_RESULTS / "engines", help="where finished runs are kept")
    parser.add_argument("--mover", type=Path, default=BINARIES / "fairlead-mover", help="the mover to measure")
    parser.add_argument("--emulator", type=Path, default=BINARIES / "fairlead-wan", help="the wide-area emulator")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="where a run keeps its logs")


@dataclass(frozen=True, slots=True)
class EnginesRun:
    """What one call works on; `seed` orders the runs."""

    lab: EnginesLab
    paths: Mapping[str, EnginePath]
    effort: Effort
    seed: int
    folder: Path

    @property
    def moves(self) -> list[MoveRun]:
        """The transfers that are planned."""
        return move_runs(self.paths, self.effort, self.seed)

    @property
    def harms(self) -> list[HarmRun]:
        """The runs of somebody else's flow that are planned."""
        return harm_runs(self.paths, self.effort, self.seed)

    @property
    def trials(self) -> list[EngineTrial]:
        """Of what has been measured so far."""
        found: dict[MoveRun, EngineMove] = {run: move_of(stored) for run in self.moves if (stored := self.read(run.name)) is not None}
        return trials_of(self.paths, found, os.cpu_count() or 1)

    def read(self, name: str) -> dict[str, Any] | None:
        """What a finished run has left; None if there is none."""
        try:
            return dict(json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Keeps what a run has left, with the machine's load after it."""
        write_whole(self.folder / f"{name}.json", {**content, "load": round(load(), 2)})

    def transfer(self, run: MoveRun) -> str:
        """Makes one transfer, after the first of its kind by which its size is chosen; what it got. Raises LabError."""
        path = self.paths[run.path]
        scout = self.read(run.scout)
        if scout is None:
            scout = {"rate_bps": scout_bps(self.lab, path, run.protocol, self.effort.scout_s)}
            self.write(run.scout, scout)
        moved, late_us = move(self.lab, path, run.protocol, transfer_bytes(float(scout["rate_bps"]), self.effort.move_s))
        self.write(run.name, {**stored_move(moved), "lateness_p99_us": late_us})
        through = "" if moved.kept is None or moved.kept.goodput_bps is not None else ", not over the protocol"
        return f"{moved.goodput_bps / 1e6:.1f} Mb/s{through}"

    def accompany(self, run: HarmRun) -> str:
        """Measures somebody else's flow in its company; what it got. Raises LabError."""
        trial = next(trial for trial in self.trials if trial.name == run.path)
        if not trial.has_evidence:
            raise LabError("there is no evidence for the choice on that path yet")
        rate_bps, late_us = flow_bps(self.lab, trial.path, run.company, trial.chosen, self.effort)
        self.write(run.name, {"flow_bps": rate_bps, "protocol": trial.chosen, "lateness_p99_us": late_us})
        return f"{rate_bps / 1e6:.1f} Mb/s beside {trial.chosen if run.company == 'auto' else run.company}"


def run(options: argparse.Namespace) -> int:
    """Measures what is missing, prints and writes."""
    if options.markdown:
        print(markdown(rows_of_file(options.markdown)))
        return 0
    for program in (options.mover, options.emulator):
        if not program.exists():
            raise CommandUsageError(f"there is no {program}: run `make rust` first")
    need_root()
    if options.sealed and options.quick:
        raise CommandUsageError("--quick: would open a sealed set for figures that mean little; leave one of the two out")
    if not options.sealed and options.seed == engine_specification().seed:
        raise CommandUsageError(f"--seed {options.seed}: gives the sealed paths; name another one, or --sealed {ENGINES} with a --reason")
    if problem := install(PROGRAMS):
        print(f"not all could be installed: {problem}", file=sys.stderr)
    need(*PROGRAMS)
    opened = log_opening(ENGINES, "engines", options.reason) if options.sealed else None
    remove_leftovers()
    print(description())
    if load() > IDLE_LOAD:
        print(f"the machine is not idle (load {load():.1f}): figures will be worse than it can do", file=sys.stderr)
    with scratch_folder(options.scratch, "fairlead-engines-") as scratch:
        bench = _bench(options, scratch, opened)
        complete = _measure_missing(bench)
        found = _rows(bench, options, opened)
    print("\n".join(["", heading(), *(line(row) for row in found if row.name != "about")]))
    write(found, options.output)
    return 0 if complete else 1


def _bench(options: argparse.Namespace, scratch: Path, opened: Opened | None) -> EnginesRun:
    specification = engine_specification()
    if opened is not None:
        paths, seed = sealed_engine_paths(), specification.seed
    else:
        drawn = specification.drawn_paths.model_copy(update={"prefix": "dev-e"})
        seed = options.seed
        paths = draw_engine_paths(specification.model_copy(update={"seed": seed, "drawn_paths": drawn}))
    if options.quick:
        paths = one_of_each_kind(paths)
    # Runs of other programs, paths or lengths, and those of another opening, are no part of these.
    # The emulator is the same for all of them, and runs from before it was named stay what they are.
    parts = [path.model_dump_json(exclude={"emulator"}) for path in paths.values()]
    parts += [_digest(program) for program in (options.mover, options.emulator)]
    parts += [str(QUICK if options.quick else FULL), "" if opened is None else str(opened.number)]
    folder = options.folder / f"{'development' if opened is None else 'sealed'}-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:12]}"
    if options.fresh:
        for file in folder.glob("*.json"):
            file.unlink()
    lab = EnginesLab(MoverProgram(options.mover), options.emulator, scratch)
    return EnginesRun(lab, paths, QUICK if options.quick else FULL, seed, folder)


def _digest(program: Path) -> str:
    return hashlib.sha256(program.read_bytes()).hexdigest()


def _measure_missing(bench: EnginesRun) -> bool:
    """Makes every run that is not there; whether all are there in the end."""
    planned: list[tuple[str, float, Callable[[], str]]] = [
        (run.name, bench.effort.move_s + OVERHEAD_S, partial(bench.transfer, run)) for run in bench.moves
    ]
    flow_s = bench.effort.settle_s + bench.effort.flow_s + OVERHEAD_S
    planned += [(run.name, flow_s, partial(bench.accompany, run)) for run in bench.harms]
    left = [each for each in planned if bench.read(each[0]) is None]
    print(f"{len(planned) - len(left)} of {len(planned)} runs are there", flush=True)
    complete = True
    for number, (name, _, measure) in enumerate(left):
        before_s, left_s = time.monotonic(), sum(seconds for _, seconds, _ in left[number:])
        try:
            said = measure()
        except LabError as error:
            complete = False
            said = f"failed: {error}"
        print(f"  {name}: {said} ({time.monotonic() - before_s:.0f} s; some {left_s / 60:.0f} minutes left)", flush=True)
    return complete


def _rows(bench: EnginesRun, options: argparse.Namespace, opened: Opened | None) -> list[Row]:
    trials = bench.trials
    flows = {run: stored for run in bench.harms if (stored := bench.read(run.name)) is not None}
    harms = harm_trials_of(trials, {run: float(stored["flow_bps"]) for run, stored in flows.items()})
    moves = [stored for run in bench.moves if (stored := bench.read(run.name)) is not None]
    finished = [*moves, *flows.values()]
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **about_set(opened),
        "seed": bench.seed,
        "quick": options.quick,
        "runs": len(finished),
        "runs_planned": len(bench.moves) + len(bench.harms),
        "repeats": bench.effort.repeats,
        "evidence_repeats": EVIDENCE_REPEATS,
        "move_s": bench.effort.move_s,
        "mover": _digest(options.mover)[:12],
        "machine": description(),
        "lateness_p99_us": max((float(stored["lateness_p99_us"]) for stored in finished), default=None),
        "load": max((float(stored["load"]) for stored in finished), default=None),
        "paths": {name: shown(path) for name, path in bench.paths.items()},
    }
    return [Row("about", None, "", more=about), *rows(trials, harms)]


BENCH = BenchCommand("engines", __doc__, add_options, run, is_partial=lambda options: bool(options.quick))

if __name__ == "__main__":
    exit_with(BENCH.main)
