"""Where jobs run, against a real API server: nodes and interfaces by what agents report, slots, and what is waited for."""

from __future__ import annotations

import json
from typing import Any

from kubelet import FakeNodes
from lab import NODES, Lab, describe, eventually

from fairlead.api import names
from fairlead.kube.client import CLAIMS, KubeObject


async def receiver_of(lab: Lab, job: KubeObject) -> KubeObject:
    """The job's receiver of any attempt."""

    async def look() -> KubeObject | None:
        labels = {names.LABEL_JOB_UID: job["metadata"]["uid"], names.LABEL_ROLE: "receiver"}
        return next((pod for pod in await lab.pods() if labels.items() <= pod["metadata"]["labels"].items()), None)

    return await eventually(look, f"a receiver of {job['metadata']['name']}", lambda: lab.job(job["metadata"]["name"]))


def arguments(pod: KubeObject) -> list[str]:
    found: list[str] = pod["spec"]["containers"][0]["args"]
    return found


async def waits(lab: Lab, name: str, reason: str) -> KubeObject:
    async def look() -> KubeObject | None:
        conditions = ((await lab.job(name)).get("status") or {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == "Scheduled" and c["status"] == "False" and c["reason"] == reason), None)

    return await eventually(look, f"Scheduled=False with {reason}", lambda: lab.job(name))


async def test_two_jobs_are_spread_over_two_interfaces_and_the_status_says_why(lab: Lab) -> None:
    for name in NODES:
        await describe(lab, name, slots=8)
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        first = await receiver_of(lab, await lab.create_job("first"))
        second = await receiver_of(lab, await lab.create_job("second"))
        assert "--interface=data0" in arguments(first)
        assert "--interface=data1" in arguments(second)
        status = (await lab.job("first"))["status"]
        chosen = {end: status["placement"][end] for end in ("source", "destination")}
        assert chosen == {
            "source": {"node": "dtn-a", "interfaces": ["data0"]},
            "destination": {"node": "dtn-b", "interfaces": ["data0"]},
        }
        await nodes.start(first)
        scheduled = await lab.condition("Scheduled", name="first")
        assert "dtn-a data0 → dtn-b data0: 10 Gb/s spare of 10 Gb/s" in scheduled["message"]


async def test_a_job_waits_for_a_slot_without_a_failure_and_starts_when_it_is_free(lab: Lab) -> None:
    for name in NODES:
        await describe(lab, name, slots=1)
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        first = await receiver_of(lab, await lab.create_job("first"))
        late = await lab.create_job("late")
        assert "all 1 slots of node dtn-a are taken" in (await waits(lab, "late", "NoSlotFree"))["message"]
        assert "failures" not in (await lab.job("late"))["status"]
        await nodes.start(first)
        await nodes.finish(first)
        assert "--interface=data0" in arguments(await receiver_of(lab, late))
        assert ("Warning", "WaitingForPlace") in await lab.events("late")


async def test_after_a_restart_of_the_operator_slots_are_still_taken(lab: Lab) -> None:
    for name in NODES:
        await describe(lab, name, slots=1)
    async with lab.operator():
        await receiver_of(lab, await lab.create_job("first"))
        await eventually(lambda: _is_placed(lab, "first"), "the placement in the status", lambda: lab.job("first"))
    async with lab.operator():
        await lab.create_job("late")
        await waits(lab, "late", "NoSlotFree")


async def _is_placed(lab: Lab, name: str) -> bool:
    return "placement" in ((await lab.job(name)).get("status") or {})


async def test_an_interface_without_carrier_is_left_out_and_one_that_is_back_is_used(lab: Lab) -> None:
    await describe(lab, "dtn-a", slots=8, down=("data0", "data1"))
    await describe(lab, "dtn-b", slots=8)
    async with lab.operator():
        job = await lab.create_job("job")
        assert "has no carrier" in (await waits(lab, "job", "NoInterfaceFits"))["message"]
        await describe(lab, "dtn-a", down=("data0",))
        receiver = await receiver_of(lab, job)
        assert "--interface=data1" in arguments(receiver)


async def test_the_next_attempt_after_a_loss_takes_the_other_interface(lab: Lab) -> None:
    for name in NODES:
        await describe(lab, name, slots=8)
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        first = await lab.appears("receiver", 1)
        assert "--interface=data0" in arguments(first)
        await nodes.start(first)
        await nodes.finish(first, verdict="Failed", reason="PeerLost", retry=True)
        second = await lab.appears("receiver", 2)
        assert "--interface=data1" in arguments(second)


async def test_one_namespace_does_not_take_what_is_left_for_others(lab: Lab) -> None:
    for name in NODES:
        await describe(lab, name, slots=4)
    async with lab.operator():
        for number in range(4):
            await lab.create_job(f"job-{number}")

        async def shared_out() -> bool:
            return len(await lab.pods()) == 3 and await _refused(lab) == 1

        await eventually(shared_out, "three jobs that run and one that waits", lambda: _conditions(lab))


async def _refused(lab: Lab) -> int:
    return sum("SlotShareUsedUp" in json.dumps(conditions) for conditions in await _conditions(lab))


async def _conditions(lab: Lab) -> list[Any]:
    return [((await lab.job(f"job-{number}")).get("status") or {}).get("conditions") for number in range(4)]


async def test_without_data_transfer_nodes_a_site_is_a_label_of_nodes(lab: Lab) -> None:
    async with lab.operator():
        claim = {"volume": {"persistentVolumeClaim": {"claimName": "unbound"}}}
        await lab.client.create(CLAIMS, lab.namespace, _unbound())
        await lab.create_job(destination={**claim, "site": "south"})
        receiver = await lab.appears("receiver")
        affinity = receiver["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = affinity["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": "fairlead.io/site", "operator": "In", "values": ["south"]}]}
        assert "--interface=auto" in arguments(receiver)


def _unbound() -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
    }
