"""Compares the advisor's stream count with fixed ones and Falcon's over emulated paths: a table, and build/bench/parallelism.json.

Real movers at both ends, TLS, memory file system to memory file system; goodput is what the path delivered, without headers, over the same
number of seconds for every count. A search's run includes it from its first count on; its first 20 s with data are left out, as they are
with the fixed counts. Needs root, the built programs, and a quiet machine. Paths run one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead_dev.bench.falcon import search_command
from fairlead_dev.bench.rows import Row, write
from fairlead_dev.bench.runner import BenchCommand, exit_with
from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.wan.two_hosts import TwoHosts, WanPath, missing, noisy_source

WARM_S = 20.0
SOURCE_BYTES = 2 << 30
PROBE_S = 3
MOST_STREAMS = 32


@dataclass(frozen=True)
class StreamCountScene:
    """A path, and how many CUBIC streams of somebody else are on it all the time."""

    name: str
    wan: WanPath
    others: int = 0


SCENES = (
    StreamCountScene("clean", WanPath("100M", "30ms")),
    StreamCountScene("lossy", WanPath("100M", "30ms", loss=1e-4)),
    StreamCountScene("lossier", WanPath("100M", "30ms", loss=5e-4)),
    StreamCountScene("shared", WanPath("100M", "30ms"), others=1),
)


@dataclass(frozen=True)
class Cost:
    """What a process took: its share of one core over the time measured, and the most memory it ever had resident."""

    cpu_ratio: float
    peak_rss_mib: float


@dataclass(frozen=True)
class StreamCountRun:
    """What one transfer reached after the warm-up, second by second, and with how many streams."""

    goodputs_bps: list[float]
    streams: list[int]
    beside: Cost | None = None
    """Of who has chosen the count."""

    @property
    def mean_bps(self) -> float:
        """Over the time measured."""
        return statistics.fmean(self.goodputs_bps)


@dataclass(frozen=True)
class StreamChooser:
    """Who has the stream count to choose: the sender's options, and what is started beside it."""

    sender: tuple[object, ...]
    beside: Callable[[TwoHosts], subprocess.Popen[bytes]] | None = None


def fixed(count: int) -> StreamChooser:
    """Nobody."""
    return StreamChooser(("--streams", count, "--await-transport", 0))


def advisor(*options: object) -> StreamChooser:
    """The sidecar, with these options."""
    bounds = ("--seconds", PROBE_S, "--streams-min", 1, "--streams-max", MOST_STREAMS)
    return StreamChooser(("--streams", 4, "--await-transport", 30), lambda hosts: hosts.advise(*bounds, *options))


def falcon() -> StreamChooser:
    """Falcon's search, over streams of CUBIC."""

    def search(hosts: TwoHosts) -> subprocess.Popen[bytes]:
        return hosts.start(hosts.net.sender, *search_command(hosts.control_socket, MOST_STREAMS, hosts.folder / "falcon.jsonl"))

    return StreamChooser(("--streams", 1, "--congestion-control", "cubic", "--await-transport", 0), search)


