"""Small policies and jobs, and a network of pipes that carries what the caps allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.networkpath import NetworkPath
from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.model import Contact, JobStage, Participant
from fairlead.core.fairness.round import RoundInput, RoundMemory, RoundResult, run_round
from fairlead.core.fairness.rules import InterfaceKey, PolicyRules, read_rules
from fairlead.core.paths.model import End

M = 1e6
G = 1e9


def make_policy(*links: Mapping[str, Any], tenants: Mapping[str, Mapping[str, Any]] | None = None, **spec: Any) -> FairnessPolicy:
    """A policy over `links`; tenant T of `tenants` has the namespaces labelled `tenant: T`."""
    chosen = [{"name": n, "namespaceSelector": {"matchLabels": {"tenant": n}}, **share} for n, share in (tenants or {}).items()]
    body = {
        "metadata": {"name": "site", "uid": "policy-uid", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"links": list(links) or [make_link()], "tenants": chosen, **spec},
    }
    return FairnessPolicy.from_object(body)


def make_link(name: str = "out", node: str = "dtn-a", direction: str = "Transmit", capacity: str = "1G", **more: Any) -> dict[str, Any]:
    interface = {"node": node, "name": "data0", "direction": direction}
    return {"name": name, "interfaces": [interface], "capacity": capacity, "headroom": "0", **more}


def make_path(name: str = "a-b", source: str | None = None, destination: str | None = None, capacity: str | None = None) -> NetworkPath:
    """A path from `dtn-a` to `dtn-b` through these interfaces, or any."""
    ends = {"source": {"node": "dtn-a", "interface": source}, "destination": {"node": "dtn-b", "interface": destination}}
    metadata = {"name": name, "uid": f"{name}-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return NetworkPath.from_object({"metadata": metadata, "spec": {**ends, "capacity": capacity}})


def make_path_link(name: str = "wan", path: str = "a-b", capacity: str | None = "1G", **more: Any) -> dict[str, Any]:
    return {"name": name, "networkPath": path, "headroom": "0", **({"capacity": capacity} if capacity else {}), **more}


def make_rules(
    *links: Mapping[str, Any],
    tenants: Mapping[str, Mapping[str, Any]] | None = None,
    paths: Iterable[NetworkPath] = (),
    before: PolicyRules | None = None,
    **spec: Any,
) -> PolicyRules:
    """The rules for namespaces named after the tenants, and one named `elsewhere`."""
    namespaces: dict[str, Mapping[str, str]] = {name: {"tenant": name} for name in tenants or {}}
    return read_rules(make_policy(*links, tenants=tenants, **spec), {**namespaces, "elsewhere": {}}, paths, before)


def make_job(name: str = "job", **fields: Any) -> Participant:
    known: dict[str, Any] = {
        "uid": name,
        "namespace": "elsewhere",
        "name": name,
        "source": End("dtn-a", "data0"),
        "destination": End("dtn-b", "data0"),
        "stage": JobStage.FLOWING,
        "attempt": 1,
    }
    return Participant(**{**known, **fields})


@dataclass
class Pipe:
    """One job in the simulation: what it could use by itself, and how long it takes to come up to a higher rate."""

    job: Participant
    able_bps: float = math.inf
    rise_seconds: float = 1.0
    rate_bps: float = 0.0
    sent_bytes: float = 0.0
    starts_at: float = 0.0
    """When its data begins to flow; until then it holds its place."""
    quiet_until: float = 0.0
    """Until when its data is held back to probe the path."""
    quiet_seconds: float = 0.0
    counts_as: Callable[[float, int], int] = lambda now, count: count
    """What its mover makes of its interface's counter."""
    read_seconds: float = 3.0
    """How often its movers are asked."""
    next_read: float = 0.0


