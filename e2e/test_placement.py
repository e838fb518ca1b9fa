"""Where jobs run: the better of two interfaces, two jobs over both, and slots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object

NODES = (SOURCE_NODE, DESTINATION_NODE)
BYTES = 40_000_000
SLOW = {"limit": "2M"}
"""So slow that the data last for minutes, in which the other job is placed and up."""


@contextmanager
def described(kubectl: Kubectl, slots: int, **rates: str) -> Iterator[None]:
    """Both data transfer nodes with these rates of their interfaces. What an agent reports, if one runs, stays its own."""
    before = {node: kubectl.get("datatransfernode", node) for node in NODES}
    interfaces = [{"name": name, "rate": rate} for name, rate in rates.items()]
    try:
        for node in NODES:
            manifest = {"apiVersion": "fairlead.io/v1alpha1", "kind": "DataTransferNode", "metadata": {"name": node}}
            kubectl.apply({**manifest, "spec": {"slots": slots, "interfaces": interfaces}})
            if not ((before[node] or {}).get("status") or {}).get("lastReportTime"):
                _report(kubectl, node)
        wait_until(lambda: all(_is_ready(kubectl, node) for node in NODES), "both data transfer nodes are ready")
        yield
    finally:
        for node, former in before.items():
            if former is None:
                kubectl.delete("datatransfernode", [node])
            else:
                kubectl.patch("datatransfernode", node, {"spec": {"slots": None, "interfaces": None, **former.get("spec", {})}})


def _report(kubectl: Kubectl, node: str) -> None:
    """What an agent writes at the least."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = f'{{"status":{{"lastReportTime":"{now}"}}}}'
    kubectl.run("patch", "datatransfernode", node, "--type=merge", "--subresource=status", "-p", patch)


def _is_ready(kubectl: Kubectl, node: str) -> bool:
    dtn = kubectl.get("datatransfernode", node)
    return dtn is not None and history.is_true(dtn, "Ready")


def interfaces_of(job: Object) -> tuple[str, str]:
    """The interfaces through which the job's data go, as its movers report them."""
    endpoints: dict[str, Any] = (job.get("status") or {}).get("endpoints") or {}
    return tuple((endpoints.get(end) or {}).get("interface", "") for end in ("source", "destination"))


def wait_up(job: Job) -> Object:
    return job.wait_before_end(lambda each: all(interfaces_of(each)), "both ends with their interfaces")


@pytest.mark.exclusive
def test_auto_takes_the_better_of_two_interfaces(lab: Lab, kubectl: Kubectl) -> None:
    lab.write(lab.source, "plain", bytes_total=20_000_000, files=4)
    with described(kubectl, 8, data0="100M", data1="200M"):
        done = lab.submit().wait_succeeded()
    lab.assert_equal()
    assert interfaces_of(done) == ("data1", "data1")
    assert done["status"]["placement"]["reason"].startswith("dtn-a data1 → dtn-b data1: 200 Mb/s spare of 200 Mb/s")


@pytest.mark.exclusive
def test_two_jobs_are_spread_over_both_interfaces_and_a_third_waits_for_a_slot(lab: Lab, kubectl: Kubectl) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES, files=4)
    with described(kubectl, 2, data0="20M", data1="20M"):
        first = lab.submit("first", destination={"path": "first"}, bandwidth=SLOW)
        wait_up(first)
        second = lab.submit("second", destination={"path": "second"}, bandwidth=SLOW)
        assert {interfaces_of(wait_up(each)) for each in (first, second)} == {("data0", "data0"), ("data1", "data1")}
        third = lab.submit("third", destination={"path": "third"})
        third.wait_reason("NoSlotFree")
        for job in (first, second):
            job.patch(bandwidth=None)
        assert all("failures" not in job.wait_succeeded()["status"] for job in (first, second, third))
