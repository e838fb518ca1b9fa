"""Two network namespaces, and what joins them: a veth pair, or the wide-area emulator."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.bench.mover.lab.errors import BenchError
from fairlead_dev.bench.mover.lab.process import Process, run, running, wait_until

PREFIX = "fairlead-bench"
NETNS_FILES = Path("/etc/netns")
"""`ip netns exec` puts what is below NAME here over /etc."""
SYSCTLS = {
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 65536 67108864",
}
"""Buffers that a long path needs, the same for all programs."""
CONGESTION_CONTROL = "cubic"
"""The mover's default as everybody's, by the route: a namespace's own default cannot be one that the machine does not allow to all."""
TBF_BURST_BYTES = 256 << 10
EMULATOR_QUEUE_PACKETS = 10_000
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Net:
    """A path from the namespace `sender` to the namespace `receiver`."""

    sender: str
    receiver: str
    sender_address: str
    receiver_address: str
    device: str
    """The interface at both ends."""
    control: Path | None = None
    """The emulator's control socket, if there is one."""


def _ip(*args: str) -> None:
    run(["ip", *args])


def _route(net: Net) -> None:
    for name, address, peer in _ends(net):
        _ip("-n", name, "route", "replace", f"{peer}/32", "dev", net.device, "src", address, "congctl", CONGESTION_CONTROL)


def _ends(net: Net) -> tuple[tuple[str, str, str], ...]:
    """Namespace, address and peer's address of both ends."""
    return (net.sender, net.sender_address, net.receiver_address), (net.receiver, net.receiver_address, net.sender_address)


@contextlib.contextmanager
def _namespaces() -> Iterator[Net]:
    number = next(_numbers)
    names = [f"{PREFIX}-{os.getpid()}-{number}-{end}" for end in "sr"]
    addresses = ["198.18.0.1", "198.18.0.2"]
    try:
        for name, address in zip(names, addresses, strict=True):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            for key, value in SYSCTLS.items():
                run(["sysctl", "-qw", f"{key}={value}"], namespace=name)
            # GridFTP looks names up; here is nobody to ask.
            files = NETNS_FILES / name
            files.mkdir(parents=True)
            (files / "hosts").write_text(
                f"127.0.0.1 localhost\n{addresses[0]} sender\n{addresses[1]} receiver\n{address} {socket.gethostname()}\n"
            )
            (files / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        yield Net(names[0], names[1], addresses[0], addresses[1], "data0")
    finally:
        for name in names:
            _remove(name)


def _remove(name: str) -> None:
    with contextlib.suppress(BenchError):
        _ip("netns", "del", name)
    shutil.rmtree(NETNS_FILES / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        NETNS_FILES.rmdir()


def remove_leftovers() -> None:
    """Namespaces of benches that were killed."""
    for path in [*Path("/run/netns").glob(f"{PREFIX}-*"), *NETNS_FILES.glob(f"{PREFIX}-*")]:
        owner = path.name.split("-")[2]
        if owner.isdigit() and not Path("/proc", owner).exists():
            _remove(path.name)


@contextlib.contextmanager
def veth(*, rate_bps: int | None = None, offload: bool = True) -> Iterator[Net]:
    """A veth pair; `rate_bps` limits each direction, without `offload` each packet on it is of the wire's size."""
    with _namespaces() as net:
        _ip("link", "add", net.device, "netns", net.sender, "type", "veth", "peer", "name", net.device, "netns", net.receiver)
        for name, address, _ in _ends(net):
            _ip("-n", name, "addr", "add", f"{address}/30", "dev", net.device)
            if not offload:
                run(["ethtool", "-K", net.device, "tso", "off", "gso", "off", "gro", "off"], namespace=name)
            if rate_bps is not None:
                shape = ["tbf", "rate", f"{rate_bps}bit", "burst", str(TBF_BURST_BYTES), "latency", "20ms"]
                run(["tc", "qdisc", "add", "dev", net.device, "root", *shape], namespace=name)
            _ip("-n", name, "link", "set", net.device, "up")
        _route(net)
        yield net


@contextlib.contextmanager
def wan(emulator: Path, scratch: Path, *, rate: str, one_way_delay: str) -> Iterator[Net]:
    """A path of the wide-area emulator with a buffer of one bandwidth-delay product; quantities as the emulator writes them."""
    with _namespaces() as net:
        for name, address, peer in _ends(net):
            _ip("-n", name, "tuntap", "add", net.device, "mode", "tun")
            _ip("-n", name, "addr", "add", address, "peer", peer, "dev", net.device)
            _ip("-n", name, "link", "set", net.device, "mtu", "1500", "txqueuelen", str(EMULATOR_QUEUE_PACKETS), "up")
        _route(net)
        log, control = scratch / "emulator.log", scratch / "emulator.sock"
        log.unlink(missing_ok=True)
        devices = ["--a", f"{net.sender}:{net.device}", "--b", f"{net.receiver}:{net.device}"]
        path = ["--rate", rate, "--delay", one_way_delay, "--buffer", "1BDP", "--control", str(control)]
        with running(Process([emulator, "run", *devices, *path], log=log)) as process:
            wait_until(lambda: "ready" in log.read_text() or not process.is_running, "the emulated path", 10)
            if not process.is_running:
                raise BenchError(f"the emulator ended{process.said()}")
            yield Net(net.sender, net.receiver, net.sender_address, net.receiver_address, net.device, control)
