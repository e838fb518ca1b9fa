"""Runs spread over processes, each of which has an API server of its own: what one operator does is seen by no other one."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fairlead_dev.stopping import exit_code, stoppable
from faults.bed import HERE, Bed, ForkServer
from faults.places import own_bed
from faults.plans import Plan, read_plan
from faults.runs import Trace, run
from faults.workloads import WORKLOADS

T = TypeVar("T")

SCRIPT = HERE.parent / "fault_suite.py"
_LONGEST_LINE = 16 << 20
_LOG_LINES = 40


@dataclass(frozen=True)
class Verdict:
    """What came of a plan."""

    plan: Plan
    problems: tuple[str, ...]
    reached: bool
    seconds: float
    log: str
    of_this_suite: bool = True
    """Whether the present suite gave it, and not an earlier one."""

    @property
    def converged(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems


def serve_as_worker(serve: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Serves until standard input ends, or until SIGTERM ends what is under way; the exit code."""
    # An interruption is for the parent, which passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def until_the_end() -> int:
        stoppable(serve())
        return 0

    return exit_code("worker", until_the_end)


async def serve() -> None:
    """Carries out what the lines of standard input ask for, until they end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with tempfile.TemporaryDirectory(prefix="fairlead-faults-") as folder:
        async with own_bed(Path(folder)) as bed:
            print(json.dumps("ready"), flush=True)
            while line := await reader.readline():
                asked = json.loads(line)
                plan = read_plan(asked["plan"]) if asked["plan"] else None
                usual = Trace.from_json(asked["usual"]) if asked["usual"] else None
                async with _with_package(bed, asked["package"]) as used:
                    outcome = await run(used, WORKLOADS[asked["workload"]], plan, usual)
                log = outcome.log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if outcome.problems else []
                answer = {"trace": outcome.trace.to_json(), "problems": outcome.problems, "reached": outcome.reached}
                print(json.dumps({**answer, "seconds": outcome.seconds, "log": "\n".join(log)}), flush=True)


@asynccontextmanager
async def _with_package(bed: Bed, folder: str) -> AsyncIterator[Bed]:
    """The bed with operators of the package in a folder; as it is without one."""
    if not folder:
        yield bed
        return
    forkserver = ForkServer(Path(folder))
    try:
        await forkserver.start()
        yield replace(bed, forkserver=forkserver)
    finally:
        await forkserver.stop()


class Worker:
    """A process that carries out one run at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, workload: str, plan: Plan | None = None, usual: Trace | None = None, package: str = "") -> dict[str, Any]:
        """Has it carry out a run."""
        asked = {"workload": workload, "plan": str(plan) if plan else "", "usual": usual.to_json() if usual else None, "package": package}
        answer: dict[str, Any] = await self.tell(asked)
        return answer

    async def tell(self, asked: Any) -> Any:
        """What it answers to that."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        """Its next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("a worker ended: its message is above")
        return json.loads(line)


class Crew:
    """Several workers, which take the next thing to do as they become free."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers

    async def record(self, workloads: Iterable[str], note: Callable[[str], None] = lambda line: None) -> dict[str, Trace]:
        """What each workload does without a fault. One that goes wrong without one is told to `note`, and is left out."""
        traces: dict[str, Trace] = {}

        async def one(worker: Worker, workload: str) -> None:
            first, second = [await worker.ask(workload) for _ in range(2)]
            problems = [*first["problems"], *second["problems"]]
            trace, again = Trace.from_json(first["trace"]), Trace.from_json(second["trace"])
            if problems or trace.state != again.state:
                note(f"{workload}: FAILED: {'; '.join(problems) or 'two runs ended differently'}\n{first['log']}")
                return
            traces[workload] = Trace(trace.seen, trace.state, trace.warnings | again.warnings, max(trace.seconds, again.seconds))
            note(f"{workload}: {first['seconds']:.1f} s, {trace.writes} writes")

        await self.spread(list(workloads), one)
        return traces

    async def carry_out(self, plans: Sequence[Plan], usual: dict[str, Trace], note: Callable[[Verdict], bool]) -> None:
        """Runs the plans. `note` gets what came of each, and says whether to go on."""
        goes_on = True

        async def one(worker: Worker, plan: Plan) -> None:
            nonlocal goes_on
            if goes_on:
                answer = await worker.ask(plan.workload, plan, usual[plan.workload])
                verdict = Verdict(plan, tuple(answer["problems"]), answer["reached"], answer["seconds"], answer["log"])
                goes_on = note(verdict) and goes_on

        await self.spread(plans, one)

    async def spread(self, items: Sequence[T], do: Callable[[Worker, T], Awaitable[None]]) -> None:
        """Has each item done by the worker that is free next."""
        waiting = iter(items)

        async def work(worker: Worker) -> None:
            for item in waiting:
                await do(worker, item)

        await asyncio.gather(*map(work, self._workers))


@asynccontextmanager
async def crew(count: int, script: Path = SCRIPT) -> AsyncIterator[Crew]:
    """Starts so many workers, each a process of `script worker`."""
    async with AsyncExitStack() as stack:
        workers = []
        for _ in range(count):
            pipe = asyncio.subprocess.PIPE
            command = (sys.executable, str(script), "worker")
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE)
            stack.push_async_exit(partial(_end, process))
            workers.append(Worker(process))
        for worker in workers:
            await worker.answer()
        yield Crew(workers)


async def _end(process: asyncio.subprocess.Process, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
    assert process.stdin is not None
    if kind is None:
        process.stdin.close()
    else:
        # It may be in the middle of a run, and nobody waits for what comes of it.
        with suppress(ProcessLookupError):
            process.terminate()
    await process.wait()
