"""Links, tenants, jobs and what happens to them: data, and what each job is due by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant, allocate
from fairlead.core.fairness.model import JobStage, Participant
from fairlead.core.fairness.rules import PolicyRules, read_rules
from fairlead.core.paths.model import End

DEVICE = "data0"
HEADROOM = 0.1
MBPS = 1e6


@dataclass(frozen=True, slots=True)
class BedLink:
    """One direction of a node's data interface. `rate_bps` is what it carries, and what the policy calls its capacity."""

    name: str
    node: str
    direction: str
    rate_bps: float

    @property
    def available_bps(self) -> float:
        """What jobs may have together."""
        return self.rate_bps * (1 - HEADROOM)


LINKS = (
    BedLink("a-out", "a", "Transmit", 200 * MBPS),
    BedLink("b-out", "b", "Transmit", 200 * MBPS),
    BedLink("c-in", "c", "Receive", 150 * MBPS),
)
SOURCES, DESTINATIONS = ("a", "b"), ("c", "d")
WEIGHTS: Mapping[str, int] = {"bronze": 1, "silver": 2, "gold": 4}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One transfer. `disk_bps` is what its source's disk gives, None for memory."""

    name: str
    tenant: str
    source: str
    destination: str
    streams: int = 4
    weight: int = 100
    disk_bps: float | None = None

    def participant(self, stage: JobStage) -> Participant:
        """The job as the fairness loop sees it, without anything measured."""
        ends = End(self.source, DEVICE), End(self.destination, DEVICE)
        return Participant(self.name, self.tenant, self.name, *ends, stage, weight=self.weight, attempt=1)


DISK_BPS = 12 * MBPS
IP_OVERHEAD = 1500 / 1448
"""What the network counts for a payload byte at an MTU of 1500: headers of IP and TCP with timestamps."""
JOBS = (
    JobSpec("bronze_1", "bronze", "a", "c"),
    JobSpec("silver_1", "silver", "a", "c"),
    JobSpec("gold_1", "gold", "a", "c"),
    JobSpec("bronze_2", "bronze", "b", "c"),
    JobSpec("silver_2", "silver", "b", "c"),
    JobSpec("gold_2", "gold", "b", "c"),
    JobSpec("bronze_3", "bronze", "a", "d"),
    JobSpec("silver_3", "silver", "a", "d", streams=1, disk_bps=DISK_BPS),
    JobSpec("gold_3", "gold", "a", "d"),
    JobSpec("bronze_4", "bronze", "b", "d", weight=300),
    JobSpec("bronze_5", "bronze", "b", "d"),
    JobSpec("silver_4", "silver", "b", "d"),
    # The same tenant, weight and route: what differs is the number of streams.
    JobSpec("gold_4", "gold", "b", "d", streams=1),
    JobSpec("gold_5", "gold", "b", "d", streams=16),
)
BY_NAME: Mapping[str, JobSpec] = {job.name: job for job in JOBS}


@dataclass(frozen=True, slots=True)
class Event:
    """What happens `at_s` seconds after the start. `weights` are the tenants' from then on, None where they stay."""

    at_s: float
    name: str
    arrive: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    weights: Mapping[str, int] | None = None


_LATE = ("gold_5", "silver_2", "bronze_3")
TIMELINE = (
    Event(0, "start", arrive=tuple(job.name for job in JOBS if job.name not in _LATE)),
    Event(45, "gold_5 with 16 streams arrives", arrive=("gold_5",)),
    Event(65, "silver_2 arrives", arrive=("silver_2",)),
    Event(85, "bronze_3 arrives", arrive=("bronze_3",)),
    Event(130, "bronze weighs as much as gold", weights={**WEIGHTS, "bronze": 4}),
    Event(150, "bronze weighs 1 again", weights=WEIGHTS),
    Event(170, "gold_2 leaves", leave=("gold_2",)),
    Event(190, "silver_4 and bronze_1 leave", leave=("silver_4", "bronze_1")),
    Event(210, "gold_2 arrives again", arrive=("gold_2",)),
)
END_S = 230.0
QUICK_TIMELINE = (
    Event(0, "start", arrive=("bronze_1", "silver_1", "gold_1", "silver_3")),
    Event(30, "gold_3 arrives", arrive=("gold_3",)),
    Event(50, "gold_1 leaves", leave=("gold_1",)),
)
QUICK_END_S = 70.0


@dataclass(frozen=True, slots=True)
class Interval:
    """The time from one event to the next, who runs in it, and by which weights."""

    begin_s: float
    end_s: float
    event: str
    jobs: frozenset[str]
    weights: Mapping[str, int]


def intervals(timeline: Iterable[Event], end_s: float) -> list[Interval]:
    """The timeline as intervals in which nothing happens."""
    events = list(timeline)
    found: list[Interval] = []
    running: set[str] = set()
    weights = WEIGHTS
    for number, event in enumerate(events):
        running = (running | set(event.arrive)) - set(event.leave)
        weights = event.weights or weights
        end = events[number + 1].at_s if number + 1 < len(events) else end_s
        found.append(Interval(event.at_s, end, event.name, frozenset(running), weights))
    return found


def rules(weights: Mapping[str, int]) -> PolicyRules:
    """The policy as the operator reads it. A tenant has one namespace, of its own name."""
    links = [
        {
            "name": link.name,
            "interfaces": [{"node": link.node, "name": DEVICE, "direction": link.direction}],
            "capacity": f"{link.rate_bps:.0f}",
            "headroom": f"{HEADROOM:.0%}",
        }
        for link in LINKS
    ]
    tenants = [{"name": name, "weight": weight, "namespaceSelector": {"matchLabels": {"tenant": name}}} for name, weight in weights.items()]
    body = {
        "metadata": {"name": "bench", "uid": "bench", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"links": links, "tenants": tenants},
    }
    return read_rules(FairnessPolicy.from_object(body), {name: {"tenant": name} for name in weights})


def links_of(job: JobSpec) -> tuple[str, ...]:
    """The shared links that a job crosses."""
    ends = ((job.source, "Transmit"), (job.destination, "Receive"))
    return tuple(link.name for link in LINKS if (link.node, link.direction) in ends)


def due_bps(names: Iterable[str], weights: Mapping[str, int]) -> dict[str, float]:
    """What each of these jobs is due on the network, in bits per second, if all is known: also what a disk gives."""
    jobs = [
        AllocationJob(
            job.name,
            job.tenant,
            links_of(job),
            float(job.weight),
            demand_bps=math.inf if job.disk_bps is None else job.disk_bps * IP_OVERHEAD,
        )
        for job in map(BY_NAME.__getitem__, sorted(names))
    ]
    links = [AllocationLink(link.name, link.rate_bps, link.rate_bps * HEADROOM) for link in LINKS]
    tenants = [AllocationTenant(name, float(weight)) for name, weight in weights.items()]
    return dict(allocate(links, tenants, jobs).jobs)
