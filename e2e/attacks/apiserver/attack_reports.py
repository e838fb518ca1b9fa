"""What movers and advisors report that cannot be, and answers that are no reports at all."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from aiohttp import web
from kubelet import FakeNodes
from lab import eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site
from fairlead.kube.client import JOBS, KubeObject

ABSURD = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "1.7e308": "1.7e308",
    "-1": "-1",
    "2^63": str(2**63),
    "2^4000": str(2**4000),
    "a huge string": json.dumps("x" * 7000),
    "another type": '{"a": [true]}',
    "a field twice": "",
    "missing": "",
}
DECISION = {
    "background": {"class": "B1-C0", "probability": 0.9, "abstained": False},
    "probabilities": {"B0-C0": 0.1, "B1-C0": 0.9},
    "any_bbr": 0.95,
    "confidence": 0.9,
    "abstained": False,
    "model": "background-1.0.0 (sha256:0123456789ab)",
    "rejected": [{"congestion_control": "cubic", "why_not": "less use"}],
}
CHANGES = [{"at": "2026-01-01T00:01:00Z", "what": "congestion_control", "from": "cubic", "to": "bbr", "why": "BBR came"}]
OUTCOME = {"congestion_control": "bbr", "streams": 8, "stream_coefficient": 1.2e-6}
_HOLE = "@hole@"


def _body(message: Any, path: tuple[Any, ...], what: str) -> bytes:
    """The message with one field set to an absurd value."""
    changed = copy.deepcopy(message)
    parent = changed
    for name in path[:-1]:
        parent = parent[name]
    value, parent[path[-1]] = parent[path[-1]], _HOLE
    text = ABSURD[what]
    if what == "missing":
        del parent[path[-1]]
    if what == "a field twice":
        text = json.dumps(value) + (f", {json.dumps(path[-1])}: {json.dumps(value)}" if isinstance(parent, dict) else "")
    return json.dumps(changed).replace(f'"{_HOLE}"', text).encode()


def _fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _fields(inner, (*path, name))


class _Liars:
    """Movers that answer every other time with the next absurd body, and the truth in between."""

    def __init__(
        self, whole: dict[str, Any] | None = None, *, truth_between: bool = True, about: Callable[[str], bool] = lambda field: True
    ) -> None:
        self._whole = whole or {}
        self._about = about
        self._truth_between = truth_between
        self._left: deque[tuple[tuple[Any, ...], str]] | None = None
        self._lied: set[object] = set()
        self.served = 0

    @property
    def are_done(self) -> bool:
        return self._left is not None and not self._left

    async def answer(self, request: web.Request, ordinary: KubeObject) -> web.StreamResponse:
        whole = _merged(ordinary, self._whole)
        if self._left is None:
            self._left = deque(itertools.product((path for path in _fields(whole) if self._about(str(path[0]))), ABSURD))
        # A mover that was refused is asked again later; one that talks is asked at once.
        mover = None if request.transport is None else request.transport.get_extra_info("sockname")
        if not self._left or (self._truth_between and mover in self._lied):
            self._lied.discard(mover)
            return web.json_response(whole)
        self._lied.add(mover)
        self.served += 1
        return web.Response(body=_body(whole, *self._left.popleft()), content_type="application/json")


def _merged(ordinary: KubeObject, whole: dict[str, Any]) -> dict[str, Any]:
    merged = dict(ordinary)
    for name, value in whole.items():
        known = merged.get(name)
        merged[name] = known | value if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


async def _defects(site: Site) -> list[str]:
    """Passes that ended in an error of the operator itself."""
    lines = [line for line in site.process.log_text().splitlines() if "a defect of the operator" in line or "Error:" in line]
    return lines if site.process.runs else [*lines, "the operator has ended"]


async def _start(site: Site, nodes: FakeNodes, count: int, *roles: str) -> None:
    """Jobs with a cap, and their movers."""
    for number in range(count):
        await site.create_job(f"job-{number}", bandwidth={"limit": "50M"}, backoffLimit=100)
    started: set[str] = set()

    async def all_run() -> bool:
        for pod in await site.pods():
            if pod["metadata"]["name"] not in started and pod["metadata"]["labels"]["fairlead.io/role"] in roles:
                started.add(pod["metadata"]["name"])
                await nodes.start(pod)
        return len(started) >= count * len(roles)

    await eventually(all_run, f"{count} jobs with {roles}")


async def _lie(site: Site, nodes: FakeNodes, judge: Judge, page: str, liars: _Liars, *, jobs: int = 8) -> None:
    """Runs jobs whose movers lie on that page until every lie was told. Then caps must still change."""
    async with site.operator():
        if page == "receiver/endpoint":
            nodes.answers[page] = liars.answer
            await _start(site, nodes, jobs, "receiver")
        else:
            await _start(site, nodes, jobs, "receiver", "sender")
            nodes.answers[page] = liars.answer
        failed: list[str] = []

        async def goes_on(served: int) -> bool:
            failed.extend(await _defects(site))
            return bool(failed) or liars.are_done or liars.served > served

        while not failed and not liars.are_done:
            await eventually(partial(goes_on, liars.served), "another lie to be told")
        if not failed and page != "receiver/endpoint":
            nodes.answers.clear()
            failed += [] if await _cap_changes(site, "job-0") else ["a cap is not lowered any more"]
        judge(not failed, failed[0] if failed else f"{liars.served} absurd answers, and every pass went well")


async def _cap_changes(site: Site, name: str) -> bool:
    await site.client.merge_patch(JOBS, site.namespace, name, {"spec": {"bandwidth": {"limit": "7M"}}})

    async def lowered() -> bool:
        return any(
            pod["metadata"]["annotations"].get("kubernetes.io/egress-bandwidth") == "7M"
            for pod in await site.pods()
            if pod["metadata"]["annotations"].get("fairlead.io/transferjob") == name
        )

    try:
        return await asyncio.wait_for(eventually(lowered, "a lower cap"), 60)
    except TimeoutError:
        return False


@gains("keeps the cap of one's own job from being lowered")
async def attack_rate_beyond_all_numbers(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports a rate of 1.7e308 B/s, and the job's cap is lowered."""

    async def absurd(_: web.Request, ordinary: KubeObject) -> web.StreamResponse:
        return web.json_response(ordinary | {"rate_bytes_per_second": 1.7e308})

    async with site.operator():
        await _start(site, nodes, 1, "receiver", "sender")
        await site.condition("MoversReady", name="job-0")
        nodes.answers["receiver/progress"] = absurd
        asked = len(nodes.requests)
        await eventually(lambda: _asked_more(nodes, asked + 4), "the absurd rate to be read")
        lowered = await _cap_changes(site, "job-0")
        judge(lowered, "the cap was lowered" if lowered else f"the cap stays: {(await _defects(site))[:1]}")


