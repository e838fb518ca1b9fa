"""A full pass over a large cluster: how long it takes, and whether it loads an interface that another one could have spared."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface

from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement import place_all
from fairlead.core.placement.model import Answer, EndPlacement, EndWish, Placement, Request
from fairlead.handlers.placement.store import without_collection
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.bench.runner import Part

NODES, JOBS = 1000, 5000
SITES, NAMESPACES = 20, 40
SLOTS = 16
LIMITS_BPS = (1e8, 5e8, 1e9, 2e9)
CLUSTERS, RUNS = 5, 5
GOAL_MS = 100.0
NOW = 1e9
GOALS = {
    "choose_1000x5000_ms": Goal("at_most", GOAL_MS, of="value"),
    "overcommitted": Goal("at_most", 0, of="value"),
}


@dataclass(frozen=True, slots=True)
class PlacementCase:
    """Nodes with two to four interfaces on one or two networks, and the jobs that want to run there."""

    nodes: Mapping[str, TransferNode]
    requests: tuple[Request, ...]


def cluster(seed: int) -> PlacementCase:
    """A random one. Half of the ends are on a node by their volume, the others ask for a site, a label, or for nothing."""
    chance = random.Random(seed)
    nodes = {name: _node(chance, name, number) for number in range(NODES) for name in [f"dtn-{number:04}"]}
    names = tuple(nodes)
    requests = tuple(
        Request(
            uid=f"job-{number:05}",
            namespace=f"team-{chance.randrange(NAMESPACES)}",
            source=_wish(chance, names),
            destination=_wish(chance, names),
            rate_bps=chance.choice(LIMITS_BPS) if chance.random() < 0.7 else None,
            priority=chance.choice((0, 0, 0, 50)),
            asked_at=NOW - chance.uniform(0, 300),
        )
        for number in range(JOBS)
    )
    return PlacementCase(nodes, requests)


def _node(chance: random.Random, name: str, number: int) -> TransferNode:
    network = chance.choice(("wan", "wan", None))
    interfaces = tuple(
        NodeInterface(
            name=f"data{index}",
            rate_bps=chance.choice((10**10, 25 * 10**9, 10**11)),
            mtu=chance.choice((1500, 9000)),
            numa_node=index % 2,
            addresses=(IPv4Interface(f"10.{number // 250}.{number % 250}.{index * 64 + 1}/26"),),
            carrier=chance.random() > 0.02,
            network=network if index < 2 else chance.choice((network, "lan")),
            may_carry_data=True,
        )
        for index in range(chance.choice((2, 2, 3, 4)))
    )
    labels = {"disk": chance.choice(("nvme", "hdd")), "rack": f"r{number % 50}"}
    return TransferNode(name, f"site-{number % SITES}", labels, ready=True, slots=SLOTS, interfaces=interfaces)


def _wish(chance: random.Random, names: Sequence[str]) -> EndWish:
    kind = chance.random()
    if kind < 0.5:
        return EndWish(node=chance.choice(names))
    if kind < 0.75:
        return EndWish(site=f"site-{chance.randrange(SITES)}")
    if kind < 0.9:
        return EndWish(labels=(("disk", "nvme"), ("rack", f"r{chance.randrange(50)}")))
    return EndWish()


def measure(lab: MoverLab) -> list[Row]:
    """Times full passes over several clusters and counts what is loaded above its rate for no reason."""
    times_ms, worst, placed = [], 0, []
    for seed in range(1 if lab.quick else CLUSTERS):
        case = cluster(seed)
        _, answers = place_all(case.nodes, (), case.requests, NOW)
        worst = max(worst, overcommitted(case, answers))
        placed.append(sum(isinstance(answer, Placement) for answer in answers.values()))
        for _ in range(RUNS):
            gc.collect()
            with without_collection():
                begin = time.thread_time()
                place_all(case.nodes, (), case.requests, NOW)
                times_ms.append((time.thread_time() - begin) * 1e3)
    median_ms = statistics.median(times_ms)
    note = f"processor time; {min(placed)} to {max(placed)} of {JOBS} jobs found a place, the others wait for a slot"
    return [
        Row("choose_1000x5000_ms", round(median_ms, 1), "ms", GOAL_MS, round(median_ms / GOAL_MS, 3), note, {"runs_ms": rounded(times_ms)}),
        Row("overcommitted", float(worst), "links", 0.0, note="counted anew from where the jobs are"),
    ]


def overcommitted(case: PlacementCase, answers: Mapping[str, Answer]) -> int:
    """Interfaces that carry more than their rate although one of their jobs would fit elsewhere as a whole."""
    rates: dict[tuple[str, str], float] = defaultdict(float)
    crossing: dict[tuple[str, str], list[tuple[Request, Placement]]] = defaultdict(list)
    for request in case.requests:
        answer = answers[request.uid]
        if isinstance(answer, Placement):
            for key in _links(answer.source, answer.destination):
                rates[key] += request.rate_bps or 0.0
                crossing[key].append((request, answer))
    over = [key for key, rate_bps in rates.items() if rate_bps > _capacity(case, key)]
    return sum(any(_fits_elsewhere(case, rates, key, *each) for each in crossing[key]) for key in over)


def _links(*ends: EndPlacement) -> Iterator[tuple[str, str]]:
    for end in ends:
        for name in end.interfaces:
            yield (end.node or "", name)


def _capacity(case: PlacementCase, key: tuple[str, str]) -> float:
    interface = case.nodes[key[0]].interface(key[1])
    assert interface is not None and interface.rate_bps is not None
    return interface.rate_bps


def _fits_elsewhere(
    case: PlacementCase, rates: Mapping[tuple[str, str], float], key: tuple[str, str], request: Request, at: Placement
) -> bool:
    """Whether the job would have room on another interface of the same node that reaches its other end."""
    rate_bps = request.rate_bps
    other = at.destination if (at.source.node, at.source.interfaces[0]) == key else at.source
    peer = case.nodes[other.node or ""].interface(other.interfaces[0])
    assert peer is not None
    if not rate_bps:
        return False
    return any(
        each.name != key[1]
        and each.carrier is not False
        and (each.network is None or peer.network is None or each.network == peer.network)
        and rates[key[0], each.name] + rate_bps <= (each.rate_bps or 0)
        for each in case.nodes[key[0]].interfaces
    )


PARTS: tuple[Part[MoverLab], ...] = (Part("choice", ("choose_1000x5000_ms", "overcommitted"), measure, 300.0),)
