"""`kubectl fairlead watch`: all jobs with a bar each, drawn again as they move; a line for each step where nobody looks at a screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, nullcontext
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fairlead.commands.explain.text import plain, size
from fairlead.plugin.cluster import Exit, Jobs, PluginError, Session, follow_jobs, told_again
from fairlead.plugin.columns import DrawnCell, FittedColumn, FittedTable, bar
from fairlead.plugin.output import Output, complain
from fairlead.plugin.summary import JobSummary, in_order, outcome_of, summary_of
from fairlead.plugin.why.cause import JobStanding

_COLUMNS: Final = (
    FittedColumn("NAMESPACE", least=12),
    FittedColumn("JOB", least=24),
    FittedColumn("PHASE"),
    FittedColumn("", least=8),
    FittedColumn("%", right=True),
    FittedColumn("BYTES", rank=3, right=True),
    FittedColumn("RATE", rank=2, right=True),
    FittedColumn("CAP", rank=4, right=True),
    FittedColumn("LEFT", rank=1, right=True),
    FittedColumn("TRANSPORT", rank=5),
    FittedColumn("WHY", least=24),
)
_STEP_PERCENT: Final = 10
_ROOM_FOR_REST: Final = 4
"""Lines of the screen that no job can have: headings, what is left out, and the prompt."""
_REDRAWS_PER_SECOND: Final = 2
_LOOK_AGAIN_SECONDS: Final = 2.0
"""An operator that does not answer shows in the time that passes alone."""
_STYLES: Final = {
    JobStanding.RUNNING: "green",
    JobStanding.SUCCEEDED: "green",
    JobStanding.FAILED: "red",
    JobStanding.BLOCKED: "red",
    JobStanding.NOT_SERVED: "red",
    JobStanding.TROUBLED: "yellow",
    JobStanding.RETRYING: "yellow",
    JobStanding.WAITING: "yellow",
}


async def watch(session: Session, output: Output, names: Sequence[str], *, once: bool) -> Exit:
    """Shows the jobs until it is interrupted; with `names` until all of these are settled. Raises PluginError if one does not exist."""
    screen, lines = _Screen(session, output), _Lines(output)
    seen: dict[str, JobSummary] = {}
    async with aclosing(_followed(session, names[0] if len(names) == 1 else None)) as followed:
        with Live(console=output.console, refresh_per_second=_REDRAWS_PER_SECOND) if output.is_live and not once else nullcontext() as live:
            async for jobs in followed:
                shown = _summaries(jobs, names, session.clock.now())
                if not seen:
                    _refuse_unknown(session, set(names) - {job.name for job in shown})
                # What is deleted after its end has ended all the same.
                seen |= {job.uid: job for job in shown if job.uid not in seen or not seen[job.uid].has_ended}
                if once:
                    _print_all(screen, output, shown)
                    return Exit.DONE
                if live is not None:
                    live.update(screen.drawn(shown))
                else:
                    lines.tell(shown)
                gone = seen.keys() - {job.uid for job in shown}
                if names and all(uid in gone or job.is_settled for uid, job in seen.items()):
                    return outcome_of(None if uid in gone and not job.has_ended else job for uid, job in seen.items())
    return Exit.DONE


async def wait_for(session: Session, output: Output, uid: str, name: str) -> JobSummary | None:
    """Shows one job until it is settled; None if it was deleted."""
    screen, lines = _Screen(session, output), _Lines(output)
    last: JobSummary | None = None
    async with aclosing(_followed(session, name)) as followed:
        with Live(console=output.console, refresh_per_second=_REDRAWS_PER_SECOND) if output.is_live else nullcontext() as live:
            async for jobs in followed:
                if uid not in jobs:
                    return last if last is not None and last.has_ended else None
                last = summary_of(jobs[uid], session.clock.now())
                if live is not None:
                    live.update(screen.drawn([last]))
                else:
                    lines.tell([last])
                if last.is_settled:
                    return last
    raise asyncio.CancelledError


def _refuse_unknown(session: Session, unknown: set[str]) -> None:
    if unknown:
        names = ", ".join(sorted(unknown))
        raise PluginError(f"there is no TransferJob {names} in namespace {session.namespace}: give -n NAMESPACE for another")


def _followed(session: Session, name: str | None) -> AsyncGenerator[Jobs, None]:
    return told_again(follow_jobs(session, name=name, on_trouble=complain), _LOOK_AGAIN_SECONDS)


def _summaries(jobs: Jobs, names: Sequence[str], now: datetime) -> list[JobSummary]:
    return in_order(summary_of(job, now) for job in jobs.values() if not names or job.metadata.name in names)


def _print_all(screen: _Screen, output: Output, jobs: Sequence[JobSummary]) -> None:
    if output.as_json:
        output.document({"version": 1, "jobs": [job.to_object() for job in jobs]})
    elif not jobs:
        output.line(screen.nothing)
    else:
        output.show(table_of(jobs, with_namespace=screen.with_namespace))


class _Screen:
    """The picture of all jobs, as high as the terminal at most."""

    def __init__(self, session: Session, output: Output) -> None:
        self._output = output
        self.with_namespace = session.scope is None
        where = "the cluster" if session.scope is None else f"namespace {session.scope}"
        self.nothing = f"there are no TransferJobs in {where}"

    def drawn(self, jobs: Sequence[JobSummary]) -> RenderableType:
        """The jobs that there is room for."""
        if not jobs:
            return Text(self.nothing)
        room = max(1, self._output.console.height - _ROOM_FOR_REST)
        table = table_of(jobs[:room], with_namespace=self.with_namespace)
        return table if len(jobs) <= room else Group(table, Text(f"and {len(jobs) - room} more"))


class _Lines:
    """A line for each step of a job: a new phase, another reason, ten per cent more."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told: dict[str, tuple[object, ...]] = {}

    def tell(self, jobs: Iterable[JobSummary]) -> None:
        """Prints those that are a step further than when they were last told."""
        for job in jobs:
            step = (job.phase, job.state, job.reason, (job.percent or 0) // _STEP_PERCENT)
            if self._told.get(job.uid) == step:
                continue
            self._told[job.uid] = step
            if self._output.as_json:
                self._output.record(job.to_object())
            else:
                self._output.line(line_of(job))


def line_of(job: JobSummary) -> str:
    """The job as a line of text."""
    parts = [f"{job.namespace}/{job.name}", job.phase]
    parts += [f"{job.percent} %"] if job.percent is not None else []
    parts += [f"{job.rate} bit/s"] if job.rate else []
    parts += [f"{job.eta} left"] if job.eta else []
    return f"{' '.join(parts)}: {plain(job.because)} ({job.reason})"


def table_of(jobs: Sequence[JobSummary], *, with_namespace: bool) -> FittedTable:
    """The jobs with a bar each."""
    rows = [_cells(job) for job in jobs]
    return FittedTable(_COLUMNS, rows) if with_namespace else FittedTable(_COLUMNS[1:], [row[1:] for row in rows])


def _cells(job: JobSummary) -> list[DrawnCell]:
    style = _STYLES.get(job.state, "cyan")
    return [
        Text(job.namespace),
        Text(job.name),
        Text(job.phase, style),
        bar((job.percent or 0) / 100, style),
        Text("" if job.percent is None else f"{job.percent}"),
        Text(f"{size(job.bytes_transferred)}/{size(job.bytes_total)}" if job.bytes_total is not None else ""),
        Text(plain(job.rate or "")),
        Text(plain(job.cap or "")),
        Text(plain(job.eta or "")),
        Text(plain(f"{job.congestion_control} x{job.streams}" if job.congestion_control else "")),
        Text(plain(job.because) if job.state is not JobStanding.SUCCEEDED else ""),
    ]
