"""Two paths at once: the mover beside one path and beside MPTCP of the kernel, and what a path that is cut costs.

Two emulated paths lead from the sender's namespace to the receiver's, each with interfaces of its own. Transfers are from memory to
nothing, in TLS; goodput is payload over the time from the first byte to the last. MPTCP is iperf3 by `mptcpize` with as many connections
as the mover has streams on a path, each with one subflow on each path. Programs are interleaved; a figure is the median of the rounds, a
ratio the median of the rounds' ratios, so that what else the machine does weighs on both sides.

A path is cut at a random moment while files are moved; `failover_s` is the time from the cut until payload comes at 0.9 of the other
path's rate, and the longest pause in it where that is more. What arrived is compared byte by byte.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from fairlead_dev.bench.lab.machine import install, need
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.lab.rates import percentile
from fairlead_dev.bench.rows import Goal, Row, not_available, rounded
from fairlead_dev.bench.runner import Part
from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.netlab import links
from fairlead_dev.netlab.namespaces import inside, ip
from fairlead_dev.netlab.pair import CONGESTION_CONTROL, Net, two_namespaces
from fairlead_dev.netlab.processes import Process, run, running, wait_until
from fairlead_dev.wan import emulator

STREAMS = 4
PORT, HTTP_PORT, IPERF_PORT = 24000, 24001, 5201
ROUNDS, QUICK_ROUNDS = 5, 1
SECONDS, QUICK_SECONDS = 15.0, 3.0
CUTS, QUICK_CUTS = 10, 2
LIMIT_S = 240.0
LOOK_S = 0.05
WINDOW_S = 0.5
"""Over which a rate is taken after a cut."""
RECOVERED = 0.9
EMULATOR_PRIORITY = 10
GOALS = {
    "multi_equal": Goal("at_least", 1.9, of="ratio"),
    "multi_unequal": Goal("at_least", 0.95, of="ratio"),
    "multi_equal_vs_mptcp": Goal("at_least", 1.0, of="ratio"),
    "multi_unequal_vs_mptcp": Goal("at_least", 1.0, of="ratio"),
    "failover_s_p99": Goal("at_most", 2.0, of="value"),
    "wrong_bytes": Goal("at_most", 0, of="value"),
}


@dataclass(frozen=True, slots=True)
class EmulatedPath:
    """One path in the emulator's units; `one_way_delay` is half of its RTT."""

    rate_mbps: int
    one_way_delay: str


EQUAL = (EmulatedPath(100, "15ms"), EmulatedPath(100, "15ms"))
UNEQUAL = (EmulatedPath(150, "15ms"), EmulatedPath(50, "30ms"))


@dataclass(frozen=True)
class TwoPaths:
    """Two namespaces and the paths between them: the i-th from `data<i>` to `data<i>`."""

    lab: MoverLab
    net: Net
    controls: tuple[Path, ...]
    folder: Path
    paths: tuple[int, ...] = field(default=(0, 1))

    def sender_address(self, path: int) -> str:
        """The sender's end of a path."""
        return f"198.18.{10 + path}.1"

    def receiver_address(self, path: int) -> str:
        """The receiver's end of a path."""
        return f"198.18.{10 + path}.2"

    def cut(self, path: int) -> None:
        """From now on nothing comes through."""
        emulator.change(self.lab.emulator, self.controls[path], down="true")


@contextmanager
def two_paths(lab: MoverLab, paths: Sequence[EmulatedPath]) -> Iterator[TwoPaths]:
    """Both namespaces with both paths, removed with the block. Raises LabError."""
    folder = lab.scratch / "paths"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        net = stack.enter_context(two_namespaces())
        controls = tuple(folder / f"emulator-{number}.sock" for number in range(len(paths)))
        made = TwoPaths(lab, net, controls, folder)
        for number, (path, control) in enumerate(zip(paths, controls, strict=True)):
            device, own, peer = f"data{number}", made.sender_address(number), made.receiver_address(number)
            for name, address, other in ((net.sender, own, peer), (net.receiver, peer, own)):
                links.tun(name, device, address, other)
                ip(name, f"route replace {other}/32 dev {device} src {address} congctl {CONGESTION_CONTROL}")
            shape = ("--rate", f"{path.rate_mbps}M", "--delay", path.one_way_delay, "--buffer", "1BDP")
            joined = (f"{net.sender}:{device}", f"{net.receiver}:{device}")
            command = emulator.run_command(lab.emulator, joined, control, shape, EMULATOR_PRIORITY)
            stack.enter_context(emulator.emulating(command, folder / f"emulator-{number}.log"))
            for name in (net.sender, net.receiver):
                links.await_carrier(name, device)
        yield made


