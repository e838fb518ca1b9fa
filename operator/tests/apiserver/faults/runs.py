"""One run of a workload beside the proxy, and what is to be said of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from fairlead.handlers.timings import Timings
from fairlead.kube.client import DTNS, EVENTS, JOBS, PATHS, PODS, POLICIES, SECRETS
from fairlead.kube.errors import NotFoundError
from faults.bed import Bed, OperatorProcess
from faults.plans import Fault, Plan
from faults.proxy import WRITES, FaultProxy, general_name
from faults.workloads import Stage, Workload
from faults.world import World, attempt_of, role_of

LOOK_SECONDS = 0.02
PATIENCE_LOOKS = 6000
"""How often the end of a run is looked for, two minutes together: many times as long as a run takes without a fault, and longer than
everything that the operator waits for. A pause of the machine is one look."""
LOOKS_BETWEEN_STATES = 25
"""The state takes requests of its own."""
QUIET_SECONDS = 1.0
"""How long nothing may be written once all is done: longer than anything that the operator does again and again in these runs."""
QUIET_BEFORE_RECORDED_SECONDS = 6.0
"""The same where the state is not known yet: an operator that gets no processor for a while may have more to write."""
WATCHED = {"transferjobs", "fairnesspolicies", "pods"}
PROXY_HOST, PROXY_PORT = "127.0.0.1", 17001
HEALTH = "http://127.0.0.1:18080/healthz"
IMPATIENT = Timings(
    request_seconds=2.0,
    watch_request_seconds=2.0,
    watch_seconds=60,
    watch_grace_seconds=1.0,
    watch_retry_seconds=0.3,
    watch_backoffs_seconds=(0.2, 0.3, 0.5, 1.0),
    login_pause_seconds=0.3,
    first_list_retry_seconds=0.3,
    sweep_retry_seconds=0.5,
    paths_list_seconds=3.0,
)
BLINDED = (Fault.DROPPED, Fault.SILENT)
"""What only the next list of everything, or the next watch, can show."""
SHORT_WATCH_SECONDS = 3
RESYNC_SECONDS, SOON_SECONDS = "60", "2.5"
"""The first is longer than a run: what a list would find must not need it, except after the faults that leave nothing else."""
MORE_WRITES = 12
"""By how much a fault may add to the writes of a run: passes that were begun anew."""
OF_SLOW_RUNS = frozenset({"CapExceeded", "MoversNotReady"})
"""What the operator may warn of where a run takes long: these movers know no caps, and on a busy machine they are late."""
UNSTEADY = ("CapEnforced", "ReportsBelieved")
"""Conditions that depend on how long a run takes."""
NEVER = ("Traceback (most recent call last)", "a defect of the operator")
"""What no log may have."""


@dataclass(frozen=True)
class Trace:
    """What a run did and where it ended."""

    seen: tuple[str, ...]
    state: Any
    warnings: frozenset[str]

    @property
    def writes(self) -> int:
        """How often the operator wrote."""
        return sum(map(is_write, self.seen))

    def to_json(self) -> dict[str, Any]:
        """As text for another process."""
        return {"seen": list(self.seen), "state": self.state, "warnings": sorted(self.warnings)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Trace:
        """What `to_json` made."""
        return cls(tuple(values["seen"]), values["state"], frozenset(values["warnings"]))


@dataclass(frozen=True)
class Outcome:
    """What came of one run. `reached` says whether the run got to the planned point."""

    trace: Trace
    problems: tuple[str, ...]
    reached: bool
    seconds: float
    log: Path


class NotConvergedError(Exception):
    """The run did not end in time; the message says what it waited for."""


async def run(bed: Bed, workload: Workload, plan: Plan | None = None, usual: Trace | None = None) -> Outcome:
    """Runs a workload, with one fault, and compares it with what is usual."""
    begun_s = time.monotonic()
    await clear(bed)
    log = bed.folder / "operator.log"
    log.write_bytes(b"")
    is_blinded = plan is not None and plan.fault in BLINDED
    timings = replace(IMPATIENT, watch_seconds=SHORT_WATCH_SECONDS) if is_blinded else IMPATIENT
    flags = {**bed.flags, **workload.options, "resync-seconds": SOON_SECONDS if is_blinded else RESYNC_SECONDS}
    words = [f"--{name}={value}" for name, value in flags.items()]
    world = World(bed.client, bed.namespace, workload.script, workload.capacity_bps)
    operators = Operators(bed, words, log, timings)
    proxy = FaultProxy(
        bed.server,
        bed.ca,
        bed.certificate,
        bed.key,
        operators.kill,
        plan=plan,
        on_write=world.on_write,
        stall_seconds=1.5 * IMPATIENT.request_seconds,
    )
    patience = _Patience()
    problems: list[str] = []
    state: Any = None
    await proxy.start(PROXY_HOST, PROXY_PORT)
    try:
        async with world.running():
            await operators.start()
            try:
                # What is there before is listed, and no event shows it.
                await patience.until(lambda: proxy.watched >= WATCHED, "the operator to watch")
                await workload.run(Stage(world, bed.client, bed.namespace, patience.until))
                await _rest(bed, world, proxy, usual, patience)
                # One that was killed at its last write may be starting.
                await patience.until_so(answers, "the operator to answer")
                await check_health()
            except NotConvergedError as error:
                problems.append(str(error))
            state = await state_of(bed, world)
            if operators.ended_alone:
                problems.append("the operator ended by itself")
    finally:
        await operators.stop()
        await proxy.stop()
    trace = Trace(tuple(proxy.seen), state, frozenset(world.warnings))
    problems += world.problems
    problems += _of_log(log)
    if usual is not None:
        problems += _against(usual, trace, world)
    return Outcome(trace, tuple(problems), proxy.triggered, time.monotonic() - begun_s, log)


class Operators:
    """The operator of a run, started again whenever it was killed."""

    def __init__(self, bed: Bed, words: list[str], log: Path, timings: Timings) -> None:
        self._bed, self._words, self._log, self._timings = bed, words, log, timings
        self._running: OperatorProcess | None = None
        self._replacements: list[asyncio.Task[None]] = []

    @property
    def ended_alone(self) -> bool:
        return self._running is not None and self._running.ended.is_set()

    async def start(self) -> None:
        self._running = await self._bed.forkserver.operator(self._words, self._log, self._timings)

    async def kill(self) -> None:
        """Kills it; another one is started at once."""
        # Who asks for it is cancelled when its client is gone.
        task = asyncio.create_task(self._replace())
        self._replacements.append(task)
        await asyncio.shield(task)

    async def _replace(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.end(signal.SIGKILL)
        await self.start()

    async def stop(self) -> None:
        await asyncio.gather(*self._replacements)
        if self._running is not None:
            await self._running.end(signal.SIGKILL)


class _Patience:
    """What is left of the patience with a run."""

    def __init__(self) -> None:
        self._looks_left = PATIENCE_LOOKS

    async def look(self, what: str) -> None:
        """A pause before the next look. Raises NotConvergedError with `what` if there were too many."""
        if not self._looks_left:
            raise NotConvergedError(f"waited {PATIENCE_LOOKS * LOOK_SECONDS:.0f} s for {what}")
        self._looks_left -= 1
        await asyncio.sleep(LOOK_SECONDS)

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        while not holds():
            await self.look(what)

    async def until_so(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        while not await holds():
            await self.look(what)


async def _rest(bed: Bed, world: World, proxy: FaultProxy, usual: Trace | None, patience: _Patience) -> None:
    """Waits until nothing was written for a while, and all is as it usually is. Raises NotConvergedError."""
    looks, found = 0, "the operator to rest"
    quiet_seconds = QUIET_BEFORE_RECORDED_SECONDS if usual is None else QUIET_SECONDS
    while True:
        quiet_s = time.monotonic() - proxy.last_write_s
        if proxy.under_way or quiet_s < quiet_seconds:
            looks, found = 0, f"the operator to rest, whose last writes were {[what for what in proxy.seen if is_write(what)][-4:]}"
        elif looks % LOOKS_BETWEEN_STATES == 0:
            state, expected = await state_of(bed, world), None if usual is None else usual.state
            if proxy.plan is not None and is_refusal(proxy.plan):
                state, expected = without_attempts(state), without_attempts(expected)
            if expected is None or state == expected:
                return
            found = f"the usual end: {difference(expected, state)}"
        looks += 1
        await patience.look(found)


async def answers() -> bool:
    """Whether the operator's probe answers anything."""
    try:
        await _health()
    except aiohttp.ClientError:
        return False
    return True


