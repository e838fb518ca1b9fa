"""The data card: what a packed data set is, how it was made and where it ends; a pure function of its manifest and runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from fairlead_dev.testbed.dataset.classes import BackgroundClass, Split

_LIMITS = """\
One bottleneck with {queue}, equal in both directions, carried by {carrier} on one machine; the kernel's own congestion
controls, of the one version named above; no jitter, reordering, wireless link{or_more}; steady background but in `test_kinds`.
A label says which flows were running, not which of them can be told from the probe's samples: where loss holds a CUBIC flow below the
link's rate there is no queue to see, and two flows of one kind may look like one."""

_CARRIERS = {
    "fairlead-wan": "`fairlead-wan`",
    "kernel": "the kernel's token bucket and buffer, its packet filter for random loss and `fairlead-wan` for the delay alone,",
}

_USE = """\
Training and testing a classifier of the background traffic on a path from a passive probe's round-trip times, with the splits as they
are: by path and by run, never by window. `active` is for comparing active with passive probing by cross-validation over its recordings,
`bursts` for what short bursts add to a passive look, by leaving paths out.
Not a sample of the Internet: shares of classes, rates and buffers are drawn evenly, not as they occur."""


def card(manifest: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    """The card as Markdown."""
    specification = manifest["specification"]
    hours = sum(run["duration_s"] for run in runs) / 3600
    disturbed = len(manifest["disturbed"])
    parts = [
        f"# Data set `{specification['name']}`",
        f"{len(runs)} recordings, {hours:.1f} hours of round-trip times at {specification['probe_rate_hz']:g} requests a second, on "
        f"{len({run['path_id'] for run in runs})} emulated paths, each with known background traffic.",
        *(f"**{text}**" for text in _incomplete(manifest, disturbed)),
        f"## Use\n{_USE}",
        f"## Recordings\n{_counts(manifest)}",
        f"## Ranges\n{_ranges(runs)}",
        f"## How it was made\n{_origin(manifest)}",
        f"## Quality\n{_quality(runs)}",
        f"## Limits\n{_limits(runs)}",
    ]
    return "\n\n".join(parts) + "\n"


def _incomplete(manifest: dict[str, Any], disturbed: int) -> list[str]:
    texts = []
    if manifest["missing"]:
        texts.append(f"Incomplete: {len(manifest['missing'])} of {manifest['planned']} planned recordings are missing.")
    if disturbed:
        texts.append(f"{disturbed} recordings were disturbed by the machine and are marked by `faults`: not for training a shipped model.")
    return texts


def _limits(runs: Sequence[dict[str, Any]]) -> str:
    # Runs from before there were others have no kind of queue and no emulator.
    queues = sorted({run.get("queue", "drop-tail") for run in runs})
    carrier = " or ".join(_CARRIERS[emulator] for emulator in sorted({run.get("emulator", "fairlead-wan") for run in runs}))
    if queues == ["drop-tail"]:
        return _LIMITS.format(queue="a drop-tail buffer", carrier=carrier, or_more=" or queue management")
    return _LIMITS.format(queue=f"the queue that its line names ({', '.join(queues)})", carrier=carrier, or_more=" or ECN")


def _counts(manifest: dict[str, Any]) -> str:
    classes = [background.value for background in BackgroundClass]
    lines = ["| split | " + " | ".join(classes) + " |", "|---|" + "---|" * len(classes)]
    for split in Split:
        counts = manifest["runs"].get(split.value)
        if counts:
            lines.append(f"| `{split}` | " + " | ".join(str(counts.get(name, 0)) for name in classes) + " |")
    return "\n".join(lines)


def _ranges(runs: Sequence[dict[str, Any]]) -> str:
    quantities = {
        "rate (Mb/s)": [run["rate_bps"] / 1e6 for run in runs],
        "RTT (ms)": [run["rtt_ms"] for run in runs],
        "buffer (BDP)": [run["queue_bdp"] for run in runs],
        "random loss": [run["loss_ratio"] for run in runs],
        "background flows": [run["bbr_flows"] + run["cubic_flows"] for run in runs],
        "length (s)": [run["duration_s"] for run in runs],
    }
    lines = ["| | least | median | most |", "|---|---|---|---|"]
    lines += [f"| {name} | {min(values):.3g} | {median(values):.3g} | {max(values):.3g} |" for name, values in quantities.items()]
    return "\n".join(lines)


def _origin(manifest: dict[str, Any]) -> str:
    name, seed = manifest["specification"]["name"], manifest["specification"]["seed"]
    versions = ", ".join(f"{program} {', '.join(map(str, found))}" for program, found in manifest["versions"].items())
    machine = f"Linux {', '.join(manifest['machine']['kernel'])}, {', '.join(map(str, manifest['machine']['cpus']))} processors"
    return (
        f"`python -m fairlead_dev.testbed dataset generate {name}` and `dataset pack` (`make dataset DATASET={name}`), seed {seed}. "
        f"Every random choice follows from the seed; packets meet the kernel's own timing, "
        "so that a recording made again is alike and not equal. "
        f"{versions}. {machine}."
    )


def _quality(runs: Sequence[dict[str, Any]]) -> str:
    lateness_us = [run["write_lateness_us"]["p99"] for run in runs]
    spread_ms = [run["idle_rtt_ms"]["p95"] - run["idle_rtt_ms"]["min"] for run in runs if run["idle_rtt_ms"]]
    offset_ms = [run["idle_rtt_ms"]["p50"] - run["rtt_ms"] for run in runs if run["idle_rtt_ms"]]
    lost = [1 - run["answered"] / run["requests"] for run in runs if run["requests"]]
    rows = {
        "lateness of written packets, p99 of a run (us)": lateness_us,
        "spread of the idle path's RTT, p95 - least (ms)": spread_ms,
        "idle RTT above the path's (ms)": offset_ms,
        "requests without an answer": lost,
    }
    lines = ["| of all runs | median | most |", "|---|---|---|"]
    lines += [f"| {name} | {median(values):.3g} | {max(values):.3g} |" for name, values in rows.items() if values]
    return "\n".join(lines)
