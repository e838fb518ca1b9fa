"""A scene with an operator in it, whose transitions are carried out one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from faults.bed import Bed
from faults.proxy import FaultProxy, general_name
from faults.runs import IMPATIENT, NEVER, PROXY_HOST, PROXY_PORT, RESYNC_SECONDS, WATCHED, NotConvergedError, Operators, check_health, clear
from faults.world import World, is_true, job_name_of, obedient, role_of

from fairlead.api import names
from fairlead.kube.client import DTNS, JOBS, PATHS, POLICIES, KubeObject, ResourceKind
from fairlead.kube.errors import KubeError, NotFoundError
from fuzz.scenes import CANARY, Scene, job, placed, reported
from fuzz.state import ATTEMPT, conditions_of, difference, is_current, is_told, object_state, pod_state
from fuzz.transitions import Transition

LOOK_SECONDS = 0.05
PATIENCE_LOOKS = 2400
"""How often anything is looked for, two minutes together at least: many times as long as the operator takes for anything here."""
QUIET_SECONDS = 0.3
"""How long nothing may be written before a transition counts as over: longer than a pass takes, also of the paths."""
JSON_PATCH = "application/json-patch+json"
REFUSED = (400, 403, 409, 413, 422)
"""What the API server answers to what it does not take."""
TIMINGS = replace(IMPATIENT, paths_list_seconds=0.2)
ENDS_JOBS = ("activeDeadlineSeconds",)
"""Fields of which a value may end a job for good."""
LOG_LINES = 40


@dataclass(frozen=True)
class Verdict:
    """What came of a transition. `came_to` is `refused` by the API server, `told` by a condition, or `taken`."""

    transition: str
    came_to: str
    problems: tuple[str, ...]
    seconds: float
    log: str = ""

    @property
    def is_stuck(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.problems)


async def _movers(world: World, pod: KubeObject) -> None:
    """Those of the canary move everything at once; the others go on for ever, and cleaners clean."""
    if job_name_of(pod) != CANARY or role_of(pod) == "cleaner":
        await obedient(world, pod)
        return
    await world.partner_ran(pod)
    if role_of(pod) == "receiver":
        await world.partner_ended(pod)
    await world.succeed(pod)


@asynccontextmanager
async def session(bed: Bed, scene: Scene) -> AsyncIterator[Session]:
    """Sets a scene, with an operator that runs. Raises NotConvergedError."""
    await clear(bed)
    log = bed.folder / "operator.log"
    log.write_bytes(b"")
    world = World(bed.client, bed.namespace, _movers)
    operators = Operators(bed, {**bed.flags, "resync-seconds": RESYNC_SECONDS}, log, TIMINGS)
    proxy = FaultProxy(bed.server, bed.ca, bed.certificate, bed.key, operators, on_write=world.on_write)
    await proxy.start(PROXY_HOST, PROXY_PORT)
    try:
        async with world.running():
            await operators.start()
            made = Session(bed, scene, world, proxy, operators, log)
            await made.set_up()
            yield made
    finally:
        await operators.stop()
        await proxy.stop()


class Session:
    """One scene under way. After a transition that went wrong it is worth nothing any more."""

    def __init__(self, bed: Bed, scene: Scene, world: World, proxy: FaultProxy, operators: Operators, log: Path) -> None:
        self.scene = scene
        self.is_broken = False
        self._bed, self._world, self._proxy, self._operators, self._log = bed, world, proxy, operators, log
        self._where = bed.namespace if scene.kind.namespaced else None
        self._target: KubeObject = placed(scene.target, bed.namespace)
        self._usual: dict[str, Any] = {}
        self._log_bytes = 0

    async def set_up(self) -> None:
        """Makes what is there all the time, and notes how that is. Raises NotConvergedError."""
        await self._until(lambda: self._proxy.watched >= WATCHED, "the operator to watch")
        for kind, body in self.scene.fixtures:
            await self._make(kind, placed(body, self._bed.namespace))
        await self._until(self._is_up, "the jobs that are there all the time to be under way")
        since, before = time.monotonic(), await self.state()
        looks = PATIENCE_LOOKS
        while time.monotonic() - since < self.scene.steady_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            if (state := await self.state()) != before:
                since, before, looks = time.monotonic(), state, looks - 1
            if not looks:
                raise NotConvergedError("what is there does not come to rest")
        self._usual = before

    async def carry_out(self, transition: Transition) -> Verdict:
        """Makes a transition and takes it back."""
        begun_s = time.monotonic()
        problems: list[str] = []
        came_to = "taken"
        try:
            came_to = await self._carry_out(transition, problems)
        except NotConvergedError as error:
            problems.append(str(error))
        except KubeError as error:
            problems.append(f"the API server: {error}")
        problems += self._world.problems + self._news_of_log()
        self._world.problems.clear()
        self._proxy.seen.clear()
        if self._operators.ended_alone:
            problems.append("the operator ended by itself")
        self.is_broken = bool(problems)
        log = "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]) if problems else ""
        return Verdict(str(transition), came_to, tuple(problems), time.monotonic() - begun_s, log)

    async def look_after(self) -> list[str]:
        """Has the canary move something; what is wrong with that, with the operator, or with what is there afterwards."""
        try:
            await self._make(JOBS, placed(job(CANARY), self._bed.namespace))
            await self._until(lambda: is_true(self._world.job(CANARY), "Succeeded"), "the canary to succeed")
            await self._remove(JOBS, CANARY)
            await self._as_usual("after the canary")
            await check_health(self._operators.health)
        except (NotConvergedError, KubeError) as error:
            self.is_broken = True
            return [f"a job that has nothing to do with it: {error}", *self._world.problems, *self._news_of_log()]
        return []

    async def _carry_out(self, transition: Transition, problems: list[str]) -> str:
        changed = transition.applied(reported(self._target))
        try:
            await (self._patch(transition, changed) if self.scene.is_live else self._make(self.scene.kind, changed))
        except KubeError as error:
            if error.status not in REFUSED:
                raise
            if not transition.names(str(error)):
                problems.append(f"the refusal names no field: {error}")
            return "refused"
        if not transition.is_allowed:
            problems.append("the API server takes what the schema forbids")
        told = await self._settle()
        if told and not transition.names(told):
            problems.append(f"what the operator says names neither field nor value: {told}")
        await (self._take_back(transition, problems) if self.scene.is_live else self._remove(self.scene.kind, self.scene.name_of_target))
        await self._as_usual("taken back")
        return "told" if told else "taken"

    async def _patch(self, transition: Transition, changed: KubeObject) -> None:
        root = transition.path[0]
        verb = "add" if root in changed else "remove"
        await self._patch_json([{"op": verb, "path": f"/{root}", **({"value": changed[root]} if verb == "add" else {})}])

    async def _patch_json(self, operations: list[dict[str, Any]]) -> None:
        path = self.scene.kind.path(self._where, self.scene.name_of_target, self.scene.subresource or None)
        await self._bed.client._request("PATCH", path, body=operations, content_type=JSON_PATCH)  # type: ignore[arg-type]

    async def _settle(self) -> str:
        """Waits until the operator is done with the object; what it says of it if it does not accept it. Raises NotConvergedError."""

        async def is_done() -> bool:
            body = await self._bed.client.get(self.scene.kind, self._where, self.scene.name_of_target)
            if self.scene.kind is PATHS:
                return self._is_quiet(QUIET_SECONDS)
            if self.scene.kind is JOBS and body["spec"]["managedBy"] != names.CONTROLLER:
                return self._is_quiet(QUIET_SECONDS)
            if not is_current(body) or not self._is_quiet(QUIET_SECONDS):
                return False
            return self.scene.kind is not JOBS or is_told(body, self._world.pods.values())

        await self._until_so(is_done, "the operator to be done with the change")
        body = await self._bed.client.get(self.scene.kind, self._where, self.scene.name_of_target)
        refusals = [
            each for each in (body.get("status") or {}).get("conditions") or [] if (each["type"], each["status"]) == ("Accepted", "False")
        ]
        return " ".join(f"{each['reason']}: {each['message']}" for each in refusals)

    async def _take_back(self, transition: Transition, problems: list[str]) -> None:
        live = await self._bed.client.get(self.scene.kind, self._where, self.scene.name_of_target)
        if self.scene.kind is JOBS and any(is_true(live, kind) for kind in ("Succeeded", "Failed")):
            if not set(ENDS_JOBS) & set(transition.path):
                problems.append(f"the job ended for good: {live['status']['conditions']}")
            await self._remove(JOBS, self.scene.name_of_target)
            await self._make(JOBS, self._target)
            return
        root = str(transition.path[0])
        await self._patch_json([{"op": "add", "path": f"/{root}", "value": reported(self._target)[root]}])

    async def _make(self, kind: ResourceKind, body: KubeObject) -> None:
        where = self._bed.namespace if kind.namespaced else None
        await self._bed.client.create(kind, where, body)
        if kind is DTNS and body.get("status"):
            body = reported(body)
            await self._bed.client.merge_patch(kind, where, body["metadata"]["name"], {"status": body["status"]}, subresource="status")

    async def _remove(self, kind: ResourceKind, name: str) -> None:
        """Deletes an object as users do, and waits until it is gone with all that belonged to it."""
        where = self._bed.namespace if kind.namespaced else None
        await self._bed.client.delete(kind, where, name)

        async def is_gone() -> bool:
            try:
                await self._bed.client.get(kind, where, name)
            except NotFoundError:
                return kind is not JOBS or (self._world.job(name) is None and not self._world.pods_of(name))
            return False

        await self._until_so(is_gone, f"{name} and what belongs to it to be gone")

    async def state(self) -> dict[str, Any]:
        """What is there."""
        state: dict[str, Any] = {
            "jobs": {job["metadata"]["name"]: object_state(job) for job in self._world.jobs.values()},
            "pods": {pod["metadata"]["uid"]: pod_state(pod) for pod in self._world.pods.values()},
            "secrets": sorted(ATTEMPT.sub("", general_name(each["metadata"]["name"])) for each in self._world.secrets.values()),
        }
        # Which pods they are counts where nothing may happen to them.
        is_own = self.scene.kind is JOBS and self.scene.is_live
        if is_own:
            state["pods"] = {each["name"]: each for each in state["pods"].values()}
        for kind in (POLICIES, DTNS):
            state[kind.plural] = {
                body["metadata"]["name"]: object_state(body) async for page in self._bed.client.list_pages(kind) for body in page
            }
        if self.scene.kind is PATHS:
            # What was measured stays, whatever becomes of the jobs.
            wanted = {body["metadata"]["name"] for kind, body in self.scene.fixtures if kind is PATHS} | {self.scene.name_of_target}
            paths = [body async for page in self._bed.client.list_pages(PATHS) for body in page if body["metadata"]["name"] in wanted]
            state["networkpaths"] = {body["metadata"]["name"]: [body["spec"], conditions_of(body)] for body in paths}
        return state

    async def _as_usual(self, when: str) -> None:
        """Waits until all is as it was at first. Raises NotConvergedError with what is not."""
        found: dict[str, Any] = {}

        async def is_usual() -> bool:
            nonlocal found
            found = await self.state()
            return found == self._usual and self._is_quiet(LOOK_SECONDS)

        try:
            await self._until_so(is_usual, "")
        except NotConvergedError as error:
            raise NotConvergedError(
                f"{when}, it is not as with a fresh object: {difference(self._usual, found) or 'writes go on'}"
            ) from error

    def _is_up(self) -> bool:
        jobs = [body["metadata"]["name"] for kind, body in self.scene.fixtures if kind is JOBS]
        return all(is_true(self._world.job(name), kind) for name in jobs for kind in ("MoversReady", "PathProbed"))

    def _is_quiet(self, seconds: float) -> bool:
        return not self._proxy.under_way and time.monotonic() - self._proxy.last_write_s > seconds

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        async def look() -> bool:
            return holds()

        await self._until_so(look, what)

    async def _until_so(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        for _ in range(PATIENCE_LOOKS):
            if await holds():
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise NotConvergedError(f"waited {PATIENCE_LOOKS * LOOK_SECONDS:.0f} s for {what}")

    def _news_of_log(self) -> list[str]:
        """What no log may have, since it was read last."""
        text = self._log.read_bytes()[self._log_bytes :].decode(errors="replace")
        self._log_bytes += len(text.encode())
        return [next(line for line in text.splitlines() if sign in line) for sign in NEVER if sign in text]
