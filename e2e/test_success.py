"""A transfer that succeeds: the copy is equal, the status is true, and the movers run with no more rights than they need."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.turns import CLUSTER
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import totals

EMULATED_RTT_MS = 60.0
BULK_BYTES = 30_000_000
DATA_INTERFACE = "data0"
NO_CAPABILITIES = "0" * 16
PHASES = ("Pending", "Probing", "Transferring", "Verifying", "Succeeded")
LIFE = ("MoversStarted", "PathProbed", "Succeeded")
"""The events of a job that meets no trouble, each once; the advisor may switch the congestion control of a running transfer besides."""
MOST_EVENTS = 6
SLOW_START = "MoversNotReady"
"""An end that needs more than five seconds to come up says so, and is up later."""
LONGEST_EVENT = 300
PASSING = ("Probing", "Verifying")
"""Over before the operator looks, where the path is known or little is left to verify; the event of the probe is always there."""


def milliseconds(text: str) -> float:
    found = re.fullmatch(r"([0-9.]+)ms", text)
    assert found, f"{text!r} is not in milliseconds"
    return float(found[1])


@pytest.mark.exclusive(CLUSTER)
def test_every_kind_of_entry_arrives_and_the_status_tells_it(lab: Lab, cluster: LocalCluster, kubectl: Kubectl) -> None:
    lab.write(lab.source, "odd", bytes_total=BULK_BYTES)
    carried_before = cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE)

    # Slow until the transfer has been seen: at its full rate it lasts a second.
    job = lab.submit(bandwidth={"limit": "2M"})
    job.wait_phase("Transferring")
    job.patch(bandwidth=None)
    waiting = ("wait", "--for=condition=Succeeded", "transferjob/job", f"--timeout={PATIENCE_S:g}s")
    kubectl.run(*waiting, namespace=lab.namespace, timeout_s=PATIENCE_S + 60)
    done = job.wait_succeeded()

    lab.assert_equal()
    assert lab.partial_files() == []
    files, size_bytes = totals(lab.listing(lab.source, "run42"))
    assert cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE) - carried_before > size_bytes
    status = done["status"]
    assert_progress_is_complete(status["progress"], files, size_bytes)
    assert_path_and_decision_are_true(status)
    assert_ends(status["endpoints"]["source"], SOURCE_NODE)
    assert_ends(status["endpoints"]["destination"], DESTINATION_NODE)
    assert status["endpoints"]["source"]["address"] != status["endpoints"]["destination"]["address"]
    assert status["phase"] == "Succeeded"
    assert status["attempts"] == 1
    assert status["observedGeneration"] == done["metadata"]["generation"]
    assert status["startTime"] <= status["completionTime"]
    assert not history.is_true(done, "Failed")
    assert not history.is_true(done, "Reconciling")
    assert job.phases == [phase for phase in PHASES if phase in job.phases], "a phase came twice, or after one that follows it"
    assert {*PHASES} - {*job.phases} <= {*PASSING}
    assert_events(job)
    assert_printed_columns(kubectl, lab.namespace, job.object)


def assert_progress_is_complete(progress: Object, files: int, size_bytes: int) -> None:
    assert progress["bytesTotal"] == progress["bytesTransferred"] == size_bytes
    assert progress["filesTotal"] == progress["filesTransferred"] == files
    assert progress["percent"] == 100


def assert_path_and_decision_are_true(status: Object) -> None:
    # What a busy machine adds to most samples it does not add to all of them; what answers late may count as lost.
    assert EMULATED_RTT_MS <= milliseconds(status["path"]["rttMinimum"]) < EMULATED_RTT_MS * 1.2
    assert milliseconds(status["path"]["rttMinimum"]) <= milliseconds(status["path"]["rtt"])
    assert 0.0 <= float(status["path"]["loss"]) < 0.3
    decision = status["decision"]
    # Which of them it is depends on whether a model was built into the image, and on whether another test has just measured the path.
    assert decision["reason"] in (("Classified", "Unsure", "Known") if "model" in decision else ("NoModel",))
    if decision["reason"] != "Known":
        assert decision["abstained"] is (decision["reason"] != "Classified")
    assert decision["protocol"] == "TCP"
    # Only an answer about the background may choose anything but the safe default; what a busy machine does to a probe may look like BBR.
    assert decision["congestionControl"] == "cubic" or (decision["reason"] in ("Classified", "Known") and not decision["abstained"])
    # Four at first; a transfer that lasts is given what helps.
    assert 1 <= decision["streams"] <= 32


def assert_ends(endpoint: Object, node: str) -> None:
    assert endpoint["node"] == node
    assert endpoint["interface"] == DATA_INTERFACE
    assert endpoint["address"].startswith("198.1")
    assert endpoint["pod"]


def assert_events(job: Job) -> None:
    def reasons() -> set[str] | None:
        seen = {event["reason"] for event in job.events()}
        return seen if seen >= {*LIFE} else None

    assert wait_until(reasons, "an event at every phase change")
    events = job.events()
    warnings = [(event["reason"], event["message"]) for event in events if event["type"] == "Warning"]
    assert [warning for warning in warnings if warning[0] != SLOW_START] == []
    # One that is repeated counts as often as it came.
    happened = Counter[str]()
    for event in events:
        happened[event["reason"]] += event.get("count") or 1
    del happened[SLOW_START]
    assert happened - Counter(TransportSwitched=happened["TransportSwitched"]) == Counter(LIFE)
    assert happened.total() <= MOST_EVENTS
    assert [event["message"] for event in events if len(event["message"]) > LONGEST_EVENT or "\n" in event["message"]] == []


def assert_printed_columns(kubectl: Kubectl, namespace: str, job: Object) -> None:
    heading, row = kubectl.run("get", "tj", namespace=namespace).strip().splitlines()
    stalled, decision = history.condition(job, "Stalled"), job["status"]["decision"]
    assert stalled is not None
    assert heading.split()[:4] == ["NAME", "PHASE", "REASON", "PROGRESS%"]
    assert row.split()[:4] == ["job", "Succeeded", stalled["reason"], "100"]
    assert {decision["congestionControl"], str(decision["streams"])} <= set(row.split())


def test_movers_run_on_the_hosts_network_without_rights(lab: Lab, cluster: LocalCluster) -> None:
    # At that rate they last for minutes.
    lab.write(lab.source, "plain", bytes_total=30_000_000)
    job = lab.submit(bandwidth={"limit": "1M"})
    job.wait_phase("Transferring")

    for role, node in (("sender", SOURCE_NODE), ("receiver", DESTINATION_NODE)):
        pod = job.pod(role)
        assert pod is not None
        spec = pod["spec"]
        assert spec["nodeName"] == node
        assert spec["hostNetwork"] is True
        assert spec["automountServiceAccountToken"] is False
        assert not [volume for volume in spec["volumes"] if "projected" in volume]
        assert all(container["securityContext"]["capabilities"]["drop"] == ["ALL"] for container in containers(spec))
        assert_process_has_no_rights(cluster, node, job.uid)
    sender = job.pod("sender")
    assert sender is not None
    assert [(c["name"], c["restartPolicy"]) for c in sender["spec"]["initContainers"]] == [("advisor", "Always")]

    job.patch(bandwidth=None)
    job.wait_succeeded()
    lab.assert_equal()


def containers(spec: Object) -> list[Object]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def assert_process_has_no_rights(cluster: LocalCluster, node: str, uid: str) -> None:
    script = 'for p in $(pgrep -f -- "^[^ ]*fairlead-mover .*--job=$1"); do cat "/proc/$p/status"; done'
    status = cluster.on(node, "sh", "-c", script, "sh", uid).decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Name"] == "fairlead-mover"
    assert fields["Uid"].split() == ["65532"] * 4
    assert fields["CapEff"] == fields["CapPrm"] == fields["CapBnd"] == NO_CAPABILITIES
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == "2"
