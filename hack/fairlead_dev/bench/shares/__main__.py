"""Measures what the default job takes of a path: prints a table, writes build/bench/shares.json.

The product's mover and advisor, as a job has them, over emulated paths of 20 to 100 Mb/s that a seed draws: beside one CUBIC and one BBR
flow, beside one CUBIC flow behind FQ-CoDel, alone without and with random loss, visited by a CUBIC flow, and two and four of them together;
against fixed choices, interleaved.
One file per finished run; a run that the machine disturbed is repeated, and one of other programs is made again. The same command goes on
where it was, on another machine too if the folder of finished runs is taken there. Needs root, the built programs, and a quiet machine.
Exit codes: 0 everything was measured, 1 something is missing, 2 wrong use, 130 interrupted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead_advisor.files import write_atomically
from fairlead_dev.bench.lab.machine import description, load
from fairlead_dev.bench.rows import Row, heading, line, write
from fairlead_dev.bench.runner import IDLE_LOAD, BenchCommand, exit_with
from fairlead_dev.bench.shares.figures import complete, outcome_of, rows
from fairlead_dev.bench.shares.lab import measure
from fairlead_dev.bench.shares.plan import DEVELOPMENT_PATHS, DEVELOPMENT_SEED, FINAL_PATHS, SCENES, ShareRun, choices, plan
from fairlead_dev.bench.shares.provenance import Digests, about, set_of
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError, LabError, NotAvailableError
from fairlead_dev.netlab.pair import remove_leftovers
from fairlead_dev.wan.two_hosts import missing

ATTEMPTS = 3
_SHORTEST_REASON = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much, and where finished runs are kept."""
    parser.add_argument(
        "--seed",
        type=int,
        help=f"draws paths that nobody has looked at, and the order; needs --reason [{DEVELOPMENT_SEED}, a development set]",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="why a seed of one's own is opened; it stands in the file of figures")
    parser.add_argument(
        "--paths", type=int, default=DEVELOPMENT_PATHS, help=f"how many paths; final figures are of {FINAL_PATHS} [%(default)s]"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each choice on each [%(default)s]")
    parser.add_argument("--scene", choices=list(SCENES), action="append", help="only this one; may be given several times")
    parser.add_argument("--side-by-side", type=int, default=3, help="runs at a time [%(default)s]")
    parser.add_argument("--minutes", type=float, help="start no run after that time; go on with the same command")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "build" / "bench" / "shares", help="where finished runs are kept")


@dataclass(slots=True)
class ShareFolder:
    """Where finished runs are kept: one file each, good or disturbed, with the digest of what it was made with."""

    folder: Path
    digests: Digests
    ends_s: float | None
    stop: threading.Event = field(default_factory=threading.Event)

    def read(self, run: ShareRun) -> dict[str, Any] | None:
        """What is there of exactly this run by these programs; None if there is nothing."""
        try:
            found = dict(json.loads(gzip.decompress(self._file(run).read_bytes())))
        except (OSError, EOFError, zlib.error, ValueError):
            return None
        return found if found.get("digest") == self.digests.of(run) else None

    def good(self, run: ShareRun) -> dict[str, Any] | None:
        """The same, if it counts."""
        found = self.read(run)
        return found if found is not None and found["verdict"]["good"] else None

    def measure(self, run: ShareRun) -> str:
        """Makes a run, again while it is disturbed; what came of it, in a line."""
        said = ""
        for attempt in range(ATTEMPTS):
            if self.ends_s is not None and time.monotonic() > self.ends_s:
                return f"{run.name}: {said or 'no time left'}"
            before = os.getloadavg()[0]
            try:
                result = measure(run, self.stop)
            except (LabError, AssertionError) as error:
                # Where nothing could be measured another try is the caller's to make.
                return f"{run.name}: failed: {error}"
            measured_on = {"machine": description(), "load_average": [before, os.getloadavg()[0]]}
            kept = {**result, "digest": self.digests.of(run), "attempt": attempt + 1, **measured_on}
            write_atomically(self._file(run), gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0))
            if result["verdict"]["good"]:
                return f"{run.name}: done"
            said = f"disturbed: {'; '.join(result['verdict']['faults'])}"
        return f"{run.name}: given up, {said}"

    def _file(self, run: ShareRun) -> Path:
        return self.folder / f"{run.name}.json.gz"


