"""Measures the mover beside what it is compared with: prints a table, writes build/bench/mover.json.

Needs root, for network namespaces. What is compared with is installed by apt if it is missing; what cannot be had is said in its row.
A run that was interrupted goes on with the parts it had not done; --fresh begins again. A figure short of its target is no failure of the
run: exit code 0 says that everything was measured, 1 that something was not, 2 is for wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fairlead_dev.bench.mover import report
from fairlead_dev.bench.mover.bench import Bench
from fairlead_dev.bench.mover.lab.machine import TEST_BED, description, install, load, need, need_root, scratch_folder
from fairlead_dev.bench.mover.peers.mover import Mover
from fairlead_dev.bench.mover.plan import OTHERS, PARTS, Part, chosen
from fairlead_dev.checkout import BENCH_RESULTS, BINARIES
from fairlead_dev.errors import LabError, LimitError, NotAvailableError
from fairlead_dev.netlab.pair import remove_leftovers

OUTPUT = BENCH_RESULTS / "mover.json"
IDLE_LOAD = 0.7
SCRATCH_PREFIX = "fairlead-bench-"
SCRATCH_BYTES = 20 << 30


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-mover", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a part or a row; may be given several times")
    parser.add_argument(
        "--quick", action="store_true", help="one repetition of smaller sizes: shows that all works, its figures mean little"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted run has measured")
    parser.add_argument("--list", action="store_true", help="print parts and rows and stop")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print the table of a written file for the documentation and stop")
    parser.add_argument("--mover", type=Path, default=BINARIES / "fairlead-mover", help="the binary under test")
    parser.add_argument("--emulator", type=Path, default=BINARIES / "fairlead-wan", help="the wide-area emulator")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to be measured; 20 GB are needed"
    )
    parser.add_argument("--output", type=Path, help="the file to write (with --only or --quick: mover-partial.json)")
    return parser.parse_args()


@contextlib.contextmanager
def limit(part: Part) -> Iterator[None]:
    """Raises LimitError in the block when the part takes too long."""

    def expire(_number: int, _frame: object) -> None:
        raise LimitError(f"the part {part.name} did not end within {part.limit_s:.0f} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, part.limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measured(part: Part, bench: Bench) -> list[report.Row]:
    """The part's rows, each with the machine's load before it. Raises LabError."""
    before = load()
    with limit(part):
        need(*part.programs)
        rows = part.measure(bench)
    lacking = set(part.rows) - {row.name for row in rows}
    if lacking:
        raise LabError(f"the part {part.name} did not measure {', '.join(sorted(lacking))}")
    return [replace(row, more={**row.more, "load_before": round(before, 2)}) for row in rows]


def run_parts(parts: list[Part], store: report.Store, options: argparse.Namespace, mover: Mover) -> tuple[list[report.Row], bool]:
    """Measures what is not done yet; the rows of all parts, and whether all could be measured."""
    rows: list[report.Row] = []
    complete = True
    for part in parts:
        done = store.get(part.name)
        if done is not None:
            print(f"{part.name}: measured before the interruption", flush=True)
            rows += done
            continue
        print(f"{part.name}: {', '.join(part.rows)}", flush=True)
        start_s = time.monotonic()
        try:
            # A folder for each part, so that nothing of one is in the way of the next.
            with scratch_folder(options.scratch, SCRATCH_PREFIX, SCRATCH_BYTES) as scratch:
                found = measured(part, Bench(mover, options.emulator, scratch, options.quick))
            store.put(part.name, found)
        except NotAvailableError as error:
            found = [report.not_available(name, "-", error) for name in part.rows]
        except LabError as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            found = [report.Row(name, None, "-", note=f"failed: {str(error).splitlines()[0]}") for name in part.rows]
            complete = False
        print(f"  {time.monotonic() - start_s:.0f} s", flush=True)
        rows += found
    return rows, complete


def main() -> int:
    """Runs what the command line asks for."""
    options = parse_arguments()
    try:
        parts = chosen(options.only)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.list:
        for part in PARTS:
            print(f"{part.name:12} {', '.join(part.rows)}")
        return 0
    if options.markdown:
        try:
            rows_of_file = json.loads(options.markdown.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"error: --markdown {options.markdown}: {error}", file=sys.stderr)
            return 2
        print(report.markdown(rows_of_file))
        return 0
    for binary in (options.mover, options.emulator):
        if not binary.exists():
            print(f"error: there is no {binary}: run `make rust` first", file=sys.stderr)
            return 2
    whole = not options.only and not options.quick
    output = options.output or (OUTPUT if whole else OUTPUT.with_name("mover-partial.json"))
    try:
        need_root()
        problem = install([*TEST_BED, *OTHERS, "iperf3", "openssl"])
        if problem:
            print(f"not all could be installed: {problem}", file=sys.stderr)
        need(*TEST_BED)
        remove_leftovers()
        mover = Mover(options.mover)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        store = report.Store(output.with_suffix(".state"), {"mover": mover.digest(), "quick": str(options.quick), "boot": boot})
        if options.fresh or options.only:
            store.forget()
        print(f"{description()}; mover {mover.version()}")
        if load() > IDLE_LOAD:
            print(f"the machine is not idle (load {load():.1f}): figures will be lower than it can do", file=sys.stderr)
        rows, complete = run_parts(parts, store, options, mover)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", report.heading(), *(report.line(row) for row in rows)]))
    report.write(rows, output)
    print(f"written to {output}")
    if complete:
        store.forget()
    return 0 if complete else 1


def _end(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # An end from outside takes the same way as an interruption: everything is torn down.
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; a full run goes on with the part that was under way", file=sys.stderr)
        sys.exit(130)