@dataclass
class Network:
    """Jobs that obey their caps a second late, are each asked every few seconds, or more rarely, and share links by rounds."""

    rules: PolicyRules
    pipes: dict[str, Pipe] = field(default_factory=dict)
    foreign_bps: float = 0.0
    now: float = 1000.0
    memory: RoundMemory = field(default_factory=RoundMemory)
    meters: dict[str, Meter] = field(default_factory=dict)
    interfaces: dict[InterfaceKey, dict[str, Meter]] = field(default_factory=dict)
    has_agent: bool = False
    """Whether the node's agent reads the counter too."""
    agents: dict[InterfaceKey, Meter] = field(default_factory=dict)
    next_agent_read: float = 0.0
    caps: dict[str, float] = field(default_factory=dict)
    obeyed: dict[str, float] = field(default_factory=dict)
    counter_bytes: float = 0.0
    writes: int = 0
    outcome: RoundResult | None = None
    next_round: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def add(self, *jobs: Participant, able_bps: float = math.inf, starts_in: float = 0.0, **more: Any) -> None:
        for job in jobs:
            self.pipes[job.uid] = Pipe(job, able_bps, starts_at=self.now + starts_in, **more)
        self.next_round = self.now

    def remove(self, uid: str) -> None:
        del self.pipes[uid]
        self.meters.pop(uid, None)
        for meters in self.interfaces.values():
            meters.pop(uid, None)
        self.next_round = self.now

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()

    def step(self) -> None:
        """One second."""
        self._read()
        if self.now >= self.next_round:
            self._round()
        for uid, pipe in self.pipes.items():
            goal = min(pipe.able_bps, self.obeyed.get(uid, 0.0)) if self.now >= max(pipe.starts_at, pipe.quiet_until) else 0.0
            pipe.quiet_seconds += self.now < pipe.quiet_until
            pipe.rate_bps = goal if goal < pipe.rate_bps else pipe.rate_bps + (goal - pipe.rate_bps) / pipe.rise_seconds
            pipe.sent_bytes += pipe.rate_bps / 8
        self.counter_bytes += (sum(pipe.rate_bps for pipe in self.pipes.values()) * 1.01 + self.foreign_bps) / 8
        self.obeyed = dict(self.caps)
        self.history.append({uid: pipe.rate_bps for uid, pipe in self.pipes.items()})
        self.now += 1.0

    def rate(self, uid: str) -> float:
        return self.pipes[uid].rate_bps

    def total(self) -> float:
        return sum(pipe.rate_bps for pipe in self.pipes.values())

    def _jobs(self) -> tuple[Participant, ...]:
        return tuple(
            replace(pipe.job, stage=pipe.job.stage if self.now >= pipe.starts_at else JobStage.HOLDING) for pipe in self.pipes.values()
        )

    def take_over(self, first_read_seconds: float) -> None:
        """Another operator begins beside the running jobs, and asks them for the first time within that time, the last one at its end."""
        self.memory, self.meters, self.interfaces, self.next_round = RoundMemory(), {}, {}, self.now
        for number, (uid, pipe) in enumerate(self.pipes.items(), start=1):
            pipe.job = replace(pipe.job, contact=Contact.NOT_YET, cap_bps=self.caps.get(uid))
            pipe.next_read = self.now + first_read_seconds * number / len(self.pipes)

    def _read(self) -> None:
        key = "dtn-a", "data0", "Transmit"
        if self.has_agent and self.now >= self.next_agent_read:
            self.agents[key] = self.agents.get(key, Meter()).noted(self.now, int(self.counter_bytes))
            self.next_agent_read = self.now + 3.0
        meters = self.interfaces.setdefault(key, {})
        for uid, pipe in self.pipes.items():
            if self.now >= pipe.next_read and pipe.job.contact is not Contact.SILENT:
                self.meters[uid] = self.meters.get(uid, Meter()).noted(self.now, int(pipe.sent_bytes), pipe.quiet_seconds)
                meters[uid] = meters.get(uid, Meter()).noted(self.now, pipe.counts_as(self.now, int(self.counter_bytes)))
                pipe.job, pipe.next_read = replace(pipe.job, contact=Contact.HEARD), self.now + pipe.read_seconds

    def _round(self) -> None:
        facts = RoundInput(self.rules, self._jobs(), dict(self.meters), dict(self.interfaces), dict(self.agents))
        self.outcome = run_round(facts, self.memory, self.now)
        self.memory = self.outcome.memory
        caps = {uid: float(s.cap_bps) for uid, s in self.outcome.job_shares.items() if s.cap_bps is not None}
        self.writes += sum(caps[uid] != self.caps.get(uid) for uid in caps)
        self.caps = caps
        self.next_round = self.now + self.outcome.again_seconds
