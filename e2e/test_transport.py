"""Jobs whose data go over UDP, by QUIC or UDT, and over TCP where UDP is cut on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.lib.history import condition
from e2e.lib.job import Job, port_of
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE
from e2e.lib.waiting import wait_until
from e2e.lib.wire import counted
from fairlead_dev.clients.kubectl import run
from fairlead_dev.cluster.client import LocalCluster

BYTES = 80_000_000
SLOW = {"limit": "6M"}
"""Until the test has done its part: at full rate the transfer lasts seconds."""
OVER_UDP = ("QUIC", "UDT")
ENOUGH_BYTES = 2_000_000
"""What data carries alone: far more than probes and the control connection."""


def submit_over(lab: Lab, protocol: str) -> Job:
    """A slow job over a protocol, once its status says that its data flow over that."""
    lab.write(lab.source, "plain", bytes_total=BYTES, files=8)
    job = lab.submit(transport={"protocol": protocol}, bandwidth=SLOW)
    job.wait_before_end(lambda seen: seen.get("status", {}).get("protocol") == protocol, f"{protocol} in the status")
    return job


@contextmanager
def udp_cut(cluster: LocalCluster, port: int) -> Iterator[None]:
    """Drops every datagram to a port of the destination node until the block is left."""
    nft = ("nsenter", f"--net={cluster.network_namespace(DESTINATION_NODE)}", "--", "nft")
    table = f"table inet e2e_udp_{port}"
    rule = f"chain cut {{ type filter hook prerouting priority raw; udp dport {port} drop; }}"
    run((*nft, "-f", "-"), stdin=f"{table}\ndelete {table}\n{table} {{\n{rule}\n}}\n")
    try:
        yield
    finally:
        run((*nft, *f"delete {table}".split()))


@pytest.mark.parametrize("protocol", OVER_UDP)
def test_a_job_over_udp_arrives_and_says_so(lab: Lab, cluster: LocalCluster, protocol: str) -> None:
    job = submit_over(lab, protocol)
    with counted(cluster, job, protocol="udp") as datagrams, counted(cluster, job, protocol="tcp") as segments:
        wait_until(lambda: datagrams.bytes_sent() > ENOUGH_BYTES, "data in datagrams")
        job.patch(bandwidth=None)
        job.wait_succeeded()
        assert segments.bytes_sent() < ENOUGH_BYTES < datagrams.bytes_sent()
    lab.assert_equal()
    assert (job.status["protocol"], job.status["decision"]["protocol"], job.status["attempts"]) == (protocol, protocol, 1)
    assert condition(job.object, "ProtocolKept") is None
    assert lab.partial_files() == []


@pytest.mark.parametrize("protocol", OVER_UDP)
def test_a_job_whose_udp_is_cut_while_it_runs_ends_over_tcp_and_says_so(lab: Lab, cluster: LocalCluster, protocol: str) -> None:
    job = submit_over(lab, protocol)
    with counted(cluster, job, protocol="udp") as datagrams, counted(cluster, job, protocol="tcp") as segments:
        job.wait_phase("Transferring")
        wait_until(lambda: datagrams.bytes_sent() > ENOUGH_BYTES, "data in datagrams")
        with udp_cut(cluster, port_of(job.pod("receiver"), "data")):
            assert job.phases[-1] == "Transferring", "UDP was cut too late"
            job.wait_before_end(lambda seen: seen.get("status", {}).get("protocol") == "TCP", "TCP in the status")
            job.patch(bandwidth=None)
            job.wait_succeeded()
        assert segments.bytes_sent() > ENOUGH_BYTES
    lab.assert_equal()
    kept = condition(job.object, "ProtocolKept")
    assert kept is not None
    assert (kept["status"], kept["reason"]) == ("False", "ProtocolReplaced")
    assert "let UDP through" in kept["message"]
    replaced = wait_until(lambda: [event for event in job.events() if event["reason"] == "ProtocolReplaced"], "an event that says so")
    assert [event["type"] for event in replaced] == ["Warning"]
    assert (job.status["decision"]["protocol"], job.status["attempts"]) == ("TCP", 1)
    assert lab.partial_files() == []
