"""Kueue, as it runs on a cluster, decides when jobs have a link: they wait, are admitted, displaced, and go on from what has arrived."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.lib.history import condition, phase
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, FOLDER, SOURCE_NODE, transfer_job
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.trees.listing import compare, totals

pytestmark = [pytest.mark.kueue, pytest.mark.exclusive]

VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE = {"kueue.x-k8s.io/queue-name": "bulk"}
UPLINK, FLAVOR = "e2e-uplink", "e2e-wan"
QUOTA = "10M"
BYTES = 120_000_000


@pytest.fixture(scope="session")
def more_values() -> Mapping[str, Any]:
    return {"kueue": {"enabled": True}}


@pytest.fixture
def queue(lab: Lab, kubectl: Kubectl) -> Iterator[None]:
    """A queue of the namespace, for a link of 10 Mb/s."""
    quota = {"name": FLAVOR, "resources": [{"name": "fairlead.io/bandwidth", "nominalQuota": QUOTA}]}
    spec: Object = {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}}
    spec["resourceGroups"] = [{"coveredResources": ["fairlead.io/bandwidth"], "flavors": [quota]}]
    bodies: list[Object] = [
        {"kind": "ResourceFlavor", "metadata": {"name": FLAVOR}},
        {"kind": "ClusterQueue", "metadata": {"name": UPLINK}, "spec": spec},
        {"kind": "LocalQueue", "metadata": {"name": "bulk", "namespace": lab.namespace}, "spec": {"clusterQueue": UPLINK}},
    ]
    try:
        kubectl.apply(*({"apiVersion": VERSION, **body} for body in bodies))
        yield
    finally:
        jobs = [job["metadata"]["name"] for job in kubectl.list("transferjobs", namespace=lab.namespace)]
        kubectl.delete("transferjobs", jobs, namespace=lab.namespace, wait_s=240)
        kubectl.delete("localqueues.kueue.x-k8s.io", ["bulk"], namespace=lab.namespace, wait_s=240)
        kubectl.delete("clusterqueues.kueue.x-k8s.io", [UPLINK], wait_s=240)
        kubectl.delete("resourceflavors.kueue.x-k8s.io", [FLAVOR], wait_s=240)


def submit(lab: Lab, name: str, limit: str, **spec: Any) -> Job:
    """A job in the queue, to a folder of its own."""
    job = transfer_job(lab.namespace, name, suspend=True, bandwidth={"limit": limit}, destination={"path": name}, **spec)
    job["metadata"]["labels"] = QUEUE
    return lab.submit_object(job)


def true_of(kubectl: Kubectl, job: Job) -> set[str]:
    """The conditions that are true of the job's Workload; empty before there is one."""
    found = [
        each
        for each in kubectl.list("workloads.kueue.x-k8s.io", namespace=job.namespace)
        if any(owner["uid"] == job.uid for owner in each["metadata"].get("ownerReferences", []))
    ]
    return {each["type"] for workload in found for each in workload.get("status", {}).get("conditions", []) if each["status"] == "True"}


def has_arrived(lab: Lab, job: Job) -> None:
    """Asserts that the job's destination holds what its source does."""
    assert compare(lab.listing(lab.source, FOLDER), lab.listing(lab.destination, job.name)) == []


def test_a_job_waits_for_bandwidth_is_displaced_by_a_more_urgent_one_and_goes_on_from_what_has_arrived(
    lab: Lab, queue: None, kubectl: Kubectl
) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES, files=6)
    files, size_bytes = totals(lab.listing(lab.source, FOLDER))
    ordinary = submit(lab, "ordinary", "8M")
    ordinary.wait_phase("Transferring")
    following = submit(lab, "following", "8M")
    wait_until(
        lambda: "QuotaReserved" not in true_of(kubectl, following) and true_of(kubectl, ordinary) >= {"Admitted"},
        "the following job in the queue",
        last_seen=lambda: (true_of(kubectl, ordinary), true_of(kubectl, following)),
    )

    def whole_blocks(seen: Object) -> bool:
        return int(seen.get("status", {}).get("progress", {}).get("bytesTransferred", 0)) >= size_bytes // 10

    ordinary.wait_before_end(whole_blocks, "a tenth of the data")
    urgent = submit(lab, "urgent", "10M", priority=50)
    ordinary.wait_phase("Suspended")
    urgent.wait_phase("Transferring")
    assert not true_of(kubectl, ordinary) & {"Admitted", "QuotaReserved"}
    assert ordinary.object["spec"]["suspend"] and following.object["spec"]["suspend"]
    assert following.status.get("attempts", 0) == 0
    # What Workloads hold stays as it is, so a job that may send more does not let another one in.
    urgent.patch(bandwidth={"limit": "100M"})
    urgent.wait_succeeded()
    has_arrived(lab, urgent)
    wait_until(lambda: "Finished" in true_of(kubectl, urgent), "Kueue to be told that the urgent job has ended")

    carried_before = lab.cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE)
    ordinary.wait_before_end(lambda seen: seen.get("status", {}).get("attempts") == 2 and phase(seen) == "Transferring", "a second attempt")
    assert following.object["spec"]["suspend"], "the one that came first goes first"
    ordinary.patch(bandwidth={"limit": "100M"})
    done = ordinary.wait_succeeded()
    carried = lab.cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE) - carried_before
    has_arrived(lab, ordinary)
    succeeded = condition(done, "Succeeded")
    assert succeeded is not None
    kept = re.search(r"(\d+) bytes were there from earlier attempts", succeeded["message"])
    assert kept is not None, succeeded["message"]
    assert int(kept[1]) >= size_bytes // 20
    # With headers, records and probes a twentieth more than the rest of the data.
    assert carried <= 1.05 * (size_bytes - int(kept[1])), "bytes were moved twice"
    assert done["status"].get("failures", 0) == 0, "who makes room does not fail"

    following.wait_phase("Transferring")
    following.patch(bandwidth={"limit": "100M"})
    following.wait_succeeded()
    has_arrived(lab, following)
    assert following.status["attempts"] == 1
    assert files == following.status["progress"]["filesTotal"]