def transfer(scene: StreamCountScene, chooser: StreamChooser, seconds: float) -> StreamCountRun:
    """One transfer."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-bench-", dir="/dev/shm"))
    with TwoHosts(scene.wan, folder) as hosts, noisy_source(folder, SOURCE_BYTES) as source:
        if scene.others:
            server = hosts.start(hosts.net.receiver, "iperf3", "-s", "-B", hosts.net.receiver_address, "-p", 5201)
            time.sleep(1)
            duration = int(WARM_S + seconds + 60)
            addresses = ("-c", hosts.net.receiver_address, "-B", hosts.net.sender_address)
            hosts.start(hosts.net.sender, "iperf3", *addresses, "-C", "cubic", "-P", scene.others, "-t", duration)
            hosts.wait_for(lambda: hosts.delivered_bytes() > 10e6, "the others' traffic flows", server)
        ends = hosts.send(source, *chooser.sender)
        beside = chooser.beside(hosts) if chooser.beside is not None else None
        hosts.wait_for(lambda: _flows(hosts), "data flows", ends.sender, 60)
        began_s, used_s = time.monotonic(), _cpu_s(beside.pid) if beside else 0.0
        run = _measure(hosts, seconds)
        if beside is not None:
            if beside.poll() is not None:
                raise LabError(f"{scene.name}: who chooses the count ended with {beside.returncode}: {hosts.logs()}")
            cpu_ratio = (_cpu_s(beside.pid) - used_s) / (time.monotonic() - began_s)
            run = replace(run, beside=Cost(cpu_ratio, _peak_rss_mib(beside.pid)))
        if (record := folder / "decisions.jsonl").exists():
            _tell(record)
        ends.stop()
        return run


def _cpu_s(pid: int) -> float:
    # The command's name may hold spaces and parentheses; what follows it does not.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _flows(hosts: TwoHosts) -> bool:
    stats = hosts.ask_mover("/v1/stats")
    return bool(stats and stats["stage"] == "Transferring" and stats["streams"])


def _measure(hosts: TwoHosts, seconds: float) -> StreamCountRun:
    """Own bytes by the mover's sockets: the path's counter has the others' in it."""
    began = time.monotonic()
    goodputs_bps, counts = [], []
    before: dict[int, int] = {}
    last_s = began
    while (now_s := time.monotonic()) < began + WARM_S + seconds:
        stats = hosts.ask_mover("/v1/stats") or {"streams": []}
        sent = {stream["id"]: stream["bytes_sent"] for stream in stats["streams"]}
        grown = sum(total - before.get(name, 0) if total >= before.get(name, 0) else total for name, total in sent.items())
        if now_s >= began + WARM_S:
            goodputs_bps.append(grown * 8 / (now_s - last_s))
            counts.append(len(sent))
        before, last_s = sent, now_s
        time.sleep(max(0.0, now_s + 1.0 - time.monotonic()))
    return StreamCountRun(goodputs_bps, counts)


def _tell(record: Path) -> None:
    for line in record.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["kind"] == "streams":
            print(f"    {entry['at']} {entry['from']} -> {entry['tried']}: {entry['why']}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which scenes, and how long."""
    parser.add_argument("--only", choices=[scene.name for scene in SCENES], action="append", help="a scene; may be given several times")
    parser.add_argument("--fixed", type=int, nargs="+", default=[1, 4, 8, 16], help="stream counts to compare with")
    parser.add_argument("--seconds", type=float, default=40.0, help="measured after the first 20 s")


def compare(options: argparse.Namespace) -> int:
    """Measures the scenes, prints and writes."""
    if why := missing():
        raise NotAvailableError(f"cannot run: {why}")
    results = []
    for scene in SCENES:
        if options.only and scene.name not in options.only:
            continue
        runs = {str(count): transfer(scene, fixed(count), options.seconds) for count in options.fixed}
        best_bps = max(run.mean_bps for run in runs.values())
        runs["advisor"] = transfer(scene, advisor(), options.seconds)
        if scene.others:
            runs["competing"] = transfer(scene, advisor("--others-weight", 0), options.seconds)
        runs["falcon"] = transfer(scene, falcon(), options.seconds)
        for name, run in runs.items():
            ratio = run.mean_bps / best_bps
            counts = f"{min(run.streams)} to {max(run.streams)}" if min(run.streams) != max(run.streams) else f"{run.streams[0]}"
            print(
                f"{scene.name:8} {name:9} {run.mean_bps / 1e6:7.1f} Mb/s  {ratio:6.3f} of the best fixed count, streams {counts}",
                flush=True,
            )
            rate_mbps, best_mbps = round(run.mean_bps / 1e6, 2), round(best_bps / 1e6, 2)
            more = {"streams": run.streams}
            results.append(Row(f"parallelism_{scene.name}_{name}", rate_mbps, "Mb/s", best_mbps, round(ratio, 4), more=more))
        cost = runs["advisor"].beside
        if cost is not None:
            print(f"{scene.name:8} sidecar   {cost.cpu_ratio:.2%} of a core, at most {cost.peak_rss_mib:.0f} MiB resident", flush=True)
            for name, value, unit, most in (("cpu", cost.cpu_ratio, "cores", 0.02), ("rss", cost.peak_rss_mib, "MiB", 200.0)):
                results.append(Row(f"sidecar_{scene.name}_{name}", round(value, 4), unit, most, round(value / most, 4)))
    write(results, options.output)
    return 0


BENCH = BenchCommand("parallelism", __doc__, add_options, compare)

if __name__ == "__main__":
    exit_with(BENCH.main)