def compare(options: argparse.Namespace) -> int:
    """Measures what is missing, prints and writes; of paths that nobody has looked at yet nothing before all is measured."""
    drawn = _drawn(options)
    if why := missing():
        raise NotAvailableError(f"cannot run: {why}")
    planned = plan(drawn["seed"], options.paths, options.repeats)
    wanted = tuple(run for run in planned if not options.scene or run.scene in options.scene)
    options.folder.mkdir(parents=True, exist_ok=True)
    ends_s = None if options.minutes is None else time.monotonic() + options.minutes * 60
    folder = ShareFolder(options.folder, Digests(), ends_s)
    remove_leftovers()
    if load() > IDLE_LOAD:
        print(f"the machine is not idle (load {load():.1f}): runs will be disturbed", file=sys.stderr)
    _measure_missing([run for run in wanted if folder.good(run) is None], folder, options.side_by_side)
    if drawn["set"] == "sealed" and (there := sum(folder.good(run) is not None for run in planned)) < len(planned):
        # Whoever sees some of the figures may change something before the others are measured.
        print(f"{there} of {len(planned)} runs are there; no figure is shown before all are")
        return 1
    found = _rows(planned if drawn["set"] == "sealed" else wanted, folder, drawn)
    print(heading())
    for row in found[1:]:
        print(line(row))
    write(found, options.output)
    return 0 if all(folder.good(run) for run in wanted) else 1


def _drawn(options: argparse.Namespace) -> dict[str, Any]:
    """Which paths these are. CommandUsageError for a seed that nobody has opened yet, without a reason."""
    kind, reason = set_of(options.seed), " ".join(options.reason.split())
    if kind == "sealed" and len(reason) < _SHORTEST_REASON:
        raise CommandUsageError(
            f"--seed {options.seed}: say with --reason why its paths are looked at, and list it in docs/explanation/decisions-bench.md"
        )
    seed = DEVELOPMENT_SEED if options.seed is None else options.seed
    return {"set": kind, "seed": seed, **({"reason": reason} if reason else {})}


def _measure_missing(left: Sequence[ShareRun], folder: ShareFolder, side_by_side: int) -> None:
    print(f"{len(left)} runs to do", flush=True)
    with ThreadPoolExecutor(side_by_side) as pool:
        try:
            for done in as_completed([pool.submit(folder.measure, run) for run in left]):
                print(done.result(), flush=True)
        except BaseException:
            # Runs under way take their namespaces down.
            folder.stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _rows(runs: Sequence[ShareRun], folder: ShareFolder, drawn: Mapping[str, Any]) -> list[Row]:
    there = {run: result for run in runs if (result := folder.read(run)) is not None}
    good = {run: result for run, result in there.items() if result["verdict"]["good"]}
    counted = complete([outcome_of(run, result) for run, result in good.items()], choices())
    counts = {
        "paths": sorted({run.path.name for run in runs}),
        "runs_planned": len(runs),
        "runs": len(good),
        "runs_in_complete_blocks": len(counted),
        "disturbed": {run.name: result["verdict"]["faults"] for run, result in there.items() if run not in good},
        "repeated": sum(result["attempt"] > 1 for result in good.values()),
    }
    return [Row("about", None, "", more=about(folder.digests, drawn, counts, list(good.values()))), *rows(counted)]


BENCH = BenchCommand("shares", __doc__, add_options, compare, is_partial=lambda options: bool(options.scene))

if __name__ == "__main__":
    exit_with(BENCH.main)
