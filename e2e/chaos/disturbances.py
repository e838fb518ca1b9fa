"""What is done to a transfer that runs. Each disturbance lasts until its block is left, and then what can be mended is mended."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, FOLDER, SOURCE_NODE
from e2e.lib.node import advisor_command_line
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.clients.release import OPERATOR_NODE
from fairlead_dev.clients.volumes import MOVER_ID
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.cluster.layout import CONTROL_PLANE

LINK = "data0"
OPERATOR = r"-m fairlead( --|$)"
FILLER = ".e2e-filler"
SLOW_DISK_BYTES_PER_SECOND = 200_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A transfer in mid-flight, and the cluster that it runs on."""

    cluster: LocalCluster
    lab: Lab
    job: Job
    random: random.Random
    """For what a disturbance draws itself, such as the file that it touches."""


Disturbance = Callable[[Scene], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Expectation:
    """How a transfer may end. It always may succeed with equal trees."""

    notices: bool = True
    """Whether it may need another attempt."""
    failures: frozenset[str] = frozenset()
    """Reasons with which it may fail, as no other attempt could help."""
    source_changes: bool = False
    """Whether the source is another one afterwards."""
    can_clean_up: bool = True
    """Whether partial files can be removed afterwards. Where not, the job's deletion would wait for that for minutes."""


def _mover(command: str, scene: Scene) -> str:
    return f"^[^ ]*fairlead-mover {command} .*--job={scene.job.uid}"


def _advisor(scene: Scene) -> str:
    return advisor_command_line(scene.job.pod("sender"))


def _processes(scene: Scene, node: str, pattern: str) -> list[str]:
    """Insists on one, as otherwise nothing would be disturbed."""
    return scene.cluster.on(node, "pgrep", "-f", "--", pattern).decode().split()


@contextmanager
def _killed(node: str, pattern: Callable[[Scene], str], scene: Scene) -> Iterator[None]:
    """Processes of a node are killed; what starts them again is the cluster's affair."""
    _signal(scene, node, "KILL", _processes(scene, node, pattern(scene)))
    yield


@contextmanager
def _frozen(node: str, pattern: Callable[[Scene], str], scene: Scene) -> Iterator[None]:
    """Processes of a node stand still, and go on afterwards if they are still there."""
    found = _processes(scene, node, pattern(scene))
    _signal(scene, node, "STOP", found)
    try:
        yield
    finally:
        _signal(scene, node, "CONT", found)


def _signal(scene: Scene, node: str, name: str, processes: list[str]) -> None:
    for process in processes:
        # It may have ended meanwhile.
        with suppress(CommandError):
            scene.cluster.on(node, "kill", f"-{name}", process)


def _daemon_killed(box: str, service: str, scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.daemon_killed(box, service)


def _daemon_frozen(box: str, service: str, scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.daemon_frozen(box, service)


def _link_cut(scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.link_cut(LINK)


def _carrier_lost(scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.link_cut(LINK, carrier_of=scene.random.choice((SOURCE_NODE, DESTINATION_NODE)))


def _link_changed(changes: dict[str, str], scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.link_changed(LINK, **changes)


def _power_cut(node: str, scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.power_cut(node)


@contextmanager
def _disk_full(scene: Scene) -> Iterator[None]:
    """Somebody else's file takes what is left of the destination's disk, which has a limit."""
    disk = scene.lab.destination
    scene.cluster.on(disk.node, "sh", "-c", 'cat /dev/zero > "$1" || true', "sh", f"{disk.path}/{FILLER}")
    try:
        yield
    finally:
        scene.cluster.on(disk.node, "rm", "-f", f"{disk.path}/{FILLER}")


def _disk_slow(scene: Scene) -> AbstractContextManager[None]:
    return scene.cluster.disk_slowed(scene.lab.destination, SLOW_DISK_BYTES_PER_SECOND)


@contextmanager
def _disk_read_only(scene: Scene) -> Iterator[None]:
    """The file system gives up, as after an error of its device, and stays so: it takes nothing more until it is mounted anew."""
    disk = scene.lab.destination
    scene.cluster.on(disk.node, "mount", "-o", "remount,abort", disk.path)
    yield


@contextmanager
def _source_file_removed(scene: Scene) -> Iterator[None]:
    disk = scene.lab.source
    scene.cluster.on(disk.node, "rm", "-f", _a_file(scene))
    yield


@contextmanager
def _source_file_changed(scene: Scene) -> Iterator[None]:
    """One byte of a file becomes another one, and its time shows that."""
    script = 'printf X | dd of="$1" bs=1 seek=1000 conv=notrunc status=none && touch "$1"'
    scene.cluster.on(scene.lab.source.node, "sh", "-c", script, "sh", _a_file(scene))
    yield


@contextmanager
def _source_file_added(scene: Scene) -> Iterator[None]:
    disk = scene.lab.source
    scene.cluster.on(disk.node, "install", "-o", str(MOVER_ID), "-m", "644", "/etc/hostname", f"{disk.path}/{FOLDER}/added")
    yield


def _a_file(scene: Scene) -> str:
    disk = scene.lab.source
    found = scene.cluster.on(disk.node, "find", f"{disk.path}/{FOLDER}", "-type", "f", "-size", "+2k", "-print0").decode()
    return scene.random.choice(sorted(name for name in found.split("\0") if name))


def kill_operator(cluster: LocalCluster) -> None:
    """Kills whatever runs of the operator; the cluster starts it again."""
    cluster.on(OPERATOR_NODE, "sh", "-c", 'pkill -KILL -f -- "$1" || true', "sh", OPERATOR)


SEND, RECEIVE = partial(_mover, "send"), partial(_mover, "receive")
UNNOTICED = Expectation(notices=False)
ANOTHER_ATTEMPT = Expectation()
SOURCE_CHANGED = Expectation(failures=frozenset({"SourceChanged", "SourceUnreadable"}), source_changes=True)

DISTURBANCES: dict[str, tuple[Disturbance, Expectation]] = {
    "sender-killed": (partial(_killed, SOURCE_NODE, SEND), ANOTHER_ATTEMPT),
    "sender-frozen": (partial(_frozen, SOURCE_NODE, SEND), ANOTHER_ATTEMPT),
    "receiver-killed": (partial(_killed, DESTINATION_NODE, RECEIVE), ANOTHER_ATTEMPT),
    "receiver-frozen": (partial(_frozen, DESTINATION_NODE, RECEIVE), ANOTHER_ATTEMPT),
    "advisor-killed": (partial(_killed, SOURCE_NODE, _advisor), UNNOTICED),
    "advisor-frozen": (partial(_frozen, SOURCE_NODE, _advisor), UNNOTICED),
    "operator-killed": (partial(_killed, OPERATOR_NODE, lambda _: OPERATOR), UNNOTICED),
    "operator-frozen": (partial(_frozen, OPERATOR_NODE, lambda _: OPERATOR), UNNOTICED),
    "source-kubelet-killed": (partial(_daemon_killed, SOURCE_NODE, "kubelet"), UNNOTICED),
    "destination-kubelet-frozen": (partial(_daemon_frozen, DESTINATION_NODE, "kubelet"), UNNOTICED),
    "destination-containerd-killed": (partial(_daemon_killed, DESTINATION_NODE, "containerd"), UNNOTICED),
    "source-containerd-frozen": (partial(_daemon_frozen, SOURCE_NODE, "containerd"), UNNOTICED),
    "api-server-killed": (partial(_daemon_killed, CONTROL_PLANE, "kube-apiserver"), UNNOTICED),
    "api-server-frozen": (partial(_daemon_frozen, CONTROL_PLANE, "kube-apiserver"), UNNOTICED),
    "etcd-frozen": (partial(_daemon_frozen, CONTROL_PLANE, "etcd"), UNNOTICED),
    "link-cut": (_link_cut, ANOTHER_ATTEMPT),
    "carrier-lost": (_carrier_lost, ANOTHER_ATTEMPT),
    "link-delayed": (partial(_link_changed, {"delay": "250ms"}), ANOTHER_ATTEMPT),
    "link-lossy": (partial(_link_changed, {"loss": "0.2"}), ANOTHER_ATTEMPT),
    "link-reordering": (partial(_link_changed, {"reorder": "0.1,20ms"}), ANOTHER_ATTEMPT),
    "link-corrupting": (partial(_link_changed, {"corrupt": "0.001"}), ANOTHER_ATTEMPT),
    "link-narrow": (partial(_link_changed, {"rate": "500k"}), ANOTHER_ATTEMPT),
    "source-power-cut": (partial(_power_cut, SOURCE_NODE), ANOTHER_ATTEMPT),
    "destination-power-cut": (partial(_power_cut, DESTINATION_NODE), ANOTHER_ATTEMPT),
    "disk-full": (_disk_full, Expectation(failures=frozenset({"DestinationFull"}))),
    "disk-slow": (_disk_slow, UNNOTICED),
    "disk-read-only": (_disk_read_only, Expectation(failures=frozenset({"DestinationUnwritable"}), can_clean_up=False)),
    "source-file-removed": (_source_file_removed, SOURCE_CHANGED),
    "source-file-changed": (_source_file_changed, SOURCE_CHANGED),
    "source-file-added": (_source_file_added, SOURCE_CHANGED),
}
DEVICE = frozenset({"disk-slow", "disk-read-only"})
"""Disturbances of a disk that is on a device."""
LIMITED_DISK = frozenset({"disk-full"}) | DEVICE
"""Disturbances of a disk that is a file system of its own."""
DISK_SIZE = "200M"
"""Of such a disk."""
OF_ONE_JOB = LIMITED_DISK | {
    *("sender-killed", "sender-frozen", "receiver-killed", "receiver-frozen", "advisor-killed", "advisor-frozen"),
    *("source-file-removed", "source-file-changed", "source-file-added"),
}
"""Disturbances that no other job meets, so that their rounds run beside each other."""


class Disk(NamedTuple):
    """A destination's disk: a file system of `size` where that is given, for example "200M", on a device of its own or in memory."""

    size: str | None
    on_device: bool


def destination_disk(disturbance: str) -> Disk:
    """The disk that a disturbance needs at the destination."""
    return Disk(DISK_SIZE if disturbance in LIMITED_DISK else None, disturbance in DEVICE)
