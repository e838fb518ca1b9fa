"""What is measured of one operator under load, part by part."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from control_plane import ControlPlane
from lab import fairness_policy

from fairlead.handlers.timings import Timings
from fairlead.kube.client import POLICIES, KubeObject
from fairlead_dev.bench.lab.rates import percentile
from fairlead_dev.bench.rows import Goal, Row
from load.cluster import LoadedCluster
from load.operator import LoadedOperator, operator, quantile
from load.processors import ProcessorTimes

ACCOUNT = "system:serviceaccount:fairlead-system:fairlead"
LONGEST_SECONDS = 3600.0
WATCHED_SECONDS = 60.0
TOLD_SECONDS = 30.0
STARTED_SECONDS = 30.0
"""For so long after the last start its events may still be written."""
QUIET_SECONDS = 3.0
"""Without a write for so long, the operator has done all that it had to do."""
CAPACITY_BPS, LOWER_BPS = 100e9, 50e9
MOST_INTERFACES_OF_LINK = 32
TAKEOVERS = 3
PLACED_GOAL = 5000
LIVE_GOAL = 10_000
"""Live jobs that one operator is to hold; the row of its memory then has the name of the goal."""
_RECONCILE = "fairlead_operator_reconcile_duration_seconds"
_UNANSWERED, _SILENT = "fairlead_operator_report_failures_total", "fairlead_operator_polls_silent"
_FIGURES = (f"{_RECONCILE}_bucket", f"{_RECONCILE}_count", _UNANSWERED, _SILENT)
_WRITES = ("create", "update", "patch", "delete")


@dataclass(frozen=True)
class LoadLab:
    """One API server with everything in it but the operator."""

    plane: ControlPlane
    cluster: LoadedCluster
    namespaces: list[str]
    flags: dict[str, str]
    folder: Path

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[LoadedOperator]:
        """An operator that leads."""
        async with operator(self.flags, self.folder / "operator.log") as made:
            await made.until("fairlead_operator_leading", 1, LONGEST_SECONDS)
            yield made

    def requests(self, since: int) -> tuple[Counter[str], int]:
        """What the operator asked for since a position in the audit log, by verb and resource, and the position at its end."""
        found: Counter[str] = Counter()
        end = since
        for entry, position in self.plane.audit_from(since):
            end = position
            of, what = entry["user"]["username"], entry.get("objectRef") or {}
            if of == ACCOUNT:
                found["/".join(filter(None, (entry["verb"], what.get("resource"), what.get("subresource"))))] += 1
        return found, end

    async def quiet(self, since: int) -> int:
        """Waits until the operator writes no more, and returns the position in the audit log since which it did not."""
        _, last = self.requests(since)
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            found, now = self.requests(last)
            if not writes_of(found):
                return last
            last = now

    def processors(self, operator: LoadedOperator) -> ProcessorTimes:
        """The processor time of all that this machine runs for the bench, from now on."""
        servers = {name.removeprefix("kube-"): pid for name, pid in self.plane.pids().items()}
        return ProcessorTimes({"operator": operator.pid, **servers, "bench": os.getpid()})


def writes_of(requests: Counter[str]) -> Counter[str]:
    """Those that change something, renewals of the Lease apart."""
    return Counter({kind: number for kind, number in requests.items() if kind.startswith(_WRITES) and "/leases" not in kind})


def reads_of(requests: Counter[str]) -> Counter[str]:
    """Reads and lists of objects; a watch is one request however long it lasts."""
    return Counter({kind: number for kind, number in requests.items() if kind.startswith(("get/", "list/")) and "/leases" not in kind})


async def throughput(lab: LoadLab, operator: LoadedOperator, count: int) -> list[Row]:
    """Jobs that end as soon as their movers run, created at once."""
    cluster = lab.cluster
    cluster.may_end.set()
    before = await lab.quiet(0)
    passes_before = (await operator.figures(*_FIGURES)).sum(f"{_RECONCILE}_count")
    processors, begun_s = lab.processors(operator), asyncio.get_running_loop().time()
    uids = await cluster.create_jobs(lab.namespaces, count)
    await cluster.all_in(uids, "Succeeded", "Failed", timeout_seconds=LONGEST_SECONDS)
    spent, cores = processors.spent(), processors.cores()
    failed = sum(cluster.phases[uid] == "Failed" for uid in uids)
    times = [cluster.times[uid] for uid in uids]
    seconds = max(each.succeeded_s or begun_s for each in times) - begun_s
    await cluster.all_released(uids, timeout_seconds=LONGEST_SECONDS)
    await lab.quiet(before)
    asked, _ = lab.requests(before)
    passes = (await operator.figures(*_FIGURES)).sum(f"{_RECONCILE}_count") - passes_before
    first = [each.first_write_s - each.created_s for each in times if each.first_write_s is not None]
    more = {"jobs": count, "nodes": cluster.nodes, "namespaces": len(lab.namespaces), "failed": failed}
    written, read = writes_of(asked), reads_of(asked)
    return [
        goal_row("jobs_per_s", count / seconds, "jobs/s", 43.0, Goal("at_least", 43, "value"), more),
        *(
            Row(f"{name}_cpu_s_per_job", round(cpu / count, 4), "s", more=more | {"cores": round(cores[name], 3)})
            for name, cpu in spent.items()
        ),
        goal_row("first_write_s_p99", percentile(first, 0.99), "s", 2.0, Goal("at_most", 2, "value"), more),
        goal_row("writes_per_job", written.total() / count, "writes", 14.0, Goal("at_most", 14, "value"), more | _by_kind(written, count)),
        Row("passes_per_job", round(passes / count, 2), "passes", more=more),
        Row("reads_per_job", round(read.total() / count, 2), "reads", more=more | _by_kind(read, count)),
    ]


async def live(lab: LoadLab, operator: LoadedOperator, count: int) -> list[Row]:
    """Transfers that go on: what passes take, what the operator holds and what it costs, watched for a minute that begins when the last
    one has transferred for some time. What passes take while all these start is told apart.
    """
    cluster = lab.cluster
    cluster.may_end.clear()
    begun = await operator.figures(*_FIGURES)
    placed_s = await _until_all_transfer(lab, count, first=100_000)
    starting = await operator.figures(*_FIGURES)
    starting_p99 = quantile(begun.buckets(_RECONCILE), starting.buckets(_RECONCILE), 0.99)
    await asyncio.sleep(STARTED_SECONDS)
    _, entries = lab.requests(0)
    before, processors, answers_before = await operator.figures(*_FIGURES), lab.processors(operator), cluster.movers.answers
    await asyncio.sleep(WATCHED_SECONDS)
    after, cores = await operator.figures(*_FIGURES), processors.cores()
    answered = (cluster.movers.answers - answers_before) / WATCHED_SECONDS
    p99 = quantile(before.buckets(_RECONCILE), after.buckets(_RECONCILE), 0.99)
    more = {"live_jobs": count, "nodes": cluster.nodes, "watched_seconds": WATCHED_SECONDS}
    passes = after.sum(f"{_RECONCILE}_count") - before.sum(f"{_RECONCILE}_count")
    unheard = {"unanswered": after.sum(_UNANSWERED) - before.sum(_UNANSWERED), "silent": after.sum(_SILENT)}
    asked, _ = lab.requests(entries)
    read, written = (of(asked).total() / WATCHED_SECONDS for of in (reads_of, writes_of))
    rss = operator.memory_bytes()
    return [
        Row("all_transferring_s", round(placed_s, 1), "s", more=more | {"failed_attempts": dict(Counter(cluster.failures.values()))}),
        Row("starting_reconcile_p99_ms", round(1e3 * (starting_p99 or 0.0), 3), "ms", more=more),
        goal_row("reconcile_p99_ms", 1e3 * (p99 or 0.0), "ms", 250.0, Goal("at_most", 250, "value"), more | {"passes": passes}),
        Row("mover_answers_per_s", round(answered, 1), "answers/s", more=more | unheard),
        Row(
            "live_requests_per_s",
            round(read + written, 2),
            "requests/s",
            more=more | {"reads": round(read, 2), "writes": round(written, 2)},
        ),
        *(Row(f"live_{name}_cpu_ratio", round(ratio, 3), "cores", more=more) for name, ratio in cores.items()),
        goal_row("rss_10k_bytes", rss, "bytes", 3e8, Goal("at_most", 3e8, "value"), more)
        if count == LIVE_GOAL
        else Row("rss_live_bytes", rss, "bytes", more=more),
        Row("rss_per_live_job_bytes", round(rss / count), "bytes", more=more),
    ]


async def cap_fall(lab: LoadLab) -> list[Row]:
    """A link of all live jobs whose capacity is halved: until the lower cap stands at each sender."""
    cluster, loop = lab.cluster, asyncio.get_running_loop()
    await cluster.client.create(POLICIES, None, _policy(cluster, CAPACITY_BPS))
    async with asyncio.timeout(LONGEST_SECONDS):
        while not cluster.caps or any(change.bps == float("inf") for change in cluster.caps.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await _settled(cluster)
    before = {uid: change.bps for uid, change in cluster.caps.items()}
    lowered_s = loop.time()
    await cluster.client.merge_patch(POLICIES, None, "load", {"spec": _policy(cluster, LOWER_BPS)["spec"]})
    async with asyncio.timeout(LONGEST_SECONDS):
        while any(cluster.caps[uid].bps >= bps for uid, bps in before.items() if uid in cluster.caps):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    seconds = [cluster.caps[uid].at_s - lowered_s for uid in before if uid in cluster.caps]
    await cluster.client.delete(POLICIES, None, "load")
    more = {"senders": len(seconds)}
    return [goal_row("cap_fall_s_p99", percentile(seconds, 0.99), "s", 3.0, Goal("at_most", 3, "value"), more)]


async def cold_start(lab: LoadLab, count: int) -> list[Row]:
    """A new operator beside live jobs, until it has looked at every one of them."""
    begun_s = asyncio.get_running_loop().time()
    async with lab.operator() as fresh:
        await fresh.until(f"{_RECONCILE}_count", count, LONGEST_SECONDS)
        seconds = asyncio.get_running_loop().time() - begun_s
    return [goal_row("cold_start_s", seconds, "s", 120.0, Goal("at_most", 120, "value"), {"live_jobs": count})]


async def takeover(lab: LoadLab) -> list[Row]:
    """An operator that is killed beside a standby: until the standby has written to a job that was created in that moment. The worst of
    some.
    """
    seconds: list[float] = []
    async with AsyncExitStack() as stack:

        async def begin(place: int, least: float) -> LoadedOperator:
            made = await stack.enter_async_context(operator(lab.flags, lab.folder / "operator.log", place))
            await made.until("fairlead_operator_leading", least, LONGEST_SECONDS)
            return made

        leader = await begin(0, 1)
        for number in range(TAKEOVERS):
            standby = await begin((number + 1) % 2, 0)
            killed_s = asyncio.get_running_loop().time()
            await leader.kill()
            [uid] = await lab.cluster.create_jobs(lab.namespaces, 1, first=200_000 + number)
            await lab.cluster.all_written([uid], timeout_seconds=LONGEST_SECONDS)
            seconds.append((lab.cluster.times[uid].first_write_s or killed_s) - killed_s)
            leader = standby
    more: dict[str, object] = {"runs": [round(each, 3) for each in seconds], "live_jobs": len(lab.cluster.phases)}
    return [goal_row("takeover_s", max(seconds), "s", 15.0, Goal("at_most", 15, "value"), more)]


async def idle(lab: LoadLab, count: int) -> list[Row]:
    """Finished jobs alone: what is written in a minute, after all is over. That is when the operator has also removed once more what the
    one before it may have asked for late.
    """
    cluster, loop = lab.cluster, asyncio.get_running_loop()
    cluster.may_end.set()
    async with lab.operator():
        led_s = loop.time()
        await cluster.all_in([*cluster.phases], "Succeeded", "Failed", timeout_seconds=LONGEST_SECONDS)
        await cluster.all_released([*cluster.phases], timeout_seconds=LONGEST_SECONDS)
        await asyncio.sleep(max(led_s + Timings().late_request_seconds - loop.time(), 0))
        entries = await lab.quiet(0)
        await asyncio.sleep(WATCHED_SECONDS)
        asked, _ = lab.requests(entries)
    written = writes_of(asked).total()
    renewals = sum(number for kind, number in asked.items() if kind == "patch/leases")
    more = {"finished_jobs": count, "watched_seconds": WATCHED_SECONDS, "renewals_of_the_lease": renewals}
    return [Row("idle_writes", float(written), "writes", more=more, goal=Goal("at_most", 0, "value"))]


async def placed(lab: LoadLab, count: int) -> list[Row]:
    """Many jobs that are created at once and transfer on: until the movers of every one run, and what the operator holds then."""
    lab.cluster.may_end.clear()
    async with lab.operator() as operator:
        seconds = await _until_all_transfer(lab, count, first=300_000)
        rss = operator.memory_bytes()
    more: dict[str, object] = {"nodes": lab.cluster.nodes, "finished_jobs": len(lab.cluster.phases) - count}
    name, goal = f"placed_{count}_s", Goal("at_most", 300, "value")
    row = goal_row(name, seconds, "s", 300.0, goal, more) if count == PLACED_GOAL else Row(name, round(seconds, 3), "s", more=more)
    return [row, Row(f"rss_placed_{count}_bytes", rss, "bytes", more=more)]


async def _until_all_transfer(lab: LoadLab, count: int, first: int) -> float:
    """Seconds from the creation of jobs until the movers of every one run."""
    cluster, loop = lab.cluster, asyncio.get_running_loop()
    begun_s = loop.time()
    telling = asyncio.create_task(_tell(cluster, begun_s))
    try:
        uids = await cluster.create_jobs(lab.namespaces, count, first=first)
        await cluster.all_in(uids, "Transferring", timeout_seconds=LONGEST_SECONDS)
    finally:
        telling.cancel()
    return loop.time() - begun_s


async def _tell(cluster: LoadedCluster, begun_s: float) -> None:
    """Says every so often how far all jobs are: thousands take the better part of an hour."""
    while True:
        await asyncio.sleep(TOLD_SECONDS)
        phases = Counter(phase or "new" for phase in cluster.phases.values())
        told = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
        print(f"after {asyncio.get_running_loop().time() - begun_s:.0f} s: {told}", file=sys.stderr, flush=True)


async def _settled(cluster: LoadedCluster) -> None:
    """Waits until no cap has changed for some seconds."""
    loop = asyncio.get_running_loop()
    while loop.time() - max(change.at_s for change in cluster.caps.values()) < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _by_kind(requests: Counter[str], count: int) -> dict[str, object]:
    return {"by_kind": {kind: round(number / count, 2) for kind, number in sorted(requests.items())}}


def _policy(cluster: LoadedCluster, capacity_bps: float) -> KubeObject:
    interfaces = [{"node": cluster.node(number), "name": "data0", "direction": "Transmit"} for number in range(0, cluster.nodes, 2)]
    parts = [interfaces[first : first + MOST_INTERFACES_OF_LINK] for first in range(0, len(interfaces), MOST_INTERFACES_OF_LINK)]
    links = [
        {"name": f"out-{number}", "interfaces": part, "capacity": f"{capacity_bps * len(part) / len(interfaces) / 1e9:g}G", "headroom": "0"}
        for number, part in enumerate(parts)
    ]
    return fairness_policy("load", links=links)


def goal_row(name: str, value: float, unit: str, reference: float, goal: Goal, more: dict[str, object]) -> Row:
    """A row that is held to its goal, beside the figure that this follows from."""
    return Row(name, round(value, 3), unit, reference, round(value / reference, 3), more=more, goal=goal)
