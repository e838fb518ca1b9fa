"""Measures what choosing the congestion control is worth: prints a table, writes build/bench/decisions.json.

A folder for each finished run; the same command goes on where it was, with --kept on another machine too. Runs that the machine disturbed
are repeated. Of a sealed set only counts are shown before every run is there. Needs root, for network namespaces, and an idle machine.
Exit codes: 0 everything was measured, 1 something is missing, 2 wrong use, 130 and 143 stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fairlead_advisor.errors import NoModelError
from fairlead_advisor.models.store import find_model
from fairlead_advisor.serve.classifier import classify_window
from fairlead_advisor.train.data import INDEX, TRAIN, Dataset, load_dataset
from fairlead_dev.bench.builds import program_digest
from fairlead_dev.bench.decisions import loaded_classification, report, stream_counts
from fairlead_dev.bench.decisions.figures import groups, repeats_counted
from fairlead_dev.bench.decisions.fingerprints import fingerprints, joined, measured, recordings_fingerprint
from fairlead_dev.bench.decisions.kept import Kept, read_kept, sampled_in
from fairlead_dev.bench.decisions.lab.run import CellLab, run_cell
from fairlead_dev.bench.decisions.lab.transfer import Tools
from fairlead_dev.bench.decisions.matrix import (
    FULL,
    REPEATS,
    SUBSET,
    Cell,
    Matrix,
    Policy,
    cells,
    interleaved,
    kind_of_path,
    known_paths,
    matching,
    sealed_matrix,
)
from fairlead_dev.bench.decisions.outcomes import CellOutcome, machines, read_outcomes
from fairlead_dev.bench.decisions.paper.classifier import Training, save_training, training_of
from fairlead_dev.bench.decisions.paper.recordings import TrainingRecording, known_training, recorded_training, recordings_of
from fairlead_dev.bench.rows import Row, write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.bench.sealed import about_set, add_reason, log_opening
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.stopping import exit_code, stoppable
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.lab.namespaces import remove_abandoned
from fairlead_dev.testbed.runs.batch import LARGE_CORES, RUNS, BatchRules, BatchState, generate, is_recorded
from fairlead_dev.testbed.runs.packing import Budget, estimate_s
from fairlead_dev.testbed.runs.progress import BatchProgress, duration
from fairlead_dev.testbed.runs.record import RecordingLab, record
from fairlead_dev.testbed.runs.speed import bearable_cores
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.sealed.openings import Opened
from fairlead_dev.testbed.sealed.sets import DECISIONS, LISTENING, load_sealed
from fairlead_dev.wan.emulator import find_program

BUILD = CHECKOUT / "build"
PARTS = ("stationary", "changing", "parallelism")
SPECIFICATION = "full"
BUDGET = Budget(cores=1.39, runs=8, alone_cores=LARGE_CORES)
"""Less than a data set's: beside the traffic there are two movers and an advisor. Runs of the fastest paths go alone."""


def main(arguments: Sequence[str]) -> int:
    """Runs what the command line asks for."""
    command = BenchCommand("decisions", __doc__, _add_options, run, is_partial=_is_partial)
    return exit_code("decisions", lambda: command.main(arguments))


