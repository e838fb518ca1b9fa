"""A job's life on a real API server: the whole operator runs in this process, the test plays scheduler, kubelets and movers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import aiohttp.web
import pytest
from kubelet import FakeNodes
from lab import PATIENCE_SECONDS, Lab, eventually
from prometheus_client.parser import text_string_to_metric_families

from fairlead.api import names
from fairlead.kube.client import JOBS, NODES, KubeObject, ResourceKind

MOST_WRITES = 22
"""Two finalizer changes, a Secret, two pods, four events, a status at each step, and two for the path; progress comes on top.

On a slow machine, word that a mover is late as well: a status and an event for each.
"""

STEADY_LOOKS = 20
"""Each asks the API server: a pause of the machine is one look, however long it lasts."""


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
            return (await lab.job()).get("status", {}).get("progress", {}).get("percent") == 50

        await eventually(half_way, "50 %", lab.job)
        await nodes.finish(sender)
        await nodes.finish(receiver)
        succeeded = await lab.condition("Succeeded")
        assert succeeded["reason"] == "Verified"
        lab.kubectl("-n", lab.namespace, "wait", "--for=condition=Succeeded", f"--timeout={PATIENCE_SECONDS:.0f}s", "transferjob/job")
        status = (await lab.job())["status"]
        assert status["phase"] == "Succeeded"
        assert status["decision"]["abstained"] is True
        end = status["endpoints"]["destination"]
        assert (end["address"], end["numaNode"], end["cpus"]) == ("198.19.0.2", 0, "0-3")
        await eventually(_has_event(lab, "Normal", "Succeeded"), "the event Succeeded")


async def test_a_whole_transfer_costs_few_writes_and_the_metrics_count_them(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver, sender = await _both_running(lab, nodes)
        await lab.condition("PathProbed")
        await nodes.finish(sender)
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        await _steady_version(lab)

        async def rests() -> dict[str, float] | None:
            figures = await _scrape("http://127.0.0.1:19090/metrics")
            return figures if figures["fairlead_operator_queue_depth"] == 0 else None

        figures = await eventually(rests, "an empty queue")
        writes = {labels: value for labels, value in figures.items() if labels.startswith("fairlead_operator_api_writes_total")}
        assert figures['fairlead_operator_api_writes_total{resource="pods",verb="create"}'] == 2
        assert figures['fairlead_operator_api_writes_total{resource="secrets",verb="create"}'] == 1
        # The Lease is renewed as long as the operator leads.
        assert sum(value for labels, value in writes.items() if "leases" not in labels) <= MOST_WRITES, writes
        assert figures['fairlead_operator_jobs{phase="Succeeded"}'] == 1
        assert figures["fairlead_operator_reconcile_duration_seconds_count"] > 5
        async with aiohttp.ClientSession() as session, session.get("http://127.0.0.1:18080/healthz") as response:
            assert response.status == 200
            assert "queue_depth" in (await response.json())["operator"]


async def test_the_senders_word_alone_is_no_success(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver, sender = await _both_running(lab, nodes)
        await nodes.finish(sender)
        await nodes.end(receiver, exit_code=0, message="not a verdict")
        retried = await lab.appears("receiver", attempt=2)
        assert retried["metadata"]["labels"][names.LABEL_ATTEMPT] == "2"
        status = (await lab.job())["status"]
        assert status["lastFailure"]["reason"] == "MoverDied"
        assert status["failures"] == 1


async def test_a_failed_attempt_is_followed_by_one_with_fresh_credentials(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job(backoffLimit=1)
        receiver, sender = await _both_running(lab, nodes)
        assert _secrets(lab) == [_secret_of(receiver)]
        await nodes.finish(receiver, verdict="Failed", reason="PeerLost", retry=True)
        await nodes.finish(sender, verdict="Failed", reason="PeerLost", retry=True)
        receiver = await lab.appears("receiver", attempt=2)
        assert _secret_of(receiver).endswith("-credentials-2")
        assert _secrets(lab) == [_secret_of(receiver)], "those of the first attempt are gone"
        await nodes.start(receiver)
        await nodes.finish(receiver, verdict="Failed", reason="ChecksumMismatch", retry=True)
        failed = await lab.condition("Failed")
        assert failed["reason"] == "BackoffLimitExceeded"
        assert "ChecksumMismatch" in failed["message"]
        assert _secrets(lab) == []
        lab.kubectl("-n", lab.namespace, "wait", "--for=condition=Failed", f"--timeout={PATIENCE_SECONDS:.0f}s", "transferjob/job")


async def test_credentials_end_with_the_transfer_that_used_them(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver, sender = await _both_running(lab, nodes)
        await nodes.finish(sender)
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        assert _secrets(lab) == []


async def test_a_failure_that_no_retry_mends_ends_the_job_at_once(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver, sender = await _both_running(lab, nodes)
        await nodes.finish(sender, verdict="Failed", reason="SourceMissing", retry=False)
        await nodes.finish(receiver, verdict="Failed", reason="PeerFailed", retry=False)
        assert (await lab.condition("Failed"))["reason"] == "SourceMissing"
        assert await lab.pod("receiver", attempt=2) is None


async def test_a_pod_that_multus_did_not_attach_fails_the_job_with_the_field_that_names_the_attachment(lab: Lab) -> None:
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "attachment": "lab-a"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "attachment": "lab-b"},
    }
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job(network="Attachment", bandwidth={"limit": "1G"}, **ends)
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        assert f"--connect=198.19.0.2:{_data_port(receiver)}" in sender["spec"]["containers"][0]["args"]
        for pod, definition, asked in (
            (receiver, "lab-b", {}),
            (sender, "lab-a", {"bandwidth": {"egressRate": 1_050_000_000, "egressBurst": 105_000_000}}),
        ):
            assert not pod["spec"].get("hostNetwork")
            (attached,) = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_NETWORKS])
            assert attached == {"name": definition, "namespace": lab.namespace, "interface": "data0", **asked}
        assert sender["metadata"]["annotations"][names.ANNOTATION_PACING] == "1G"
        await nodes.finish(sender, verdict="Failed", reason="InterfaceNotFound", retry=False)
        failed = await lab.condition("Failed")
        assert failed["reason"] == "InterfaceNotFound"
        assert "source.attachment lab-a" in failed["message"]
        assert f"NetworkAttachmentDefinition lab-a is in namespace {lab.namespace}" in failed["message"]


async def test_what_multus_says_becomes_a_reason_on_the_job_with_the_remedy(lab: Lab) -> None:
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "attachment": "lab-a"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "attachment": "lab-b"},
    }
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job(network="Attachment", **ends)
        failed = 'Failed to create pod sandbox: plugin type="multus" name="multus" failed (add): [physics/x/1:lab-b]: '
        await nodes.fail_network(await lab.appears("receiver"), failed + 'error adding container to network "lab-b": Link not found')

        async def named() -> bool:
            conditions = await lab.conditions()
            return any(c["type"] == "MoversReady" and c["reason"] == "AttachmentFailed" for c in conditions)

        await eventually(named, "the reason in MoversReady", lab.job)
        (ready,) = (c for c in await lab.conditions() if c["type"] == "MoversReady")
        assert "Multus cannot attach destination.attachment lab-b: Link not found" in ready["message"]
        assert "the interface does not exist on node dtn-b" in ready["message"]


async def test_a_mover_that_cannot_start_is_named(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await nodes.wait_reason(await lab.appears("receiver"), "ErrImageNeverPull", "no such image on the node")

        async def named() -> bool:
            conditions = await lab.conditions()
            return any(c["type"] == "MoversReady" and "ErrImageNeverPull" in c["message"] for c in conditions)

        await eventually(named, "the reason in MoversReady", lab.job)


@pytest.mark.long
async def test_movers_on_lost_nodes_are_told_and_the_transfer_goes_on_when_the_nodes_are_back(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.progress |= {"bytes_transferred": 500}
        await lab.create_job()
        receiver, sender = await _both_running(lab, nodes)
        answers = dict(nodes.answers)
        nodes.answers |= {f"{role}/{page}": _silence for role in ("receiver", "sender") for page in ("progress", "endpoint", "decision")}
        try:
            await _set_ready(lab, "False")

            async def both_lost() -> KubeObject | None:
                # The first of them may be told before the other.
                found = [c for c in await lab.conditions() if (c["type"], c["status"]) == ("NodesReady", "False")]
                told = "node dtn-a of the sender and node dtn-b of the receiver are not ready"
                return next((c for c in found if told in c["message"]), None)

            assert (await eventually(both_lost, "both lost nodes to be told", lab.job))["reason"] == "NodesLost"
            await eventually(_has_event(lab, "Warning", "NodesLost"), "the event NodesLost")
        finally:
            nodes.answers = answers
            await _set_ready(lab, "True")
        assert (await lab.condition("NodesReady"))["reason"] == "NodesBack"
        await nodes.finish(sender)
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        assert (await lab.job())["status"]["attempts"] == 1


@pytest.mark.long
async def test_a_mover_that_no_node_can_take_counts_as_no_failure_and_is_tried_again(lab: Lab) -> None:
    # Longer than it takes until the scheduler's words are there.
    lab.options["startup-timeout-seconds"] = "30"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job(backoffLimit=0)
        await nodes.leave_unscheduled(await lab.appears("receiver"), "0/2 nodes are available: 2 Insufficient cpu.")

        async def waits() -> bool:
            status = (await lab.job()).get("status") or {}
            return "Insufficient cpu" in (status.get("lastFailure") or {}).get("message", "")

        await eventually(waits, "the scheduler's words in lastFailure", lab.job)

        async def again() -> KubeObject | None:
            status: KubeObject = (await lab.job()).get("status") or {}
            return status if status.get("attempts") == 2 else None

        status = await eventually(again, "another attempt", lab.job)
        assert "failures" not in status
        assert status["phase"] == "Pending"


async def test_a_mover_that_does_not_start_in_time_fails_the_attempt(lab: Lab) -> None:
    lab.options["startup-timeout-seconds"] = "2"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running():
        await lab.create_job(backoffLimit=0)
        failed = await lab.condition("Failed")
        assert failed["reason"] == "BackoffLimitExceeded"
        assert "ReceiverNotReady" in failed["message"]


@pytest.mark.parametrize(
    ("spec", "reason", "word"),
    [
        ({"source": {"node": "dtn-x", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a"}}, "NodeNotFound", "dtn-x"),
        ({"source": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a"}}, "ClaimOnOtherNode", "raw"),
        ({"source": {"volume": {"persistentVolumeClaim": {"claimName": "missing"}}, "path": "a"}}, "ClaimNotFound", "missing"),
    ],
)
async def test_what_the_cluster_lacks_is_named_before_anything_is_made(lab: Lab, spec: dict[str, Any], reason: str, word: str) -> None:
    async with lab.operator():
        await lab.create_job(**spec)
        accepted = await lab.condition("Accepted", "False")
        assert accepted["reason"] == reason
        assert word in accepted["message"]
        assert await lab.pods() == []


async def test_suspension_stops_the_movers_and_resumption_starts_an_attempt_that_is_not_a_failure(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await _both_running(lab, nodes)
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"suspend": True}})
        await lab.condition("Suspended")

        async def no_pods() -> bool:
            return not await lab.pods()

        await eventually(no_pods, "both pods to be gone", lab.pods)
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"suspend": False}})
        await lab.appears("receiver", attempt=2)
        status = (await lab.job())["status"]
        assert status.get("failures", 0) == 0


async def test_a_job_that_is_suspended_from_the_start_makes_nothing(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job(suspend=True)
        await lab.condition("Suspended")
        assert await lab.pods() == []
        assert "finalizers" not in (await lab.job())["metadata"]


async def test_jobs_of_another_controller_are_left_alone(lab: Lab) -> None:
    async with lab.operator():
        foreign = await lab.create_job("foreign", managedBy="kueue.x-k8s.io/multikueue")
        await lab.create_job("ours", suspend=True)
        await lab.condition("Suspended", name="ours")
        assert (await lab.job("foreign"))["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]


async def test_nothing_is_written_while_nothing_happens(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await _both_running(lab, nodes)
        await lab.condition("PathProbed")
        steady = await _steady_version(lab)
        polls = len(nodes.requests)

        async def polled_on() -> bool:
            return len(nodes.requests) >= polls + 30

        await eventually(polled_on, "more polls")
        assert (await lab.job())["metadata"]["resourceVersion"] == steady
        assert Counter(nodes.requests)["receiver/progress"] > 5


async def test_a_finished_job_is_never_written_again(lab: Lab) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await lab.create_job()
            receiver, sender = await _both_running(lab, nodes)
            await nodes.finish(sender)
            await nodes.finish(receiver)
            await lab.condition("Succeeded")
            steady = await _steady_version(lab)
        # A new operator sees the job for the first time and looks at it at once; another job shows that it got around to it.
        async with lab.operator():
            await lab.create_job("later", suspend=True)
            await lab.condition("Suspended", name="later")
            assert (await lab.job())["metadata"]["resourceVersion"] == steady


async def test_a_refused_pod_speaks_in_the_status_and_the_job_goes_on_once_it_is_allowed(lab: Lab) -> None:
    limits = {"limits": [{"type": "Container", "max": {"memory": "8Mi"}}]}
    forbid = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": lab.namespace}, "spec": limits}
    await lab.client.create(ResourceKind("v1", "limitranges"), lab.namespace, forbid)
    async with lab.operator():
        await lab.create_job()
        refused = await lab.condition("Stalled")
        assert refused["reason"] == "CreationRefused"
        assert "maximum memory usage per Container is 8Mi" in refused["message"]
        lab.kubectl("-n", lab.namespace, "delete", "limitrange", "small")
        await lab.appears("receiver")
        await lab.condition("Stalled", "False")


async def test_two_jobs_between_the_same_nodes_get_ports_of_their_own(lab: Lab) -> None:
    lab.options |= {"ports": "24000-24019", "ports-namespace-percent": "100"}
    async with lab.operator():
        await asyncio.gather(*(lab.create_job(f"job-{number}") for number in range(4)))

        async def four() -> list[KubeObject] | None:
            pods = await lab.pods()
            return pods if len(pods) == 4 else None

        pods = await eventually(four, "four receivers", lab.pods)
        assert len({_data_port(pod) for pod in pods}) == 4, "the fifth block is for senders"


async def test_a_job_into_a_directory_that_another_one_writes_waits_until_that_has_ended(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await asyncio.gather(*(lab.create_job(name, destination=_destination("run42")) for name in ("one", "two")))
        receiver = await lab.appears("receiver")
        first = receiver["metadata"]["annotations"][names.ANNOTATION_JOB]
        late = {"one": "two", "two": "one"}[first]
        waiting = await lab.condition("Scheduled", "False", name=late)
        assert waiting["reason"] == "DestinationInUse"
        assert f"job {first} writes to the same directory" in waiting["message"]
        await lab.create_job("below", destination=_destination("run42/part"))
        assert (await lab.condition("Scheduled", "False", name="below"))["reason"] == "DestinationInUse"
        await lab.create_job("beside", destination=_destination("run421"))
        await eventually(lambda: _receiver(lab, "beside"), "the receiver of a job beside", lab.pods)
        assert ("Warning", "WaitingForDestination") in await lab.events(late)
        await nodes.start(receiver)
        await nodes.finish(receiver)
        await lab.condition("Succeeded", name=first)
        await eventually(lambda: _next_receiver(lab, late, "below"), "the receiver of one that waited", lab.pods)


async def _next_receiver(lab: Lab, *waited: str) -> KubeObject | None:
    found = [pod for name in waited if (pod := await _receiver(lab, name)) is not None]
    assert len(found) <= 1, "both write to one directory"
    return found[0] if found else None


async def _receiver(lab: Lab, name: str) -> KubeObject | None:
    of_job = [pod for pod in await lab.pods() if pod["metadata"]["annotations"][names.ANNOTATION_JOB] == name]
    return next((pod for pod in of_job if pod["metadata"]["labels"][names.LABEL_ROLE] == "receiver"), None)


def _destination(path: str) -> KubeObject:
    return {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": path}


async def _scrape(url: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        families = text_string_to_metric_families(await response.text())
    return {
        sample.name
        + ("{" + ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items())) + "}" if sample.labels else ""): sample.value
        for family in families
        for sample in family.samples
    }


async def _silence(request: aiohttp.web.Request, ordinary: KubeObject) -> aiohttp.web.StreamResponse:
    return aiohttp.web.Response(status=503)


async def _set_ready(lab: Lab, status: str) -> None:
    """What the node controller writes of both nodes."""
    for node in ("dtn-a", "dtn-b"):
        conditions = [{"type": "Ready", "status": status}]
        await lab.client.merge_patch(NODES, None, node, {"status": {"conditions": conditions}}, subresource="status")


async def _both_running(lab: Lab, nodes: FakeNodes) -> tuple[KubeObject, KubeObject]:
    receiver = await lab.appears("receiver")
    await nodes.start(receiver)
    sender = await lab.appears("sender")
    await nodes.start(sender)
    await lab.condition("MoversReady")
    return receiver, sender


async def _steady_version(lab: Lab) -> str:
    """The job's version once so many looks in a row have found the same: every write that a change brought about is through."""
    version, found = "", 0
    while found < STEADY_LOOKS:
        now = str((await lab.job())["metadata"]["resourceVersion"])
        version, found = now, found + 1 if now == version else 0
        await asyncio.sleep(0.05)
    return version


def _has_event(lab: Lab, kind: str, reason: str) -> Any:
    async def look() -> bool:
        return (kind, reason) in await lab.events()

    return look


def _data_port(pod: KubeObject) -> int:
    return int(next(port["containerPort"] for port in pod["spec"]["containers"][0]["ports"] if port["name"] == "data"))


def _secret_of(pod: KubeObject) -> str:
    return str(next(volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if volume["name"] == "tls"))


def _secrets(lab: Lab) -> list[str]:
    names = lab.kubectl("-n", lab.namespace, "get", "secrets", "-o", "name").stdout.split()
    return [name.removeprefix("secret/") for name in names]
