"""The four network namespaces of a run: traffic and probe on either side of the emulated path.

    probe-a ── veth ── a ── wan0 ═ fairlead-wan ═ wan0 ── b ── veth ── probe-b

Probe packets pass the same queues as the traffic but share no socket memory, metrics or counters with it. Every run has the
same addresses: nothing joins one run's namespaces with another's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fairlead_dev.testbed.errors import LabError
from fairlead_dev.testbed.lab.kernel import NAMESPACES
from fairlead_dev.testbed.scenario.model import MTU_BYTES

PREFIX = "fairlead-testbed"
DEVICE = "wan0"
ADDRESS_A, ADDRESS_B = "198.18.0.1", "198.18.0.2"
PROBE_ADDRESS_A, PROBE_ADDRESS_B = "198.18.1.1", "198.18.2.1"
_GATEWAY_A, _GATEWAY_B = "198.18.1.2", "198.18.2.2"
_PATIENCE_S = 60
_BURST_S = 0.0002

_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    # The path, not a socket's buffer, is to limit a flow.
    "net.ipv4.tcp_rmem": "4096 1048576 536870912",
    "net.ipv4.tcp_wmem": "4096 262144 536870912",
    # A connection must not begin with what an earlier one learnt.
    "net.ipv4.tcp_no_metrics_save": "1",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The namespaces of one run."""

    a: str
    b: str
    probe_a: str
    probe_b: str

    @staticmethod
    def of(process_id: int, number: int) -> Names:
        """The names that the process of that id gives to its run of that number."""
        base = f"{PREFIX}-{process_id}-{number}"
        return Names(f"{base}-a", f"{base}-b", f"{base}-pa", f"{base}-pb")

    def all(self) -> tuple[str, ...]:
        """All four."""
        return (self.a, self.b, self.probe_a, self.probe_b)


def burst_packets(rate_bps: int) -> int:
    """The packets that a sender may hand on at a time: one as on a wire, or what a fast path carries in 0.2 ms.

    A paced sender wakes up for every burst: BBR at 400 Mb/s packet by packet fills a processor core with timers.
    """
    return max(1, int(rate_bps * _BURST_S / (8 * MTU_BYTES)))


class Namespaces:
    """A context manager: there on entry, gone on exit, also when making them failed half-way."""

    def __init__(self, names: Names, rate_bps: int) -> None:
        self.names = names
        self._burst_packets = burst_packets(rate_bps)

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _make(self) -> None:
        names = self.names
        _ip([], [f"netns add {name}" for name in names.all()])
        sides = (
            (names.a, names.probe_a, ADDRESS_A, ADDRESS_B, PROBE_ADDRESS_A, _GATEWAY_A, PROBE_ADDRESS_B),
            (names.b, names.probe_b, ADDRESS_B, ADDRESS_A, PROBE_ADDRESS_B, _GATEWAY_B, PROBE_ADDRESS_A),
        )
        for traffic, probe, address, peer, probe_address, gateway, probe_peer in sides:
            _ip(
                ["-n", traffic],
                [
                    "link set lo up",
                    f"tuntap add {DEVICE} mode tun",
                    f"addr add {address} peer {peer} dev {DEVICE}",
                    # The kernel's 500 packets would drop bursts before the emulator sees them.
                    f"link set {DEVICE} mtu {MTU_BYTES} txqueuelen 20000 gso_max_segs {self._burst_packets} up",
                    f"link add probe type veth peer name eth0 netns {probe}",
                    f"addr add {gateway}/30 dev probe",
                    "link set probe up",
                    f"route add {probe_peer} via {peer} dev {DEVICE}",
                ],
            )
            _ip(
                ["-n", probe],
                [
                    "link set lo up",
                    f"addr add {probe_address}/30 dev eth0",
                    "link set eth0 up",
                    f"route add default via {gateway}",
                ],
            )
            settings = [f"{key}={value}" for key, value in _SYSCTLS.items()]
            run(["nsenter", f"--net={NAMESPACES / traffic}", "--", "sysctl", "-qw", *settings])

    def _remove(self) -> None:
        for name in self.names.all():
            _delete(name)


def remove_abandoned() -> list[str]:
    """Remove the namespaces of runners that are dead, and return their names."""
    removed = []
    for path in sorted(NAMESPACES.glob(f"{PREFIX}-*-*-*")):
        process = path.name.removeprefix(f"{PREFIX}-").split("-")[0]
        if process.isdigit() and not Path("/proc", process).exists() and _delete(path.name):
            removed.append(path.name)
    return removed


def _delete(name: str) -> bool:
    path = NAMESPACES / name
    if not path.exists():
        return False
    try:
        run(["ip", "netns", "del", name])
    except LabError:
        # A killed `ip netns add` leaves a plain file, which `ip netns del` refuses.
        with suppress(OSError):
            path.unlink()
    return not path.exists()


def _ip(options: Sequence[str], lines: Sequence[str]) -> None:
    run(["ip", *options, "-batch", "-"], stdin="\n".join(lines) + "\n")


def run(command: Sequence[str], stdin: str | None = None) -> str:
    """Run to the end; LabError with what the program said if it fails."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except FileNotFoundError:
        raise LabError(f"{command[0]} is missing: install it (`make packages`)") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{' '.join(command)}` did not end within {_PATIENCE_S} s") from None
    if done.returncode != 0:
        hint = "" if os.geteuid() == 0 else " (the test bed needs root)"
        raise LabError(f"`{' '.join(command)}` failed{hint}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
