"""Caps on the wire: how exactly they hold over every second, and how soon a change of the file takes effect."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fairlead_dev.bench.lab.mover import SAMPLER, MoverLab, start_script
from fairlead_dev.bench.lab.projection import Projection
from fairlead_dev.bench.lab.rates import InterfaceSample, excess_and_lack, first_data_s, parse, percentile, settled_s, windows
from fairlead_dev.bench.rows import Row, rounded
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import running, wait_until

SAMPLE_S = 0.005
WINDOW_S, STEP_S = 1.0, 0.05
CAPS_BPS = (10_000_000, 100_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000)
STREAMS = (1, 4, 32)
QUICK_CASES = ((100_000_000, 4), (1_000_000_000, 4))
SECONDS = 7.0
START_S = 1.0
"""Time that a transfer may take to come up to its cap; until then only what is above the cap counts."""
LONG_S = 30
"""What a transfer would take that is ended before."""
LONG = "zero:20G"
HANDSHAKE_BYTES = 64 << 10
"""What control, handshakes and listing may take before data flows."""
CHANGES = 10
CHANGE_WINDOW_S = 0.1
CHANGE_LIMIT_S = 3.0


def measure_error(bench: MoverLab) -> list[Row]:
    """cap_error_p99: of the worst case of caps and streams; offloads are off, so that what is counted are packets as on a wire."""
    cases = QUICK_CASES if bench.quick else tuple((cap, streams) for cap in CAPS_BPS for streams in STREAMS)
    found: list[dict[str, float]] = []
    with veth(offload=False) as net:
        for cap_bps, streams in cases:
            errors = _errors(_record(bench, net, cap_bps, streams), cap_bps)
            absolute = [abs(error) for error in errors]
            case = {
                "cap_bps": cap_bps,
                "streams": streams,
                "p99": percentile(absolute, 0.99),
                "highest": max(errors),
                "lowest": min(errors),
            }
            found.append({key: round(value, 5) for key, value in case.items()})
            bench.report(
                f"{cap_bps / 1e6:g} Mb/s, {streams} streams: {case['lowest']:+.2%} to {case['highest']:+.2%}, p99 {case['p99']:.2%}"
            )
    worst = max(found, key=lambda case: case["p99"])
    over, under = max(case["highest"] for case in found), min(case["lowest"] for case in found)
    note = (
        f"IP bytes at the receiver over every second of {len(cases)} cases, {CAPS_BPS[0] / 1e6:g} Mb/s to {CAPS_BPS[-1] / 1e9:g} Gb/s, "
        f"1 to 32 streams; worst at {worst['cap_bps'] / 1e6:g} Mb/s, {worst['streams']:g} streams; extremes {under:+.2%}, {over:+.2%}"
    )
    return [Row("cap_error_p99", worst["p99"], "share", note=note, more={"cases": found})]


def _record(bench: MoverLab, net: Net, cap_bps: int, streams: int) -> list[InterfaceSample]:
    """Samples of the receiver's interface from before the first byte until the transfer is stopped."""
    output = bench.scratch / "samples"
    with running(start_script(SAMPLER, net.device, str(SAMPLE_S), namespace=net.receiver, output=output)):
        wait_until(lambda: bool(output.read_text()), "the first sample", 10)
        with bench.mover.transfer(net, bench.scratch, "null") as transfer:
            transfer.send(f"zero:{cap_bps // 8 * LONG_S}", "--streams", str(streams), "--bandwidth", str(cap_bps))
            wait_until(lambda: _has_data(output), "the first data", 20)
            time.sleep(SECONDS + START_S)
            samples = parse(output.read_text())
            transfer.stop_sending()
    return samples


def _has_data(output: Path) -> bool:
    samples = parse(output.read_text())
    return first_data_s(samples, HANDSHAKE_BYTES) is not None


def _errors(samples: Sequence[InterfaceSample], cap_bps: float) -> list[float]:
    start_s = first_data_s(samples, HANDSHAKE_BYTES)
    assert start_s is not None
    end_s = min(samples[-1].time_s, start_s + START_S + SECONDS)
    early = [rate for _, rate in windows(samples, WINDOW_S, STEP_S, start_s - WINDOW_S, start_s + START_S + WINDOW_S)]
    steady = [rate for _, rate in windows(samples, WINDOW_S, STEP_S, start_s + START_S, end_s)]
    return [error for error in excess_and_lack(early, cap_bps) if error > 0] + excess_and_lack(steady, cap_bps)


def measure_change(bench: MoverLab) -> list[Row]:
    """cap_change_s: the file is replaced as the kubelet does it, at random moments, up and down."""
    chance = random.Random(1)
    low_bps, high_bps = 100_000_000, 500_000_000
    annotation = Projection(bench.scratch / "podinfo", "bandwidth", str(low_bps))
    output = bench.scratch / "samples"
    took: list[float] = []
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(veth(offload=False))
        stack.enter_context(running(start_script(SAMPLER, net.device, str(SAMPLE_S), namespace=net.receiver, output=output)))
        transfer = stack.enter_context(bench.mover.transfer(net, bench.scratch, "null"))
        transfer.send(LONG, "--streams", "4", "--bandwidth-file", str(annotation.file))
        wait_until(lambda: _has_data(output), "the first data", 20)
        rates = [low_bps, high_bps]
        for number in range(bench.pick(CHANGES, 2)):
            # Random, so that the changes are in no fixed phase with the mover's reading of the file.
            time.sleep(1.0 + chance.random())
            before_bps, after_bps = rates[number % 2], rates[(number + 1) % 2]
            changed_s = time.monotonic()
            annotation.show(str(after_bps))
            time.sleep(CHANGE_LIMIT_S + CHANGE_WINDOW_S)
            samples = parse(output.read_text())
            settled = settled_s(samples, changed_s, before_bps, after_bps, window_s=CHANGE_WINDOW_S, limit_s=CHANGE_LIMIT_S)
            if settled is None:
                raise LabError(f"{CHANGE_LIMIT_S} s after the cap changed to {after_bps} bit/s the rate was not there")
            took.append(settled)
            bench.report(f"{before_bps / 1e6:g} to {after_bps / 1e6:g} Mb/s: {settled:.2f} s")
        transfer.stop_sending()
    note = (
        f"longest of {len(took)} changes of the file between 100 and 500 Mb/s, median {median(took):.2f} s, windows of {CHANGE_WINDOW_S} s"
    )
    return [Row("cap_change_s", round(max(took), 3), "s", note=note, more={"runs": rounded(took)})]
