"""Flows alone, beside a CUBIC flow, and alone again: the mover's scavenger, uTP, and BBR. Everything here has effects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fairlead_dev.bench.lab.machine import SYSTEM_PYTHON
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.lab.rates import InterfaceSample
from fairlead_dev.bench.lab.servers import IPERF_PORT, await_listening
from fairlead_dev.bench.lab.trees import clear
from fairlead_dev.bench.transports.figures import Moments, Yielding, round_trips, takes_back_s, yielding
from fairlead_dev.bench.transports.measure import LONG, LinkShape, acked_bytes, link
from fairlead_dev.bench.transports.reports import iperf3_received, payload_samples
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, running, wait_until

LOOK_S = 0.1
UTP_PORT = 6881
UTP_SCRIPT = Path(__file__).with_name("utp.py")
TORRENT_BYTES = 1 << 30
"""More than the phases take of the link."""


@dataclass(frozen=True, slots=True)
class Phases:
    """How long a scavenger is alone, beside another flow, and at most alone again; and after which time beside it both count."""

    alone_s: float
    beside_s: float
    after_s: float
    settle_s: float


Look = Callable[[], InterfaceSample]
"""The newest count of a flow's payload, and its moment."""
Flow = Callable[[MoverLab, Net], AbstractContextManager[Look]]
"""A flow that has begun, for as long as the block."""


@contextmanager
def stream(protocol: str, congestion_control: str, lab: MoverLab, net: Net) -> Iterator[Look]:
    """One stream of the mover, by the bytes that were acknowledged. Raises LabError."""
    control = lab.scratch / "control.sock"
    control.unlink(missing_ok=True)
    with lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        how = ("--protocol", protocol, "--congestion-control", congestion_control, "--streams", "1")
        transfer.send(LONG, *how, "--control-socket", str(control))
        wait_until(control.exists, "the control socket", 20)
        wait_until(lambda: bool(acked_bytes(control)), "the first data", 30)
        yield lambda: InterfaceSample(time.monotonic(), acked_bytes(control))
        transfer.stop_sending()


ledbat: Flow = partial(stream, "QUIC", "ledbat++")
"""The mover's scavenger."""


@contextmanager
def utp(memory: Path, lab: MoverLab, net: Net) -> Iterator[Look]:
    """libtorrent's uTP, from one session that has a file of zeros to one that has not, by the payload that came. Raises LabError."""
    output = lab.scratch / "utp.out"
    folders = {role: memory / f"utp-{role}" for role in ("seed", "fetch")}
    logs = {role: lab.scratch / f"utp-{role}.log" for role in folders}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
        clear(folder)
    for file in (output, *logs.values()):
        file.unlink(missing_ok=True)

    def process(role: str, namespace: str, *addresses: str) -> Process:
        command: list[str | Path] = [SYSTEM_PYTHON, UTP_SCRIPT, role, folders[role], str(TORRENT_BYTES), *addresses]
        return Process(command, log=logs[role], output=output if role == "fetch" else None, namespace=namespace)

    seeder = process("seed", net.sender, f"{net.sender_address}:{UTP_PORT}")
    with running(seeder):
        await_listening(seeder, net.sender, UTP_PORT, protocol="udp")
        fetcher = process("fetch", net.receiver, f"{net.receiver_address}:{UTP_PORT}", net.sender_address, str(UTP_PORT))

        def newest() -> InterfaceSample:
            for end in (seeder, fetcher):
                if not end.is_running:
                    raise LabError(f"`{end.shown}` ended{end.log_tail()}")
            return payload_samples(output.read_text())[-1]

        with running(fetcher):
            wait_until(lambda: "\n" in output.read_text() and newest().ip_bytes > 0, "the first data over uTP", 30)
            yield newest
    for folder in folders.values():
        clear(folder)


def give_way(lab: MoverLab, flow: Flow, shape: LinkShape, phases: Phases) -> Yielding:
    """The flow alone, beside a CUBIC flow of iperf3, and alone again. Raises LabError."""
    samples: list[InterfaceSample] = []
    pings = lab.scratch / "pings"
    pings.unlink(missing_ok=True)
    to_wall_s = time.time() - time.monotonic()
    with ExitStack() as stack:
        net = stack.enter_context(link(lab, shape))
        ping = ["ping", "-D", "-n", "-i", "0.2", net.receiver_address]
        stack.enter_context(running(Process(ping, log=lab.scratch / "ping.log", output=pings, namespace=net.sender)))
        look = stack.enter_context(flow(lab, net))

        def look_until(over_s: float) -> None:
            while (now_s := time.monotonic()) < over_s:
                sample = look()
                if not samples or sample.time_s > samples[-1].time_s:
                    samples.append(sample)
                time.sleep(max(0.0, LOOK_S - (time.monotonic() - now_s)))

        began = time.monotonic()
        look_until(began + phases.alone_s)
        serve = ["iperf3", "-s", "-1", "-p", str(IPERF_PORT)]
        server = stack.enter_context(running(Process(serve, log=lab.scratch / "iperf-server.log", namespace=net.receiver)))
        await_listening(server, net.receiver, IPERF_PORT)
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
    if samples[-1].ip_bytes <= samples[0].ip_bytes:
        raise LabError("the flow carried nothing")
    _, cubic_bps = iperf3_received(output.read_text(), "cubic")
    answers = [(moment - to_wall_s, ms) for moment, ms in round_trips(pings.read_text())]
    moments = Moments(began, cubic_began, cubic_ended, samples[-1].time_s)
    return yielding(
        samples, answers, moments, link_bps=shape.bps, base_ms=2.0 * shape.one_way_ms, cubic_bps=cubic_bps, settle_s=phases.settle_s
    )