@contextmanager
def transfer(made: TwoPaths, paths: Sequence[int], source: str | Path, destination: str | Path) -> Iterator[tuple[Process, Process]]:
    """A receiver and a sender over these paths, ended with the block; the sender's process first. Raises LabError."""
    folder = made.folder / "transfer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mover = made.lab.mover.binary
    run([mover, "credentials", folder / "tls"])
    interfaces = ",".join(f"data{path}" for path in paths)
    peers = ",".join(f"{made.receiver_address(path)}:{PORT}" for path in paths)
    receive: list[str | Path] = [mover, "receive", "--destination", destination, "--port", str(PORT), "--interface", interfaces]
    receive += ["--http", f"127.0.0.1:{HTTP_PORT}", "--tls-dir", folder / "tls" / "receiver", "--termination-log", folder / "verdict"]
    send: list[str | Path] = [mover, "send", "--source", source, "--connect", peers, "--interface", interfaces]
    send += ["--streams", str(STREAMS), "--tls-dir", folder / "tls" / "sender"]
    with running(Process(receive, log=folder / "receiver.log", namespace=made.net.receiver)) as receiver:
        listening = ["ss", "-Hltn", f"sport = :{PORT}"]
        wait_until(lambda: bool(run(listening, namespace=made.net.receiver).strip()) or not receiver.is_running, "the receiver", 20)
        with running(Process(send, log=folder / "sender.log", namespace=made.net.sender)) as sender:
            yield sender, receiver


def goodput_bps(made: TwoPaths, paths: Sequence[int], size_bytes: int) -> float:
    """Moves so many bytes over these paths. Raises LabError unless both ends succeed."""
    with transfer(made, paths, f"zero:{size_bytes}", "null") as (sender, receiver):
        sender.succeed(LIMIT_S, beside=[receiver])
        receiver.succeed(LIMIT_S)
    verdict = json.loads((made.folder / "transfer" / "verdict").read_text())
    return float(verdict["bytes_transferred"]) * 8 / float(verdict["bulk_seconds"])


def mptcp_bps(made: TwoPaths, size_bytes: int) -> float:
    """The same by iperf3 under MPTCP, with a subflow on each path. Raises LabError."""
    server, client = made.net.receiver, made.net.sender
    for name in (server, client):
        run(["ip", "mptcp", "endpoint", "flush"], namespace=name)
        run(["ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"], namespace=name)
    run(["ip", "mptcp", "endpoint", "add", made.receiver_address(1), "dev", "data1", "signal"], namespace=server)
    serve = ["mptcpize", "run", "iperf3", "-s", "-1", "-p", str(IPERF_PORT)]
    output = made.folder / "iperf.json"
    output.unlink(missing_ok=True)
    size = size_bytes // STREAMS
    ask = ["mptcpize", "run", "iperf3", "-J", "-c", made.receiver_address(0), "-p", str(IPERF_PORT), "-P", str(STREAMS), "-n", str(size)]
    with running(Process(serve, log=made.folder / "iperf-server.log", namespace=server)) as listening:
        ports = ["ss", "-HltnM", f"sport = :{IPERF_PORT}"]
        wait_until(lambda: bool(run(ports, namespace=server).strip()) or not listening.is_running, "iperf3 with MPTCP", 20)
        Process(ask, log=made.folder / "iperf.log", output=output, namespace=client).succeed(LIMIT_S, beside=[listening])
    return float(json.loads(output.read_text())["end"]["sum_received"]["bits_per_second"])


@dataclass
class PathGoodputs:
    """Goodputs of all rounds, in bit/s: of each path alone, of both, and of both by MPTCP."""

    alone: list[list[float]] = field(default_factory=lambda: [[], []])
    both: list[float] = field(default_factory=list)
    mptcp: list[float] = field(default_factory=list)
    beside_mptcp: list[float] = field(default_factory=list)
    """Of both, in the rounds in which MPTCP has a figure."""
    no_mptcp: str = ""


