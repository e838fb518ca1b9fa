"""Jobs of two tenants share a link by weight, what holds a cap is real, and a mover that does not keep to its cap is caught."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from e2e.lib import guard
from e2e.lib.history import condition_with_reason
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.node import bucket_of, interface_of, make_deaf_to_its_cap, token_buckets
from e2e.lib.policy import LINK, in_force, metrics, metrics_page, policy, rate_bps, status
from e2e.lib.waiting import wait_until
from e2e.lib.wire import Counter, counted
from fairlead_dev.clients.kubectl import CommandError, Kubectl, Object
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.promtool import complaints

CAPACITY = "20M"
LONG_BYTES = 600_000_000
"""Of each of two jobs: four minutes at the link's whole capacity, longer than shares take to settle on a slow machine. Never all sent."""
GUARDED = "4M"
"""So slow that the data last for minutes, in which also a slow machine has done what the guard's test does."""
GUARD_WINDOW_S = 10.0
"""At that rate a bundle of 64 KiB more or less is one per cent of it."""
M = 1e6


def near(text: str, mbps: float) -> bool:
    """Whether a rate as a status writes it is within 2 % of `mbps`."""
    return rate_bps(text) == pytest.approx(mbps * M, rel=0.02)


def is_told(job: Job, mbps: float) -> bool:
    """Whether the job's status has this share, held by pacing. Fails where the job has ended."""
    assert job.status.get("phase") not in ("Succeeded", "Failed"), f"{job.namespace}/{job.name} ended too early: {job.status}"
    bandwidth: Object = job.status.get("bandwidth", {})
    return near(bandwidth.get("allocated", "0"), mbps) and bandwidth.get("enforcedBy") == "Pacing"


def measures(job: Job, mbps: float) -> bool:
    """Whether the rate that the job's status gives as measured fits a share."""
    # It is of the payload: it lacks headers and encryption.
    return 0.85 * mbps <= rate_bps(job.status.get("bandwidth", {}).get("measured", "0")) / M <= 1.05 * mbps


def wait_for_shares(*expected: tuple[Job, Counter, float]) -> None:
    """Waits until all these jobs have their shares in Mb/s in their status, and on the wire at the same time."""
    sent_mbps: list[float] = []

    def reached() -> bool:
        sent_mbps.clear()
        if all(is_told(job, mbps) for job, _, mbps in expected):
            with ThreadPoolExecutor() as threads:
                sent_mbps.extend(threads.map(Counter.rate_mbps, [counter for _, counter, _ in expected]))
        return bool(sent_mbps) and all(0.85 * mbps <= sent <= 1.05 * mbps for sent, (_, _, mbps) in zip(sent_mbps, expected, strict=True))

    wanted = " and ".join(f"{mbps:g} Mb/s" for _, _, mbps in expected)
    wait_until(reached, f"shares of {wanted}", last_seen=lambda: (sent_mbps, [job.status.get("bandwidth") for job, _, _ in expected]))


def wait_for_annotated_cap(job: Job, mbps: float) -> Object:
    """The job's sender once its annotation has this cap."""

    def annotations(pod: Object | None) -> Object:
        return pod["metadata"].get("annotations", {}) if pod else {}

    def capped() -> Object | None:
        pod = job.pod("sender")
        return pod if near(annotations(pod).get("kubernetes.io/egress-bandwidth", "0"), mbps) else None

    return wait_until(capped, f"{mbps:g} Mb/s in the sender's annotation", last_seen=lambda: annotations(job.pod("sender")))


@pytest.mark.exclusive
@pytest.mark.source("plain", bytes_total=LONG_BYTES, files=4)
def test_two_tenants_share_by_weight_and_follow_a_change_while_they_run(
    lab: Lab, neighbour: Lab, cluster: LocalCluster, kubectl: Kubectl
) -> None:
    light, heavy = lab.namespace, neighbour.namespace
    with in_force(kubectl, CAPACITY, {light: 1, heavy: 3}), ExitStack() as counters:
        one, other = lab.submit(), neighbour.submit()
        one_sent, other_sent = (counters.enter_context(counted(cluster, job)) for job in (one, other))
        wait_for_shares((one, one_sent, 5), (other, other_sent, 15))
        senders = [job.pod("sender") for job in (one, other)]

        kubectl.apply(policy(CAPACITY, {light: 1, heavy: 1}))
        wait_for_shares((one, one_sent, 10), (other, other_sent, 10))
        for job, before in zip((one, other), senders, strict=True):
            assert before is not None
            assert wait_for_annotated_cap(job, 10)["metadata"]["uid"] == before["metadata"]["uid"], "a sender was replaced"

        # An advisor may hold a mover's data back for some seconds, to probe the path: figures of a moment are waited for, all in one
        # version of the status.
        def shared_fairly(found: Object) -> bool:
            allocated = {tenant["name"]: tenant["allocated"] for tenant in found.get("tenants", [])}
            halved = all(near(allocated.get(name, "0"), 10) for name in (light, heavy))
            full = any(
                near(link["allocated"], 20) and rate_bps(link.get("measured", "0")) == pytest.approx(20 * M, rel=0.15)
                for link in found.get("links", [])
            )
            return halved and full and found.get("jobs") == 2 and float(found.get("jainIndex", 0)) >= 0.99

        def said() -> Object | None:
            found = status(kubectl)
            return found if shared_fairly(found) else None

        shared = wait_until(said, "a full link, halved, and a Jain index of 0.99 in the policy's status", last_seen=lambda: status(kubectl))
        assert [link["name"] for link in shared["links"]] == [LINK]
        wait_until(
            lambda: measures(one, 10) and measures(other, 10),
            "the measured rates of both jobs in their statuses",
            last_seen=lambda: [job.status.get("bandwidth") for job in (one, other)],
        )

        def shown(now: dict[str, float]) -> bool:
            def of_tenants(what: str) -> list[float]:
                names = (f'fairlead_operator_tenant_{what}_bytes_per_second{{tenant="{name}"}}' for name in (light, heavy))
                return [now.get(name, 0) * 8 for name in names]

            fair = now.get(f'fairlead_operator_link_jain_ratio{{link="{LINK}"}}', 0) >= 0.98
            allocated = of_tenants("allocated") == pytest.approx([10 * M, 10 * M], rel=0.02)
            return fair and allocated and of_tenants("measured") == pytest.approx([10 * M, 10 * M], rel=0.15)

        wait_until(
            lambda: shown(metrics(cluster, kubectl)),
            "both tenants at their share in the metrics, and a Jain index that says so",
            not_yet=(CommandError,),
        )
        page = wait_until(lambda: metrics_page(cluster, kubectl), "the page of metrics", not_yet=(CommandError,))
        assert complaints(page) == ""

        one.patch(suspend=True)
        wait_for_shares((other, other_sent, 20))


