"""Runs of the mover over an emulated path. Everything here has effects; what follows from it is in `figures`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from fairlead_dev.bench.lab.mover import SAMPLER, MoverLab, start_script
from fairlead_dev.bench.lab.rates import InterfaceSample, first_data_s, parse, windows
from fairlead_dev.bench.transports.figures import Moments, Yielding, p99_error, round_trips, takes_back_s, yielding
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import Process, run, running, wait_until
from fairlead_dev.wan.emulator import emulated_pair

EMULATOR_PRIORITY = 10
LONG = "zero:20G"
LOOK_S = 0.1
IPERF_PORT = 5201
PROTOCOLS = ("TCP", "QUIC", "UDT")
LIBUDT_PORT = 5202
HANDSHAKE_BYTES = 64 << 10
MOVE_LIMIT_S = 600.0
LIBUDT_PEER = CHECKOUT / "images" / "mover" / "crates" / "udt" / "tests" / "libudt" / "peer.cpp"


@dataclass(frozen=True, slots=True)
class LinkShape:
    """A link in the emulator's units."""

    rate_mbps: int
    one_way_ms: int
    buffer: str
    loss: float = 0.0
    """Share of the packets towards the receiver that are lost at random."""

    @property
    def bps(self) -> float:
        """The rate in bit/s."""
        return self.rate_mbps * 1e6


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer: payload in bit/s and CPU seconds of both ends for a GB."""

    goodput_bps: float
    cpu_s_per_gb: float


@dataclass(frozen=True, slots=True)
class Phases:
    """How long a scavenger is alone, beside another flow, and at most alone again; and after which time beside it both count."""

    alone_s: float
    beside_s: float
    after_s: float
    settle_s: float


@contextmanager
def link(lab: MoverLab, shape: LinkShape) -> Iterator[Net]:
    """The namespaces with the link between them. Raises LabError."""
    delay = f"{shape.one_way_ms}ms"
    rate = f"{shape.rate_mbps}M"
    more = ("--loss-ab", shape.loss)
    with emulated_pair(
        lab.emulator, lab.scratch, rate=rate, one_way_delay=delay, buffer=shape.buffer, more=more, priority=EMULATOR_PRIORITY
    ) as net:
        yield net


def move(lab: MoverLab, shape: LinkShape, protocol: str, streams: int, size_bytes: int, *options: str) -> Moved:
    """Moves zeros into nothing; `options` are more of the sender's. Raises LabError."""
    with link(lab, shape) as net, lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        transfer.send(f"zero:{size_bytes}", "--streams", str(streams), "--protocol", protocol, *options)
        done = transfer.finish(MOVE_LIMIT_S)
    return Moved(done.bulk_bps, (done.sender.cpu_s + done.receiver.cpu_s) / (size_bytes / 1e9))


def compile_libudt_peer(folder: Path) -> Path:
    """The program that moves bytes over Debian's libudt. Raises LabError."""
    program = folder / "libudt-peer"
    run(["g++", "-O2", "-I/usr/include/udt", "-o", program, LIBUDT_PEER, "-ludt", "-lpthread"])
    return program


def move_by_libudt(lab: MoverLab, program: Path, shape: LinkShape, size_bytes: int) -> Moved:
    """Moves as many bytes from memory into nothing over one connection of libudt. Raises LabError."""
    output = lab.scratch / "libudt.out"
    output.unlink(missing_ok=True)
    log = lab.scratch / "libudt.log"
    with link(lab, shape) as net:
        ends = ("receive", str(size_bytes), net.receiver_address), ("send", str(size_bytes), net.receiver_address)
        receiver = Process([program, "listen", str(LIBUDT_PORT), *ends[0]], log=log, output=output, namespace=net.receiver)
        with running(receiver):
            wait_until(lambda: bool(output.read_text()), "the receiver over libudt", 20)
            sender = Process([program, "connect", str(LIBUDT_PORT), *ends[1]], log=log, namespace=net.sender)
            with running(sender):
                received = receiver.succeed(MOVE_LIMIT_S, beside=[sender])
                sent = sender.succeed(MOVE_LIMIT_S)
    _, _, seconds = output.read_text().split()
    return Moved(size_bytes * 8 / float(seconds), (sent.cpu_s + received.cpu_s) / (size_bytes / 1e9))


