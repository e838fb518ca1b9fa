"""Times the share allocation on random networks: prints a table, writes build/bench/allocation.json.

The network of the goal has 1,000 jobs of 100 tenants, each over a source interface, a path and a destination interface out of 200
links, with limits, demands and guarantees; the others show how the time depends on its shape. Input is built outside the clock;
checking and sorting it is part of the allocation.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass

from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant, allocate
from fairlead_dev.bench.rows import Row, write
from fairlead_dev.bench.runner import BenchCommand

GOAL_MS = 50.0


@dataclass(frozen=True)
class Shape:
    """A kind of network. `hops` are the links of a job, one from each of as many equal parts of the links."""

    name: str
    jobs: int = 1000
    links: int = 200
    tenants: int = 100
    hops: int = 3
    constrained: float = 0.3
    """The part of the jobs that has a demand, and likewise a limit, and likewise a guarantee."""
    goal_ms: float | None = None


SHAPES = (
    Shape("allocate_1000x200x100", goal_ms=GOAL_MS),
    Shape("allocate_1000x200x100_unconstrained", constrained=0.0),
    Shape("allocate_1000x200x1", tenants=1),
    Shape("allocate_1000x200x5", tenants=5),
    Shape("allocate_1000x1x100", links=1, hops=1),
    Shape("allocate_5000x500x200", jobs=5000, links=500, tenants=200),
    Shape("allocate_1000x200x100_8hops", hops=8),
    Shape("allocate_1000x200x100_20hops", hops=20),
)


def network(shape: Shape, seed: int) -> tuple[list[AllocationLink], list[AllocationTenant], list[AllocationJob]]:
    """A random network of this shape."""
    chance = random.Random(seed)

    def maybe(value: float, otherwise: float) -> float:
        return value if chance.random() < shape.constrained else otherwise

    links = [AllocationLink(f"link-{n}", capacity := chance.choice([1e9, 2.5e9, 1e10, 4e10]), 0.1 * capacity) for n in range(shape.links)]
    tenants = [
        AllocationTenant(f"tenant-{n}", chance.choice([1, 2, 4]), maybe(1e7, 0.0), maybe(2e10, math.inf)) for n in range(shape.tenants)
    ]
    part = shape.links // shape.hops
    jobs = [
        AllocationJob(
            name=f"job-{number}",
            tenant=f"tenant-{chance.randrange(shape.tenants)}",
            links=tuple(f"link-{hop * part + chance.randrange(part)}" for hop in range(shape.hops)),
            weight=chance.choice([50, 100, 200]),
            guarantee_bps=maybe(1e7, 0.0),
            limit_bps=maybe(chance.choice([1e8, 1e9]), math.inf),
            demand_bps=maybe(chance.uniform(1e6, 1e9), math.inf),
        )
        for number in range(shape.jobs)
    ]
    return links, tenants, jobs


def measure(shape: Shape, networks: int, repeats: int) -> tuple[list[float], int]:
    """Milliseconds of every run, after one run a network that does not count, and the most jobs that were only approximated."""
    times_ms = []
    approximated = 0
    for seed in range(networks):
        case = network(shape, seed)
        approximated = max(approximated, allocate(*case).approximated)
        for _ in range(repeats):
            gc.collect()
            start = time.perf_counter()
            allocate(*case)
            times_ms.append((time.perf_counter() - start) * 1e3)
    return times_ms, approximated


def add_options(parser: argparse.ArgumentParser) -> None:
    """How often each shape is measured."""
    parser.add_argument("--networks", type=int, default=7, help="random networks of each shape")
    parser.add_argument("--repeats", type=int, default=5, help="runs on each network")


def run(options: argparse.Namespace) -> int:
    """Measures all shapes, prints and writes."""
    results = []
    print(f"{'network':38} {'median':>9} {'min':>9} {'max':>9} {'goal':>9}   ms, {options.networks} networks x {options.repeats} runs")
    for shape in SHAPES:
        times_ms, approximated = measure(shape, options.networks, options.repeats)
        median, goal = statistics.median(times_ms), shape.goal_ms
        print(
            f"{shape.name:38} {median:9.1f} {min(times_ms):9.1f} {max(times_ms):9.1f} {goal if goal else '-':>9}"
            + (f"   {approximated} jobs approximated" if approximated else "")
        )
        for suffix, value in (("ms", median), ("ms_min", min(times_ms)), ("ms_max", max(times_ms))):
            ratio = round(value / goal, 4) if goal else None
            results.append(Row(f"{shape.name}_{suffix}", round(value, 3), "ms", goal, ratio))
    write(results, options.output)
    return 0


BENCH = BenchCommand("allocation", __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(BENCH.main())
