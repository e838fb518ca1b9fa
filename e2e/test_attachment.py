"""Jobs whose data goes through interfaces that Multus attaches to the movers' pods, over the second path of the local cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from e2e.lib import history
from e2e.lib.history import TOLD_AFTER
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.node import bucket_of, interface_of, make_deaf_to_its_cap, packets_held_back, redirects_of, token_buckets
from e2e.lib.turns import SECOND_PATH
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Object
from fairlead_dev.cluster.artifacts.images import PAUSE_IMAGE
from fairlead_dev.cluster.client import LocalCluster

LINK = "data1"
BULK_BYTES = 100_000_000
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
STATIC = {"type": "static"}


def macvlan(ipam: Object, *, master: str = LINK, **more: Any) -> Object:
    return {"type": "macvlan", "master": master, "mode": "bridge", "ipam": ipam, **more}


def addresses(first: int, last: int) -> Object:
    """Addresses of the second path's own network, counted on each node by itself."""
    start, end = f"198.19.1.{first}", f"198.19.1.{last}"
    return {"type": "host-local", "ranges": [[{"subnet": "198.19.1.0/24", "rangeStart": start, "rangeEnd": end}]]}


def bridge(subnet: str, peers: str) -> Object:
    """A bridge of the node with pods of its own, from which the other node's are reached over the second path."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": peers}]}
    return {"type": "bridge", "bridge": "br-data1", "isGateway": True, "ipam": ipam}


def define(lab: Lab, name: str, *plugins: Object, config: str | None = None) -> None:
    """Creates a NetworkAttachmentDefinition in the lab's namespace."""
    chain = {"cniVersion": "1.0.0", "name": name, "plugins": list(plugins)}
    lab.kubectl.apply(
        {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": lab.namespace},
            "spec": {"config": json.dumps(chain) if config is None else config},
        }
    )


@SECOND_PATH
def test_macvlan_attachments_carry_a_job_by_addresses_of_the_plugin_and_by_one_that_was_asked_for(lab: Lab, cluster: LocalCluster) -> None:
    lab.write(lab.source, "plain", bytes_total=20_000_000, files=3)
    define(lab, "from-a-range", macvlan(addresses(32, 47)))
    define(lab, "as-asked", macvlan(STATIC, capabilities={"ips": True}))
    carried_before = cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE, LINK)

    job = lab.submit(
        network="Attachment",
        source={"attachment": "from-a-range"},
        destination={"attachment": "as-asked", "attachmentAddresses": ["198.19.1.200/24"]},
    )
    job.wait_succeeded()

    lab.assert_equal()
    assert cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE, LINK) - carried_before > 20_000_000
    source, destination = (job.status["endpoints"][end] for end in ("source", "destination"))
    assert (source["interface"], destination["interface"]) == ("data0", "data0")
    assert destination["address"] == "198.19.1.200"
    assert source["address"] in {f"198.19.1.{number}" for number in range(32, 48)}
    assert job.status["attempts"] == 1


@SECOND_PATH
def test_the_rate_of_a_bridge_attachment_is_held_and_that_of_the_pods_own_interface_is_not(lab: Lab, cluster: LocalCluster) -> None:
    lab.write(lab.source, "plain", bytes_total=BULK_BYTES, files=3)
    define(lab, "at-a", bridge("198.19.17.0/24", "198.19.18.0/24"), BANDWIDTH)
    define(lab, "at-b", bridge("198.19.18.0/24", "198.19.17.0/24"), BANDWIDTH)
    before = token_buckets(cluster, DESTINATION_NODE)
    job = lab.submit(
        network="Attachment",
        source={"attachment": "at-a"},
        destination={"attachment": "at-b"},
        bandwidth={"limit": "10M"},
        # CUBIC takes the bucket's losses for an answer; BBR, which a busy machine may suggest, would leave the control connection nothing.
        transport={"congestionControl": "cubic"},
    )
    job.wait_phase("Transferring")

    attached = interface_of(cluster, SOURCE_NODE, "send", job.uid, "data0")
    bucket, rate_bps = bucket_of(cluster, SOURCE_NODE, attached)
    make_deaf_to_its_cap(cluster, SOURCE_NODE, job.uid)
    wait_until(lambda: packets_held_back(cluster, SOURCE_NODE, bucket) > 0, "the bucket holds what the sender no longer does")
    assert rate_bps == 10_500_000, "a twentieth above the limit"
    assert token_buckets(cluster, DESTINATION_NODE) == before, "a limit is the sender's"
    own = interface_of(cluster, SOURCE_NODE, "send", job.uid)
    assert "mirred" not in redirects_of(cluster, SOURCE_NODE, own), "the pod's own interface is held too"

    job.wait_succeeded()
    lab.assert_equal()
    assert job.status["endpoints"]["destination"]["address"].startswith("198.19.18.")
    # What the emulated path could carry would have taken a tenth of that time, and the burst is a fifth of a second.
    assert rate_of_data_bps(job) < 10_500_000 * 1.1


def rate_of_data_bps(job: Job) -> float:
    """How fast the data of the last attempt came, as the receiver measured it."""
    pod = job.pod("receiver")
    assert pod is not None
    (state,) = (each["state"] for each in pod["status"]["containerStatuses"])
    verdict = json.loads(state["terminated"]["message"])
    return float((BULK_BYTES - verdict["bytes_resumed"]) * 8 / verdict["bulk_seconds"])


