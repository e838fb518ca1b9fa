"""Runs of the mover over an emulated path. Everything here has effects; what follows from it is in `figures`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from fairlead_dev.bench.lab.mover import SAMPLER, FinishedTransfer, MoverLab, start_script
from fairlead_dev.bench.lab.rates import first_data_s, parse, windows
from fairlead_dev.bench.transports.figures import p99_error
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import running, wait_until
from fairlead_dev.wan.emulator import emulated_pair, statistics

EMULATOR_PRIORITY = 10
LONG = "zero:20G"
PROTOCOLS = ("TCP", "QUIC", "UDT")
HANDSHAKE_BYTES = 64 << 10
MOVE_LIMIT_S = 600.0
FULL_PACKET_BYTES = 1500


@dataclass(frozen=True, slots=True)
class SlowReceiver:
    """A host at the end of a link that has work to do for each packet."""

    packet_us: int
    queue_packets: int
    """Packets that find so many there are dropped."""

    @property
    def bps(self) -> float:
        """What it takes of packets of 1,500 bytes, in bit/s."""
        return FULL_PACKET_BYTES * 8 / self.packet_us * 1e6


@dataclass(frozen=True, slots=True)
class LinkShape:
    """A link in the emulator's units."""

    rate_mbps: int
    one_way_ms: int
    buffer: str
    loss: float = 0.0
    """Share of the packets towards the receiver that are lost at random."""
    receiver: SlowReceiver | None = None
    """Without one, packets are taken as they come."""

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
class MovedToSlow:
    """One transfer to a slow receiver: payload in bit/s, and what was sent in vain."""

    goodput_bps: float
    resent: float
    """Payload that the transport sent again, for each byte delivered."""
    by_receiver: float
    """Share of the packets towards the receiver that it dropped."""
    by_path: float
    """Share of them that the path's queue dropped."""


@contextmanager
def link(lab: MoverLab, shape: LinkShape) -> Iterator[Net]:
    """The namespaces with the link between them. Raises LabError."""
    delay = f"{shape.one_way_ms}ms"
    rate = f"{shape.rate_mbps}M"
    slow = shape.receiver
    receiver = ("--receiver-ab", f"{slow.packet_us}us,{slow.queue_packets}") if slow is not None else ()
    more = ("--loss-ab", shape.loss, *receiver)
    with emulated_pair(
        lab.emulator, lab.scratch, rate=rate, one_way_delay=delay, buffer=shape.buffer, more=more, priority=EMULATOR_PRIORITY
    ) as net:
        yield net


def move(lab: MoverLab, shape: LinkShape, protocol: str, streams: int, size_bytes: int, *options: str) -> Moved:
    """Moves zeros into nothing; `options` are more of the sender's. Raises LabError."""
    done, _ = _finished(lab, shape, protocol, streams, size_bytes, *options)
    return Moved(done.bulk_bps, (done.sender.cpu_s + done.receiver.cpu_s) / (size_bytes / 1e9))


def move_to_slow(lab: MoverLab, shape: LinkShape, protocol: str, control: str, size_bytes: int) -> MovedToSlow:
    """Moves zeros into nothing over one stream, and counts what was dropped on the way. Raises LabError."""
    done, counted = _finished(lab, shape, protocol, 1, size_bytes, "--congestion-control", control)
    by_receiver, by_path = (counted[f"packets_dropped_{why}"] / counted["packets_in"] for why in ("receiver", "buffer"))
    return MovedToSlow(done.bulk_bps, done.retransmitted_bytes / size_bytes, by_receiver, by_path)


def _finished(
    lab: MoverLab, shape: LinkShape, protocol: str, streams: int, size_bytes: int, *options: str
) -> tuple[FinishedTransfer, dict[str, Any]]:
    """A transfer of zeros into nothing, and what the emulator counted towards the receiver."""
    with link(lab, shape) as net, lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        transfer.send(f"zero:{size_bytes}", "--streams", str(streams), "--protocol", protocol, *options)
        done = transfer.finish(MOVE_LIMIT_S)
        assert net.control is not None
        return done, dict(statistics(lab.emulator, net.control)["ab"])


def _streams(control: Path) -> list[dict[str, Any]]:
    return [dict(stream) for stream in ask_mover(control, "GET", "/v1/stats")["streams"]]


def acked_bytes(control: Path) -> int:
    """Payload of a sender that was acknowledged so far, over all streams; it is asked by its control socket."""
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
        wait_until(lambda: len(_streams(control)) == 4 and acked_bytes(control) > 8 << 20, "busy streams", 60)
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