def give_way(lab: MoverLab, shape: LinkShape, phases: Phases) -> Yielding:
    """A scavenger alone, beside a CUBIC flow of iperf3, and alone again. Raises LabError."""
    control = lab.scratch / "control.sock"
    control.unlink(missing_ok=True)
    samples: list[InterfaceSample] = []
    pings = lab.scratch / "pings"
    pings.unlink(missing_ok=True)
    to_wall_s = time.time() - time.monotonic()
    with ExitStack() as stack:
        net = stack.enter_context(link(lab, shape))
        asked = Process(
            ["ping", "-D", "-n", "-i", "0.2", net.receiver_address], log=lab.scratch / "ping.log", output=pings, namespace=net.sender
        )
        stack.enter_context(running(asked))
        transfer = stack.enter_context(lab.mover.transfer(net, lab.scratch, "null", "--protocol", "QUIC"))
        options = ("--protocol", "QUIC", "--congestion-control", "ledbat++", "--streams", "1", "--control-socket", str(control))
        transfer.send(LONG, *options)
        wait_until(control.exists, "the control socket", 20)
        wait_until(lambda: bool(_acked_bytes(control)), "the first data", 30)

        def look_until(over_s: float) -> None:
            while (now_s := time.monotonic()) < over_s:
                samples.append(InterfaceSample(time.monotonic(), _acked_bytes(control)))
                time.sleep(max(0.0, LOOK_S - (time.monotonic() - now_s)))

        began = time.monotonic()
        look_until(began + phases.alone_s)
        serve = ["iperf3", "-s", "-1", "-p", str(IPERF_PORT)]
        server = stack.enter_context(running(Process(serve, log=lab.scratch / "iperf-server.log", namespace=net.receiver)))
        time.sleep(0.5)
        output = lab.scratch / "iperf.json"
        output.unlink(missing_ok=True)
        ask = ["iperf3", "-J", "-C", "cubic", "-c", net.receiver_address, "-p", str(IPERF_PORT), "-t", str(phases.beside_s)]
        cubic = Process(ask, log=lab.scratch / "iperf.log", output=output, namespace=net.sender)
        cubic_began = time.monotonic()
        with running(cubic):
            while cubic.is_running:
                look_until(time.monotonic() + LOOK_S)
            cubic.succeed(5, beside=[server])
        cubic_ended = time.monotonic()
        while time.monotonic() < cubic_ended + phases.after_s:
            look_until(time.monotonic() + 1.0)
            seen = Moments(began, cubic_began, cubic_ended, samples[-1].time_s)
            if cubic_ended + takes_back_s(samples, seen, shape.bps) < seen.over - LOOK_S:
                break
        transfer.stop_sending()
    cubic_bps = float(json.loads(output.read_text())["end"]["sum_received"]["bits_per_second"])
    answers = [(moment - to_wall_s, ms) for moment, ms in round_trips(pings.read_text())]
    moments = Moments(began, cubic_began, cubic_ended, samples[-1].time_s)
    return yielding(
        samples, answers, moments, link_bps=shape.bps, base_ms=2.0 * shape.one_way_ms, cubic_bps=cubic_bps, settle_s=phases.settle_s
    )


def _streams(control: Path) -> list[dict[str, Any]]:
    return [dict(stream) for stream in ask_mover(control, "GET", "/v1/stats")["streams"]]


def _acked_bytes(control: Path) -> int:
    return sum(int(stream["bytes_sent"]) for stream in _streams(control))


def _all_use(control: Path, name: str) -> bool:
    return all(stream["congestion_control"] == name for stream in _streams(control))


def cap_error(lab: MoverLab, protocol: str, cap_bps: int, seconds: float) -> float:
    """p99 of the error over every second, of IP bytes at the receiver. Raises LabError."""
    output = lab.scratch / "samples"
    with veth(offload=False) as net, running(start_script(SAMPLER, net.device, "0.005", namespace=net.receiver, output=output)):
        wait_until(lambda: bool(output.read_text()), "the first sample", 10)
        with lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
            transfer.send(LONG, "--protocol", protocol, "--streams", "4", "--bandwidth", str(cap_bps))
            wait_until(lambda: first_data_s(parse(output.read_text()), HANDSHAKE_BYTES) is not None, "the first data", 30)
            time.sleep(seconds + 1.0)
            samples = parse(output.read_text())
            transfer.stop_sending()
    start_s = first_data_s(samples, HANDSHAKE_BYTES)
    if start_s is None:
        raise LabError("no data came")
    return p99_error([rate for _, rate in windows(samples, 1.0, 0.05, start_s + 1.0, samples[-1].time_s)], cap_bps)


def switch_s(lab: MoverLab, shape: LinkShape, protocol: str, names: Sequence[str], switches: int) -> list[float]:
    """From the request until every stream of a transfer under load has the other control, read back. Raises LabError."""
    control, took = lab.scratch / "control.sock", list[float]()
    control.unlink(missing_ok=True)
    with link(lab, shape) as net, lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        options = ("--protocol", protocol, "--streams", "4", "--congestion-control", names[0], "--control-socket", str(control))
        transfer.send(LONG, *options)
        wait_until(control.exists, "the control socket", 20)
        wait_until(lambda: len(_streams(control)) == 4 and _acked_bytes(control) > 8 << 20, "busy streams", 60)
        turns = cycle([*names[1:], names[0]])
        for _ in range(switches):
            name = next(turns)
            start_s = time.monotonic()
            ask_mover(control, "PATCH", "/v1/transport", {"congestion_control": name})
            wait_until(partial(_all_use, control, name), name, 10)
            took.append(time.monotonic() - start_s)
            time.sleep(0.5)
        transfer.stop_sending()
    return took
