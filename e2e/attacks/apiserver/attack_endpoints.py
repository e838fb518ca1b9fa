"""Endpoints that a receiver reports and that are not its own: the other mover would be made to connect there."""

from __future__ import annotations

import json

from aiohttp import web
from kubelet import FakeNodes
from lab import eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site
from fairlead.kube.client import KubeObject

REFUSED = ("EndpointRefused", "ReportMalformed")
NODE_ADDRESS = "198.18.0.11"


def _claim(nodes: FakeNodes, **lie: object) -> None:
    """From now on every receiver reports this of its endpoint."""

    async def answer(_: web.Request, ordinary: KubeObject) -> web.StreamResponse:
        return web.json_response(ordinary | lie)

    nodes.answers["receiver/endpoint"] = answer


async def _send_to(site: Site, nodes: FakeNodes, judge: Judge, name: str = "job", **lie: object) -> None:
    """Runs a job whose receiver lies, until its sender is made or the lie is refused. Then the truth must work."""
    await site.create_job(name)

    async def own(role: str) -> KubeObject | None:
        pods = [pod for pod in await site.pods() if pod["metadata"]["annotations"].get("fairlead.io/transferjob") == name]
        return next((pod for pod in pods if pod["metadata"]["labels"]["fairlead.io/role"] == role), None)

    receiver = await eventually(lambda: own("receiver"), "the receiver")
    _claim(nodes, **lie)
    await nodes.start(receiver)

    async def end() -> str | None:
        sender = await own("sender")
        if sender is not None:
            return f"the sender was made with {_connects(sender)}"
        conditions = (await site.job(name)).get("status", {}).get("conditions", [])
        return next((f"{each['reason']}: {each['message']}" for each in conditions if each["reason"] in REFUSED), None)

    observed = await eventually(end, "a sender or a refusal", lambda: site.job(name))
    judge(observed.startswith(REFUSED), observed)
    nodes.answers.clear()
    sender = await eventually(lambda: own("sender"), "the sender, once the receiver tells the truth", lambda: site.job(name))
    if observed.startswith(REFUSED):
        assert "198.19.0.2" in _connects(sender), sender


def _connects(sender: KubeObject) -> str:
    (mover,) = (each for each in sender["spec"]["containers"] if each["name"] == "mover")
    return next(str(word) for word in mover["args"] if word.startswith("--connect="))


@gains("connects to what only the sender's node may reach, such as its kubelet")
async def attack_loopback(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports a loopback address, with its own port."""
    async with site.operator():
        await _send_to(site, nodes, judge, address="127.0.0.1")


@gains("connects to the cloud's metadata from the node's network")
async def attack_metadata(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports the address and port of a cloud's metadata service."""
    async with site.operator():
        await _send_to(site, nodes, judge, address="169.254.169.254", port=80)


@gains("connects to neighbours on the link of the sender's node")
async def attack_link_local(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports a link-local address."""
    async with site.operator():
        await _send_to(site, nodes, judge, address="169.254.7.7")


@gains("makes nft refuse, and so ends the node guard with all its rules")
async def attack_address_with_a_scope(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports an IPv6 address with a scope."""
    async with site.operator():
        await _send_to(site, nodes, judge, address="fe80::1%5")


@gains("connects to loopback in a form that a filter for IPv4 does not see")
async def attack_ipv4_in_ipv6(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports an IPv4 address in the form of IPv6."""
    async with site.operator():
        await _send_to(site, nodes, judge, address="::ffff:127.0.0.1")


@gains("has the node's traffic to the API server held to the job's cap by the guard")
async def attack_port_of_the_api_server(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports an address that may be its own, with the API server's port."""
    async with site.operator():
        await _send_to(site, nodes, judge, port=6443)


@gains("connects to another job's receiver, and has its traffic held to a cap of one's own")
async def attack_another_jobs_receiver(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports the endpoint of another job's receiver on the same node."""
    async with site.operator():
        await site.create_job("victim")
        other = await site.appears("receiver")
        await nodes.start(other)
        (mover,) = (each for each in other["spec"]["containers"] if each["name"] == "mover")
        port = next(each["containerPort"] for each in mover["ports"] if each["name"] == "data")
        await _send_to(site, nodes, judge, "attack", port=port)


@gains("connects to another node, whose traffic the guard then holds")
async def attack_another_nodes_address(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports the address that the API server shows for the sender's node."""
    _patch_node(site, [{"type": "InternalIP", "address": NODE_ADDRESS}])
    try:
        async with site.operator():
            await _send_to(site, nodes, judge, address=NODE_ADDRESS)
    finally:
        _patch_node(site, [])


@gains("connects to any address that no node has reported")
async def attack_address_that_the_administrator_did_not_list(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A receiver reports an address that is not among those that its node's annotation lists."""
    site.kubectl("annotate", "node", "dtn-b", "fairlead.io/data-addresses=198.19.0.2")
    try:
        async with site.operator():
            await _send_to(site, nodes, judge, address="198.19.0.77")
    finally:
        site.kubectl("annotate", "node", "dtn-b", "fairlead.io/data-addresses-")


def _patch_node(site: Site, addresses: list[dict[str, str]]) -> None:
    change = json.dumps({"status": {"addresses": addresses}})
    site.kubectl("patch", "node", "dtn-a", "--subresource=status", "--type=merge", "-p", change)
