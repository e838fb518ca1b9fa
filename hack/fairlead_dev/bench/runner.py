"""One way to run a bench: a command line, and parts that are measured one after another and resumed after an interruption.

A figure short of its goal is no failure of the run: exit code 0 says that everything was measured, 1 that something was not, 2 is for
wrong use, 130 for an interruption.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from fairlead_advisor.errors import AdvisorError
from fairlead_dev.bench.lab.machine import description, install, load, need, need_root, scratch_folder, version_of
from fairlead_dev.bench.rows import Goal, Row, RowStore, heading, judged, line, markdown, not_available, write
from fairlead_dev.checkout import BENCH_RESULTS, BINARIES
from fairlead_dev.errors import CommandUsageError, DevError, LabError, LimitError, NotAvailableError

IDLE_LOAD = 0.7
LabT = TypeVar("LabT")


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """The command line of a bench."""

    name: str
    about: str
    add_options: Callable[[argparse.ArgumentParser], None]
    """All but --output."""
    run: Callable[[argparse.Namespace], int]
    """Measures, prints, and writes `options.output`; the exit code. Raises DevError and AdvisorError."""
    is_partial: Callable[[argparse.Namespace], bool] | None = None
    """Whether these options measure less than the bench's own file has; it is left alone then."""

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs what the command line asks for; the exit code, with a sentence where it is an error's."""
        parser = argparse.ArgumentParser(
            prog=f"bench-{self.name}", description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.add_options(parser)
        part = f"; of a part: {self.name}-partial.json" if self.is_partial else ""
        parser.add_argument("--output", type=Path, help=f"the file to write [build/bench/{self.name}.json{part}]")
        options = parser.parse_args(arguments)
        partial_run = self.is_partial is not None and self.is_partial(options)
        options.output = options.output or BENCH_RESULTS / (f"{self.name}-partial.json" if partial_run else f"{self.name}.json")
        try:
            return self.run(options)
        except (AdvisorError, DevError) as error:
            print(f"{parser.prog}: {error}", file=sys.stderr)
            return error.exit_code


@dataclass(frozen=True, slots=True)
class Part(Generic[LabT]):
    """Rows that are measured together, by a function of the bench's lab."""

    name: str
    rows: tuple[str, ...]
    measure: Callable[[LabT], list[Row]]
    limit_s: float
    """Past it the part is given up."""
    programs: tuple[str, ...] = ()
    """Without which it cannot be; those that are only compared with are not among them."""
    on_request: bool = False
    """Measured only when it is named."""


@dataclass(frozen=True, slots=True)
class PartsBench(Generic[LabT]):
    """A bench of real programs in network namespaces, which needs root."""

    name: str
    about: str
    parts: Sequence[Part[LabT]]
    goals: Mapping[str, Goal]
    lab: Callable[[argparse.Namespace, Path], LabT]
    """From the options and an empty folder to what a part is given."""
    remove_leftovers: Callable[[], None]
    binaries: Mapping[str, str] = field(default_factory=dict)
    """Help for the option of each program under test: `mover` is --mover, by default build/bin/fairlead-mover."""
    programs: tuple[str, ...] = ()
    """Without which no part can be: installed where they are missing."""
    compared: tuple[str, ...] = ()
    """Programs that are compared with: installed where they can be had."""
    scratch_bytes: int = 0
    add_options: Callable[[argparse.ArgumentParser], None] | None = None
    """Options of its own."""


def choose(parts: Sequence[Part[LabT]], names: Sequence[str]) -> list[Part[LabT]]:
    """The parts that have these names or rows; without names all but those on request. Raises UsageError naming what there is."""
    unknown = [name for name in names if not any(name == part.name or name in part.rows for part in parts)]
    if unknown:
        there_are = "; ".join(f"{part.name} ({', '.join(part.rows)})" for part in parts)
        raise CommandUsageError(f"--only {unknown[0]}: there is no such part or row; there are {there_are}")
    if not names:
        return [part for part in parts if not part.on_request]
    return [part for part in parts if part.name in names or set(names) & set(part.rows)]


def run_bench(bench: PartsBench[LabT], arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; the exit code."""
    command = BenchCommand(
        name=bench.name,
        about=bench.about,
        add_options=partial(_add_options, bench),
        run=partial(_run, bench),
        is_partial=lambda options: bool(options.only or options.quick),
    )
    return command.main(arguments)


def _run(bench: PartsBench[LabT], options: argparse.Namespace) -> int:
    if options.markdown:
        print(markdown(rows_of_file(options.markdown)))
        return 0
    parts = choose(bench.parts, options.only)
    if options.list:
        print("\n".join(f"{part.name:12} {', '.join(part.rows)}" for part in bench.parts))
        return 0
    for name in bench.binaries:
        if not getattr(options, name).exists():
            raise CommandUsageError(f"there is no {getattr(options, name)}: run `make rust` first")
    return _measure_all(bench, parts, options)


def rows_of_file(file: Path) -> list[dict[str, object]]:
    """The rows of a file that a bench has written, for --markdown. Raises CommandUsageError."""
    try:
        return list(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise CommandUsageError(f"--markdown {file}: {error}") from None


def exit_with(main: Callable[[], int]) -> None:
    """Ends the process with the code of `main`. SIGTERM and SIGINT end what is under way first, and the code is 130 then."""
    # A shell's background has SIGINT ignored; an end from outside takes the same way as an interruption: everything is torn down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with what was under way", file=sys.stderr)
        sys.exit(130)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _add_options(bench: PartsBench[LabT], parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a part or a row; may be given several times")
    parser.add_argument("--quick", action="store_true", help="shorter and smaller: shows that all works, its figures mean little")
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted run has measured")
    parser.add_argument("--list", action="store_true", help="print parts and rows and stop")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print the table of a written file for the documentation and stop")
    for name, text in bench.binaries.items():
        program = {"mover": "fairlead-mover", "emulator": "fairlead-wan"}[name]
        parser.add_argument(f"--{name}", type=Path, default=BINARIES / program, help=text)
    if bench.add_options is not None:
        bench.add_options(parser)
    room = f"a folder on the disk to be measured; {bench.scratch_bytes >> 30} GB are needed"
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help=room)


def _measure_all(bench: PartsBench[LabT], parts: Sequence[Part[LabT]], options: argparse.Namespace) -> int:
    need_root()
    problem = install([*bench.programs, *bench.compared])
    if problem:
        print(f"not all could be installed: {problem}", file=sys.stderr)
    need(*bench.programs)
    bench.remove_leftovers()
    digests = {name: hashlib.sha256(getattr(options, name).read_bytes()).hexdigest() for name in bench.binaries}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    store = RowStore(
        options.output.with_suffix(".state"),
        {**digests, "quick": str(options.quick), "full": str(getattr(options, "full", False)), "boot": boot},
    )
    if options.fresh or options.only:
        store.forget()
    versions = [f"{name} {version_of([str(getattr(options, name)), '--version'])}" for name in bench.binaries]
    print("; ".join([description(), *versions]))
    if load() > IDLE_LOAD:
        print(f"the machine is not idle (load {load():.1f}): figures will be worse than it can do", file=sys.stderr)
    found, complete = _run_parts(bench, parts, store, options)
    rows = judged(found, bench.goals)
    print("\n".join(["", heading(), *(line(row) for row in rows)]))
    write(rows, options.output)
    if complete:
        store.forget()
    return 0 if complete else 1


def _run_parts(
    bench: PartsBench[LabT], parts: Sequence[Part[LabT]], store: RowStore, options: argparse.Namespace
) -> tuple[list[Row], bool]:
    """Measures what is not done yet; the rows of all parts, and whether all could be measured."""
    rows: list[Row] = []
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
            with scratch_folder(options.scratch, f"fairlead-{bench.name}-", bench.scratch_bytes) as scratch:
                found = _measure(part, bench.lab(options, scratch))
            store.put(part.name, found)
        except NotAvailableError as error:
            found = [not_available(name, "-", error) for name in part.rows]
        except LabError as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            found = [Row(name, None, "-", note=f"failed: {str(error).splitlines()[0]}") for name in part.rows]
            complete = False
        print(f"  {time.monotonic() - start_s:.0f} s", flush=True)
        rows += found
    return rows, complete


def _measure(part: Part[LabT], lab: LabT) -> list[Row]:
    """The part's rows, each with the machine's load before it. Raises LabError."""
    before = load()
    with _limit(part.name, part.limit_s):
        need(*part.programs)
        rows = part.measure(lab)
    lacking = set(part.rows) - {row.name for row in rows}
    if lacking:
        raise LabError(f"the part {part.name} did not measure {', '.join(sorted(lacking))}")
    return [replace(row, more={**row.more, "load_before": round(before, 2)}) for row in rows]


@contextlib.contextmanager
def _limit(name: str, limit_s: float) -> Iterator[None]:
    """Raises LimitError in the block when it takes too long."""

    def expire(_number: int, _frame: object) -> None:
        raise LimitError(f"the part {name} did not end within {limit_s:.0f} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
