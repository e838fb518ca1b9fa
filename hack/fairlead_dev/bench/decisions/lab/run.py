"""Runs one cell and leaves a folder: trace.csv, flows.csv, transfer.csv, the advisor's record, manifest.json."""

from __future__ import annotations

import asyncio
import csv
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairlead_dev.bench.decisions.lab.machine import machine
from fairlead_dev.bench.decisions.lab.transfer import SAMPLE_PERIOD_S, CellTransfer, Tools
from fairlead_dev.bench.decisions.matrix import PAPER_LOOPS, Cell, Policy, background_of
from fairlead_dev.bench.decisions.timeline import TransferSample, first_data_s, flow_goodputs_bps, goodput_bps, spans
from fairlead_dev.bench.lab.machine import busy_share, processor_ticks, without_rest
from fairlead_dev.testbed.lab.kernel_queue import EmulatedPath, emulated
from fairlead_dev.testbed.lab.namespaces import Names, run_namespaces
from fairlead_dev.testbed.runs.plans import FLOWS, Priorities, agent_plans, idle_before_ns
from fairlead_dev.testbed.runs.processes import AGENT_PATIENCE_S, Processes
from fairlead_dev.testbed.runs.quality import QualityLimits, QualityVerdict, judge
from fairlead_dev.testbed.runs.record import AGENTS, leave_folder, length_s, scenario_digest
from fairlead_dev.testbed.scenario.expand import derived_seed
from fairlead_dev.testbed.scenario.model import Scenario

FORMAT = 1
LIMITS = QualityLimits(
    # A flow that the transfer starves is a result here, not a fault.
    least_utilization=0.0,
    least_goodput_bps=1.0,
)
_LEAD_S = 0.5
_LONGEST_SILENCE_S = 3.0
"""A mover that leaves a question for its statistics unanswered for so long was kept from running."""


@dataclass(frozen=True, slots=True)
class CellLab:
    """What cells share: the emulator, the programs under test, and the training windows of the paper's loops.

    `training` is of many paths, `own_training` of single ones, by their names.
    """

    emulator: Path
    tools: Tools
    training: Path
    own_training: Mapping[str, Path] = field(default_factory=dict)
    priorities: Priorities = field(default_factory=Priorities)

    def training_of(self, cell: Cell) -> Path:
        """The windows that the paper's loop has in that cell."""
        return self.training if cell.policy is Policy.PAPER else self.own_training[cell.path_id]


async def run_cell(cell: Cell, folder: Path, bench: CellLab, number: int) -> QualityVerdict:
    """Run `cell` and put its folder in place, whole or not at all, whatever the verdict.

    `number` identifies the run among those under way. LabError if it could not be run to its end, UsageError if it never
    can be here.
    """
    return await leave_folder(cell.scenario, folder, lambda work: _run(cell, work, bench, number))


async def _run(cell: Cell, work: Path, bench: CellLab, number: int) -> dict[str, Any]:
    scenario, background = cell.scenario, background_of(cell.scenario)
    names = Names.of(os.getpid(), number)
    began_at = datetime.now(UTC)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(run_namespaces(names, scenario.path))
        emulator = await _start_emulator(stack, scenario, names, bench, work)
        processes = Processes(work)
        stack.push_async_callback(processes.end)
        transfer = CellTransfer(cell, bench.tools, names, processes, work)
        stack.callback(transfer.close)
        await transfer.prepare()
        plans = agent_plans(background, names, work, bench.priorities)
        for name, plan in plans.items():
            await processes.start_agent(name, AGENTS + name, plan)
        if cell.policy in PAPER_LOOPS:
            # It probes from where the run's own probe does, by itself.
            own = {"training": str(bench.training_of(cell)), "control": str(transfer.control), "priority": bench.tools.advisor_priority}
            await processes.start_agent("paper", "fairlead_dev.bench.decisions.paper.agent", {**plans["probe"], **own})
        here = await asyncio.to_thread(machine)
        start_ns = time.monotonic_ns() + int(_LEAD_S * 1e9) + idle_before_ns(background)
        processes.release(start_ns)
        await asyncio.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
        start_at = datetime.now(UTC)
        await emulator.measure_lateness()
        await transfer.send()
        ticks = processor_ticks()
        samples = await transfer.watch(start_ns)
        busy = busy_share(ticks, processor_ticks())
        stats = await emulator.stats()
        told = await transfer.stop()
        agents = ["probe", "traffic", *(["paper"] if cell.policy in PAPER_LOOPS else [])]
        results = await asyncio.gather(*(processes.result(name, length_s(scenario) + AGENT_PATIENCE_S) for name in agents))
        reports = dict(zip(agents, results, strict=True))
    verdict = judge(background, stats, reports["probe"], reports["traffic"], LIMITS)
    faults = (*verdict.faults, *silences(samples), *without_rest(busy))
    halfway_s = scenario.duration_s / 2
    return {
        "format": FORMAT,
        "cell": {
            "path_id": cell.path_id,
            "scene": cell.scene.name,
            "policy": str(cell.policy),
            "seconds": cell.seconds,
            "fingerprint": cell.fingerprint,
            "rights": cell.scene.rights(),
        },
        "scenario": scenario.model_dump(mode="json"),
        "scenario_digest": scenario_digest(scenario),
        "verdict": {"good": not faults, "faults": list(faults)},
        "own": {
            "goodput_bps": round(goodput_bps(samples)),
            "settled_goodput_bps": round(goodput_bps(samples, halfway_s)),
            "first_data_s": first_data_s(samples),
            "in_force": [asdict(span) for span in spans(samples)],
        },
        "flows": reports["traffic"],
        "settled_flows_bps": _settled_flows(work / FLOWS, halfway_s, scenario.duration_s),
        **told,
        **({"paper": reports["paper"]} if "paper" in reports else {}),
        "probe": reports["probe"],
        "emulator": stats,
        "limits": asdict(LIMITS),
        "machine": {**here, "busy_share": round(busy, 3)},
        "began_at": began_at.isoformat(timespec="seconds"),
        "started_at": start_at.isoformat(timespec="milliseconds"),
    }


async def _start_emulator(stack: AsyncExitStack, scenario: Scenario, names: Names, bench: CellLab, work: Path) -> EmulatedPath:
    socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-decisions-"))) / "control"
    seed = derived_seed(scenario.seed, "emulator") % 2**32
    emulator = emulated(bench.emulator, names, scenario.path, seed=seed, socket=socket, priority=bench.priorities.emulator)
    stack.push_async_callback(emulator.end)
    await emulator.start(work / "emulator.log")
    return emulator


def silences(samples: Sequence[TransferSample]) -> list[str]:
    """Faults of a machine that did not let the mover answer in time."""
    gaps_s = [after.time_s - before.time_s for before, after in pairwise(samples)]
    longest_s = max(gaps_s, default=0.0)
    if longest_s <= _LONGEST_SILENCE_S + SAMPLE_PERIOD_S:
        return []
    return [f"the mover's statistics are {longest_s:.1f} s apart, at most {_LONGEST_SILENCE_S + SAMPLE_PERIOD_S:g}"]


def _settled_flows(file: Path, from_s: float, to_s: float) -> Mapping[str, float]:
    with file.open(newline="", encoding="utf-8") as opened:
        rows = csv.reader(opened)
        next(rows)
        return {name: round(rate) for name, rate in flow_goodputs_bps(rows, from_s, to_s).items()}
