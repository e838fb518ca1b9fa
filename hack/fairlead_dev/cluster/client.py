"""The running local cluster for the demo, benches and tests: its nodes, their disks and the emulated WAN.

It is used from within: each call of the command line starts an interpreter, which was a fifth of what the end-to-end tests cost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlead_dev.clients.kubectl import CommandError, Kubectl, run
from fairlead_dev.clients.volumes import Disk
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.cluster import Cluster
from fairlead_dev.cluster.kubernetes.node import KubernetesNode
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import network
from fairlead_dev.cluster.machine.progress import BuildProgress
from fairlead_dev.errors import DevError
from fairlead_dev.trees.plan import PlannedTree
from fairlead_dev.trees.write import write_tree


@contextmanager
def _as_a_command(*words: str) -> Iterator[None]:
    """Failures within are a CommandError of the cluster's command with these words."""
    try:
        yield
    except DevError as error:
        raise CommandError(("cluster", *words), error.exit_code, "", str(error)) from error


class LocalCluster:
    """The machine's one local cluster. `checkout` has its command line, its chart and its programs."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self._cluster = Cluster(Layout.from_environment(os.environ), BuildProgress())

    @property
    def program(self) -> str:
        """The path of the cluster's command line."""
        return str(self.checkout / "hack" / "cluster" / "cluster")

    @property
    def kubectl(self) -> Kubectl:
        """kubectl with the administrator's rights."""
        return Kubectl(tuple(self._cluster.control_plane.kubectl([])))

    def show(self, *arguments: str) -> None:
        """Runs one of the cluster's commands with its output on the screen. Raises CommandError."""
        code = subprocess.run((self.program, *arguments), check=False).returncode
        if code:
            raise CommandError((self.program, *arguments), code, "", "see its output above")

    def on(self, node: str, *command: str, stdin: str | bytes | None = None, timeout_s: float = 120) -> bytes:
        """Standard output of a command run as root on a node, outside of any pod."""
        with _as_a_command("exec", node):
            entered = self._cluster.box(node).enter(command)
        return run(entered, stdin, timeout_s)

    def inside(self, *command: str, timeout_s: float = 600) -> bytes:
        """Standard output of a command of this machine run where the API server can be reached."""
        with _as_a_command("enter"):
            self._cluster.require_up()
            environment = self._cluster.environment()
        return run(network.inside(layout.CONTROL_PLANE, command), timeout_s=timeout_s, environment=environment)

    def disk(self, node: str, name: str, size: str | None = None, *, on_device: bool = False) -> Disk:
        """Makes a disk that the movers' user owns, limited to `size` (like `64M`) where given, and then `on_device` (which can be slowed)
        or in memory. An existing one stays as it is."""
        with _as_a_command("disk", node, name):
            return Disk(node, name, str(self._cluster.node(node).make_disk(name, size, on_device=on_device)))

    def remove_disk(self, node: str, name: str) -> None:
        """Removes a disk with all that is on it; an absent one is no error."""
        with _as_a_command("disk", node, name, "--remove"):
            self._cluster.node(node).remove_disk(name)

    def write_tree(self, disk: Disk, folder: str, tree: PlannedTree) -> None:
        """Writes a tree into a folder of a disk, owned by the movers' user. Raises FileExistsError where the folder holds anything."""
        with _as_a_command("exec", disk.node):
            root = self._cluster.box(disk.node).root()
        write_tree(tree, root / disk.path.lstrip("/") / folder, layout.WORKLOAD_UID)

    def wan_stats(self, link: str = "data0") -> dict[str, Any]:
        """The counters and parameters of each direction of the emulated path that joins the nodes' interfaces of this name."""
        with _as_a_command("wan", "stats", "--link", link):
            self._cluster.require_up()
            question = self._cluster.wans[layout.link_named(link)].command(["stats"])
        stats = json.loads(run(question))
        if not isinstance(stats, dict):
            raise TypeError("the emulator's statistics are not an object")
        return stats

    @contextmanager
    def link_cut(self, link: str, carrier_of: str | None = None) -> Iterator[None]:
        """Lets nothing pass on an emulated path until the block is left. Both interfaces keep their carrier, but for that of the node
        `carrier_of`."""
        emulator = self._cluster.wans[layout.link_named(link)]
        with _as_a_command("wan", "cut", "--link", link):
            emulator.cut([] if carrier_of is None else [layout.node_named(carrier_of)])
        try:
            yield
        finally:
            with _as_a_command("wan", "restore", "--link", link):
                emulator.restore()

    @contextmanager
    def link_changed(self, link: str, **changes: str) -> Iterator[None]:
        """An emulated path with other settings of `fairlead-wan set` (`delay="200ms"`) until the block is left, and then with its own."""
        emulator = self._cluster.wans[layout.link_named(link)]
        words = [word for name, value in changes.items() for word in (f"--{name.replace('_', '-')}", value)]
        with _as_a_command("wan", "set", "--link", link):
            self._cluster.require_up()
            run(emulator.command(["set", *words]))
        try:
            yield
        finally:
            own = asdict(emulator.settings())
            back = [word for name in changes for word in (f"--{name.replace('_', '-')}", own[name])]
            run(emulator.command(["set", *back]))

    @contextmanager
    def daemon_killed(self, box: str, service: str) -> Iterator[None]:
        """A daemon of a node, or of the control plane, is killed, and started again when the block is left."""
        with _as_a_command("exec", box, "kill", service):
            self._cluster.require_up()
            self._cluster.box(box).kill(service)
        try:
            yield
        finally:
            self._cluster.box(box).launch_again(service)

    @contextmanager
    def daemon_frozen(self, box: str, service: str) -> Iterator[None]:
        """A daemon of a node, or of the control plane, stands still until the block is left."""
        with _as_a_command("exec", box, "kill", "-STOP", service):
            self._cluster.require_up()
            self._cluster.box(box).send_signal(service, signal.SIGSTOP)
        try:
            yield
        finally:
            self._cluster.box(box).send_signal(service, signal.SIGCONT)

    @contextmanager
    def power_cut(self, node: str) -> Iterator[None]:
        """All that runs on a node ends at once and its namespaces go, but that of its network; when the block is left it boots."""
        with _as_a_command("exec", node, "poweroff"):
            self._cluster.require_up()
            self._cluster.box(node).stop()
        try:
            yield
        finally:
            self._cluster.node(node).start_again()

    @staticmethod
    def can_slow_disks() -> bool:
        """Whether `disk_slowed` is possible on this machine."""
        return KubernetesNode.can_limit_writes()

    @contextmanager
    def disk_slowed(self, disk: Disk, bytes_per_second: int) -> Iterator[None]:
        """A disk on a device takes no more than so much from all processes together until the block is left."""
        with _as_a_command("disk", disk.node, disk.name):
            self._cluster.require_up()
            self._cluster.node(disk.node).limit_writes(disk.name, bytes_per_second)
        try:
            yield
        finally:
            self._cluster.node(disk.node).limit_writes(disk.name, 0)

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
