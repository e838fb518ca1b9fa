"""A round of the fairness loop over many links, by itself: from the policy as the API server shows it to the policy's next status."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lab import fairness_policy

from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.model import JobStage, Participant
from fairlead.core.fairness.round import ROUND_SECONDS, RoundInput, RoundMemory, run_round
from fairlead.core.fairness.rules import InterfaceKey, read_candidate, read_rules
from fairlead.core.fairness.summary import accepted_status
from fairlead.core.paths.model import End
from fairlead.handlers.process import collect_garbage_rarely
from fairlead_dev.bench.rows import Goal, Row
from load.measure import goal_row

NODES, TENANTS, JOBS = 250, 40, 2000
LINKS = 2 * NODES
"""One for each direction of a node's interface."""
ROUNDS = 15
BEGUN_S = 1_800_000_000.0
_READ_EVERY_SECONDS = 3.0
_READINGS = 6
_GOAL_MS = 300.0


@dataclass(frozen=True)
class Network:
    """Jobs between the nodes, and the rate of each in bytes per second."""

    policy: Mapping[str, Any]
    namespaces: Mapping[str, Mapping[str, str]]
    jobs: tuple[Participant, ...]
    rates: Mapping[str, float]


def network(seed: int) -> Network:
    """A policy over the interfaces of all nodes, and jobs of all tenants that flow between them."""
    chance = random.Random(seed)
    links = [_link(number, direction) for number in range(NODES) for direction in ("Transmit", "Receive")]
    tenants = [
        {"name": f"tenant-{number}", "namespaceSelector": {"matchLabels": {"tenant": str(number)}}, "weight": chance.choice([1, 2, 4])}
        for number in range(TENANTS)
    ]
    policy = fairness_policy(links=links, tenants=tenants)
    policy["metadata"] |= {"uid": "site-uid", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    jobs = tuple(_job(number, chance) for number in range(JOBS))
    return Network(
        policy,
        {f"tenant-{number}": {"tenant": str(number)} for number in range(TENANTS)},
        jobs,
        {job.uid: chance.uniform(1e5, 2e7) for job in jobs},
    )


def rounds_over_links() -> list[Row]:
    """What a round takes in the operator's process while jobs flow: where agents read the nodes' interfaces, and by movers alone."""
    known = network(seed=1)
    more: dict[str, object] = {"links": LINKS, "jobs": JOBS, "tenants": TENANTS, "nodes": NODES}
    by_agents, by_movers = (_rounds_ms(known, with_agents=with_agents) for with_agents in (True, False))
    told = [{**more, "runs": [round(each, 1) for each in found]} for found in (by_agents, by_movers)]
    return [
        goal_row("links_500_round_ms", statistics.median(by_agents), "ms", _GOAL_MS, Goal("at_most", _GOAL_MS, "value"), told[0]),
        Row("links_500_round_by_movers_ms", round(statistics.median(by_movers), 3), "ms", more=told[1]),
    ]


def _rounds_ms(known: Network, *, with_agents: bool) -> list[float]:
    collect_garbage_rarely()
    memory, found = RoundMemory(), []
    for number in range(1 + ROUNDS):
        now = BEGUN_S + number * ROUND_SECONDS
        meters, interfaces = _meters(known, now)
        agents = {key: next(iter(by_job.values())) for key, by_job in interfaces.items()} if with_agents else {}
        begun_s = time.perf_counter()
        candidate = read_candidate(known.policy)
        assert candidate.policy is not None, candidate.problem
        rules = read_rules(candidate.policy, known.namespaces)
        result = run_round(RoundInput(rules, known.jobs, meters, interfaces, agents), memory, now)
        accepted_status(candidate, rules, result, "", datetime.fromtimestamp(now, UTC))
        # The first one has no memory.
        found += [1e3 * (time.perf_counter() - begun_s)] if number else []
        memory = result.memory
    return found


def _meters(known: Network, now: float) -> tuple[dict[str, Meter], dict[InterfaceKey, dict[str, Meter]]]:
    """What every job has sent, and what both of its movers say of their interfaces, each read at moments of its own."""
    meters: dict[str, Meter] = {}
    interfaces: dict[InterfaceKey, dict[str, Meter]] = {}
    for number, job in enumerate(known.jobs):
        last = now - number % 30 / 10
        moments = [last - _READ_EVERY_SECONDS * back for back in reversed(range(_READINGS))]
        meters[job.uid] = _meter(moments, known.rates[job.uid])
        for end, direction in ((job.source, "Transmit"), (job.destination, "Receive")):
            assert end.node is not None
            assert end.interface is not None
            interfaces.setdefault((end.node, end.interface, direction), {})[job.uid] = _meter(moments, 5e8)
    return meters, interfaces


def _meter(moments: Sequence[float], bytes_per_second: float) -> Meter:
    meter = Meter()
    for moment in moments:
        meter = meter.noted(moment, int((moment - BEGUN_S + 100.0) * bytes_per_second))
    return meter


def _link(number: int, direction: str) -> dict[str, Any]:
    interfaces = [{"node": f"dtn-{number}", "name": "data0", "direction": direction}]
    return {"name": f"dtn-{number}-{direction.lower()}", "interfaces": interfaces, "capacity": "10G"}


def _job(number: int, chance: random.Random) -> Participant:
    source, destination = chance.sample(range(NODES), 2)
    return Participant(
        uid=f"job-{number}",
        namespace=f"tenant-{chance.randrange(TENANTS)}",
        name=f"job-{number}",
        source=End(f"dtn-{source}", "data0"),
        destination=End(f"dtn-{destination}", "data0"),
        stage=JobStage.FLOWING,
        attempt=1,
    )
