"""The node guard follows what a real API server says of its node's senders."""

from __future__ import annotations

import asyncio
import contextlib

from kubelet import FakeNodes
from lab import Lab, eventually

from fairlead.api import names
from fairlead.guard.loop import Guard
from fairlead.guard.main import NodePods
from fairlead.guard.ruleset import no_rules
from fairlead.kube.client import PODS, load_configuration


async def test_rules_follow_the_senders_of_the_guards_own_node(lab: Lab) -> None:
    scripts: list[str] = []

    async def install(script: str) -> None:
        scripts.append(script)

    async def held(text: str) -> bool:
        return bool(scripts) and text in scripts[-1]

    async def free() -> bool:
        # Other tests' senders are on the same node.
        return bool(scripts) and "rate over 21000000 bytes/second" not in scripts[-1]

    async def seen() -> list[str]:
        return scripts

    pods = NodePods(await load_configuration(lab.operator_kubeconfig), "dtn-a")
    guard = asyncio.create_task(Guard(pods=pods.now, changes=pods.changes, install=install).run())
    try:
        async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
            await lab.create_job(bandwidth={"limit": "80M"})
            await nodes.start(await lab.appears("receiver"))
            sender = await lab.appears("sender")
            await nodes.start(sender)
            await eventually(lambda: held("rate over 10500000 bytes/second"), "the sender's rule", seen)
            patch = {"metadata": {"annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: "160M"}}}
            await lab.client.merge_patch(PODS, lab.namespace, sender["metadata"]["name"], patch)
            await eventually(lambda: held("rate over 21000000 bytes/second"), "the rule with the new cap", seen)
            await nodes.finish(sender)
            await eventually(free, "no rule for a sender that has ended", seen)
    finally:
        guard.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await guard
        await pods.close()
    assert scripts[-1] == no_rules()
