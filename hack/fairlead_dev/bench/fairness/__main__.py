"""Measures how movers share links: prints a table, writes build/bench/fairness.json.

Real movers of three tenants on four nodes over three shared links, whose caps the operator's own rounds decide from what the movers
report; the same jobs without caps; the time from an annotation to the wire; the allocation's time and its property tests. Links are veth
pairs with token buckets, without delay. Needs root and a disk; takes some seven minutes. A figure short of its target is no failure of
the run: exit code 0 says that everything was measured, 1 that something was not, 2 is for wrong use.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

from fairlead_dev.bench import allocation
from fairlead_dev.bench.fairness import rows
from fairlead_dev.bench.fairness.bed.network import remove_leftovers
from fairlead_dev.bench.fairness.phases import changes, managed, unmanaged
from fairlead_dev.bench.fairness.scenario import END_S, JOBS, QUICK_END_S, QUICK_TIMELINE, TIMELINE
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.rows import Goal, Row
from fairlead_dev.bench.runner import Part, PartsBench, exit_with, run_bench
from fairlead_dev.checkout import BINARIES, CHECKOUT
from fairlead_dev.errors import LabError

UNMANAGED_S, UNMANAGED_QUICK_S = 45.0, 20.0
CHANGES_S, CHANGES_QUICK_S = 50.0, 12.0
PROPERTY_TESTS = "operator/tests/core/allocation/test_properties.py"
PROPERTIES_LIMIT_S = 300
NETWORKS, REPEATS = 7, 5
GOALS = {
    "jain_managed": Goal("at_least", 0.99, "value"),
    "utilisation": Goal("at_least", 0.95, "value"),
    "convergence_s_p95": Goal("at_most", 10, "value"),
    "overshoot_max": Goal("at_most", 0.02, "value"),
    "enforce_latency_s_p99": Goal("at_most", 3, "value"),
    "allocate_1000x200x100_ms": Goal("at_most", 50, "value"),
}


def with_operator(bench: MoverLab) -> list[Row]:
    """The jobs under the caps of the operator's rounds."""
    timeline, end_s = bench.pick((TIMELINE, END_S), (QUICK_TIMELINE, QUICK_END_S))
    return rows.managed_rows(managed(bench.mover, bench.scratch / "run", timeline, end_s), timeline, end_s)


def without_operator(bench: MoverLab) -> list[Row]:
    """The same jobs without caps."""
    names = [job.name for job in JOBS]
    return [rows.unmanaged_row(unmanaged(bench.mover, bench.scratch / "run", names, bench.pick(UNMANAGED_S, UNMANAGED_QUICK_S)), names)]


def latency(bench: MoverLab) -> list[Row]:
    """From an annotation to the wire."""
    return rows.latency_rows(changes(bench.mover, bench.scratch / "run", bench.pick(CHANGES_S, CHANGES_QUICK_S)))


def allocation_rows(_bench: MoverLab) -> list[Row]:
    """The allocation's time, by the bench of its own."""
    shape = allocation.SHAPES[0]
    times_ms, _ = allocation.measure(shape, NETWORKS, REPEATS)
    note = (
        f"{NETWORKS} random networks, {REPEATS} runs of each, {min(times_ms):.1f} to {max(times_ms):.1f}; more by `make bench-allocation`"
    )
    return [Row(f"{shape.name}_ms", round(sorted(times_ms)[len(times_ms) // 2], 2), "ms", note=note)]


def property_rows(_bench: MoverLab) -> list[Row]:
    """How many property tests the allocation passes, with how many random networks. Raises LabError if one fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-show-statistics"]
    try:
        done = subprocess.run(
            [*command, PROPERTY_TESTS], capture_output=True, text=True, timeout=PROPERTIES_LIMIT_S, check=False, cwd=CHECKOUT
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"the property tests did not end within {PROPERTIES_LIMIT_S} s") from error
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode != 0 or passed is None:
        raise LabError(f"the property tests failed:\n{done.stdout[-2000:]}")
    examples = sum(int(found) for found in re.findall(r"(\d+) passing, 0 failing", done.stdout))
    note = f"against linear programs and by rule: {PROPERTY_TESTS}"
    return [Row("property_tests", int(passed.group(1)), "tests", note=note), Row("property_examples", examples, "networks", note=note)]


BENCH = PartsBench(
    name="fairness",
    about=__doc__,
    parts=(
        Part("managed", ("jain_managed", "utilisation", "convergence_s_p95", "overshoot_max", "cap_error_max"), with_operator, 900),
        Part("unmanaged", ("jain_unmanaged",), without_operator, 300),
        Part("latency", ("enforce_latency_s_p50", "enforce_latency_s_p99"), latency, 300),
        Part("allocation", ("allocate_1000x200x100_ms",), allocation_rows, 300),
        Part("properties", ("property_tests", "property_examples"), property_rows, PROPERTIES_LIMIT_S + 60),
    ),
    goals=GOALS,
    lab=lambda options, scratch: MoverLab(MoverProgram(options.mover.resolve()), BINARIES / "fairlead-wan", scratch, options.quick),
    remove_leftovers=remove_leftovers,
    binaries={"mover": "the binary under test"},
    programs=("ip", "tc", "nft", "ethtool", "sysctl", "setpriv", "losetup", "mkfs.ext4"),
    scratch_bytes=1 << 30,
)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
