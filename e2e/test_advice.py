"""The status tells what is on the path and what was chosen, and the running transfer is switched when that changes."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.lib.job import Job, port_of
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.turns import PROCESSORS
from e2e.lib.waiting import wait_until
from e2e.lib.wan.background import flow
from e2e.lib.wan.connections import Connection, busiest
from e2e.lib.wan.link import Link, LinkShape, own_link
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.testbed.runs.quality import QualityLimits

# Within what the classifier was trained on, and where it tells an idle path from one with BBR surest. The buffer is one that BBR
# leaves little of to CUBIC.
SHAPE = LinkShape(rate="40M", delay="20ms", buffer="0.5BDP")
FAST, FAST_BUFFER = "400M", "2MB"
USUAL_BYTES = 160_000_000
"""Thirty-two seconds of the link: a change is one from what has been usual for thirty."""
JOB_BYTES = 420_000_000
ANSWER_TIMEOUT_S = 5.0
TRACE_FILE = "/run/fairlead/control/trace.csv"
STARTS = 10
LATE_US = 5_000.0
"""A packet that the emulator of the link sent later than this shows that the machine was busy."""
STOOD_STILL = ("not covered by answered requests", "no answer within")
"""What the decision says of an advisor that did not run for a while."""


@dataclass(frozen=True, slots=True)
class Start:
    """A job of one stream on an idle link, once it has had its first decision and, where that was right, a while of usual goodput."""

    link: Link
    job: Job
    first: Object
    """The first decision."""
    usual: Connection | None
    """The connection after that while; None where a decision was another than CUBIC, or the start is spoilt."""
    spoilt: bool
    """Whether the advisor stood still while it probed, or has held the data back for a look: too little is left for another while."""
    spread_ms: float
    """The 95th percentile of the round-trip times of the probe before the data, above the least one."""
    late_us: float
    """How late the emulator's latest packet left."""

    @property
    def disturbed(self) -> bool:
        """Whether it is spoilt, or the machine made the link another one than it is: more than the test bed lets pass in a recording."""
        return self.spoilt or self.spread_ms > QualityLimits().idle_spread_ms or self.late_us > LATE_US

    def __str__(self) -> str:
        said, spoilt = decision(self.job.object)["message"], "spoilt, " if self.spoilt else ""
        return f"{spoilt}RTT spread {self.spread_ms:.2f} ms, latest packet {self.late_us / 1000:.1f} ms late: {said}"


@contextmanager
def nothing_known_afterwards(kubectl: Kubectl, interface: str) -> Iterator[None]:
    """Deletes what the operator has noted of paths from that interface, which nobody will use again."""
    try:
        yield
    finally:
        paths = [path for path in kubectl.list("networkpaths") if path["spec"]["source"].get("interface") == interface]
        kubectl.delete("networkpath", [path["metadata"]["name"] for path in paths])


def probes_spread_ms(kubectl: Kubectl, sender: Object) -> float:
    """The 95th percentile of the round-trip times that the job's advisor sampled before the data, above the least one."""
    metadata = sender["metadata"]
    text = kubectl.run("exec", metadata["name"], "-c", "advisor", "--", "cat", TRACE_FILE, namespace=metadata["namespace"])
    answered = sorted(float(rtt_ms) for row in text.splitlines()[1:] if (rtt_ms := row.partition(",")[2]))
    return answered[math.ceil(0.95 * len(answered)) - 1] - answered[0]


@contextmanager
def job_on_an_idle_link(lab: Lab, cluster: LocalCluster, kubectl: Kubectl, folder: Path) -> Iterator[Start]:
    """A job over a link of its own that CUBIC was chosen for and that kept it for a while.

    Nothing else is on the link, so any other decision is wrong, or the machine's doing: where the machine disturbed the link, or spoilt
    the start, the job is deleted and another one starts over a new link. Fails where it did neither, or one of them at every start.
    """
    emulator = cluster.checkout / "build" / "bin" / "fairlead-wan"
    source, destination = (cluster.network_namespace(node) for node in (SOURCE_NODE, DESTINATION_NODE))
    disturbed: list[str] = []
    while len(disturbed) < STARTS:
        with (
            own_link(emulator, source, destination, SHAPE, folder, len(disturbed)) as link,
            nothing_known_afterwards(kubectl, link.device),
        ):
            side = {"interface": link.device}
            # Four flows of one transfer beside a single other one would have their share whatever their congestion control.
            job = lab.submit(source=side, destination=side, transport={"streams": {"min": 1, "max": 1}})
            start = settled(kubectl, link, job)
            if start.usual:
                yield start
                return
            assert start.disturbed, f"another choice than CUBIC on an idle link: {start}"
            disturbed.append(str(start))
            job.delete()
            lab.wait_no_mover_pods()
    raise AssertionError("every start was disturbed or spoilt:\n" + "\n".join(disturbed))