async def check_health() -> None:
    """Asks the operator's probe. Raises NotConvergedError."""
    try:
        code, text = await _health()
    except aiohttp.ClientError as error:
        raise NotConvergedError(f"the operator does not answer: {error}") from error
    if code != 200:
        raise NotConvergedError(f"the operator is not healthy: {text}")


async def _health() -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(HEALTH) as answer:
        return answer.status, await answer.text()


def _of_log(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    return [next(line for line in text.splitlines() if sign in line) for sign in NEVER if sign in text]


def _against(usual: Trace, trace: Trace, world: World) -> list[str]:
    problems = []
    if unusual := trace.warnings - usual.warnings - OF_SLOW_RUNS:
        problems.append(f"events that warn of {', '.join(sorted(unusual))}")
    if trace.writes > usual.writes + MORE_WRITES:
        most = Counter(filter(is_write, trace.seen)).most_common(3)
        problems.append(f"{trace.writes} writes in the place of {usual.writes}: {most}")
    if world.live:
        problems.append(f"movers run on: {sorted(general_name(pod['metadata']['name']) for pod in world.live.values())}")
    return problems


async def state_of(bed: Bed, world: World) -> Any:
    """What is there, without what is another one in every run."""
    jobs = {}
    for job in world.jobs.values():
        status = job.get("status") or {}
        failure = status.get("lastFailure") or {}
        jobs[job["metadata"]["name"]] = {
            "spec": job["spec"],
            "finalizers": job["metadata"].get("finalizers") or [],
            "deleted": "deletionTimestamp" in job["metadata"],
            "conditions": {
                each["type"]: [each["status"], each["reason"]] for each in status.get("conditions") or [] if each["type"] not in UNSTEADY
            },
            "phase": status.get("phase"),
            "attempts": status.get("attempts"),
            "failures": status.get("failures"),
            "lastFailure": [failure.get("attempt"), failure.get("reason")],
            "allocated": (status.get("bandwidth") or {}).get("allocated"),
            "ended": "completionTime" in status,
        }
    pods = sorted(
        [general_name(pod["metadata"]["name"]), role_of(pod), attempt_of(pod), (pod.get("status") or {}).get("phase")]
        for pod in world.pods.values()
    )
    policies = {
        policy["metadata"]["name"]: {each["type"]: each["status"] for each in (policy.get("status") or {}).get("conditions") or []}
        async for page in bed.client.list_pages(POLICIES)
        for policy in page
    }
    # One that a deletion without cascade took its owner is its user's: the operator may remove none but those of jobs.
    owned = (secret["metadata"] for secret in world.secrets.values() if secret["metadata"].get("ownerReferences"))
    secrets = sorted(general_name(metadata["name"]) for metadata in owned)
    state = {"jobs": jobs, "pods": pods, "secrets": secrets, "policies": policies}
    # As another process gets it.
    return json.loads(json.dumps(state))


def is_write(what: str) -> bool:
    """Whether the operator wrote there."""
    return what.partition(" ")[0] in WRITES


def is_refusal(plan: Plan) -> bool:
    """Whether a mover may not be created: the attempt then ends, without counting as a failure, and another one begins."""
    return plan.fault is Fault.FORBIDDEN and plan.point.what.startswith("CREATE pods")


def without_attempts(state: Any) -> Any:
    """The same state, whatever the number of the attempt that brought it about."""
    if state is None:
        return None
    jobs = {name: {**job, "attempts": None, "lastFailure": None} for name, job in state["jobs"].items()}
    pods = sorted([role, phase] for _, role, _, phase in state["pods"])
    return {**state, "jobs": jobs, "pods": pods}


def difference(usual: Any, found: Any, where: str = "") -> str:
    """Where two states differ, in a line."""
    if isinstance(usual, dict) and isinstance(found, dict):
        keys = [key for key in (*usual, *(key for key in found if key not in usual)) if usual.get(key) != found.get(key)]
        return "; ".join(difference(usual.get(key), found.get(key), f"{where}.{key}" if where else str(key)) for key in keys)
    return f"{where} is {json.dumps(found)}, not {json.dumps(usual)}"


async def clear(bed: Bed) -> None:
    """Removes all that runs leave."""
    client, namespace = bed.client, bed.namespace
    for kind in (JOBS, PODS, SECRETS, POLICIES, PATHS, DTNS):
        where = namespace if kind.namespaced else None
        for each in [body["metadata"] async for page in client.list_pages(kind, where) for body in page]:
            with contextlib.suppress(NotFoundError):
                if each.get("finalizers"):
                    await client.merge_patch(kind, where, each["name"], {"metadata": {"finalizers": None}})
                await client.delete(kind, where, each["name"], uid=each["uid"], grace_seconds=0)
    # One by one they would take longer than everything else.
    await client._request("DELETE", EVENTS.path(namespace))