@pytest.mark.long(60)
def test_a_mover_that_does_not_keep_to_its_cap_is_caught(lab: Lab, cluster: LocalCluster) -> None:
    lab.write(lab.source, "plain", bytes_total=300_000_000, files=6)
    job = lab.submit(bandwidth={"limit": "10M"})
    job.wait_phase("Transferring")
    kept = job.wait_reason("WithinCap")
    assert kept["status"]["bandwidth"]["enforcedBy"] == "Pacing"

    # Three times what it may send, and a seventh of what the link takes: the data outlast the judgement on a slow machine too.
    make_deaf_to_its_cap(cluster, SOURCE_NODE, job.uid, own="30M")
    caught = job.wait_before_end(lambda seen: condition_with_reason(seen, "AboveCap"), "AboveCap")
    make_deaf_to_its_cap(cluster, SOURCE_NODE, job.uid)
    condition = next(c for c in caught["status"]["conditions"] if c["type"] == "CapEnforced")
    assert condition["status"] == "False"
    assert "more than 10M" in condition["message"]
    assert caught["status"]["bandwidth"]["enforcedBy"] == "None"
    assert caught["status"]["bandwidth"]["allocated"] == "10M"
    wait_until(lambda: [event for event in job.events() if event["reason"] == "CapExceeded"], "an event that says so")
    job.wait_succeeded()
    lab.assert_equal()


@pytest.mark.long(150)
def test_a_cap_on_the_pod_network_is_a_token_bucket_on_the_senders_interface(lab: Lab, cluster: LocalCluster) -> None:
    # Two minutes: on a busy machine each question to a node takes seconds, and the bucket goes with the pod.
    lab.write(lab.source, "plain", bytes_total=60_000_000, files=3)
    job = lab.submit(network="Pod", bandwidth={"limit": "4M"})
    job.wait_phase("Transferring")
    sender = job.pod("sender")
    assert sender is not None
    assert not sender["spec"].get("hostNetwork")

    interface = interface_of(cluster, SOURCE_NODE, "send", job.uid)
    bucket, rate_limit_bps = bucket_of(cluster, SOURCE_NODE, interface)
    assert rate_limit_bps == 4_000_000
    assert token_buckets(cluster, DESTINATION_NODE) == {}, "a limit is the sender's"

    job.wait_succeeded()
    lab.assert_equal()
    assert job.status["endpoints"]["source"]["interface"] == "eth0"
    job.delete()
    wait_until(lambda: bucket not in token_buckets(cluster, SOURCE_NODE), "the bucket goes with the pod")


@pytest.mark.exclusive
@pytest.mark.source("plain", bytes_total=100_000_000, files=4)
def test_the_node_guard_holds_a_mover_that_does_not_keep_to_its_cap(lab: Lab, cluster: LocalCluster, kubectl: Kubectl) -> None:
    with guard.on_nodes(cluster, kubectl):
        job = lab.submit(bandwidth={"limit": GUARDED})
        job.wait_phase("Transferring")
        held = job.wait_reason("WithinCap")
        assert held["status"]["bandwidth"]["enforcedBy"] == "TrafficControl"

        wait_until(
            lambda: guard.is_held_whatever_it_sends(cluster, SOURCE_NODE), "the sender held by its control group", not_yet=(CommandError,)
        )

        make_deaf_to_its_cap(cluster, SOURCE_NODE, job.uid)
        wait_until(lambda: guard.packets_dropped(cluster, SOURCE_NODE) > 0, "packets above the cap", not_yet=(CommandError,))
        with counted(cluster, job) as sent:
            rates_mbps = [sent.rate_mbps(GUARD_WINDOW_S) for _ in range(2)]
        assert max(rates_mbps) <= 1.05 * rate_bps(GUARDED) / M
        assert min(rates_mbps) > 0, "nothing was sent that could be held"
        assert [version.object for version in job.changes if condition_with_reason(version.object, "AboveCap")] == []

        # Higher than the path, so that the rest does not take long.
        job.patch(bandwidth={"limit": "10G"})
        job.wait_succeeded()
        lab.assert_equal()
    wait_until(lambda: not guard.has_rules(cluster, SOURCE_NODE), "the node without the guard's rules")
