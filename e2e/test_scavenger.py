"""A scavenger gives way to other jobs and takes what they leave."""

from __future__ import annotations

import pytest

from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from e2e.lib.wire import counted
from fairlead_dev.cluster.client import LocalCluster

BYTES = 1_000_000_000
"""Of each job, at 200 Mb/s 40 s: more than goes until the test has seen what it waits for."""
ALONE_MBPS = 80.0
"""What a job has at least that has the path to itself, on a busy machine."""
MOST_BESIDE = 0.25
"""A scavenger's part beside another job, while its queue is still as long as that has made it."""


@pytest.mark.extended
@pytest.mark.exclusive
def test_a_scavenger_yields_to_a_normal_job_and_takes_the_path_back(lab: Lab, neighbour: Lab, cluster: LocalCluster) -> None:
    for each in (lab, neighbour):
        each.write(each.source, "plain", bytes_total=BYTES, files=4)
    scavenger = lab.submit(transport={"trafficClass": "Scavenger"})
    scavenger.wait_before_end(lambda seen: seen.get("status", {}).get("protocol") == "QUIC", "QUIC in the status")
    with counted(cluster, scavenger, protocol="udp") as spare:

        def wait_alone(what: str) -> None:
            seen: list[float] = []

            def has_the_path() -> bool:
                seen.append(spare.rate_mbps())
                return seen[-1] >= ALONE_MBPS

            wait_until(has_the_path, what, last_seen=lambda: seen)

        wait_alone("the empty path for the scavenger")
        normal = neighbour.submit(transport={"protocol": "TCP"})
        normal.wait_phase("Transferring")
        with counted(cluster, normal) as used:
            shares: list[tuple[float, float]] = []

            def has_yielded() -> bool:
                shares.append((spare.rate_mbps(), used.rate_mbps()))
                mine, others = shares[-1]
                return others >= ALONE_MBPS and mine <= MOST_BESIDE * (mine + others)

            wait_until(has_yielded, "the path for the normal job", last_seen=lambda: shares)
            assert normal.phases[-1] == "Transferring", "the normal job was too short"
        normal.patch(suspend=True)
        wait_alone("the path for the scavenger again")
        assert scavenger.phases[-1] == "Transferring", "the scavenger was too short"
    scavenger.wait_succeeded()
    lab.assert_equal()
    assert scavenger.status["decision"]["congestionControl"] == "ledbat++"
