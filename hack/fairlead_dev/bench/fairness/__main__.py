"""Measures how movers share links: prints a table, writes build/bench/fairness.json.

Real movers of three tenants on four nodes over three shared links, whose caps the operator's own rounds decide from what the movers
report; the same jobs without caps; the time from an annotation to the wire; the allocation's time and its property tests. Links are veth
pairs with token buckets, without delay. Needs root and a disk; takes some seven minutes. A figure short of its target is no failure of
the run: exit code 0 says that everything was measured, 1 that something was not, 2 is for wrong use.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.bench import allocation
from fairlead_dev.bench.fairness import rows
from fairlead_dev.bench.fairness.bed.network import remove_leftovers
from fairlead_dev.bench.fairness.goals import Row
from fairlead_dev.bench.fairness.phases import changes, managed, unmanaged
from fairlead_dev.bench.fairness.scenario import END_S, JOBS, QUICK_END_S, QUICK_TIMELINE, TIMELINE
from fairlead_dev.bench.mover import report
from fairlead_dev.bench.mover.lab.machine import description, load, missing, need_root, scratch_folder
from fairlead_dev.bench.mover.peers.mover import Mover
from fairlead_dev.checkout import BENCH_RESULTS, BINARIES, CHECKOUT
from fairlead_dev.errors import LabError, NotAvailableError

OUTPUT = BENCH_RESULTS / "fairness.json"
PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "ethtool": "ethtool",
    "sysctl": "procps",
    "setpriv": "util-linux",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
}
IDLE_LOAD = 0.7
SCRATCH_PREFIX = "fairlead-fairness-"
UNMANAGED_S, UNMANAGED_QUICK_S = 45.0, 20.0
CHANGES_S, CHANGES_QUICK_S = 50.0, 12.0
PROPERTIES_LIMIT_S = 300
NETWORKS, REPEATS = 7, 5


@dataclass(frozen=True, slots=True)
class Part:
    """Figures that are measured together."""

    names: tuple[str, ...]
    measure: Callable[[Path], list[Row]]


def parts(mover: Mover, *, quick: bool) -> list[Part]:
    """Everything that is measured, in its order."""
    timeline, end_s = (QUICK_TIMELINE, QUICK_END_S) if quick else (TIMELINE, END_S)
    names = [job.name for job in JOBS]

    def with_operator(scratch: Path) -> list[Row]:
        return rows.managed_rows(managed(mover, scratch, timeline, end_s), timeline, end_s)

    def without(scratch: Path) -> list[Row]:
        return [rows.unmanaged_row(unmanaged(mover, scratch, names, UNMANAGED_QUICK_S if quick else UNMANAGED_S), names)]

    def latency(scratch: Path) -> list[Row]:
        return rows.latency_rows(changes(mover, scratch, CHANGES_QUICK_S if quick else CHANGES_S))

    return [
        Part(("jain_managed", "utilisation", "convergence_s_p95", "overshoot_max", "cap_error_max"), with_operator),
        Part(("jain_unmanaged",), without),
        Part(("enforce_latency_s_p50", "enforce_latency_s_p99"), latency),
        Part(("allocate_1000x200x100_ms",), allocation_rows),
        Part(("property_tests", "property_examples"), property_rows),
    ]


def allocation_rows(_scratch: Path) -> list[Row]:
    """The allocation's time, by the bench of its own."""
    shape = allocation.SHAPES[0]
    times_ms, _ = allocation.measure(shape, NETWORKS, REPEATS)
    note = (
        f"{NETWORKS} random networks, {REPEATS} runs of each, {min(times_ms):.1f} to {max(times_ms):.1f}; more by `make bench-allocation`"
    )
    return [Row(f"{shape.name}_ms", round(sorted(times_ms)[len(times_ms) // 2], 2), "ms", note=note)]


def property_rows(_scratch: Path) -> list[Row]:
    """How many property tests the allocation passes, with how many random networks. Raises LabError if one fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-show-statistics"]
    tests = CHECKOUT / "operator" / "tests" / "allocation" / "test_properties.py"
    try:
        done = subprocess.run([*command, str(tests)], capture_output=True, text=True, timeout=PROPERTIES_LIMIT_S, check=False, cwd=CHECKOUT)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"the property tests did not end within {PROPERTIES_LIMIT_S} s") from error
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode != 0 or passed is None:
        raise LabError(f"the property tests failed:\n{done.stdout[-2000:]}")
    examples = sum(int(found) for found in re.findall(r"(\d+) passing, 0 failing", done.stdout))
    note = "against linear programs and by rule: operator/tests/allocation/test_properties.py"
    return [Row("property_tests", int(passed.group(1)), "tests", note=note), Row("property_examples", examples, "networks", note=note)]


def run_parts(chosen: list[Part], folder: Path) -> tuple[list[Row], bool]:
    """The rows of all parts, and whether all could be measured."""
    found: list[Row] = []
    complete = True
    for part in chosen:
        print(f"{', '.join(part.names)}", flush=True)
        start_s, before = time.monotonic(), load()
        try:
            found += part.measure(folder / part.names[0])
        except LabError as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            found += [Row(name, None, "-", note=f"failed: {str(error).splitlines()[0]}") for name in part.names]
            complete = False
        print(f"  {time.monotonic() - start_s:.0f} s, load before {before:.1f}", flush=True)
    return found, complete


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-fairness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="FIGURE", help="measure the part with this figure; several times")
    parser.add_argument("--quick", action="store_true", help="short phases: shows that all works, its figures mean little")
    parser.add_argument("--mover", type=Path, default=BINARIES / "fairlead-mover", help="the binary under test")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk, for 1 GB")
    parser.add_argument("--output", type=Path, help="the file to write (with --only or --quick: fairness-partial.json)")
    return parser.parse_args()


def main() -> int:
    """Runs what the command line asks for."""
    options = parse_arguments()
    if not options.mover.exists():
        print(f"error: there is no {options.mover}: run `make rust` first", file=sys.stderr)
        return 2
    mover = Mover(options.mover.resolve())
    chosen = parts(mover, quick=options.quick)
    known = {name for part in chosen for name in part.names}
    for name in options.only:
        if name not in known:
            print(f"error: --only {name}: there is no such figure; there are {', '.join(sorted(known))}", file=sys.stderr)
            return 2
    if options.only:
        chosen = [part for part in chosen if set(part.names) & set(options.only)]
    output = options.output or (OUTPUT.with_name("fairness-partial.json") if options.only or options.quick else OUTPUT)
    try:
        need_root()
        lacking = missing(PROGRAMS)
        if lacking:
            packages = " ".join(sorted({PROGRAMS[program] for program in lacking}))
            raise NotAvailableError(f"{', '.join(lacking)} is missing: apt-get install {packages}")
        remove_leftovers()
        print(f"{description()}; mover {mover.version()}")
        if load() > IDLE_LOAD:
            print(f"the machine is not idle (load {load():.1f}): figures will be worse than it can do", file=sys.stderr)
        with scratch_folder(options.scratch, SCRATCH_PREFIX) as folder:
            found, complete = run_parts(chosen, folder)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", report.heading(), *(report.line(row) for row in found)]))
    report.write(found, output)
    print(f"written to {output}")
    return 0 if complete else 1


def _end(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # An end from outside takes the same way as an interruption: everything is torn down.
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