def measure(lab: MoverLab, paths: Sequence[EmulatedPath]) -> PathGoodputs:
    """Runs all of them in turn, for some time each at the paths' rates. Raises LabError."""
    figures, seconds = PathGoodputs(), lab.pick(SECONDS, QUICK_SECONDS)
    install(["mptcpize", "iperf3"])
    sizes = [int(path.rate_mbps * 1e6 / 8 * seconds) for path in paths]
    with two_paths(lab, paths) as made:
        for _ in range(lab.pick(ROUNDS, QUICK_ROUNDS)):
            for number, size in enumerate(sizes):
                figures.alone[number].append(goodput_bps(made, [number], size))
            figures.both.append(goodput_bps(made, [0, 1], sum(sizes)))
            try:
                need("mptcpize", "iperf3")
                figures.mptcp.append(mptcp_bps(made, sum(sizes)))
                figures.beside_mptcp.append(figures.both[-1])
            except (LabError, NotAvailableError) as error:
                figures.no_mptcp = str(error)
            lab.report(
                f"alone {[runs[-1] / 1e6 for runs in figures.alone]}, both {figures.both[-1] / 1e6:.1f} Mb/s, MPTCP {figures.mptcp[-1:]}"
            )
    return figures


def rows_of(name: str, figures: PathGoodputs, references_bps: Sequence[float]) -> list[Row]:
    """Both paths beside the reference of the same round, and beside MPTCP. A ratio is the median of those of the rounds."""
    rows = [ratio_row(name, figures, references_bps)]
    if not figures.mptcp:
        return [*rows, not_available(f"{name}_vs_mptcp", "Mb/s", figures.no_mptcp)]
    runs = {"mptcp_runs_mbps": rounded(run / 1e6 for run in figures.mptcp)}
    return [*rows, _row(f"{name}_vs_mptcp", figures.beside_mptcp, figures.mptcp, runs)]


def ratio_row(name: str, figures: PathGoodputs, references_bps: Sequence[float], more: Mapping[str, object] | None = None) -> Row:
    """Both paths beside the reference of the same round."""
    alone = {f"alone_{number}_mbps": rounded(run / 1e6 for run in runs) for number, runs in enumerate(figures.alone)}
    return _row(name, figures.both, references_bps, {**alone, **(more or {})})


def _row(name: str, runs_bps: Sequence[float], references_bps: Sequence[float], more: Mapping[str, object]) -> Row:
    ratios = [run / reference for run, reference in zip(runs_bps, references_bps, strict=True)]
    value, reference = (round(statistics.median(runs) / 1e6, 2) for runs in (runs_bps, references_bps))
    more = {"runs_mbps": rounded(run / 1e6 for run in runs_bps), **more, "ratios": rounded(ratios)}
    return Row(name, value, "Mb/s", reference, round(statistics.median(ratios), 3), more=more)


def against_equal(figures: PathGoodputs) -> list[float]:
    """The reference of each round over two equal paths: the mean of both alone, in bit/s."""
    return [statistics.mean(alone) for alone in zip(*figures.alone, strict=True)]


def against_sum(figures: PathGoodputs) -> list[float]:
    """The reference of each round over unequal paths: the sum of both alone, in bit/s."""
    return [sum(alone) for alone in zip(*figures.alone, strict=True)]


def equal(lab: MoverLab) -> list[Row]:
    """Over two equal paths, beside one of them."""
    figures = measure(lab, EQUAL)
    return rows_of("multi_equal", figures, against_equal(figures))


def unequal(lab: MoverLab) -> list[Row]:
    """Over paths of 3:1, beside the sum of both."""
    figures = measure(lab, UNEQUAL)
    return rows_of("multi_unequal", figures, against_sum(figures))


@dataclass(frozen=True, slots=True)
class Cut:
    """What one cut cost."""

    recovery_s: float
    longest_pause_s: float
    wrong_bytes: int

    @property
    def failover_s(self) -> float:
        """The worse of the two times."""
        return max(self.recovery_s, self.longest_pause_s)


def recovery_s(samples: Sequence[tuple[float, int]], cut_s: float, rate_bps: float) -> float:
    """From the cut until payload comes at 0.9 of `rate_bps` over a window; the time until the end if it never does.

    `samples` are moments and the payload bytes that had arrived by then.
    """
    later = [(moment, moved) for moment, moved in samples if moment >= cut_s]
    for number, (moment, moved) in enumerate(later):
        after = next(((end, total) for end, total in later[number:] if end - moment >= WINDOW_S), None)
        if after is not None and (after[1] - moved) * 8 / (after[0] - moment) >= RECOVERED * rate_bps:
            return moment - cut_s
    return later[-1][0] - cut_s if later else 0.0