def settled(kubectl: Kubectl, link: Link, job: Job) -> Start:
    """The job after a while of the usual goodput with CUBIC, or at its first other decision."""
    first = decision(job.wait_before_end(decision, "a decision"))
    sender, port = job.pod("sender"), port_of(job.pod("receiver"), "data")
    assert sender is not None
    spread_ms = probes_spread_ms(kubectl, sender)
    looks: int | None = None

    def is_usual(seen: Connection) -> bool:
        # A pause of the machine may look like a change. After a look the advisor learns anew what is usual.
        nonlocal looks
        looks = looks_taken(sender)
        return looks is not None and (looks > 0 or seen.acknowledged_bytes >= USUAL_BYTES or not always_cubic(job))

    is_unknown = first["reason"] == "NoModel"
    if is_unknown:
        # Any other cause of that is wrong. It is told once the decision is in force.
        job.wait_before_end(stood_still, "an advisor that stood still while it probed")
    usual = wait_for_data(link, job, port, is_usual, "a while of the usual goodput") if always_cubic(job) and not is_unknown else None
    # A switch is in force before the status tells it.
    kept = usual if usual and usual.congestion_control == "cubic" and always_cubic(job) else None
    spoilt = is_unknown or bool(kept and looks)
    return Start(link, job, first, None if spoilt else kept, spoilt, spread_ms, link.latest_us())


def stood_still(job: Object) -> bool:
    """Whether the decision says that the advisor could not tell what is on the path for want of answers, or of time."""
    return any(text in decision(job).get("message", "") for text in STOOD_STILL)


def always_cubic(job: Job) -> bool:
    """Whether every decision so far was CUBIC."""
    return all(decision(version.object).get("congestionControl", "cubic") == "cubic" for version in job.changes)


def decision(job: Object) -> Object:
    """The decision in a job's status, empty before the first."""
    found: Object = job.get("status", {}).get("decision", {})
    return found


def owner(pod: Object) -> str:
    """The UID of the pod's job."""
    return str(pod["metadata"]["labels"]["fairlead.io/transferjob-uid"])


def looks_taken(sender: Object) -> int | None:
    """How often the advisor has held the data back to look at the path; None where it does not answer now."""
    url = f"http://{sender['status']['podIP']}:{port_of(sender, 'advisor-http')}/v1/decision"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
            return int(json.load(answer)["looks"]["count"])
    except OSError:
        return None


def wait_for_data(link: Link, job: Job, port: int, check: Callable[[Connection], bool], what: str) -> Connection:
    """The sender's connection with the data, as the kernel shows it, once `check` is true of it. Fails where the job ends before."""

    def found() -> Connection | None:
        assert job.status.get("phase") not in ("Succeeded", "Failed"), f"the job ended before {what}: {job.status}"
        seen = busiest(link.source, link.destination_address, port)
        return seen if seen and check(seen) else None

    return wait_until(found, what, interval_s=1)


# What keeps a probe waiting looks like traffic. Of the network it uses a link of its own.
@pytest.mark.exclusive(PROCESSORS)
@pytest.mark.timeout(1500)
@pytest.mark.source("plain", bytes_total=JOB_BYTES, files=4)
def test_a_running_transfer_is_switched_when_bbr_comes_to_its_path(
    lab: Lab, cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    with job_on_an_idle_link(lab, cluster, kubectl, tmp_path) as start:
        link, job, first, usual = start.link, start.job, start.first, start.usual
        assert usual is not None
        assert (first["protocol"], first["congestionControl"], first["streams"]) == ("TCP", "cubic", 1), first["message"]
        assert 0 < float(first["background"]["probability"]) <= 1
        # An idle path of a busy machine may be unlike those that were recorded; then the safe default stands, which is the same.
        assert first["reason"] in ("Classified", "Unsure")
        assert first["abstained"] is (first["reason"] == "Unsure")
        assert first["abstained"] or ("B1" not in first["background"]["class"] and float(first["confidence"]) > 0.5)
        assert first["model"].startswith("background-")
        assert first["background"]["class"] in first["message"]
        movers, port = {pod["metadata"]["uid"] for pod in job.pods()}, port_of(job.pod("receiver"), "data")

        with flow(link, "bbr", tmp_path):
            live = wait_for_data(link, job, port, lambda seen: seen.congestion_control == "bbr", "a switch to BBR")
            assert live.port == usual.port, "another connection was made instead of switching the live one"
            # The advisor may take it back after twenty seconds, if it brings nothing; every version of the status is looked at.
            seen = job.wait_before_end(lambda version: decision(version).get("congestionControl") == "bbr", "that switch in the status")
            switched = decision(seen)
            assert switched["reason"] == "Classified"
            assert not switched["abstained"]
            assert "B1" in switched["background"]["class"]
            assert switched["background"]["class"] in switched["message"]
            assert switched["model"] == first["model"]
            assert switched["decidedAt"] > first["decidedAt"]
            assert (switched["switches"][-1]["from"], switched["switches"][-1]["to"]) == ("cubic", "bbr")
            assert "cubic" in [other["congestionControl"] for other in switched["alternatives"]]
            assert seen["status"]["attempts"] == 1

        def told() -> list[Object]:
            return [event for event in job.events() if event["reason"] == "TransportSwitched" and "bbr" in event["message"]]

        assert wait_until(told, "an event that tells of the switch")[0]["type"] == "Normal"

        # What is left is of no interest and need not take its time.
        link.set(rate=FAST, buffer=FAST_BUFFER)
        done = job.wait_succeeded()
        assert done["status"]["attempts"] == 1
        assert done["status"].get("failures", 0) == 0
        seen_later = {pod["metadata"]["uid"] for change in lab.pod_versions() if owner(pod := change.object) == job.uid}
        assert seen_later == movers, "a mover was replaced"
        lab.assert_equal()
        assert lab.partial_files() == []