def _is_partial(options: argparse.Namespace) -> bool:
    if options.sealed:
        # Nothing is written before all is there.
        return bool(options.seconds)
    return bool(options.only or options.cell or options.seconds or options.keep_disturbed or options.minutes)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--full", action="store_true", help="all six backgrounds on all development paths, three times; nothing more with --sealed"
    )
    parser.add_argument(
        "--sealed", choices=(DECISIONS, LISTENING), help="all six backgrounds on a sealed set's paths, three times; needs --reason"
    )
    add_reason(parser)
    parser.add_argument("--repeats", type=int, help=f"runs of every cell [{REPEATS} with --full or --sealed, and no fewer there; else 1]")
    parser.add_argument("--one-stream", action="store_true", help="the advisor with one stream too: a quarter more runs")
    parser.add_argument("--data", type=Path, default=BUILD / "dataset" / "full", help="the packed data set, for the paper's classifier")
    parser.add_argument("--model", type=Path, help="our classifier's file (default: the installed one)")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be given several times")
    parser.add_argument("--cell", metavar="TEXT", help="only the runs that have this in their name")
    parser.add_argument("--seconds", type=float, help="length of a stationary transfer, 90 or more [220]")
    parser.add_argument("--minutes", type=float, help="start no run that would not end by then; go on with the same command")
    parser.add_argument("--folder", type=Path, default=BUILD / "bench" / "decisions", help="where finished runs are kept")
    parser.add_argument(
        "--kept", type=Path, metavar="FOLDER", help="for a matrix in parts on several machines: a folder to commit, with all finished runs"
    )
    parser.add_argument("--pictures", type=Path, help="write the pictures of the docs into this folder")
    parser.add_argument("--mover", type=Path, default=BUILD / "bin" / "fairlead-mover", help="the mover's program")
    parser.add_argument("--cores", type=float, help=f"processor cores to fill with runs [{BUDGET.cores:g}, less on a slow machine]")
    parser.add_argument("--side-by-side", type=int, default=BUDGET.runs, help="runs at a time [%(default)s]")
    parser.add_argument("--keep-disturbed", action="store_true", help="for trying things out on a busy machine: its figures mean little")


@dataclass(frozen=True, slots=True)
class DecisionsRun:
    """What one call works on: of all runs that are `planned`, those of `cells` are measured by it."""

    options: argparse.Namespace
    specification: Specification
    matrix: Matrix
    planned: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    known: Mapping[str, Training]
    """What the data set has of single paths, where that is enough."""
    recordings: tuple[TrainingRecording, ...]
    """Of the other paths of the plan."""
    dataset: Dataset
    sweep: stream_counts.Sweep
    programs: str
    model: str | None
    repeats: int
    opened: Opened | None
    kept: Kept | None
    folder: Path
    code: str
    """A digest of programs, models, data and lab."""

    @property
    def shown(self) -> tuple[Cell, ...]:
        """Whose figures are shown: of a sealed set those of the whole plan, however it was measured in parts."""
        return self.cells if self.opened is None else self.planned

    def wants(self, part: str) -> bool:
        """Whether that part was asked for."""
        return (not self.options.only or part in self.options.only) and (part != "parallelism" or self.options.cell is None)

    def missing(self) -> list[Cell]:
        """The runs of the whole plan that are not there."""
        return [cell for cell in self.planned if not self.has(cell)]

    def has(self, run: Cell | TrainingRecording) -> bool:
        """Whether that run is there."""
        if self.kept is not None:
            return self.kept.has(run)
        return is_recorded(run, self.folder, disturbed_too=self.options.keep_disturbed)

    def to_record(self) -> list[TrainingRecording]:
        """The training recordings that are not there, of the paths on which this call has to run the loop that learns from them."""
        paths = {cell.path_id for cell in self.cells if cell.policy is Policy.PAPER_OWN_PATH and not self.has(cell)}
        return [recording for recording in self.recordings if recording.path_id in paths and not self.has(recording)]

    def own_training(self) -> dict[str, Training]:
        """The training windows of every path that has all of its own."""
        by_path: dict[str, list[TrainingRecording]] = {}
        for recording in self.recordings:
            by_path.setdefault(recording.path_id, []).append(recording)
        read = partial(sampled_in, self.folder / RUNS) if self.kept is None else self.kept.sampled
        there = {path_id: of_path for path_id, of_path in by_path.items() if all(map(self.has, of_path))}
        return {**self.known, **{path_id: recorded_training([read(one) for one in of_path]) for path_id, of_path in there.items()}}

    def outcomes(self) -> list[CellOutcome]:
        """Of the runs whose figures are shown."""
        if self.kept is not None:
            return list(self.kept.outcomes(self.shown))
        return list(read_outcomes(self.shown, self.folder, disturbed_too=self.options.keep_disturbed))


