"""Runs one scenario and leaves a folder: trace.csv, flows.csv, queue.csv, manifest.json, and bursts.csv if there were bursts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.agents.channel import quantiles
from fairlead_dev.testbed.lab import emulator as emulators
from fairlead_dev.testbed.lab.emulator import dropped_unsent
from fairlead_dev.testbed.lab.kernel import offered_congestion_controls
from fairlead_dev.testbed.lab.kernel_queue import EmulatedPath, emulated
from fairlead_dev.testbed.lab.namespaces import Names, run_namespaces
from fairlead_dev.testbed.runs.plans import IDLE_S, Priorities, agent_plans, idle_before_ns
from fairlead_dev.testbed.runs.processes import AGENT_PATIENCE_S, Processes
from fairlead_dev.testbed.runs.quality import QualityLimits, QualityVerdict, judge
from fairlead_dev.testbed.scenario.expand import derived_seed
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.testbed.scenario.model import Scenario

FORMAT = 1
MANIFEST = "manifest.json"

AGENTS = "fairlead_dev.testbed.agents."
QUEUE_INTERVAL_S = 0.1
_LEAD_S = 0.3
_LATER_PATH_FIELDS = ("queue", "police", "police_udp", "thin_acks", "emulator")


@dataclass(frozen=True, slots=True)
class RecordingLab:
    """What runs share: the emulator's program, the limits of quality, real-time priorities (None: ordinary processes)."""

    program: Path
    limits: QualityLimits = field(default_factory=QualityLimits)
    priorities: Priorities | None = field(default_factory=Priorities)


def scenario_digest(scenario: Scenario) -> str:
    """Identifies a scenario by what would be run; the description does not count."""
    content = scenario.model_dump(mode="json", exclude={"description"})
    # Recordings from before there were these fields stay what they are.
    if not scenario.probe.bursts:
        del content["probe"]["bursts"]
    for name in _LATER_PATH_FIELDS:
        if getattr(scenario.path, name) == NetworkPath.model_fields[name].default:
            del content["path"][name]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def length_s(scenario: Scenario) -> float:
    """How long a run takes, setting up and tearing down included."""
    return IDLE_S + scenario.warm_up_s + scenario.duration_s + 2 * scenario.path.rtt_ms / 1000 + _LEAD_S + 2.0


async def record(scenario: Scenario, folder: Path, bench: RecordingLab, number: int) -> QualityVerdict:
    """Run `scenario` and put its folder in place, whole or not at all, whatever the verdict.

    `number` identifies the run among those under way. Raises LabError if it could not be run to its end, UsageError if it
    never can be here.
    """
    return await leave_folder(scenario, folder, lambda work: _run(scenario, work, bench, number))


