"""One run of a workload beside the proxy, and what is to be said of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from lab import LEASE

from fairlead.handlers.timings import Timings
from fairlead.kube.client import DTNS, EVENTS, JOBS, LEASES, PATHS, PODS, POLICIES, SECRETS, KubeObject
from fairlead.kube.errors import NotFoundError
from faults.bed import Bed, OperatorProcess
from faults.plans import Fault, Plan
from faults.proxy import LATE_SECONDS, WRITES, FaultProxy, general_name
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
IMPATIENT = Timings(
    request_seconds=2.0,
    late_request_seconds=4.0,
    watch_request_seconds=2.0,
    watch_seconds=600,
    watch_grace_seconds=1.0,
    watch_retry_seconds=0.3,
    watch_backoffs_seconds=(0.2, 0.3, 0.5, 1.0),
    login_pause_seconds=0.3,
    first_list_retry_seconds=0.3,
    sweep_retry_seconds=0.5,
    after_gap_seconds=0.3,
    paths_list_seconds=3.0,
)
BLINDED = (Fault.DROPPED, Fault.SILENT)
"""What only the next list of everything, or the next watch, can show."""
SHORT_WATCH_SECONDS = 3
RESYNC_SECONDS, SOON_SECONDS = "600", "2.5"
"""The first is longer than the patience with a run, as is a watch: what a list would find must not need it, except after the faults that
leave nothing else."""
MORE_WRITES = 12
"""By how much a fault may add to the writes of a run: passes that were begun anew."""
MORE_WRITES_PER_SECOND = 2.0
"""And by how much for each second that it makes the run longer: movers go on meanwhile, and their progress is written every half second."""
WRITES_PER_REFUSED_POD = 3
"""And by how much for each pod that is refused while the right is gone: its credentials come and go, and the status says so."""
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
    seconds: float

    @property
    def writes(self) -> int:
        """How often the operator wrote."""
        return sum(map(is_write, self.seen))

    def to_json(self) -> dict[str, Any]:
        """As text for another process."""
        return {"seen": list(self.seen), "state": self.state, "warnings": sorted(self.warnings), "seconds": self.seconds}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Trace:
        """What `to_json` made."""
        return cls(tuple(values["seen"]), values["state"], frozenset(values["warnings"]), values["seconds"])


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
    world = World(bed.client, bed.namespace, workload.script, limit_bps(workload.capacity_bps, plan))
    operators = Operators(bed, flags, log, timings)
    proxy = FaultProxy(
        bed.server,
        bed.ca,
        bed.certificate,
        bed.key,
        operators,
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
                await workload.run(Stage(world, bed.client, bed.namespace, patience.until, operators.upgrade))
                await _rest(bed, world, proxy, usual, patience)
                # One that was killed at its last write may be starting.
                await patience.until_so(lambda: answers(operators.health), "the operator to answer")
                await check_health(operators.health)
                await patience.until(lambda: operators.lost_are_gone, "the operator that stood still to end")
            except NotConvergedError as error:
                problems.append(str(error))
            state = await state_of(bed, world)
            if operators.ended_alone:
                problems.append("the operator ended by itself")
    finally:
        await operators.stop()
        await proxy.stop()
    seconds = time.monotonic() - begun_s
    trace = Trace(tuple(proxy.seen), state, frozenset(world.warnings), seconds)
    problems += world.problems
    problems += _of_log(log)
    if usual is not None:
        problems += _against(usual, trace, world, proxy.denied)
    return Outcome(trace, tuple(problems), proxy.triggered, seconds, log)


def limit_bps(capacity_bps: float | None, plan: Plan | None) -> float | None:
    """What the caps of all senders together must not exceed in a run; None where nothing limits them."""
    if plan is None:
        return capacity_bps
    # Lists of the past lack senders that run, so that another one may get their share. No API server answers this operator so:
    # neither kopf nor the project's client asks with `resourceVersion=0`, and without it a list is as new as what etcd has.
    if plan.fault is Fault.STALE:
        return None
    # Until it is told that there is a policy, which is another watch's matter than the jobs, nobody can keep it: the caps of the end are
    # compared as ever.
    is_untold = plan.fault is not Fault.REPEATED and plan.point.what.startswith("ADDED fairnesspolicies ")
    return None if is_untold else capacity_bps


@dataclass(frozen=True)
class _Instance:
    """One operator, and the flags that it was given."""

    process: OperatorProcess
    flags: Mapping[str, str]


class Operators:
    """The operator of a run, and those that come after it: in its place when it is killed, beside it when it is stopped or upgraded."""

    def __init__(self, bed: Bed, flags: Mapping[str, str], log: Path, timings: Timings) -> None:
        self._bed, self._flags, self._log, self._timings = bed, flags, log, timings
        self._started: list[OperatorProcess] = []
        self._running: _Instance | None = None
        """The one that leads, or is to."""
        self._frozen: OperatorProcess | None = None
        self._beside = 0
        """How many were started beside another one."""
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False

    @property
    def ended_alone(self) -> bool:
        """Whether the one that is to lead has ended."""
        return self._running is not None and self._running.process.ended.is_set()

    @property
    def lost_are_gone(self) -> bool:
        """Whether the one that stood still has seen that another one leads, and has ended."""
        return self._frozen is None or self._frozen.ended.is_set()

    @property
    def health(self) -> str:
        """The probe of the one that is to lead."""
        flags = self._flags if self._running is None else self._running.flags
        return f"http://{flags['health-address']}/healthz"

    async def start(self) -> None:
        """Starts the first one."""
        self._running = await self._launch(self._flags)

    async def kill(self, clock_off_seconds: float = 0.0) -> None:
        """Kills it; another one is started at once."""
        await self._to_its_end(self._replace(clock_off_seconds))

    async def freeze(self) -> None:
        """Stops it, and starts another one; returns when that one leads and has had time for what it does at first."""
        await self._to_its_end(self._freeze())

    def thaw(self) -> None:
        """Lets the one that was stopped go on."""
        if self._frozen is not None:
            self._frozen.send(signal.SIGCONT)

    async def upgrade(self) -> None:
        """Starts another one, and ends the first as its pod's deletion does."""
        before = self._running
        newer = await self._launch(self._flags_beside())
        if before is not None:
            await before.process.end(signal.SIGTERM)
        await asyncio.gather(*self._tasks)
        if self._running is not None and self._running is not before:
            # One that was started in the first one's place in the meantime.
            await self._running.process.end(signal.SIGTERM)
        self._running = newer

    async def stop(self) -> None:
        """Ends all."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        for process in self._started:
            await process.end(signal.SIGKILL)

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        # Who asks for it is cancelled when its client is gone.
        task = asyncio.create_task(work)
        self._tasks.append(task)
        await asyncio.shield(task)

    async def _replace(self, clock_off_seconds: float) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.process.end(signal.SIGKILL)
            self._running = await self._launch(running.flags, clock_off_seconds)

    async def _freeze(self) -> None:
        assert self._running is not None
        frozen = self._running
        self._frozen = frozen.process
        self._frozen.send(signal.SIGSTOP)
        self._running = await self._launch(self._flags_beside())
        while not self._is_over and await self._leader() == frozen.flags["identity"]:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LATE_SECONDS)

    async def _leader(self) -> str:
        lease = await self._bed.client.get(LEASES, *LEASE.split("/"))
        return str(lease["spec"].get("holderIdentity"))

    async def _launch(self, flags: Mapping[str, str], clock_off_seconds: float = 0.0) -> _Instance:
        words = [f"--{name}={value}" for name, value in flags.items()]
        process = await self._bed.forkserver.operator(words, self._log, self._timings, clock_off_seconds)
        self._started.append(process)
        return _Instance(process, flags)

    def _flags_beside(self) -> dict[str, str]:
        """Those of one that lives beside others, with an identity and addresses of its own."""
        self._beside += 1
        addresses = (self._flags[name].split(":") for name in ("metrics-address", "health-address"))
        metrics, health = (f"{host}:{int(port) + self._beside}" for host, port in addresses)
        own = {"identity": f"operator-beside-{self._beside}", "metrics-address": metrics, "health-address": health}
        return {**self._flags, **own}


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
            plan = proxy.plan if proxy.triggered else None
            wrong = "" if usual is None else deviation(plan, usual.state, await state_of(bed, world))
            if not wrong:
                return
            found = f"the usual end: {wrong}"
        looks += 1
        await patience.look(found)


async def answers(probe: str) -> bool:
    """Whether an operator's probe answers anything."""
    try:
        await _health(probe)
    except aiohttp.ClientError:
        return False
    return True