@pytest.mark.long(30)
def test_what_keeps_multus_from_attaching_a_pod_is_a_reason_on_the_job(lab: Lab, record_property: Callable[[str, object], None]) -> None:
    lab.write(lab.source, "plain", bytes_total=1_000_000)
    define(lab, "works", macvlan(addresses(64, 79)))
    define(lab, "full", macvlan(addresses(80, 80)))
    define(lab, "no-parent", macvlan(addresses(64, 79), master="data9"))
    define(lab, "no-plugin", {"type": "no-such-plugin"})
    define(lab, "no-json", config="{")
    define(lab, "no-address", macvlan(STATIC))
    occupy(lab, "full")

    expected = {
        "not-defined": "create NetworkAttachmentDefinition not-defined in namespace",
        "full": "widen the range in the ipam of full",
        "no-parent": "the interface does not exist on node dtn-b",
        "no-plugin": "installs that CNI plugin on node dtn-b",
        "no-json": "the config of NetworkAttachmentDefinition no-json cannot be used",
        "no-address": "the job names attachmentAddresses",
    }
    jobs = {name: submit(lab, name, "destination", name) for name in expected}
    for name, remedy in expected.items():
        record_property(TOLD_AFTER, told_after(jobs[name], f"destination.attachment {name}: ", remedy))


def test_an_attachment_whose_parent_is_down_is_a_reason_on_the_job(
    lab: Lab, cluster: LocalCluster, record_property: Callable[[str, object], None]
) -> None:
    lab.write(lab.source, "plain", bytes_total=1_000_000)
    define(lab, "works", macvlan(addresses(64, 79)))
    with parent_that_is_down(cluster, DESTINATION_NODE) as parent:
        define(lab, "parent-down", macvlan(addresses(96, 111), master=parent))
        job = submit(lab, "down", "destination", "parent-down")
        # Multus attaches the pod all the same, and the mover looks at what it got before it listens.
        seen = job.wait_for(lambda version: version.get("status", {}).get("lastFailure"), "a failed attempt")
        job.patch(suspend=True)
        job.wait_phase("Suspended")
    failure, waits = seen["status"]["lastFailure"], history.condition(seen, "MoversReady")
    assert failure["reason"] == "InterfaceDown"
    assert f"destination.attachment parent-down: an administrator sets up the interface of node {DESTINATION_NODE}" in failure["message"]
    assert waits is not None
    assert "InterfaceDown" in waits["message"]
    record_property(TOLD_AFTER, history.seconds_until(seen, waits))


@contextmanager
def parent_that_is_down(cluster: LocalCluster, node: str) -> Iterator[str]:
    """An interface of the node without a carrier, until the block is left."""
    name = "e2e-down0"
    cluster.on(node, "ip", "link", "add", name, "type", "veth", "peer", "name", "e2e-down1")
    try:
        yield name
    finally:
        cluster.on(node, "ip", "link", "delete", name)


@SECOND_PATH
def test_a_job_whose_attachment_refuses_its_rate_is_told_so_before_it_has_a_pod_and_starts_once_the_definition_takes_it(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=1_000_000)
    define(lab, "works", macvlan(addresses(64, 79)))
    define(lab, "rate-refused", macvlan(addresses(81, 95)), BANDWIDTH)
    # A limit is the sender's: the receiver asks for no rate.
    job = submit(lab, "rate", "source", "rate-refused", bandwidth={"limit": "20M"})
    accepted = history.condition(job.wait_reason("AttachmentRefusesRate"), "Accepted")
    assert accepted is not None
    assert accepted["status"] == "False"
    assert accepted["message"].startswith("source.attachment rate-refused: ")
    assert job.pods() == []
    define(lab, "rate-refused", macvlan(addresses(81, 95)))
    job.wait_succeeded()
    assert job.status["attempts"] == 1


def submit(lab: Lab, name: str, end: str, definition: str, **spec: Any) -> Job:
    """A job one of whose ends has this definition, and the other one that works."""
    ends: Object = {each: {"attachment": "works"} for each in ("source", "destination")}
    ends[end]["attachment"] = definition
    ends["destination"]["path"] = name
    return lab.submit(name, network="Attachment", **ends, **spec)


def told_after(job: Job, field: str, remedy: str) -> float:
    """How long the job took to tell, in seconds, by condition and event, that Multus cannot attach what the field names, and the remedy."""

    def tells(version: Object) -> bool:
        # On a busy machine Multus' first word may be that the API server's answer was late.
        ready = history.condition(version, "MoversReady") or {"reason": "", "message": ""}
        return ready["reason"] == "AttachmentFailed" and f"Multus cannot attach {field}" in ready["message"] and remedy in ready["message"]

    seen = job.wait_for(tells, f"AttachmentFailed with {remedy!r}")
    (event, *_) = wait_until(
        lambda: [event for event in job.events() if event["reason"] == "MoversNotReady"], f"an event of {job.name} that says so"
    )
    created, told = (datetime.fromisoformat(each["metadata"]["creationTimestamp"]) for each in (seen, event))
    return (told - created).total_seconds()


def occupy(lab: Lab, definition: str) -> None:
    """A pod that holds the only address of a definition on the destination node."""
    name = f"holds-{definition}"
    networks = json.dumps([{"name": definition, "interface": "data0"}])
    container = {"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}
    lab.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": lab.namespace, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {"nodeName": DESTINATION_NODE, "terminationGracePeriodSeconds": 0, "containers": [container]},
        }
    )
    wait_until(lambda: (lab.kubectl.get("pod", name, namespace=lab.namespace) or {}).get("status", {}).get("podIP"), f"{name} is attached")