async def leave_folder(scenario: Scenario, folder: Path, run: Callable[[Path], Awaitable[dict[str, Any]]]) -> QualityVerdict:
    """What `run` leaves in an empty folder, with the manifest that it returns, in the place of `folder`: whole or not at all."""
    require_congestion_controls(scenario, offered_congestion_controls())
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        manifest = await run(work)
        _put_in_place(work, manifest, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return QualityVerdict(tuple(manifest["verdict"]["faults"]))


def require_congestion_controls(scenario: Scenario, offered: Sequence[str]) -> None:
    """UsageError naming the flow if the kernel does not offer its congestion control."""
    for flow in scenario.flows:
        if flow.congestion_control is not None and flow.congestion_control not in offered:
            raise CommandUsageError(
                f"{scenario.name}: flow {flow.name}: this kernel has no {flow.congestion_control}, it offers {', '.join(offered)}: "
                f"load its module (`modprobe tcp_{flow.congestion_control}`) or choose another"
            )


def _put_in_place(work: Path, manifest: Mapping[str, Any], folder: Path) -> None:
    (work / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    work.chmod(0o755)
    if folder.exists():
        shutil.rmtree(folder)
    work.rename(folder)


async def _run(scenario: Scenario, work: Path, bench: RecordingLab, number: int) -> dict[str, Any]:
    names = Names.of(os.getpid(), number)
    priorities = bench.priorities
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(run_namespaces(names, scenario.path))
        control = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-testbed-"))) / "control"
        seed = derived_seed(scenario.seed, "emulator") % 2**32
        emulator = emulated(
            bench.program, names, scenario.path, seed=seed, socket=control, priority=priorities.emulator if priorities else None
        )
        stack.push_async_callback(emulator.end)
        await emulator.start(work / "emulator.log")
        agents = Processes(work)
        stack.push_async_callback(agents.end)
        plans = agent_plans(scenario, names, work, priorities)
        await asyncio.gather(*(agents.start_agent(name, AGENTS + name, plan) for name, plan in plans.items()))
        load_before = os.getloadavg()[0]
        start_ns = time.monotonic_ns() + int(_LEAD_S * 1e9) + idle_before_ns(scenario)
        agents.release(start_ns)
        queue = asyncio.create_task(_watch_queue(emulator, start_ns, scenario, work / "queue.csv"))
        stack.callback(queue.cancel)
        await asyncio.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
        await emulator.measure_lateness()
        patience_s = length_s(scenario) + AGENT_PATIENCE_S
        probe, flows, queues = await asyncio.gather(agents.result("probe", patience_s), agents.result("traffic", patience_s), queue)
        stats = await emulator.stats()
    (work / "emulator.log").unlink()
    for name in plans:
        (work / f"{name}.log").unlink()
    verdict = judge(scenario, stats, probe, flows, bench.limits)
    return {
        "format": FORMAT,
        "scenario": scenario.model_dump(mode="json"),
        "scenario_digest": scenario_digest(scenario),
        "path": {
            "bdp_bytes": scenario.path.bdp_bytes,
            "queue_bytes": scenario.path.queue_bytes,
            "full_queue_ms": scenario.path.full_queue_ms,
        },
        "verdict": {"good": verdict.good, "faults": list(verdict.faults)},
        "limits": asdict(bench.limits),
        "probe": probe,
        "flows": flows,
        "queues": queues,
        "emulator": stats,
        "machine": {
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "load_average_before": load_before,
            "load_average_after": os.getloadavg()[0],
            "real_time_priorities": None if priorities is None else asdict(priorities),
        },
        "versions": _versions(bench.program),
    }


def _versions(program: Path) -> Mapping[str, str]:
    return {
        "fairlead-wan": emulators.version(program),
        "fairlead-advisor": package_version("fairlead-advisor"),
        "python": platform.python_version(),
    }


async def _watch_queue(emulator: EmulatedPath, start_ns: int, scenario: Scenario, file: Path) -> dict[str, Any]:
    """Write the queues' depths to `file` and return their summary for the manifest."""
    depths: dict[str, list[float]] = {"forward_bytes": [], "reverse_bytes": []}
    rows = ["time_s,forward_queue_bytes,reverse_queue_bytes,forward_dropped_packets,reverse_dropped_packets"]
    ticks = int((scenario.warm_up_s + scenario.duration_s) / QUEUE_INTERVAL_S)
    for tick in range(ticks + 1):
        due_ns = start_ns + int((tick * QUEUE_INTERVAL_S - scenario.warm_up_s) * 1e9)
        await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        stats = await emulator.stats()
        now_s = (time.monotonic_ns() - start_ns) / 1e9
        forward, reverse = stats["ab"], stats["ba"]
        if now_s >= 0:
            depths["forward_bytes"].append(forward["queue_bytes"])
            depths["reverse_bytes"].append(reverse["queue_bytes"])
        drops = [dropped_unsent(way) + way["packets_dropped_loss"] for way in (forward, reverse)]
        rows.append(f"{now_s:.3f},{forward['queue_bytes']},{reverse['queue_bytes']},{drops[0]},{drops[1]}")
    await asyncio.to_thread(file.write_text, "\n".join(rows) + "\n")
    return {name: quantiles(values) for name, values in depths.items()}