def run(options: argparse.Namespace) -> int:
    """Measures what is missing, prints and writes."""
    if os.geteuid() != 0:
        raise CommandUsageError("network namespaces need root: run it with sudo")
    if options.sealed and options.keep_disturbed:
        raise CommandUsageError("--keep-disturbed: would open a sealed set for figures that mean little; leave one of the two out")
    if options.kept and options.keep_disturbed:
        raise CommandUsageError("--keep-disturbed: no disturbed run is put into a folder to commit; leave out that or --kept")
    if options.seconds is not None and not 90 <= options.seconds <= 3600:
        raise CommandUsageError(
            f"--seconds {options.seconds:g}: a transfer lasts 90 to 3600 s here; in a shorter one there is nothing but its beginning"
        )
    if not os.access(options.mover, os.X_OK):
        raise CommandUsageError(f"{options.mover}: no such program: build it with `make rust`, or name it with --mover")
    if not (options.data / INDEX).is_file():
        raise CommandUsageError(
            f"{options.data}: holds no packed data set, which the paper's classifier is trained on: `make dataset`, or name one with --data"
        )
    emulator = find_program()
    repeats = _repeats(options)
    session = _session(options, emulator, repeats)
    session.folder.mkdir(parents=True, exist_ok=True)
    training = session.folder / f"paper-{session.dataset.sha256[:12]}.npz"
    save_training(training, training_of(session.dataset.of_split(TRAIN)))
    bench = CellLab(emulator, Tools(options.mover.resolve(), options.model), training.resolve())
    if session.kept is not None:
        _carry_over(session, session.kept)
    remove_abandoned()
    complete = stoppable(_measure(session, bench))
    if session.opened is not None and (lacking := _lacking(session)):
        # Who has seen some figures of a sealed set may change what is measured, and go on with the rest.
        print(f"sealed set {options.sealed}: {lacking}; no figure is shown before all are there: the same command goes on")
        return 1
    rows = _rows(session)
    print(report.table(rows))
    write(rows, options.output)
    if options.pictures:
        from fairlead_dev.bench.decisions import pictures  # noqa: PLC0415 - matplotlib is slow to load, and few calls need it

        pictures.write_all(options.pictures, session.outcomes(), session.folder)
    return 0 if complete else 1


def _repeats(options: argparse.Namespace) -> int:
    whole = bool(options.full or options.sealed)
    repeats = options.repeats if options.repeats is not None else (REPEATS if whole else 1)
    if not (REPEATS if whole else 1) <= repeats <= 100:
        raise CommandUsageError(f"--repeats {repeats}: must be {REPEATS if whole else 1} to 100 here; a cell that is run once says little")
    return repeats


def _lacking(session: DecisionsRun) -> str:
    """How much of the plan of a sealed set is not there, by counts alone; empty if all is."""
    swept = len(stream_counts.read_rows(session.folder, session.sweep, session.programs))
    missing = len(session.missing())
    if not missing and swept == len(stream_counts.SCENES):
        return ""
    runs = len(session.planned)
    return f"{runs - missing} of {runs} runs and {swept} of {len(stream_counts.SCENES)} scenes of stream counts are there"


