"""From the folders of runs to the compact data set."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_advisor.probe.trace import Trace, read_trace, write_trace
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.data import BURST_PACKETS_FILE, BurstPackets, RawTrace, read_split, write_burst_packets, write_runs, write_split
from fairlead_dev.testbed.dataset.card import card
from fairlead_dev.testbed.dataset.classes import Split
from fairlead_dev.testbed.dataset.plan import PlannedRun
from fairlead_dev.testbed.dataset.specification import Specification
from fairlead_dev.testbed.lab.emulator import dropped_unsent
from fairlead_dev.testbed.runs.batch import RUNS, is_recorded
from fairlead_dev.testbed.runs.plans import BURSTS, TRACE
from fairlead_dev.testbed.runs.record import MANIFEST
from fairlead_dev.testbed.scenario.expand import single_flows

MANIFEST_FILE = "manifest.json"
CARD_FILE = "README.md"


def pack(
    specification: Specification, plan: Sequence[PlannedRun], folder: Path, output: Path, *, disturbed_too: bool = False
) -> dict[str, Any]:
    """Write every good run of `plan` recorded in `folder` to `output`, and return the manifest of the data set.

    With `disturbed_too` also what was kept although disturbed; `faults` of such a run says so.
    """
    recorded = [run for run in plan if is_recorded(run, folder, disturbed_too=disturbed_too)]
    names = {run.name for run in recorded}
    if not recorded:
        raise CommandUsageError(f"{folder}: has no good recording of this plan: generate some first")
    output.mkdir(parents=True, exist_ok=True)
    runs = [_described(run, json.loads((folder / RUNS / run.name / MANIFEST).read_text())) for run in recorded]
    for split in Split:
        traces = [_trace(run, folder) for run in recorded if run.split is split]
        file = output / f"{split}.npz"
        file.unlink(missing_ok=True)
        if traces:
            write_split(file, traces)
    bursts = [_burst_packets(run, folder) for run in recorded if run.scenario.probe.bursts]
    (output / BURST_PACKETS_FILE).unlink(missing_ok=True)
    if bursts:
        write_burst_packets(output, bursts)
    manifest = {
        "specification": specification.model_dump(mode="json"),
        "planned": len(plan),
        "recorded": len(recorded),
        "disturbed": [run["name"] for run in runs if run["faults"]],
        "missing": [run.name for run in plan if run.name not in names],
        "runs": {split.value: dict(Counter(run.background.value for run in recorded if run.split is split)) for split in Split},
        "machine": _common([run["machine"] for run in runs]),
        "versions": _common([run["versions"] for run in runs]),
    }
    for run in runs:
        del run["machine"], run["versions"]
    write_runs(output, runs)
    (output / MANIFEST_FILE).write_text(json.dumps(manifest, indent=1) + "\n")
    (output / CARD_FILE).write_text(card(manifest, runs))
    return manifest


def _trace(run: PlannedRun, folder: Path) -> RawTrace:
    trace = read_trace(folder / RUNS / run.name / TRACE)
    return RawTrace(run.name, run.scenario.probe.rate_hz, trace.send_times_s, trace.rtts_ms)


def _burst_packets(run: PlannedRun, folder: Path) -> BurstPackets:
    columns = np.genfromtxt(folder / RUNS / run.name / BURSTS, delimiter=",", skip_header=1, usecols=(1, 2), ndmin=2)
    return BurstPackets(run.name, columns[:, 0], columns[:, 1])


def _described(run: PlannedRun, manifest: dict[str, Any]) -> dict[str, Any]:
    scenario = run.scenario
    forward = manifest["emulator"]["ab"]
    flows = []
    for single, seen in zip(single_flows(scenario), manifest["flows"], strict=True):
        flow = single.flow
        flows.append(
            {
                "name": single.name,
                "role": flow.role,
                "protocol": flow.protocol,
                "congestion_control": flow.congestion_control,
                "direction": flow.direction,
                "rate_bps": flow.rate_bps,
                "pattern": flow.pattern.model_dump(mode="json"),
                "on_s": [[round(begin_s, 3), round(end_s, 3)] for begin_s, end_s in single.on_phases()],
                "goodput_bps": seen["goodput_bps"],
                "retransmits": seen["retransmits"],
            }
        )
    background = [flow["congestion_control"] for flow in flows if flow["role"] == "background" and flow["protocol"] == "tcp"]
    return {
        "name": run.name,
        "path_id": run.path_id,
        "class": run.background.value,
        "seed": run.seed_name,
        "kind": run.kind.value,
        "split": run.split.value,
        "duration_s": scenario.duration_s,
        "warm_up_s": scenario.warm_up_s,
        "probe_rate_hz": scenario.probe.rate_hz,
        "rate_bps": scenario.path.rate_bps,
        "rtt_ms": scenario.path.rtt_ms,
        "queue_bytes": scenario.path.queue_bytes,
        "queue_bdp": round(scenario.path.queue_bytes / scenario.path.bdp_bytes, 4),
        "loss_ratio": scenario.path.loss_ratio,
        "queue": scenario.path.queue,
        "police_bps": scenario.path.police and scenario.path.police.rate_bps,
        "police_udp_bps": scenario.path.police_udp and scenario.path.police_udp.rate_bps,
        "thin_acks": scenario.path.thin_acks,
        "emulator": scenario.path.emulator,
        "flows": flows,
        "bbr_flows": background.count("bbr"),
        "cubic_flows": background.count("cubic"),
        "faults": manifest["verdict"]["faults"],
        "idle_rtt_ms": manifest["probe"]["idle"]["rtt_ms"],
        "requests": manifest["probe"]["samples"],
        "answered": manifest["probe"]["answered"],
        "dropped_packets": dropped_unsent(forward),
        "write_lateness_us": forward["write_lateness_us"],
        "scenario_seed": scenario.seed,
        **({"bursts": [burst.model_dump(mode="json") for burst in scenario.probe.bursts]} if scenario.probe.bursts else {}),
        "machine": {"kernel": manifest["machine"]["kernel"], "cpus": manifest["machine"]["cpus"]},
        "versions": manifest["versions"],
    }


def _common(values: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: sorted({value[key] for value in values}, key=str) for key in values[0]}


def export_traces(dataset: Path, split: str, output: Path) -> int:
    """Write the traces of `split` to `output`, one CSV file per run, and return how many."""
    output.mkdir(parents=True, exist_ok=True)
    count = 0
    for recording in read_split(dataset, split):
        trace = Trace(array("d", recording.send_times_s), array("d", recording.rtts_ms))
        write_trace(output / f"{recording.name}.csv", trace)
        count += 1
    return count
