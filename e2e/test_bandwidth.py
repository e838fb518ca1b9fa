"""A bandwidth limit holds on the wire and changes while the job runs."""

from __future__ import annotations

import pytest

from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from e2e.lib.wire import Counter, counted
from fairlead_dev.cluster.client import LocalCluster


def wait_for_rate(sent: Counter, limit_mbps: float) -> float:
    """The first window whose rate lies within a quarter of the limit (headers, and bursts of the pacing, are in it)."""

    def near() -> float | None:
        rate = sent.rate_mbps()
        return rate if 0.75 * limit_mbps <= rate <= 1.25 * limit_mbps else None

    return wait_until(near, f"a rate near {limit_mbps:g} Mb/s on the wire")


@pytest.mark.long(30)
def test_a_limit_holds_on_the_wire_and_changes_live(lab: Lab, cluster: LocalCluster) -> None:
    lab.write(lab.source, "plain", bytes_total=80_000_000, files=10)
    # So slow that the data last while a busy machine measures: at these rates four minutes.
    job = lab.submit(bandwidth={"limit": "2M"})
    job.wait_phase("Transferring")
    with counted(cluster, job) as sent:
        wait_for_rate(sent, 2)
        told = {"allocated": "2M", "enforcedBy": "Pacing"}.items()
        job.wait_for(
            lambda seen: told <= seen.get("status", {}).get("bandwidth", {}).items(), "the allocation and what holds it in the status"
        )
        sender = job.pod("sender")

        job.patch(bandwidth={"limit": "4M"})
        wait_for_rate(sent, 4)
        unchanged = job.pod("sender")
        assert sender is not None
        assert unchanged is not None
        assert sender["metadata"]["uid"] == unchanged["metadata"]["uid"]
        assert unchanged["metadata"]["annotations"]["kubernetes.io/egress-bandwidth"] == "4M"

    job.patch(bandwidth=None)
    job.wait_succeeded()
    assert job.status["attempts"] == 1
    lab.assert_equal()
