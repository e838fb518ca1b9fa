"""Jobs that follow each other on a path, over the whole operator and a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubelet import FakeNodes
from lab import Lab, eventually, network_path

from fairlead.api import names
from fairlead.kube.client import PATHS, KubeObject

CLASSES = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
CLASSIFIED: dict[str, Any] = {
    "congestion_control": "bbr",
    "abstained": False,
    "reason": "Classified",
    "background": {"class": "B1-C0", "probability": 0.9, "abstained": False},
    "probabilities": {name: 0.9 if name == "B1-C0" else 0.02 for name in CLASSES},
    "any_bbr": 0.94,
    "confidence": 0.94,
    "model": "background-1.0.0 (sha256:0123456789ab)",
}


async def _paths(lab: Lab) -> list[KubeObject]:
    return [path async for page in lab.client.list_pages(PATHS) for path in page]


async def _mover(lab: Lab, job: str, role: str) -> KubeObject | None:
    for pod in await lab.pods():
        if pod["metadata"]["annotations"].get(names.ANNOTATION_JOB) == job and pod["metadata"]["labels"].get(names.LABEL_ROLE) == role:
            return pod
    return None


async def _appears(lab: Lab, job: str, role: str) -> KubeObject:
    return await eventually(lambda: _mover(lab, job, role), f"the {role} of {job}", lambda: lab.job(job))


async def _start_receiver(lab: Lab, nodes: FakeNodes, job: str, **spec: Any) -> KubeObject:
    await lab.create_job(job, **spec)
    receiver = await _appears(lab, job, "receiver")
    await nodes.start(receiver)
    return receiver


async def _start(lab: Lab, nodes: FakeNodes, job: str, **spec: Any) -> tuple[KubeObject, KubeObject]:
    receiver = await _start_receiver(lab, nodes, job, **spec)
    sender = await _appears(lab, job, "sender")
    await nodes.start(sender)
    return receiver, sender


def _advisor_options(sender: KubeObject) -> dict[str, str]:
    options = (argument.partition("=") for argument in sender["spec"]["initContainers"][0]["args"] if "=" in argument)
    return {name: value for name, _, value in options}


async def test_a_transfer_leaves_what_it_learnt_and_the_next_one_starts_from_it_without_a_probe(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.choice = CLASSIFIED
        receiver, sender = await _start(lab, nodes, "first")
        assert "--known-path" not in _advisor_options(sender)
        await lab.condition("PathProbed", name="first")
        for pod in (sender, receiver):
            await nodes.finish(pod, bytes_transferred=10**9, bytes_total=10**9, bulk_seconds=40.0)
        await lab.condition("Succeeded", name="first")

        async def learnt() -> KubeObject | None:
            return next((path for path in await _paths(lab) if (path.get("status") or {}).get("profile")), None)

        path = await eventually(learnt, "the path's profile", lambda: _paths(lab))
        _, second = await _start(lab, nodes, "second")
    assert path["spec"] == {
        "source": {"node": "dtn-a", "interface": "data0"},
        "destination": {"node": "dtn-b", "interface": "data0"},
        "otherTraffic": "Spare",
    }
    status = path["status"]
    assert (status["rtt"], status["background"]["class"], status["capacity"]) == ("60.000ms", "B1-C0", "200M")
    assert "lease" not in status
    options = _advisor_options(second)
    known = json.loads(options["--known-path"])
    assert options["--path-capacity"] == "200M"
    assert (known["background"]["probabilities"]["B1-C0"], known["background"]["model"]) == (0.9, CLASSIFIED["model"])
    assert second["metadata"]["annotations"][names.ANNOTATION_PATH] == names.PATH_KNOWN


@pytest.mark.parametrize(("whole", "rtt"), [(True, "90.000ms"), (False, "60.000ms")])
async def test_a_known_path_has_the_rtt_of_an_advisor_that_probed_it_as_a_whole_after_all(lab: Lab, whole: bool, rtt: str) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.choice = CLASSIFIED
        receiver, sender = await _start(lab, nodes, "first")
        await lab.condition("PathProbed", name="first")
        for pod in (sender, receiver):
            await nodes.finish(pod)
        await lab.condition("Succeeded", name="first")
        nodes.path = {"rtt_seconds": 0.09, "rtt_minimum_seconds": 0.089, "loss_ratio": 0.0, "samples": 200, "whole": whole}
        nodes.choice = {**CLASSIFIED, "congestion_control": "cubic", "any_bbr": 0.03}
        receiver, sender = await _start(lab, nodes, "second")
        assert sender["metadata"]["annotations"][names.ANNOTATION_PATH] == names.PATH_KNOWN
        await lab.condition("PathProbed", name="second")
        for pod in (sender, receiver):
            await nodes.finish(pod)

        async def second_background() -> KubeObject | None:
            statuses = (path.get("status") or {} for path in await _paths(lab))
            return next((status for status in statuses if float((status.get("background") or {}).get("anyBBR", 1)) == 0.03), None)

        status = await eventually(second_background, "the second job's news of the path", lambda: _paths(lab))
    assert status["rtt"] == rtt


async def test_while_one_probes_the_other_waits_and_is_told_the_answer(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.choice, nodes.decided = CLASSIFIED, False
        await _start(lab, nodes, "first")
        await _start_receiver(lab, nodes, "second")

        async def waits() -> bool:
            conditions = ((await lab.job("second")).get("status") or {}).get("conditions") or []
            return any(c["type"] == "PathProbed" and c["reason"] == "PathLeased" for c in conditions)

        await eventually(waits, "the second job to wait", lambda: lab.job("second"))
        assert await _mover(lab, "second", "sender") is None
        nodes.decided = True
        sender = await _appears(lab, "second", "sender")
    assert json.loads(_advisor_options(sender)["--known-path"])["background"]["any_bbr"] == 0.94


async def test_a_lease_left_by_a_dead_pod_is_free_at_once(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.decided = False
        _, sender = await _start(lab, nodes, "first")
        await _start_receiver(lab, nodes, "second")
        await nodes.end(sender, exit_code=137)
        heir = await _appears(lab, "second", "sender")
    assert "--known-path" not in _advisor_options(heir)


async def test_a_restarted_operator_knows_who_probes(lab: Lab) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.decided = False
        async with lab.operator():
            await _start(lab, nodes, "first")
        async with lab.operator():
            await _start_receiver(lab, nodes, "second")

            async def waits() -> bool:
                conditions = ((await lab.job("second")).get("status") or {}).get("conditions") or []
                return any(c["type"] == "PathProbed" and c["reason"] == "PathLeased" for c in conditions)

            await eventually(waits, "the second job to wait", lambda: lab.job("second"))


async def test_what_a_path_declares_is_told_and_the_object_is_kept_as_the_one_of_its_path(lab: Lab) -> None:
    await lab.client.create(PATHS, None, network_path("mine", capacity="150M", otherTraffic="Compete"))
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        _, sender = await _start(lab, nodes, "first")

        async def leased() -> bool:
            return any((path.get("status") or {}).get("conditions") for path in await _paths(lab))

        await eventually(leased, "a status of the path", lambda: _paths(lab))
    options = _advisor_options(sender)
    assert (options["--path-capacity"], options["--others-weight"]) == ("150M", "0")
    assert [path["metadata"]["name"] for path in await _paths(lab)] == ["mine"]


async def test_without_rights_to_paths_transfers_run_as_ever(lab: Lab) -> None:
    role = json.loads(lab.kubectl("get", "clusterrole", "fairlead", "-o", "json").stdout)
    rules = [rule for rule in role["rules"] if "networkpaths" not in rule["resources"]]
    lab.kubectl.apply({**role, "rules": rules, "metadata": {"name": "fairlead"}}, server_side=False)
    try:
        async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
            receiver, sender = await _start(lab, nodes, "first")
            for pod in (sender, receiver):
                await nodes.finish(pod)
            await lab.condition("Succeeded", name="first")
        assert await _paths(lab) == []
    finally:
        lab.kubectl.apply({**role, "metadata": {"name": "fairlead", "labels": role["metadata"].get("labels", {})}})


def _protocol(pod: KubeObject) -> str:
    return next(argument.partition("=")[2] for argument in pod["spec"]["containers"][0]["args"] if argument.startswith("--protocol="))


async def _measure(lab: Lab, nodes: FakeNodes, job: str, protocol: str, bulk_seconds: float, **spec: Any) -> tuple[KubeObject, KubeObject]:
    """Runs a job whose sender tells that its data went over `protocol`, until that is kept with its path."""
    receiver, sender = await _start(lab, nodes, job, **spec)
    await lab.condition("PathProbed", name=job)
    moved = {"bytes_total": 10**9, "bytes_transferred": 10**9, "bulk_seconds": bulk_seconds}
    await nodes.finish(sender, **moved, protocol=protocol, retransmitted_bytes=10**6, cpu_seconds=4.0)
    await nodes.finish(receiver, **moved)
    await lab.condition("Succeeded", name=job)
    uid = (await lab.job(job))["metadata"]["uid"]

    async def kept() -> bool:
        points = [point for path in await _paths(lab) for point in (path.get("status") or {}).get("engines", [])]
        return any(point["job"] == uid for point in points)

    await eventually(kept, f"what {job} measured of its protocol", lambda: _paths(lab))
    return receiver, sender


async def test_an_open_job_goes_over_quic_where_that_was_clearly_faster_until_udp_is_cut_there(lab: Lab) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            first = await _measure(lab, nodes, "plain", "TCP", 40.0)
            named = await _measure(lab, nodes, "named", "QUIC", 10.0, transport={"protocol": "QUIC"})
        # What was measured outlives the operator.
        async with lab.operator():
            receiver, sender = await _start(lab, nodes, "open")
            status = (await lab.job("open"))["status"]
            await lab.condition("PathProbed", name="open")
            nodes.progress |= {"protocol": "TCP"}
            await lab.condition("ProtocolKept", "False", name="open")
            moved = {"bytes_total": 10**9, "bytes_transferred": 10**9, "bulk_seconds": 40.0}
            await nodes.finish(sender, **moved, protocol="TCP", retransmitted_bytes=0, cpu_seconds=4.0)
            await nodes.finish(receiver, **moved)
            await lab.condition("Succeeded", name="open")
            after = await _start(lab, nodes, "after")
            barred = (await lab.job("after"))["status"]["engineChoice"]
    assert [_protocol(pod) for pod in (*first, *named, receiver, sender, *after)] == ["TCP"] * 2 + ["QUIC"] * 4 + ["TCP"] * 2
    choice = status["engineChoice"]
    assert (choice["protocol"], choice["message"]) == ("QUIC", "QUIC got 800M on this path in 1 transfer, TCP 200M in 1 transfer")
    assert [(each["protocol"], each["verdict"]) for each in choice["weighed"]] == [
        ("TCP", "Slower"),
        ("QUIC", "Chosen"),
        ("UDT", "NotMeasured"),
    ]
    assert [(each["protocol"], each["verdict"]) for each in barred["weighed"]] == [
        ("TCP", "Chosen"),
        ("QUIC", "UdpBlocked"),
        ("UDT", "UdpBlocked"),
    ]
