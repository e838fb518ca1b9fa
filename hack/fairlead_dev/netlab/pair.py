"""Two network namespaces, a sender's and a receiver's, and the veth pair between them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.netlab import links
from fairlead_dev.netlab.namespaces import TCP_BUFFERS, ip, name_of, namespaces, remove_abandoned, sysctl

PREFIX = "fairlead-bench"
NETNS_FILES = Path("/etc/netns")
"""`ip netns exec` puts what is below NAME here over /etc."""
CONGESTION_CONTROL = "cubic"
"""The mover's default as everybody's, by the route: a namespace's own default cannot be one that the machine does not allow to all."""
TBF_BURST_BYTES = 256 << 10
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


def route(net: Net) -> None:
    """Gives connections between the two the congestion control that everybody has. The devices must be up. Raises LabError."""
    for name, address, peer in ends(net):
        ip(name, f"route replace {peer}/32 dev {net.device} src {address} congctl {CONGESTION_CONTROL}")


def ends(net: Net) -> tuple[tuple[str, str, str], ...]:
    """Namespace, address and peer's address of both ends."""
    return (net.sender, net.sender_address, net.receiver_address), (net.receiver, net.receiver_address, net.sender_address)


@contextlib.contextmanager
def two_namespaces() -> Iterator[Net]:
    """The namespaces with large TCP buffers and names for both addresses, without a link. Raises LabError."""
    number = next(_numbers)
    sender, receiver = (name_of(PREFIX, os.getpid(), number, end) for end in "sr")
    net = Net(sender, receiver, "198.18.0.1", "198.18.0.2", "data0")
    with contextlib.ExitStack() as stack:
        stack.enter_context(namespaces((net.sender, net.receiver)))
        for name, address, _ in ends(net):
            sysctl(name, TCP_BUFFERS)
            stack.callback(_forget_names, name)
            _know_names(net, name, address)
        yield net


def _know_names(net: Net, namespace: str, address: str) -> None:
    # GridFTP looks names up; here is nobody to ask.
    files = NETNS_FILES / namespace
    files.mkdir(parents=True)
    hosts = {"localhost": "127.0.0.1", "sender": net.sender_address, "receiver": net.receiver_address, socket.gethostname(): address}
    (files / "hosts").write_text("".join(f"{each} {name}\n" for name, each in hosts.items()))
    (files / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def _forget_names(namespace: str) -> None:
    shutil.rmtree(NETNS_FILES / namespace, ignore_errors=True)
    with contextlib.suppress(OSError):
        NETNS_FILES.rmdir()


def remove_leftovers() -> None:
    """Removes namespaces of labs whose process was killed."""
    remove_abandoned(PREFIX)
    for name in remove_abandoned(PREFIX, NETNS_FILES):
        _forget_names(name)


@contextlib.contextmanager
def veth(*, rate_bps: int | None = None, offload: bool = True) -> Iterator[Net]:
    """A veth pair; `rate_bps` limits each direction, without `offload` each packet on it is of the wire's size. Raises LabError."""
    with two_namespaces() as net:
        links.veth((net.sender, net.device), (net.receiver, net.device))
        for name, address, _ in ends(net):
            ip(name, f"addr add {address}/30 dev {net.device}")
            if not offload:
                links.offload_off(name, net.device)
            if rate_bps is not None:
                links.token_bucket(name, net.device, rate_bps, burst_bytes=TBF_BURST_BYTES, latency="20ms")
            ip(name, f"link set {net.device} up")
        route(net)
        yield net
