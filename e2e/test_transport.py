"""Jobs whose data go over UDP, by QUIC or UDT, and over TCP where UDP is cut on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.lib.history import condition
from e2e.lib.job import Job, port_of
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, FOLDER
from e2e.lib.waiting import wait_until
from e2e.lib.wire import Counter, counted
from fairlead_dev.clients.kubectl import run
from fairlead_dev.cluster.client import LocalCluster

BYTES = 80_000_000
SLOW = {"limit": "6M"}
"""Until the test has done its part: at full rate the transfer lasts seconds."""
OVER_UDP = ("QUIC", "UDT")
ENOUGH_BYTES = 2_000_000
"""What data carries alone: far more than probes and the control connection."""
TRIES = 3
"""From a mover that has no processor for seconds no datagram gets through: TCP rightly takes its data over."""


def submit_over(lab: Lab, protocol: str, folder: str = FOLDER) -> Job:
    """A slow job over a protocol, with a folder of its own at both ends."""
    lab.write(lab.source, "plain", folder, bytes_total=BYTES, files=8)
    path = {"path": folder}
    return lab.submit(folder, source=path, destination=path, transport={"protocol": protocol}, bandwidth=SLOW)


def flows_over(job: Job, protocol: str, datagrams: Counter) -> bool:
    """Whether data flow in datagrams, and the job's status says by which protocol."""
    return job.status.get("protocol") == protocol and datagrams.bytes_sent() > ENOUGH_BYTES


def is_replaced(job: Job) -> bool:
    """Whether the job says that its data go over another protocol than the one it asks for."""
    kept = condition(job.object, "ProtocolKept")
    return kept is not None and (kept["status"], kept["reason"]) == ("False", "ProtocolReplaced")


def moved(lab: Lab, cluster: LocalCluster, protocol: str, folder: str) -> tuple[Job, int, int]:
    """A job over a protocol that has succeeded, and the bytes of its data connections in datagrams and in segments."""
    job = submit_over(lab, protocol, folder)
    with counted(cluster, job, protocol="udp") as datagrams, counted(cluster, job, protocol="tcp") as segments:
        wait_until(lambda: flows_over(job, protocol, datagrams) or is_replaced(job), f"data over {protocol}, or another protocol instead")
        job.patch(bandwidth=None)
        job.wait_succeeded()
        return job, datagrams.bytes_sent(), segments.bytes_sent()


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
    for number in range(TRIES):
        job, datagram_bytes, segment_bytes = moved(lab, cluster, protocol, f"{FOLDER}-{number}")
        if not is_replaced(job):
            break
    assert segment_bytes < ENOUGH_BYTES < datagram_bytes
    lab.assert_equal(job.name)
    assert (job.status["protocol"], job.status["decision"]["protocol"], job.status["attempts"]) == (protocol, protocol, 1)
    assert condition(job.object, "ProtocolKept") is None
    assert lab.partial_files() == []


@pytest.mark.parametrize("protocol", OVER_UDP)
def test_a_job_whose_udp_is_cut_while_it_runs_ends_over_tcp_and_says_so(lab: Lab, cluster: LocalCluster, protocol: str) -> None:
    job = submit_over(lab, protocol)
    with counted(cluster, job, protocol="udp") as datagrams, counted(cluster, job, protocol="tcp") as segments:
        job.wait_phase("Transferring")
        wait_until(lambda: flows_over(job, protocol, datagrams), f"data over {protocol}")
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
