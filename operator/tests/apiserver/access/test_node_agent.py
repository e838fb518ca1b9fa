"""The node agent against a real API server: it writes the object of its own node, with its own token, and little of anything."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT, ControlPlane, find_programs
from lab import REQUEST_SECONDS, Kubectl, Lab, data_transfer_node, eventually, read_documents

from fairlead.agent.loop import Agent
from fairlead.api.datatransfernode.status import AgentStatus, InterfaceStatus, KernelStatus, NodeReport, StorageStatus
from fairlead.kube.client import DTNS, KubeClient, KubeObject, load_configuration
from fairlead.kube.errors import ForbiddenError

NAMESPACE = "fairlead-system-guard"
NAME = "fairlead-node-agent"
LEFT_OUT = ("DaemonSet", "Role", "RoleBinding")

REPORT = NodeReport(
    agent=AgentStatus(instance="one"),
    interfaces=tuple(
        InterfaceStatus(name=name, rate="100G", mtu=9000, addresses=("198.18.0.1/24",), carrier=True) for name in ("d0", "d1")
    ),
    kernel=KernelStatus(release="6.12.0", allowed_congestion_controls=("bbr", "cubic", "reno")),
    storage=(StorageStatus(path="/data", total_bytes=10**15, free_bytes=4 * 10**14),),
    cpus=64,
    load="Idle",
)


@pytest.fixture
def role(cluster: None, kubectl: Kubectl) -> dict[str, Any]:
    """What the chart gives the agent, and what it holds it to, installed; returns its role."""
    shown = ("-s", "templates/node-agent.yaml", "-s", "templates/admission-node-agent.yaml")
    words = (str(find_programs()["helm"]), "template", "fairlead", str(CHECKOUT / "charts" / "fairlead"), *shown)
    values = ("--namespace", "fairlead-system", "--kube-version", "1.34.0", "--set", "nodeAgent.enabled=true")
    rendered = subprocess.run((*words, *values), check=True, capture_output=True, text=True).stdout
    documents = [document for document in read_documents(rendered) if document["kind"] not in LEFT_OUT]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    return next(document for document in documents if document["kind"] == "ClusterRole")


class Tokens:
    """Service account tokens of the agent, as kubelets ask for them."""

    def __init__(self, lab: Lab, control_plane: ControlPlane, folder: Path) -> None:
        self._lab, self._control_plane, self._folder = lab, control_plane, folder
        self._clients: list[KubeClient] = []

    async def of_node(self, node: str) -> KubeClient:
        """A client with the token of an agent's pod on a node."""
        pod = f"agent-{node}-{len(self._clients)}"
        container = {"name": "agent", "image": "agent"}
        spec = {"serviceAccountName": NAME, "nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
        self._lab.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": NAMESPACE}, "spec": spec})
        return await self._client("--bound-object-kind=Pod", f"--bound-object-name={pod}")

    async def of_nobody(self) -> KubeClient:
        """A client with a token that belongs to no pod."""
        return await self._client()

    async def _client(self, *bound: str) -> KubeClient:
        token = self._lab.kubectl("-n", NAMESPACE, "create", "token", NAME, *bound).stdout.strip()
        kubeconfig = self._folder / f"{len(self._clients)}.kubeconfig"
        server = {"server": self._control_plane.url, "certificate-authority": str(self._control_plane.ca)}
        parts = {"contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}], "current-context": "test"}
        users, clusters = [{"name": "test", "user": {"token": token}}], [{"name": "test", "cluster": server}]
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts, "clusters": clusters, "users": users}))
        self._clients.append(KubeClient(await load_configuration(kubeconfig), timeout_seconds=REQUEST_SECONDS))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@pytest.fixture
async def tokens(lab: Lab, control_plane: ControlPlane, role: dict[str, Any], tmp_path: Path) -> AsyncIterator[Tokens]:
    made = Tokens(lab, control_plane, tmp_path)
    probe = await made.of_nobody()

    async def refused() -> bool:
        # The API server takes up policies and rights a moment after they were made.
        try:
            await probe.create(DTNS, None, data_transfer_node("nobodys"))
        except ForbiddenError as error:
            return "no node" in str(error)
        await lab.client.delete(DTNS, None, "nobodys")
        return False

    await eventually(refused, "the agent's policy to be in force")
    yield made
    await made.close()


