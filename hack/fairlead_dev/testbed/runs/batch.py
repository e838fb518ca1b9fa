"""Records many scenarios, several side by side; what is there already is kept, what was disturbed is repeated."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.testbed.runs.packing import Budget, cost_cores, next_to_start
from fairlead_dev.testbed.runs.quality import QualityVerdict
from fairlead_dev.testbed.runs.record import MANIFEST, RecordingLab, length_s, record, scenario_digest
from fairlead_dev.testbed.scenario.expand import derived_seed
from fairlead_dev.testbed.scenario.model import Scenario


class Recordable(Protocol):
    """A scenario with the name of its folder."""

    @property
    def name(self) -> str:
        """The folder's name."""

    @property
    def scenario(self) -> Scenario:
        """What is to be run."""


@dataclass(frozen=True, slots=True)
class Named:
    """A scenario recorded under its own name."""

    scenario: Scenario

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.scenario.name


_R = TypeVar("_R", bound=Recordable)

RUNS = "runs"
ATTEMPTS = "attempts.jsonl"
LARGE_CORES = 0.4
"""A run that takes as much leaves room for few others."""


@dataclass(slots=True)
class BatchState:
    """How far a generation is; `given_up` names runs that were disturbed every time."""

    waiting: list[Recordable]
    running: dict[str, Recordable] = field(default_factory=dict)
    done: int = 0
    repeated: int = 0
    given_up: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


@dataclass(frozen=True, slots=True)
class BatchRules:
    """How to go about it. `stop_after_s`: start nothing that would not be finished by then (None: no limit).

    `keep_disturbed`: what is disturbed at the last attempt stays, with its verdict; for trying things out on a busy machine.
    """

    budget: Budget
    attempts: int = 3
    stop_after_s: float | None = None
    keep_disturbed: bool = False
    as_given: bool = False
    """In the plan's own order, where that is part of the experiment; else the longest work first, the rest mixed."""


def is_recorded(run: Recordable, folder: Path, *, disturbed_too: bool = False) -> bool:
    """Whether `folder` holds a good recording of exactly this run, or with `disturbed_too` any recording of it."""
    try:
        manifest = json.loads((folder / RUNS / run.name / MANIFEST).read_text())
        return (disturbed_too or bool(manifest["verdict"]["good"])) and manifest["scenario_digest"] == scenario_digest(run.scenario)
    except (OSError, ValueError, KeyError, TypeError):
        return False


Recorder = Callable[[Recordable, Path, int], Coroutine[Any, Any, QualityVerdict]]
"""Records a run into a folder; the number identifies a run among those under way. LabError if it could not be run to its end."""


def recorder(bench: RecordingLab) -> Recorder:
    """Records on this machine."""
    return lambda run, folder, number: record(run.scenario, folder, bench, number)


async def generate(
    plan: Sequence[Recordable], folder: Path, recorder: Recorder, rules: BatchRules, watch: Callable[[BatchState], None]
) -> BatchState:
    """Record what is missing and return how it ended; `watch` is called about every second.

    Cancelling ends the runs under way and leaves nothing of them. Raises UsageError if another generation is at work on `folder`.
    """
    with _alone_on(folder):
        _remove_leftovers(folder)
        return await _generate(plan, folder, recorder, rules, watch)


@contextmanager
def _alone_on(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandUsageError(f"{folder}: another generation is at work on it: wait for its end or name another folder") from None
        yield


def _remove_leftovers(folder: Path) -> None:
    """What a killed generation was writing."""
    for leftover in (folder / RUNS).glob(".*"):
        shutil.rmtree(leftover, ignore_errors=True)


def in_order(plan: Sequence[_R]) -> list[_R]:
    """The order of recording: the longest work first, or it would be left to the end alone; the rest is mixed.

    What is there after some minutes is then of all paths and classes, and fast and slow runs go side by side.
    """
    return sorted(plan, key=lambda run: (cost_cores(run.scenario) < LARGE_CORES, derived_seed(0, run.name)))


async def _generate(
    plan: Sequence[Recordable], folder: Path, recorder: Recorder, rules: BatchRules, watch: Callable[[BatchState], None]
) -> BatchState:
    ordered = plan if rules.as_given else in_order(plan)
    waiting = [run for run in ordered if not is_recorded(run, folder, disturbed_too=rules.keep_disturbed)]
    generation = _Generation(folder, recorder, rules, watch, BatchState(waiting, done=len(plan) - len(waiting)))
    return await generation.go()


class _Generation:
    def __init__(self, folder: Path, recorder: Recorder, rules: BatchRules, watch: Callable[[BatchState], None], state: BatchState) -> None:
        self._folder = folder
        self._recorder = recorder
        self._rules = rules
        self._watch = watch
        self._state = state
        self._numbers = itertools.count()
        self._attempts: dict[str, int] = {}
        self._began_s = time.monotonic()

    async def go(self) -> BatchState:
        state = self._state
        tasks: dict[asyncio.Task[QualityVerdict], Recordable] = {}
        try:
            while True:
                while (run := self._next()) is not None:
                    state.running[run.name] = run
                    recording = self._recorder(run, self._folder / RUNS / run.name, next(self._numbers))
                    tasks[asyncio.create_task(recording)] = run
                self._watch(state)
                if not tasks:
                    return state
                finished, _ = await asyncio.wait(tasks, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    self._settle(tasks.pop(task), task)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _next(self) -> Recordable | None:
        state, limit_s = self._state, self._rules.stop_after_s
        left_s = float("inf") if limit_s is None else limit_s - (time.monotonic() - self._began_s)
        in_time = [run for run in state.waiting if length_s(run.scenario) <= left_s]
        state.out_of_time = len(in_time) < len(state.waiting)
        running = [run.scenario for run in state.running.values()]
        index = next_to_start([run.scenario for run in in_time], running, self._rules.budget)
        if index is None:
            return None
        state.waiting.remove(in_time[index])
        return in_time[index]

    def _settle(self, run: Recordable, task: asyncio.Task[QualityVerdict]) -> None:
        state = self._state
        del state.running[run.name]
        try:
            faults = task.result().faults
        except LabError as error:
            faults = (str(error),)
        attempt = self._attempts[run.name] = self._attempts.get(run.name, 0) + 1
        with (self._folder / ATTEMPTS).open("a") as log:
            log.write(json.dumps({"run": run.name, "attempt": attempt, "good": not faults, "faults": list(faults)}) + "\n")
        if not faults:
            state.done += 1
            return
        last = attempt >= self._rules.attempts
        if not (last and self._rules.keep_disturbed):
            # A disturbed recording must not be taken for a good one by anybody who lists the folder.
            shutil.rmtree(self._folder / RUNS / run.name, ignore_errors=True)
        if not last:
            state.repeated += 1
            state.waiting.append(run)
        else:
            state.given_up[run.name] = "; ".join(faults)
