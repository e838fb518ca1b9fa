"""Switching the congestion control of open connections, under load, on a long path."""

from __future__ import annotations

import contextlib
import re
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Row, rounded
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import run, wait_until
from fairlead_dev.wan.emulator import emulated_pair

STREAMS = 8
RATE, ONE_WAY_DELAY = "200M", "50ms"
BUSY_BYTES = 20_000_000
SWITCHES = 10
LIMIT_S = 10.0
LONG = "zero:20G"


def parse_sockets(text: str) -> dict[int, str]:
    """Congestion control by local port in the output of `ss -tiHO`."""
    found = {}
    for line in text.splitlines():
        place = re.search(r"ESTAB\s+\d+\s+\d+\s+\S+:(\d+)\s", line)
        name = re.search(r"\b(cubic|bbr|reno)\b", line)
        if place and name:
            found[int(place.group(1))] = name.group(1)
    return found


def _sockets(net: Net) -> dict[int, str]:
    """The congestion control of each of the sender's connections, by the kernel."""
    return parse_sockets(run(["ss", "-tiHO", "dst", net.receiver_address], namespace=net.sender))


def measure(bench: MoverLab) -> list[Row]:
    """switch_s and switch_streams_lost: from the request until every stream has the other control by the kernel."""
    control = bench.scratch / "control.sock"
    took: list[float] = []
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(emulated_pair(bench.emulator, bench.scratch, rate=RATE, one_way_delay=ONE_WAY_DELAY))
        transfer = stack.enter_context(bench.mover.transfer(net, bench.scratch, "null"))
        transfer.send(LONG, "--streams", str(STREAMS), "--congestion-control", "cubic", "--control-socket", str(control))
        wait_until(control.exists, "the control socket", 20)
        wait_until(lambda: _busy(control), f"{STREAMS} busy streams", 60)
        streams = {stream["id"] for stream in _stats(control)}
        sockets = _sockets(net)
        for number in range(bench.pick(SWITCHES, 2)):
            name = "bbr" if number % 2 == 0 else "cubic"
            start_s = time.monotonic()
            ask_mover(control, "PATCH", "/v1/transport", {"congestion_control": name})
            wait_until(partial(_all_use, net, name), f"{name} on all streams", LIMIT_S)
            took.append(time.monotonic() - start_s)
            _await_traffic(control)
            bench.report(f"to {name}: {took[-1] * 1e3:.0f} ms")
        lost = max(len(streams - {stream["id"] for stream in _stats(control)}), len(sockets.keys() - _sockets(net).keys()))
        retransmits = sum(stream["retransmits"] for stream in _stats(control))
        transfer.stop_sending()
    path = f"{STREAMS} streams under load, {RATE}b/s and 100 ms"
    note = f"longest of {len(took)} switches between cubic and bbr, {path}; median {median(took):.3f} s; read back from the kernel"
    return [
        Row("switch_s", round(max(took), 3), "s", note=note, more={"runs": rounded(took)}),
        Row("switch_streams_lost", lost, "streams", note=f"after {len(took)} switches; TCP sent {retransmits} segments again in all"),
    ]


def _all_use(net: Net, name: str) -> bool:
    # The control connection keeps its own, so at least as many as there are data streams.
    return sum(has == name for has in _sockets(net).values()) >= STREAMS


def _stats(control: Path) -> list[dict[str, Any]]:
    return [dict(stream) for stream in ask_mover(control, "GET", "/v1/stats")["streams"]]


def _busy(control: Path) -> bool:
    streams = _stats(control)
    return len(streams) == STREAMS and all(stream["bytes_sent"] > BUSY_BYTES / STREAMS for stream in streams)


def _await_traffic(control: Path) -> None:
    """Every stream goes on carrying data."""
    before = {stream["id"]: stream["bytes_sent"] for stream in _stats(control)}
    wait_until(lambda: all(s["bytes_sent"] > before.get(s["id"], 0) for s in _stats(control)), "more data on every stream", LIMIT_S)