def agent_of(node: str, client: KubeClient, clock: Callable[[], float] = lambda: 0.0, report: NodeReport = REPORT) -> Agent:
    async def look() -> NodeReport:
        return report

    return Agent(
        node=node,
        look=look,
        client=client,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock()),
        monotonic=clock,
        chance=lambda: 0.5,
    )


async def test_an_agent_makes_and_describes_its_own_node_with_exactly_the_rights_of_the_chart(
    lab: Lab, control_plane: ControlPlane, role: dict[str, Any], tokens: Tokens
) -> None:
    before = len(control_plane.audit())
    agent = agent_of("dtn-a", await tokens.of_node("dtn-a"))
    await agent.step()
    requests = [each for each in control_plane.audit()[before:] if each["user"]["username"].endswith(f":{NAME}")]
    assert 403 not in {each["responseStatus"].get("code") for each in requests}
    used = {
        (each["verb"], "/".join(filter(None, (each["objectRef"]["resource"], each["objectRef"].get("subresource"))))) for each in requests
    }
    assert used == {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert agent.has_reported
    dtn = await lab.client.get(DTNS, None, "dtn-a")
    assert dtn["spec"] == {"slots": 8, "interfaces": []}
    assert (dtn["status"]["cpus"], len(dtn["status"]["interfaces"])) == (64, 2)


async def test_what_is_unknown_now_is_removed_and_the_operators_part_stays(lab: Lab, tokens: Tokens) -> None:
    client = await tokens.of_node("dtn-a")
    await agent_of("dtn-a", client).step()
    await lab.client.merge_patch(DTNS, None, "dtn-a", {"status": {"jobs": 3}}, subresource="status")
    await agent_of("dtn-a", client, report=NodeReport(agent=AgentStatus(instance="two"), kernel=KernelStatus(release="6.13"))).step()
    status = (await lab.client.get(DTNS, None, "dtn-a"))["status"]
    assert status["kernel"] == {"release": "6.13", "congestionControls": [], "allowedCongestionControls": []}
    assert (status["jobs"], status.get("cpus"), status["interfaces"]) == (3, None, [])


async def test_an_agent_may_not_write_of_another_node(lab: Lab, tokens: Tokens) -> None:
    for node in ("dtn-a", "dtn-b"):
        await lab.client.create(DTNS, None, data_transfer_node(node))
    client = await tokens.of_node("dtn-a")
    await client.merge_patch(DTNS, None, "dtn-a", {"status": {"cpus": 1}}, subresource="status")
    with pytest.raises(ForbiddenError, match="own node alone, and this token is of node dtn-a"):
        await client.merge_patch(DTNS, None, "dtn-b", {"status": {"cpus": 1}}, subresource="status")
    with pytest.raises(ForbiddenError, match="own node alone"):
        await client.create(DTNS, None, data_transfer_node("dtn-c"))
    with pytest.raises(ForbiddenError, match="no node"):
        await (await tokens.of_nobody()).merge_patch(DTNS, None, "dtn-a", {"status": {"cpus": 1}}, subresource="status")


DECLARED: dict[str, KubeObject] = {
    "a site": data_transfer_node(site="here"),
    "slots": data_transfer_node(slots=100),
    "interfaces": data_transfer_node(interfaces=[{"name": "data0"}]),
    "labels": {**data_transfer_node(), "metadata": {"name": "dtn-a", "labels": {"team": "x"}}},
    "a finalizer": {**data_transfer_node(), "metadata": {"name": "dtn-a", "finalizers": ["example.com/stay"]}},
}


@pytest.mark.parametrize("case", DECLARED)
async def test_an_agent_declares_nothing(tokens: Tokens, case: str) -> None:
    client = await tokens.of_node("dtn-a")
    with pytest.raises(ForbiddenError, match="empty spec"):
        await client.create(DTNS, None, DECLARED[case])


CONDITION = {"type": "Ready", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("status", [{"conditions": [CONDITION]}, {"jobs": 0}, {"summary": {"free": "1"}}, {"observedGeneration": 9}])
async def test_an_agent_may_not_write_what_the_operator_concludes(lab: Lab, tokens: Tokens, status: KubeObject) -> None:
    await lab.client.create(DTNS, None, data_transfer_node())
    client = await tokens.of_node("dtn-a")
    with pytest.raises(ForbiddenError, match="are the operator's"):
        await client.merge_patch(DTNS, None, "dtn-a", {"status": {"cpus": 1, **status}}, subresource="status")


async def test_an_agent_may_do_nothing_else(lab: Lab, tokens: Tokens) -> None:
    await lab.client.create(DTNS, None, data_transfer_node())
    client = await tokens.of_node("dtn-a")
    with pytest.raises(ForbiddenError):
        await client.merge_patch(DTNS, None, "dtn-a", {"spec": {"slots": 0}})
    with pytest.raises(ForbiddenError):
        await client.get(DTNS, None, "dtn-a")
    with pytest.raises(ForbiddenError):
        await client.delete(DTNS, None, "dtn-a")


AGENTS = 1000
MINUTES = 7
LOOKS_PER_MINUTE = 4
AT_A_TIME = 16
"""What this one process asks at a time; 1,000 nodes are 1,000 processes."""


@pytest.mark.long
async def test_a_thousand_agents_ask_little_of_the_api_server(lab: Lab, control_plane: ControlPlane) -> None:
    configuration = await load_configuration(control_plane.kubeconfig("agents", ("audited", "system:masters")))
    client = KubeClient(configuration, timeout_seconds=REQUEST_SECONDS)
    seconds = 0.0
    reports = dict.fromkeys(range(AGENTS), REPORT)
    turns = asyncio.Semaphore(AT_A_TIME)

    def one(number: int) -> Agent:
        async def look() -> NodeReport:
            return reports[number]

        return Agent(
            node=f"node-{number:04}",
            look=look,
            client=client,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds),
            monotonic=lambda: seconds,
            # Evenly spread and the same each time.
            chance=lambda: (number * 0.6180339887 + seconds * 0.7548776662) % 1.0,
        )

    async def step(agent: Agent) -> None:
        async with turns:
            await agent.step()

    agents = [one(number) for number in range(AGENTS)]
    by_minute: list[int] = []
    before = len(control_plane.audit())
    try:
        for minute in range(MINUTES):
            written = sum(agent.writes for agent in agents)
            if minute == MINUTES - 2:
                # A switch goes down with the links of a twentieth of the nodes.
                reports |= dict.fromkeys(range(AGENTS // 20), without_carrier(REPORT))
            for _ in range(LOOKS_PER_MINUTE):
                await asyncio.gather(*map(step, agents))
                seconds += 60 / LOOKS_PER_MINUTE
            by_minute.append(sum(agent.writes for agent in agents) - written)
        requests = [request for request in control_plane.audit()[before:] if request["user"]["username"] == "agents"]
    finally:
        await client.close()
        await eventually(lambda: _all_are_deleted(lab), "a cluster without data transfer nodes")
    assert [agent.failed_writes for agent in agents] == [0] * AGENTS
    # Each agent tries to write, makes its object, and writes; from then on a report is one request.
    assert Counter(request["verb"] for request in requests) == {"create": AGENTS, "patch": AGENTS + sum(by_minute)}
    later = by_minute[1:]
    by_second = sum(later) / (60 * len(later))
    print(f"\n{AGENTS} agents: {by_second:.2f} requests per second after the first minute, {max(later) / 60:.2f} in the busiest")
    assert by_second < 5
    assert max(later) < 60 * 8


async def _all_are_deleted(lab: Lab) -> bool:
    """Deletes them; the server gives up on so many where it is slow, and then has deleted some."""
    lab.kubectl("delete", "--raw", "/apis/fairlead.io/v1alpha1/datatransfernodes", check=False)
    return not [body async for page in lab.client.list_pages(DTNS) for body in page]


def without_carrier(report: NodeReport) -> NodeReport:
    """The report of a node whose first interface has lost its carrier."""
    first, *others = report.interfaces
    return report.model_copy(update={"interfaces": (first.model_copy(update={"carrier": False}), *others)})