def _session(options: argparse.Namespace, emulator: Path, repeats: int) -> DecisionsRun:
    specification = load_toml(DATASETS / f"{SPECIFICATION}.toml", Specification)
    dataset = load_dataset(options.data)
    try:
        model = find_model(options.model).label
    except NoModelError as error:
        model = None
        print(f"our policy will be the safe default all the time: {error}", file=sys.stderr)
    matrix = sealed_matrix(load_sealed().of(options.sealed).paths) if options.sealed else FULL if options.full else SUBSET
    prints = fingerprints(options.mover, emulator, options.model, dataset.sha256)
    code = joined(prints.values())
    if options.sealed:
        # All runs of a sealed set are by the same code, also those that the changed part would not have mattered to.
        prints = dict.fromkeys(Policy, code)
    extra = (Policy.ONE_STREAM,) if options.one_stream else ()
    once = cells(matrix, known_paths(specification), prints, options.seconds, extra)
    planned = interleaved(once, repeats)
    paths = {cell.path_id: cell.path for cell in once}
    known = known_training(dataset, paths)
    unknown = {path_id: path for path_id, path in paths.items() if path_id not in known}
    recordings = recordings_of(unknown, specification, code if options.sealed else recordings_fingerprint(emulator))
    wanted = [cell for cell in once if not options.only or ("stationary" if cell.scene.stationary else "changing") in options.only]
    chosen = matching(wanted, options.cell) if wanted else ()
    asked = tuple(cell for cell in planned if replace(cell, number=1) in chosen)
    sweep = stream_counts.WHOLE if options.full or options.sealed else stream_counts.QUICK
    programs = joined([prints[Policy.OURS], *map(program_digest, stream_counts.sources())])
    opened, folder = None, options.folder
    digest = measured([*planned, *recordings], stream_counts.key(sweep, programs)) if options.sealed or options.kept else ""
    # Before an opening is logged: one that goes on with these runs is none.
    kept = read_kept(options.kept, digest) if options.kept else None
    if options.sealed:
        opened = log_opening(options.sealed, "decisions", options.reason, digest, options.kept)
        # Runs of another opening stay what they are.
        folder = options.folder / f"{options.sealed}-{digest[:12]}"
    return DecisionsRun(
        options,
        specification,
        matrix,
        planned,
        asked,
        known,
        recordings,
        dataset,
        sweep,
        programs,
        model,
        repeats,
        opened,
        kept=kept,
        folder=folder,
        code=code,
    )


def _carry_over(session: DecisionsRun, kept: Kept) -> None:
    """Keeps what this machine's folder alone has, as after a call that was killed; what is kept of stream counts goes into the folder."""
    runs: list[Cell | TrainingRecording] = [*session.recordings, *session.planned]
    for run in runs:
        if is_recorded(run, session.folder):
            kept.add(run, session.folder / RUNS / run.name)
    for scene, rows in kept.scenes().items():
        stream_counts.write_rows(session.folder, scene, session.sweep, session.programs, rows)
    _keep_scenes(session)


def _keep_scenes(session: DecisionsRun) -> None:
    if session.kept is not None:
        for scene, rows in stream_counts.read_rows(session.folder, session.sweep, session.programs).items():
            session.kept.add_scene(scene, rows)


async def _measure(session: DecisionsRun, bench: CellLab) -> bool:
    """Whether everything that was asked for is there at the end."""
    options = session.options
    budget = replace(BUDGET, cores=bearable_cores(BUDGET.cores, options.cores), runs=options.side_by_side)
    ends_s = None if options.minutes is None else time.monotonic() + options.minutes * 60

    async def recorder(run: Any, folder: Path, number: int) -> Any:
        if isinstance(run, TrainingRecording):
            verdict = await record(run.scenario, folder, RecordingLab(bench.emulator, priorities=bench.priorities), number)
        else:
            verdict = await run_cell(run, folder, bench, number)
        # Each run starts programs of its own: one that was built or edited meanwhile is in it.
        now = await asyncio.to_thread(fingerprints, options.mover, bench.emulator, options.model, session.dataset.sha256)
        if joined(now.values()) != session.code:
            shutil.rmtree(folder, ignore_errors=True)
            raise CommandUsageError(f"{run.name}: programs or sources were changed while it ran: undo that, or begin anew with them")
        if session.kept is not None and not verdict.faults:
            await asyncio.to_thread(session.kept.add, run, folder)
        return verdict

    async def record_all(wanted: Sequence[Cell | TrainingRecording]) -> BatchState:
        left_s = None if ends_s is None else ends_s - time.monotonic()
        rules = BatchRules(budget, stop_after_s=left_s, keep_disturbed=options.keep_disturbed, as_given=True)
        return await generate(wanted, session.folder, recorder, rules, BatchProgress(len(wanted), budget, sys.stderr))

    blocks = [[cell for cell in session.cells if cell.number == number] for number in range(1, session.repeats + 1)]
    missing = [[cell.scenario for cell in block if not session.has(cell)] for block in blocks]
    to_record = session.to_record()
    to_do_s = sum(estimate_s(batch, budget) for batch in ([one.scenario for one in to_record], *missing))
    there = f"{len(session.cells) - sum(map(len, missing))} of {len(session.cells)} runs are there"
    and_recordings = f", and {len(to_record)} training recordings are missing" if to_record else ""
    print(f"{there}{and_recordings}; to do: {duration(to_do_s) if to_do_s else 'nothing'}", file=sys.stderr)
    given_up: dict[str, str] = {}
    out_of_time = False
    if to_record:
        state = await record_all(to_record)
        given_up, out_of_time = dict(state.given_up), state.out_of_time
    bench = replace(bench, own_training=_save_own_training(session))
    # Block by block: a disturbed run is made again in its own, and those that go alone are not put off to the end of all.
    for block, lacking in zip(blocks, missing, strict=True):
        if lacking and not out_of_time:
            # Whose path lacks a recording waits for the next call.
            trained = [cell for cell in block if cell.policy is not Policy.PAPER_OWN_PATH or cell.path_id in bench.own_training]
            state = await record_all([cell for cell in trained if not session.has(cell)])
            given_up |= state.given_up
            out_of_time = state.out_of_time
    for name, faults in given_up.items():
        print(f"given up: {name}: {faults}", file=sys.stderr)
    if given_up:
        print("Is anything else running on this machine? The same command tries them again.", file=sys.stderr)
    complete = not given_up and not out_of_time
    # What these print is of no sealed path, but of the same advisor.
    ready = session.opened is None or not session.missing()
    if session.wants("parallelism") and not out_of_time and ready:
        try:
            await stream_counts.measure(session.folder, session.sweep, session.programs, partial(_keep_scenes, session))
        except LabError as error:
            print(f"decisions: {error}", file=sys.stderr)
            complete = False
    return complete


