"""What a tenant does to pass for a node's agent, whose counters steer everybody on a link."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from lab import fairness_policy

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site, within
from fairlead.kube.client import PODS, POLICIES, KubeObject

AGENTS, ACCOUNT, PORT = "fairlead-system", "fairlead-node-agent", 9811
NODE, ADDRESS = "dtn-a", "127.0.0.11"
ELSEWHERE = "default"
LONG_ENOUGH_SECONDS = 30.0
"""An agent that is heard shows in the policy's status within some rounds of five seconds."""
CAPACITY_BPS = 1_000_000_000
OUT = {"name": "out", "interfaces": [{"node": NODE, "name": "data0", "direction": "Transmit"}], "capacity": "1G", "headroom": "0"}


def _body(namespace: str, owner: KubeObject) -> KubeObject:
    """A pod with everything that an agent's has."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "fairlead-node-agent-",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": "node-agent"},
            "ownerReferences": [owner],
        },
        "spec": {
            "hostNetwork": True,
            "nodeName": NODE,
            "serviceAccountName": ACCOUNT,
            "containers": [{"name": "node-agent", "image": "anything"}],
        },
    }


@asynccontextmanager
async def _pod(site: Site, namespace: str, kind: str = "DaemonSet") -> AsyncIterator[str]:
    """The pod on its node, running and ready; gives its UID."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": ACCOUNT, "uid": "1", "controller": True}
    made = (await site.client.create(PODS, namespace, _body(namespace, owner)))["metadata"]
    status = {"phase": "Running", "hostIP": ADDRESS, "podIP": ADDRESS, "conditions": [{"type": "Ready", "status": "True"}]}
    await site.client.merge_patch(PODS, namespace, made["name"], {"status": status}, subresource="status")
    try:
        yield made["uid"]
    finally:
        await site.client.delete(PODS, namespace, made["name"], uid=made["uid"], grace_seconds=0)


@asynccontextmanager
async def _liar(instance: str) -> AsyncIterator[list[str]]:
    """Whoever answers at the agent's port of the node: the link is full. Gives the requests that came."""
    requests: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        requests.append(request.path)
        now = time.monotonic()
        counters = {"data0": {"transmit_bytes": int(now * CAPACITY_BPS / 8), "receive_bytes": 0}}
        body: dict[str, Any] = {"version": 1, "node": NODE, "agent": {"instance": instance}, "counters": counters}
        return web.json_response(body | {"read_at": {"monotonic_seconds": now, "wall_seconds": time.time()}})

    app = web.Application()
    app.router.add_get("/v1/node", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, PORT).start()
    try:
        yield requests
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _shared(site: Site) -> AsyncIterator[None]:
    """A policy over the link, and an operator that asks agents as far as it can."""
    site.settings |= {"NODE_AGENT_NAMESPACE": AGENTS, "NODE_AGENT_SERVICE_ACCOUNT": ACCOUNT, "NODE_AGENT_PORT": str(PORT)}
    made = await site.client.create(POLICIES, None, fairness_policy(links=[OUT]))
    try:
        async with site.operator():
            yield
    finally:
        await site.client.delete(POLICIES, None, "site", uid=made["metadata"]["uid"])


async def _link(site: Site) -> KubeObject | None:
    links = ((await site.client.get(POLICIES, None, "site")).get("status") or {}).get("links")
    return dict(links[0]) if links else None


async def _nobody_is_steered(site: Site, requests: list[str], judge: Judge) -> None:
    """Concludes from whether the link has a figure of others' traffic after a while, as it has where an agent is heard."""

    async def seen() -> KubeObject | None:
        link = await _link(site)
        return link if link is not None and (link.get("foreign") or link["available"] != "1G") else None

    found = await within(LONG_ENOUGH_SECONDS, seen)
    judge(found is None, f"after {len(requests)} requests the link is shown as {found or await _link(site)}")
    # The policy is in force all the while.
    assert (await _link(site) or {}).get("name") == "out"


@gains("decides what everybody has of a shared link")
async def attack_with_an_agents_pod_in_another_namespace(site: Site, judge: Judge) -> None:
    """A pod elsewhere has the labels, account, owner and network of a node's agent, and says that the link is full."""
    async with _pod(site, ELSEWHERE) as uid, _liar(uid) as requests, _shared(site):
        await _nobody_is_steered(site, requests, judge)


@gains("decides what everybody has of a shared link")
async def attack_with_a_pod_of_its_own_as_the_agent(site: Site, judge: Judge) -> None:
    """A tenant makes a pod in its own namespace that is called a node's agent, on the node's network, and says that the link is full."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": ACCOUNT, "uid": "1", "controller": True}
    made = site.as_tenant("create", "-o", "json", "-f", "-", stdin=_body(site.namespace, owner))
    uid = made.object()["metadata"]["uid"] if made.accepted else "none"
    async with _liar(uid) as requests, _shared(site):
        judge(made.refused_by_policy, f"the pod: {made}")
        await _nobody_is_steered(site, requests, judge)


@gains("decides what everybody has of a shared link")
async def attack_in_the_place_of_an_agent(site: Site, judge: Judge) -> None:
    """Whoever got hold of the agent's port on its node answers there, and does not know the UID of the agent's pod."""
    async with _pod(site, AGENTS), _liar("00000000-0000-4000-8000-000000000000") as requests, _shared(site):
        await _nobody_is_steered(site, requests, judge)


@gains("decides what everybody has of a shared link")
async def attack_with_a_pod_that_no_daemon_set_owns(site: Site, judge: Judge) -> None:
    """A pod of another owner in the agents' namespace has their account and says that the link is full."""
    async with contextlib.AsyncExitStack() as stack:
        uid = await stack.enter_async_context(_pod(site, AGENTS, "ReplicaSet"))
        requests = await stack.enter_async_context(_liar(uid))
        await stack.enter_async_context(_shared(site))
        await _nobody_is_steered(site, requests, judge)
