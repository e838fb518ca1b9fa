"""Measures what the default job takes of a path: prints a table, writes build/bench/shares.json.

The product's mover and advisor, as a job has them, over emulated paths of 20 to 100 Mb/s that a seed draws: beside one CUBIC and one BBR
flow, alone without and with random loss, and visited by a CUBIC flow; against fixed choices, interleaved. One JSON per finished run; the
same command goes on where it was. Needs root, the built programs, and a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from fairlead_dev.bench.rows import heading, line, write, write_whole
from fairlead_dev.bench.runner import BenchCommand, exit_with
from fairlead_dev.bench.shares.figures import outcome_of, rows
from fairlead_dev.bench.shares.lab import measure
from fairlead_dev.bench.shares.plan import ShareRun, plan
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.wan.two_hosts import missing


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much, and where finished runs are kept."""
    parser.add_argument("--seed", type=int, default=20261123, help="draws the paths and the order [%(default)s]")
    parser.add_argument("--paths", type=int, default=3, help="how many paths [%(default)s]")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each choice on each [%(default)s]")
    parser.add_argument("--side-by-side", type=int, default=3, help="runs at a time [%(default)s]")
    parser.add_argument("--minutes", type=float, help="start no run after that time; go on with the same command")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "build" / "bench" / "shares", help="where finished runs are kept")


def compare(options: argparse.Namespace) -> int:
    """Measures what is missing, prints and writes."""
    if why := missing():
        raise NotAvailableError(f"cannot run: {why}")
    runs = plan(options.seed, options.paths, options.repeats)
    options.folder.mkdir(parents=True, exist_ok=True)
    ends_s = None if options.minutes is None else time.monotonic() + options.minutes * 60
    _measure_missing(runs, options.folder, options.side_by_side, ends_s)
    files = [file for run in runs if (file := _file(options.folder, run)).exists()]
    found = rows([outcome_of(json.loads(file.read_text(encoding="utf-8"))) for file in files])
    print(heading())
    for row in found:
        print(line(row))
    write(found, options.output)
    return 0 if len(files) == len(runs) else 1


def _measure_missing(runs: tuple[ShareRun, ...], folder: Path, side_by_side: int, ends_s: float | None) -> None:
    stop = threading.Event()

    def one(run: ShareRun) -> str:
        if ends_s is not None and time.monotonic() > ends_s:
            return f"{run.name}: no time left"
        before = os.getloadavg()[0]
        try:
            result: dict[str, Any] = measure(run, stop)
        except (LabError, AssertionError) as error:
            return f"{run.name}: {error}"
        write_whole(_file(folder, run), {**result, "load_average": [before, os.getloadavg()[0]]})
        return f"{run.name}: done"

    left = [run for run in runs if not _file(folder, run).exists()]
    with ThreadPoolExecutor(side_by_side) as pool:
        try:
            for done in as_completed([pool.submit(one, run) for run in left]):
                print(done.result(), flush=True)
        except BaseException:
            # Runs under way take their namespaces down.
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _file(folder: Path, run: ShareRun) -> Path:
    return folder / f"{run.name}.json"


BENCH = BenchCommand("shares", __doc__, add_options, compare)

if __name__ == "__main__":
    exit_with(BENCH.main)
