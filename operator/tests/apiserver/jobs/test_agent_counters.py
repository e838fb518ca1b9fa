"""What node agents serve of their interfaces, over the whole operator and a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from lab import Lab, eventually, fairness_policy

from fairlead.agent.files import HostFiles
from fairlead.agent.loop import Agent
from fairlead.agent.serve import InterfaceCounters, node_page
from fairlead.api.datatransfernode.status import AgentStatus, InterfaceStatus, NodeReport
from fairlead.api.shared.quantity import parse_rate
from fairlead.kube.client import PODS, POLICIES, KubeObject
from fairlead.pages import PageServer

NAMESPACE, ACCOUNT, PORT = "fairlead-system", "fairlead-node-agent", 9811
NODE, ADDRESS = "dtn-a", "127.0.0.11"
M = 1_000_000
OUT = {"name": "out", "interfaces": [{"node": NODE, "name": "data0", "direction": "Transmit"}], "capacity": "1G", "headroom": "0"}
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": ACCOUNT, "uid": "1", "controller": True}


@pytest.fixture
async def watched(lab: Lab) -> AsyncIterator[Lab]:
    """An operator's options with agents, and a policy over the interface that leads out."""
    lab.options |= {"node-agent-namespace": NAMESPACE, "node-agent-service-account": ACCOUNT, "node-agent-port": str(PORT)}
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[OUT]))
    try:
        yield lab
    finally:
        await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])


@asynccontextmanager
async def _pod(lab: Lab, namespace: str = NAMESPACE, **spec: Any) -> AsyncIterator[str]:
    """The pod of an agent that runs on the node; gives its UID."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "agent-", "ownerReferences": [OWNER]},
        "spec": {
            "hostNetwork": True,
            "nodeName": NODE,
            "serviceAccountName": ACCOUNT,
            "containers": [{"name": "node-agent", "image": "anything"}],
            **spec,
        },
    }
    made = (await lab.client.create(PODS, namespace, body))["metadata"]
    status = {"phase": "Running", "hostIP": ADDRESS, "conditions": [{"type": "Ready", "status": "True"}]}
    await lab.client.merge_patch(PODS, namespace, made["name"], {"status": status}, subresource="status")
    try:
        yield made["uid"]
    finally:
        await lab.client.delete(PODS, namespace, made["name"], uid=made["uid"], grace_seconds=0)


@asynccontextmanager
async def _agent(lab: Lab, folder: Path, instance: str, rate_bps: int) -> AsyncIterator[None]:
    """The agent's own HTTP, over an interface that sends at this rate."""
    statistics = folder / "sys/class/net/data0/statistics"
    statistics.mkdir(parents=True)
    (statistics / "rx_bytes").write_text("0\n")
    began = time.monotonic()

    async def send() -> None:
        while True:
            partial = statistics / "partial"
            partial.write_text(f"{int((time.monotonic() - began) * rate_bps / 8)}\n")
            partial.rename(statistics / "tx_bytes")
            await asyncio.sleep(0.02)

    async def look() -> NodeReport:
        return NodeReport(agent=AgentStatus(instance=instance), interfaces=(InterfaceStatus(name="data0"),))

    agent = Agent(node=NODE, look=look, client=lab.client, now=_never, monotonic=time.monotonic, chance=lambda: 0.5)
    agent.found = await look()
    sending = asyncio.create_task(send())
    server = await PageServer({"/v1/node": node_page(NODE, agent, InterfaceCounters(agent, HostFiles(folder)))}).start(ADDRESS, PORT)
    try:
        yield
    finally:
        server.close()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _never() -> Any:
    raise AssertionError("it writes nothing here")


async def _link(lab: Lab) -> KubeObject:
    links = ((await lab.client.get(POLICIES, None, "site")).get("status") or {}).get("links") or [{}]
    return dict(links[0])


async def _foreign_becomes(lab: Lab, least_bps: int, most_bps: int) -> KubeObject:
    """The link, once it is so."""

    async def look() -> KubeObject | None:
        link = await _link(lab)
        shown = link.get("foreign")
        return link if shown is not None and least_bps <= parse_rate(shown) <= most_bps else None

    return await eventually(look, f"others' traffic between {least_bps} and {most_bps} bit/s", lambda: _link(lab))


async def test_others_traffic_that_an_agent_reads_is_left_to_them_before_any_job_runs(watched: Lab, tmp_path: Path) -> None:
    async with watched.operator(), _pod(watched) as uid, _agent(watched, tmp_path, uid, 400 * M):
        link = await _foreign_becomes(watched, 350 * M, 450 * M)
        assert parse_rate(link["available"]) <= 650 * M


@pytest.mark.long
async def test_what_answers_beside_the_agents_pod_is_not_heard(watched: Lab, tmp_path: Path) -> None:
    async with watched.operator(), _pod(watched), _agent(watched, tmp_path / "stranger", "another", 400 * M):
        await _is_not_heard(watched)
    async with contextlib.AsyncExitStack() as own:
        await own.enter_async_context(watched.operator())
        uid = await own.enter_async_context(_pod(watched))
        await own.enter_async_context(_agent(watched, tmp_path / "agent", uid, 400 * M))
        await _foreign_becomes(watched, 350 * M, 450 * M)


async def _is_not_heard(lab: Lab) -> None:
    """Its answers are refused, again and again, and the link has no figure of others' traffic."""

    async def refused() -> bool:
        async with aiohttp.ClientSession() as session, session.get("http://127.0.0.1:19090/metrics") as response:
            counts = re.findall(r'fairlead_operator_report_failures_total\{path="/v1/node"\} ([0-9.]+)', await response.text())
        return sum(map(float, counts)) >= 3

    await eventually(refused, "refused answers", lambda: _link(lab))
    assert (await _link(lab)).get("foreign") is None