async def check_health(probe: str) -> None:
    """Asks an operator's probe. Raises NotConvergedError."""
    try:
        code, text = await _health(probe)
    except aiohttp.ClientError as error:
        raise NotConvergedError(f"the operator does not answer: {error}") from error
    if code != 200:
        raise NotConvergedError(f"the operator is not healthy: {text}")


async def _health(probe: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(probe) as answer:
        return answer.status, await answer.text()


def _of_log(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    return [next(line for line in text.splitlines() if sign in line) for sign in NEVER if sign in text]


def _against(usual: Trace, trace: Trace, world: World, denied: Sequence[str]) -> list[str]:
    problems = []
    if unusual := trace.warnings - usual.warnings - OF_SLOW_RUNS:
        problems.append(f"events that warn of {', '.join(sorted(unusual))}")
    if too_many := too_many_writes(usual, trace, denied):
        problems.append(too_many)
    if world.live:
        problems.append(f"movers run on: {sorted(general_name(pod['metadata']['name']) for pod in world.live.values())}")
    return problems


def too_many_writes(usual: Trace, trace: Trace, denied: Sequence[str]) -> str:
    """What the operator wrote, if that is more than a fault may add; nothing if not. `denied` was refused for want of a right."""
    # What was refused for as long as a right was gone wrote nothing; how often it was tried is the backoff's matter.
    written = Counter(filter(is_write, trace.seen)) - Counter(denied)
    usual_seconds = usual.seconds - (QUIET_BEFORE_RECORDED_SECONDS - QUIET_SECONDS)
    longer_seconds = max(trace.seconds - usual_seconds, 0.0)
    refused_pods = sum(what.startswith("CREATE pods ") for what in denied)
    more = MORE_WRITES + MORE_WRITES_PER_SECOND * longer_seconds + WRITES_PER_REFUSED_POD * refused_pods
    if written.total() <= usual.writes + more:
        return ""
    return f"{written.total()} writes in the place of {usual.writes}: {written.most_common(3)}"


def state_of_job(job: KubeObject) -> dict[str, Any]:
    """What of a job is the same in every run."""
    status = job.get("status") or {}
    failure = status.get("lastFailure") or {}
    is_ended = "completionTime" in status
    return {
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
        # Of two jobs that end at once, the one whose end is seen later has both shares for a moment.
        "allocated": None if is_ended else (status.get("bandwidth") or {}).get("allocated"),
        "ended": is_ended,
    }


async def state_of(bed: Bed, world: World) -> Any:
    """What is there, without what is another one in every run."""
    jobs = {job["metadata"]["name"]: state_of_job(job) for job in world.jobs.values()}
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
    """Whether a pod of a job may not be created: the attempt then ends, without counting as a failure, and another one begins."""
    return plan.fault in (Fault.FORBIDDEN, Fault.DENIED) and plan.point.what.startswith("CREATE pods")


def is_refusal_of_a_mover(plan: Plan) -> bool:
    """Whether that pod is a mover, and no cleaner: what the script lets fail may be in the attempt that then ends uncounted."""
    return is_refusal(plan) and re.search(r"-(receiver|sender)-[0-9]+$", plan.point.what) is not None


def deviation(plan: Plan | None, usual: Any, found: Any) -> str:
    """Where the end of a run is not what it must be after that fault, in a line; nothing where it is."""
    if plan is not None and is_refusal(plan):
        if is_refusal_of_a_mover(plan):
            found = _with_at_least_the_failures_of(usual, found)
        usual, found = without_attempts(usual), without_attempts(found)
    return "" if usual == found else difference(usual, found)


def _with_at_least_the_failures_of(usual: Any, found: Any) -> Any:
    """The same state, where fewer failures are told as the usual ones; more are as they are."""
    jobs = dict(found["jobs"])
    for name in jobs.keys() & usual["jobs"].keys():
        failures = usual["jobs"][name]["failures"]
        if (jobs[name]["failures"] or 0) <= (failures or 0):
            jobs[name] = {**jobs[name], "failures": failures}
    return {**found, "jobs": jobs}


def without_attempts(state: Any) -> Any:
    """The same state, whatever the number of the attempt that brought it about."""
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
    # The next operator need not wait for the end of one that was killed.
    with contextlib.suppress(NotFoundError):
        await client.delete(LEASES, *LEASE.split("/"))
    # One by one they would take longer than everything else.
    await client._request("DELETE", EVENTS.path(namespace))
