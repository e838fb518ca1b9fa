"""Jobs outlive the loss of nodes and of a link, and what else takes their ports: they wait with a reason and go on from their ledger."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.movers import most_senders_at_once
from e2e.lib.node import frozen
from e2e.lib.slow import finish_fast, start_slowly
from e2e.lib.waiting import wait_until
from fairlead.core.ports import BLOCK, PortRange, PortsInUse, choose_port_base
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.netlab.namespaces import inside

pytestmark = [pytest.mark.exclusive, pytest.mark.extended]

BYTES = 40_000_000
SLOW = {"limit": "4M"}
"""The data last for more than a minute, in which also a slow and busy machine has done what a test does to the job."""
LINK = "data0"
KUBELET = ("-x", "kubelet")
"""While it is frozen the node is as good as gone; what runs there goes on."""
PORTS = PortRange(24000, 25999, namespace_percent=25)
"""The chart's default."""


@contextmanager
def ports_taken(cluster: LocalCluster, node: str, base: int) -> Iterator[None]:
    """Somebody else listens on every port of a block of a node until the block is left."""
    with ExitStack() as listeners:
        with inside(Path(cluster.network_namespace(node)).name):
            for port in range(base, base + BLOCK):
                listener = listeners.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
                listener.bind(("0.0.0.0", port))
                listener.listen()
        yield


def mover_runs(cluster: LocalCluster, node: str, command: str, job: Job) -> bool:
    return bool(cluster.on(node, "sh", "-c", 'pgrep -f -- "$1" || true', "sh", _command_line(command, job)))


def kill_mover(cluster: LocalCluster, node: str, command: str, job: Job) -> None:
    """Kills a mover of the job, if it still runs."""
    cluster.on(node, "sh", "-c", 'pkill -KILL -f -- "$1" || true', "sh", _command_line(command, job))
    wait_until(lambda: not mover_runs(cluster, node, command, job), f"the end of {command}")


def _command_line(command: str, job: Job) -> str:
    return f"^[^ ]*fairlead-mover {command} .*--job={job.uid}"


def wait_lost(job: Job, kubectl: Kubectl, *nodes: str) -> None:
    """Waits until the cluster has given these nodes up, and the job says of one of them that it waits for that."""

    def given_up(node: str) -> bool:
        found = history.condition(kubectl.get("node", node) or {}, "Ready")
        return found is not None and found["status"] != "True"

    def waits(seen: Object) -> bool:
        lost = (history.condition_with_reason(seen, reason) for reason in ("NodesLost", "NodeNotReady"))
        return any(found is not None and f"node {node}" in found["message"] for found in lost for node in nodes)

    wait_until(lambda: all(map(given_up, nodes)), f"the cluster's loss of {' and '.join(nodes)}")
    job.wait_for(waits, f"a condition that names {' or '.join(nodes)} as lost")


def attempts_of_pods(job: Job) -> set[str]:
    return {pod["metadata"]["labels"]["fairlead.io/attempt"] for pod in job.pods()}


def finish_in_a_second_attempt(lab: Lab, job: Job) -> None:
    """The job's end, which comes in an attempt that goes on from the first one's ledger."""
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts") == 2, "a second attempt")
    finish_fast(lab, job)
    assert job.status["attempts"] == 2, job.status.get("lastFailure")
    assert most_senders_at_once(lab.pod_versions()) == 1
    succeeded = history.condition(job.object, "Succeeded")
    assert succeeded is not None
    assert "bytes were there from earlier attempts" in succeeded["message"]


def test_beside_a_mover_that_is_frozen_with_its_node_nothing_starts_and_what_wakes_up_harms_nothing(
    lab: Lab, cluster: LocalCluster
) -> None:
    job = start_slowly(lab, BYTES, SLOW)
    with frozen(cluster, DESTINATION_NODE, *KUBELET), frozen(cluster, DESTINATION_NODE, "-f", "--", _command_line("receive", job)):
        # The sender loses its peer, and of the receiver nobody knows whether it ends.
        job.wait_reason("NodeNotReady")
        assert job.status["attempts"] == 1
        assert attempts_of_pods(job) <= {"1"}
    finish_in_a_second_attempt(lab, job)


def test_when_both_nodes_are_lost_with_their_movers_nothing_starts_beside_them_and_the_job_goes_on_later(
    lab: Lab, cluster: LocalCluster, kubectl: Kubectl
) -> None:
    job = start_slowly(lab, BYTES, SLOW)
    with ExitStack() as lost:
        for node in (SOURCE_NODE, DESTINATION_NODE):
            lost.enter_context(frozen(cluster, node, *KUBELET))
        # The sender ends by itself when it loses the receiver, perhaps before it can be killed.
        kill_mover(cluster, DESTINATION_NODE, "receive", job)
        kill_mover(cluster, SOURCE_NODE, "send", job)
        wait_lost(job, kubectl, SOURCE_NODE, DESTINATION_NODE)
        assert job.status["attempts"] == 1
        assert attempts_of_pods(job) <= {"1"}
    finish_in_a_second_attempt(lab, job)


def test_a_link_without_a_carrier_is_named_and_the_job_goes_on_when_it_is_back(lab: Lab, cluster: LocalCluster) -> None:
    job = start_slowly(lab, BYTES, SLOW)
    with cluster.link_cut(LINK, carrier_of=SOURCE_NODE):
        failure = job.wait_for(lambda seen: seen.get("status", {}).get("lastFailure"), "an attempt that failed")["status"]["lastFailure"]
        assert failure["reason"] == "InterfaceDown", failure
        assert f"the interface {LINK} has no carrier" in failure["message"], failure
    finish_fast(lab, job)
    assert most_senders_at_once(lab.pod_versions()) == 1


def test_a_port_of_the_next_attempt_that_a_stranger_takes_is_named_and_avoided(lab: Lab, cluster: LocalCluster) -> None:
    job = start_slowly(lab, BYTES, SLOW)
    job.patch(suspend=True)
    job.wait_phase("Suspended")
    lab.wait_no_mover_pods()
    base = choose_port_base(f"{job.uid}/2/receiver", DESTINATION_NODE, PortsInUse(), frozenset(), PORTS, leaves_last=True)
    assert base is not None
    with ports_taken(cluster, DESTINATION_NODE, base):
        job.patch(suspend=False)
        failure = job.wait_for(lambda seen: seen.get("status", {}).get("lastFailure"), "an attempt that failed")["status"]["lastFailure"]
        assert (failure["attempt"], failure["reason"], failure["takenPorts"]) == (2, "AddressInUse", [base]), failure
        finish_fast(lab, job)
    assert job.status["attempts"] == 3
    assert most_senders_at_once(lab.pod_versions()) == 1
