"""A job's life on a real API server: the whole operator runs in this process, the test plays scheduler, kubelets and movers."""

from __future__ import annotations

from kubelet import FakeNodes
from lab import Lab, eventually

from fairlead.api import names


async def test_a_job_succeeds_on_the_receivers_verdict(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        created = await lab.create_job()
        receiver = await lab.appears("receiver")
        assert receiver["metadata"]["name"] == names.child_name("job", created["metadata"]["uid"], "receiver", 1)
        assert names.FINALIZER in (await lab.job())["metadata"]["finalizers"]
        assert await lab.pod("sender") is None
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        assert f"--connect=198.19.0.2:{_data_port(receiver)}" in sender["spec"]["containers"][0]["args"]
        await nodes.start(sender)
        await lab.condition("MoversReady")
        await lab.condition("PathProbed")
        nodes.progress |= {"bytes_transferred": 500}

        async def half_way() -> bool:
            return ((await lab.job())["status"].get("progress") or {}).get("percent") == 50

        await eventually(half_way, "50 %", lab.job)
        await nodes.finish(receiver)
        await nodes.finish(sender)
        succeeded = await lab.condition("Succeeded")
        assert succeeded["reason"] == "Verified"
        lab.kubectl("-n", lab.namespace, "wait", "--for=condition=Succeeded", "--timeout=1s", "transferjob/job")
        status = (await lab.job())["status"]
        assert status["phase"] == "Succeeded"
        assert status["decision"]["abstained"] is True
        assert status["endpoints"]["destination"]["address"] == "198.19.0.2"
        assert ("Normal", "Succeeded") in await lab.events()


def _data_port(pod: dict[str, dict[str, list[dict[str, list[dict[str, object]]]]]]) -> object:
    return next(port["containerPort"] for port in pod["spec"]["containers"][0]["ports"] if port["name"] == "data")