def _save_own_training(session: DecisionsRun) -> dict[str, Path]:
    """A file for the loop's agents on every path that has all of its training."""
    files = {}
    for path_id, training in session.own_training().items():
        files[path_id] = (session.folder / f"paper-{path_id}.npz").resolve()
        save_training(files[path_id], training)
    return files


def _rows(session: DecisionsRun) -> list[Row]:
    options = session.options
    outcomes = session.outcomes()
    paths = {cell.path_id: cell.path for cell in session.shown}
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **about_set(session.opened),
        "matrix": "sealed" if options.sealed else "full" if options.full else "subset",
        "repeats": session.repeats,
        "seconds": options.seconds or session.matrix.seconds,
        "runs": len(outcomes),
        "runs_planned": len(session.shown),
        "disturbed_too": options.keep_disturbed,
        "model": session.model,
        "mover": program_digest(options.mover)[:12],
        "data": session.dataset.sha256[:12],
        "machines": machines(outcomes),
        "paths": {
            path_id: {
                "rate_mbps": path.rate_bps / 1e6,
                "rtt_ms": path.rtt_ms,
                "queue_ms": round(path.full_queue_ms, 1),
                "loss_ratio": path.loss_ratio,
                "in_training": kind_of_path(path_id, session.specification),
                "own_path_training": "data set" if path_id in session.known else "recorded for it",
            }
            for path_id, path in paths.items()
        },
    }
    scenes = stream_counts.read_rows(session.folder, session.sweep, session.programs)
    further = {
        "cells_missing": len({(cell.path_id, cell.scene) for cell in session.shown if not session.has(cell)}),
        "repeats_counted": repeats_counted(groups(outcomes)),
        **_loaded_classification(session, outcomes),
        **stream_counts.figures(scenes),
    }
    return report.rows(outcomes, further, about, stream_counts.falcon_figures(scenes))


def _loaded_classification(session: DecisionsRun, outcomes: Sequence[CellOutcome]) -> dict[str, float | None]:
    try:
        model = find_model(session.options.model)
    except NoModelError:
        return {}
    traces = loaded_classification.watched_in(session.folder / RUNS) if session.kept is None else session.kept.trace
    return loaded_classification.figures(loaded_classification.replay(outcomes, traces, partial(classify_window, model)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
