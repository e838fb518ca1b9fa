"""The local cluster's own commands: its nodes, their disks and the emulated WAN (hack/cluster)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.clients.kubectl import CommandError, Kubectl, run

MOVER_ID = 65532
"""User and group that movers run as unless a job sets another, and that own the local cluster's disks."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A directory on a node, used as a disk; `path` is as the node sees it."""

    node: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The cluster that `hack/cluster/cluster` of this checkout manages."""

    checkout: Path

    @property
    def program(self) -> str:
        """The path of the cluster's command line."""
        return str(self.checkout / "hack" / "cluster" / "cluster")

    @property
    def kubectl(self) -> Kubectl:
        """kubectl with the administrator's rights."""
        return Kubectl((self.program, "kubectl"))

    def show(self, *arguments: str) -> None:
        """Runs one of the cluster's commands with its output on the screen. Raises CommandError."""
        code = subprocess.run((self.program, *arguments), check=False).returncode
        if code:
            raise CommandError((self.program, *arguments), code, "", "see its output above")

    def on(self, node: str, *command: str, stdin: str | bytes | None = None, timeout_s: float = 120) -> bytes:
        """Standard output of a command run as root on a node, outside of any pod."""
        return run((self.program, "exec", node, "--", *command), stdin, timeout_s)

    def inside(self, *command: str, timeout_s: float = 600) -> bytes:
        """Standard output of a command of this machine run where the API server can be reached."""
        return run((self.program, "enter", "--", *command), timeout_s=timeout_s)

    def disk(self, node: str, name: str, size: str | None = None) -> Disk:
        """Makes a disk that the movers' user owns, limited to `size` (like `64M`) where given. An existing one stays as it is."""
        limit = ("--size", size) if size else ()
        return Disk(node, name, run((self.program, "disk", node, name, *limit)).decode().strip())

    def remove_disk(self, node: str, name: str) -> None:
        """Removes a disk with all that is on it; an absent one is no error."""
        run((self.program, "disk", node, name, "--remove"), timeout_s=300)

    def wan_stats(self, link: str = "data0") -> dict[str, Any]:
        """The counters and parameters of each direction of the emulated path that joins the nodes' interfaces of this name."""
        stats = json.loads(run((self.program, "wan", "stats", "--link", link)))
        if not isinstance(stats, dict):
            raise TypeError("the emulator's statistics are not an object")
        return stats

    @contextmanager
    def link_cut(self, link: str, carrier_of: str | None = None) -> Iterator[None]:
        """Lets nothing pass on an emulated path until the block is left. Both interfaces keep their carrier, but for that of the node
        `carrier_of`."""
        carrier = () if carrier_of is None else ("--carrier", carrier_of)
        run((self.program, "wan", "cut", "--link", link, *carrier))
        try:
            yield
        finally:
            run((self.program, "wan", "restore", "--link", link))

    def network_namespace(self, node: str) -> str:
        """The file of a data transfer node's network namespace on this machine. Raises KeyError for another node."""
        return network_namespace(self.wan_stats(), node)

    def bytes_carried(self, source: str, destination: str, link: str = "data0") -> int:
        """Bytes, headers included, that a path has delivered from one node to the other."""
        return bytes_carried(self.wan_stats(link), source, destination)


def bytes_carried(stats: dict[str, Any], source: str, destination: str) -> int:
    """Bytes delivered in one direction, by the emulator's statistics. Raises KeyError where they are not about these two nodes."""
    ends = {end: str(stats[end]["namespace"]) for end in ("a", "b")}
    for one, other in ("ab", "ba"):
        if ends[one].endswith(source) and ends[other].endswith(destination):
            return int(stats[one + other]["bytes_out"])
    raise KeyError(f"the emulator joins {ends['a']} and {ends['b']}, not {source} and {destination}")


def network_namespace(stats: dict[str, Any], node: str) -> str:
    """The file of the network namespace at the end that is a node's. Raises KeyError where the emulator's statistics name no such end."""
    ends = [str(stats[end]["namespace"]) for end in ("a", "b")]
    for end in ends:
        if end.endswith(node):
            return end
    raise KeyError(f"the emulator joins {' and '.join(ends)}, neither is {node}")
