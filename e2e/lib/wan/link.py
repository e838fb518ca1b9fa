"""A wide-area link of a test's own: narrow, shaped as the test needs it, and no part of the link that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from fairlead_dev.clients.kubectl import run
from fairlead_dev.wan.emulator import change, emulating, run_command, statistics

ADDRESSES = IPv4Network("198.19.128.0/17")
"""Of the range for benchmarking, and apart from what the local cluster uses."""
MTU_BYTES = 1500
REAL_TIME_PRIORITY = 10
"""Beside busy neighbours a packet would leave late, and the path would look like another one."""


@dataclass(frozen=True, slots=True)
class LinkShape:
    """Rate and delay of each direction and the buffer before it, as `fairlead-wan` writes them."""

    rate: str
    delay: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one network namespace to another, each named by its file; both ends have the device's name."""

    program: Path
    control: Path
    device: str
    source: str
    source_address: str
    destination: str
    destination_address: str

    def set(self, **changes: str) -> None:
        """Changes the running link, for example `rate="400M"`. Raises LabError."""
        change(self.program, self.control, **changes)

    def latest_us(self) -> float:
        """How late the latest packet of either direction left so far, which the machine alone causes. Raises LabError."""
        counted = statistics(self.program, self.control)
        return max(float(counted[direction]["write_lateness_us"]["max"]) for direction in ("ab", "ba"))


@contextmanager
def own_link(program: Path, source: str, destination: str, shape: LinkShape, folder: Path, number: int = 0) -> Iterator[Link]:
    """The link until the block is left, when its devices vanish with the emulator `program`. `folder` has log and control socket.

    The device has this process's id and `number` in its name, so that nobody knows the path from an earlier run or link.
    Raises LabError or CommandError.
    """
    device, control, log = f"e2e{os.getpid()}n{number}", folder / "link.sock", folder / "link.log"
    one, other = addresses(os.getpid())
    shaped = ("--rate", shape.rate, "--delay", shape.delay, "--buffer", shape.buffer)
    command = run_command(program, (f"{source}:{device}", f"{destination}:{device}"), control, shaped, REAL_TIME_PRIORITY)
    with emulating(command, log):
        for namespace, own, peer in ((source, one, other), (destination, other, one)):
            run(("nsenter", f"--net={namespace}", "--", "ip", "-batch", "-"), stdin="\n".join(_setup(device, own, peer)) + "\n")
        yield Link(program, control, device, source, one, destination, other)


def addresses(number: int) -> tuple[str, str]:
    """Both ends' addresses on the link of that number."""
    first = 4 * (number % (ADDRESSES.num_addresses // 4))
    return str(ADDRESSES[first + 1]), str(ADDRESSES[first + 2])


def _setup(device: str, own: str, peer: str) -> list[str]:
    return [
        f"addr add {own} peer {peer} dev {device}",
        # The kernel's 500 packets would drop bursts before the emulator sees them. One segment at a time, as on a slow wire and as in
        # the recordings that the classifier was trained on.
        f"link set {device} mtu {MTU_BYTES} txqueuelen 10000 gso_max_segs 1 up",
    ]