async def _asked_more(nodes: FakeNodes, than: int) -> bool:
    return len(nodes.requests) > than


@gains("stops every later pass over the job")
async def attack_absurd_values_in_a_receivers_progress(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Receivers report progress with every field in turn at every absurd value."""
    await _lie(site, nodes, judge, "receiver/progress", _Liars({"quiet_seconds": 0.0, "bytes_resumed": 0}))


@gains("stops every later pass over the job")
async def attack_absurd_values_in_a_senders_progress(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Senders report progress with every field in turn at every absurd value."""
    whole = {"bandwidth": {"wire_bytes": 7}, "interface_bytes_sent": 9, "interface_bytes_received": 9}
    await _lie(site, nodes, judge, "sender/progress", _Liars(whole))


@gains("stops every later pass over the job")
async def attack_absurd_values_in_an_endpoint(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Receivers report an endpoint with every field in turn at every absurd value."""
    await _lie(site, nodes, judge, "receiver/endpoint", _Liars({"numa_node": 0}, truth_between=False), jobs=12)


@gains("stops every later pass over the job")
async def attack_absurd_values_in_a_decision(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Advisors report a decision with every field in turn at every absurd value."""
    await _lie(site, nodes, judge, "sender/decision", _Liars({"decision": DECISION}, about=lambda field: field == "decision"), jobs=12)


@gains("stops every later pass over the job")
async def attack_absurd_values_beside_a_decision(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Advisors report path, changes and outcome with every field in turn at every absurd value."""
    liars = _Liars({"changes": CHANGES, "outcome": OUTCOME}, about=lambda field: field != "decision")
    await _lie(site, nodes, judge, "sender/decision", liars, jobs=12)


@gains("keeps the job from ever ending")
async def attack_closing_account_of_no_time(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver's verdict says that all bytes came in 5e-324 s."""
    async with site.operator():
        await _start(site, nodes, 1, "receiver", "sender")
        pods = {pod["metadata"]["labels"]["fairlead.io/role"]: pod for pod in await site.pods()}
        await nodes.finish(pods["sender"])
        await nodes.finish(pods["receiver"], bulk_seconds=5e-324)

        async def ended() -> str | None:
            conditions = (await site.job("job-0"))["status"].get("conditions", [])
            succeeded = [each for each in conditions if each["type"] == "Succeeded" and each["status"] == "True"]
            defects = await _defects(site)
            return "the job has succeeded" if succeeded else defects[0] if defects else None

        observed = await eventually(ended, "the end of the job, or a defect")
        judge(observed == "the job has succeeded", observed)


@gains("has the operator call an address of the attacker's choice with its own rights on the network")
async def attack_redirect(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver answers every poll with a redirect to another server."""
    called = 0

    async def elsewhere(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal called
        called += 1
        writer.close()

    other = await asyncio.start_server(elsewhere, "127.0.0.77", 6443)

    async def redirect(_: web.Request, __: KubeObject) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("http://127.0.0.77:6443/api/v1/secrets")

    nodes.answers |= {"receiver/progress": redirect, "receiver/endpoint": redirect}
    async with other, site.operator():
        await _start(site, nodes, 1, "receiver")
        await eventually(lambda: _asked_more(nodes, 3), "some polls")
        judge(called == 0, f"{len(nodes.requests)} polls were redirected, and {called} followed")
        nodes.answers.clear()
        await site.appears("sender")
