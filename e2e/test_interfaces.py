"""Jobs whose data goes through both interfaces of their nodes at once, each over a path of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.policy import in_force, policy, rate_bps
from e2e.lib.turns import CLUSTER, SECOND_PATH
from e2e.lib.waiting import wait_until
from e2e.lib.wire import counted
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.cluster.client import LocalCluster

LINKS = ["data0", "data1"]
BYTES = 50_000_000
SLOW = {"limit": "4M"}
"""Until both paths are counted, or one is cut: at full rate the transfer lasts a few seconds."""
ENOUGH_BYTES = 5_000_000
"""What data carries alone: far more than probes and the control connection."""
LONG_BYTES = 400_000_000
"""More than goes over both links of the policy before the test is done with them."""
FIRST, SECOND, NARROWED = "20M", "8M", "4M"
"""Capacities of the policy's links over the two paths."""
OVER_CAP, UNDER_CAP = 1.05, 0.7
"""Of a path's cap: what its packets may have on a busy machine, headers included."""
EARLIEST_BYTES, LATEST_BYTES = 1_000_000, 6_000_000
"""What each path has carried when one of them is cut."""


def submit_over_both(lab: Lab, bytes_total: int = BYTES, **spec: Any) -> Job:
    """A job over both paths, once its movers have told their interfaces."""
    lab.write(lab.source, "plain", bytes_total=bytes_total, files=10)
    job = lab.submit(source={"interfaces": LINKS}, destination={"interfaces": LINKS}, **spec)
    job.wait_before_end(lambda seen: all(interfaces_of(seen).values()), "both ends with their interfaces")
    return job


def interfaces_of(job: Object) -> dict[str, list[str]]:
    """The names of each end's interfaces, as its mover tells them."""
    endpoints: dict[str, Any] = job.get("status", {}).get("endpoints", {})
    return {end: [each["name"] for each in endpoints.get(end, {}).get("interfaces", [])] for end in ("source", "destination")}


@SECOND_PATH
def test_both_interfaces_carry_a_job(lab: Lab, cluster: LocalCluster) -> None:
    job = submit_over_both(lab, bandwidth=SLOW)
    with counted(cluster, job, 0) as first, counted(cluster, job, 1) as second:
        job.patch(bandwidth={"limit": "8M"})
        # On a busy machine a path may be given up for some seconds, and comes back.
        wait_until(
            lambda: min(first.bytes_sent(), second.bytes_sent()) > ENOUGH_BYTES,
            "data over both paths",
            last_seen=lambda: (first.bytes_sent(), second.bytes_sent()),
        )
        job.patch(bandwidth=None)
        job.wait_succeeded()
    lab.assert_equal()
    assert interfaces_of(job.object) == {"source": LINKS, "destination": LINKS}
    assert job.status["attempts"] == 1


# The policy is everybody's.
@pytest.mark.extended
@pytest.mark.exclusive
def test_each_path_of_a_job_has_the_share_of_its_own_link(lab: Lab, cluster: LocalCluster, kubectl: Kubectl) -> None:
    tenants = {lab.namespace: 1}
    with in_force(kubectl, FIRST, tenants, SECOND):
        job = submit_over_both(lab, LONG_BYTES)
        with counted(cluster, job, 0) as first, counted(cluster, job, 1) as second:

            def wait_for_rates(*caps: str) -> None:
                seen: list[float] = []

                def held() -> bool:
                    seen[:] = [counter.rate_mbps() * 1e6 / rate_bps(cap) for counter, cap in zip((first, second), caps, strict=True)]
                    allocated = rate_bps(job.status.get("bandwidth", {}).get("allocated", "0"))
                    return allocated == sum(map(rate_bps, caps)) and all(UNDER_CAP <= share <= OVER_CAP for share in seen)

                wait_until(held, f"{' and '.join(caps)} on the wire", last_seen=lambda: (seen, job.status.get("bandwidth")))

            wait_for_rates(FIRST, SECOND)
            kubectl.apply(policy(FIRST, tenants, NARROWED))
            wait_for_rates(FIRST, NARROWED)
    job.wait_succeeded()
    lab.assert_equal()
    assert job.status["attempts"] == 1


# Every other test's data go over data0.
@pytest.mark.exclusive(CLUSTER)
def test_a_link_that_is_cut_at_a_random_moment_leaves_the_transfer_to_the_other_one(
    lab: Lab, cluster: LocalCluster, record_property: Callable[[str, object], None]
) -> None:
    moment_bytes, cut = random.randint(EARLIEST_BYTES, LATEST_BYTES), random.choice(LINKS)
    record_property("cut after bytes", moment_bytes)
    record_property("cut link", cut)
    job = submit_over_both(lab, bandwidth=SLOW)
    with counted(cluster, job, 0) as first, counted(cluster, job, 1) as second:
        sent = dict(zip(LINKS, (first, second), strict=True))
        job.wait_phase("Transferring")
        wait_until(lambda: min(counter.bytes_sent() for counter in sent.values()) > moment_bytes, "data over both paths")
        with cluster.link_cut(cut):
            assert job.phases[-1] == "Transferring", "the link was cut too late"
            job.patch(bandwidth=None)
            job.wait_succeeded()
            lab.assert_equal()
        (left,) = (counter for link, counter in sent.items() if link != cut)
        assert left.bytes_sent() > BYTES / 2
    assert lab.partial_files() == []
    # Without data0, over which it was made, the control connection goes on over data1.
    assert job.status["attempts"] == 1