def longest_pause_s(samples: Sequence[tuple[float, int]], cut_s: float) -> float:
    """The longest time after the cut in which no payload came."""
    changes = [samples[0][0]] if samples else []
    changes += [moment for (_, before), (moment, moved) in pairwise(samples) if moved != before and moment >= cut_s]
    changes = [max(moment, cut_s) for moment in changes]
    return max((later - earlier for earlier, later in pairwise(changes)), default=0.0)


def cut_once(made: TwoPaths, chance: random.Random, source: Path, size_bytes: int, alone_bps: float) -> Cut:
    """Cuts one of the paths at some moment of a transfer. Raises LabError unless it succeeds."""
    arrived = made.folder / "arrived"
    shutil.rmtree(arrived, ignore_errors=True)
    path, begin = chance.randrange(2), chance.uniform(0.1, 0.6)
    samples: list[tuple[float, int]] = []
    cut_s = None
    with transfer(made, [0, 1], source, arrived) as (sender, receiver):
        while receiver.is_running:
            moved = _arrived_bytes(made.net.receiver)
            if moved is not None:
                samples.append((time.monotonic(), moved))
                if cut_s is None and moved >= begin * size_bytes:
                    cut_s = time.monotonic()
                    made.cut(path)
            time.sleep(LOOK_S)
        receiver.succeed(LIMIT_S)
        sender.wait(LIMIT_S)
    emulator.change(made.lab.emulator, made.controls[path], down="false")
    if cut_s is None:
        raise LabError("the transfer was over before its path was cut")
    # What comes last is written and synced: no path is to blame for that.
    flowing = [sample for sample in samples if sample[1] < size_bytes] + [sample for sample in samples if sample[1] >= size_bytes][:1]
    cut = Cut(recovery_s(flowing, cut_s, alone_bps), longest_pause_s(flowing, cut_s), wrong_bytes(source, arrived))
    made.lab.report(f"path {path} cut at {begin:.2f} of the file: back after {cut.recovery_s:.2f} s, pause {cut.longest_pause_s:.2f} s")
    return cut


def wrong_bytes(source: Path, arrived: Path) -> int:
    """Bytes of the source's files that are missing or other at the destination, and bytes that are too many."""
    wrong = 0
    for file in source.iterdir():
        sent = file.read_bytes()
        came = (arrived / file.name).read_bytes() if (arrived / file.name).exists() else b""
        if sent != came:
            wrong += abs(len(sent) - len(came)) + sum(one != other for one, other in zip(sent, came, strict=False))
    return wrong


def failover(lab: MoverLab) -> list[Row]:
    """Cuts a path again and again."""
    size_bytes = lab.pick(96 << 20, 32 << 20)
    chance, cuts = random.Random(16), list[Cut]()
    source = lab.scratch / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    (source / "noise").write_bytes(os.urandom(size_bytes))
    with two_paths(lab, EQUAL) as made:
        alone = goodput_bps(made, [0], size_bytes // 2)
        for _ in range(lab.pick(CUTS, QUICK_CUTS)):
            cuts.append(cut_once(made, chance, source, size_bytes, alone))
    times = [cut.failover_s for cut in cuts]
    more = {"runs_s": rounded(times), "pauses_s": rounded(cut.longest_pause_s for cut in cuts)}
    return [
        Row("failover_s_p99", round(percentile(times, 0.99), 3), "s", more=more),
        Row("wrong_bytes", sum(cut.wrong_bytes for cut in cuts), "B", more={"transfers": len(cuts)}),
    ]


def _arrived_bytes(namespace: str) -> int | None:
    try:
        with inside(namespace), urllib.request.urlopen(f"http://127.0.0.1:{HTTP_PORT}/v1/progress", timeout=1) as answer:
            return int(json.load(answer)["bytes_transferred"])
    except OSError:
        return None


PARTS: tuple[Part[MoverLab], ...] = (
    Part("multi-equal", ("multi_equal", "multi_equal_vs_mptcp"), equal, limit_s=1200),
    Part("multi-unequal", ("multi_unequal", "multi_unequal_vs_mptcp"), unequal, limit_s=1200),
    Part("failover", ("failover_s_p99", "wrong_bytes"), failover, limit_s=900),
)
