"""A Kubernetes node in a box: containerd, kubelet and kube-proxy."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.images import Archive
from fairlead_dev.cluster.artifacts.programs import CNI_PLUGINS, path_of
from fairlead_dev.cluster.artifacts.store import NAMESPACE, copy_store, load_record, not_in, save_record, store_folder
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.kubernetes import multus, node_config
from fairlead_dev.cluster.layout import DISKS_FOLDER, ClusterNode, Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.box import Box
from fairlead_dev.cluster.machine.write_limits import WRITE_LIMITS, WriteLimits, device_of
from fairlead_dev.errors import CommandUsageError

_DISK_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DISK_SIZE = re.compile(r"[1-9][0-9]*[kMG]")
_IMAGES = DISKS_FOLDER.with_name("disk-images")


class KubernetesNode:
    """Starts a node's daemons and gives access to its images and disks."""

    def __init__(self, node: ClusterNode, paths: Layout) -> None:
        self.node = node
        self.box = Box(node.name, paths, node=True)
        self._paths = paths
        self._root = paths.node_root(node.name)
        self._write_limits = WriteLimits(paths.write_limits)

    def start_runtime(self) -> None:
        """Boot the box and start containerd; needs no control plane."""
        self.box.start(path_of("pause", self._paths))
        copy_store(store_folder(self._paths), self._root / "var/lib/containerd")
        shutil.copyfile(store_folder(self._paths).with_suffix(".json"), self._imported)
        self._configure()
        containerd = path_of("containerd", self._paths)
        self.box.launch("containerd", [containerd, "--config", self._root / "containerd.toml"], path=str(containerd.parent))

    def start_kubernetes(self) -> None:
        """Start kubelet and kube-proxy; needs the Node object and containerd."""
        self._wait_for_containerd()
        name = f"--hostname-override={self.node.name}"
        self.box.launch("kube-proxy", [path_of("kube-proxy", self._paths), f"--config={self._root}/kube-proxy.yaml", name])
        kubeconfig = self._paths.kubeconfigs / f"kubelet-{self.node.name}.conf"
        self.box.launch(
            "kubelet",
            [
                path_of("kubelet", self._paths),
                f"--config={self._root}/kubelet.yaml",
                f"--kubeconfig={kubeconfig}",
                name,
                # With two interfaces the kubelet would have to guess which address is the node's.
                f"--node-ip={self.node.management_address}",
                "--v=2",
            ],
        )

    def _wait_for_containerd(self) -> None:
        ctr = path_of("ctr", self._paths)
        what = f"containerd on {self.node.name} does not answer"
        shell.wait_until(lambda: shell.succeeds(self.box.enter([ctr, "version"])), what, timeout_s=120)

    def start_again(self) -> None:
        """Boot the box after its power was cut, with its disk as it was, and start its daemons as they were started before."""
        self.box.start(path_of("pause", self._paths))
        self.box.launch_again("containerd")
        self._wait_for_containerd()
        for service in ("kube-proxy", "kubelet"):
            self.box.launch_again(service)

    def import_images(self, archives: list[Archive]) -> list[str]:
        """Import the images that this node does not have in their present form and return their names."""
        record = load_record(self._imported)
        outdated = not_in(record, archives)
        for archive in outdated:
            self.import_archive(archive.path)
            record[archive.image] = archive.digest
            save_record(self._imported, record)
        return [archive.image for archive in outdated]

    def import_archive(self, archive: Path) -> None:
        """Import an image archive into the running node."""
        self.box.run([path_of("ctr", self._paths), "-n", NAMESPACE, "images", "import", "--local", archive], timeout_s=300)

    def make_disk(self, name: str, size: str | None, *, on_device: bool = False) -> Path:
        """A folder on the node for a local volume, owned by the movers' user, and its path there.

        With a size (like `64M`) it is a file system of its own that fills up, in memory or with `on_device` on a loop device. Asking again
        for the same disk changes nothing.
        """
        path = self._disk(name)
        if size is not None and not _DISK_SIZE.fullmatch(size):
            raise CommandUsageError(f"--size: {size!r} is not a size; write a number with k, M or G, as in 64M")
        owner = f"{layout.WORKLOAD_UID}:{layout.WORKLOAD_UID}"
        self.box.run(["install", "-d", "-m", "0755", path.parent])
        self.box.run(["install", "-d", "-m", "0750", "-o", str(layout.WORKLOAD_UID), "-g", str(layout.WORKLOAD_UID), path])
        mounted = self._is_mounted(path)
        if size is None and mounted:
            raise CommandUsageError(f"{name} exists on {self.node.name} with a limited size; remove it first with --remove")
        if size is not None and not mounted:
            if self.box.run(["find", path, "-mindepth", "1", "-maxdepth", "1", "-print", "-quit"]):
                raise CommandUsageError(
                    f"{name} exists on {self.node.name} without a limit and is not empty; remove it first with --remove"
                )
            if on_device:
                self._mount_device(_IMAGES / name, size, path)
                # Whoever slowed the disk that had this device before may have been killed.
                self._write_limits.lift(device_of(self._on_machine(path)))
            else:
                self.box.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0750", f"fairlead-{name}", path])
            self.box.run(["chown", owner, path])
        return path

    def remove_disk(self, name: str) -> None:
        """Remove a disk made by `make_disk` with all that is on it."""
        path = self._disk(name)
        if self._is_mounted(path):
            self._write_limits.lift(device_of(self._on_machine(path)))
            self.box.run(["umount", path])
        self.box.run(["rm", "-rf", "--one-file-system", path, _IMAGES / name], timeout_s=300)

    @staticmethod
    def can_limit_writes() -> bool:
        """Whether this machine's kernel has control groups of version 1."""
        return WRITE_LIMITS.exists()

    def limit_writes(self, name: str, bytes_per_second: int) -> None:
        """Limit what all processes together write to a disk on a device; 0 lifts the limit."""
        if not self.can_limit_writes():
            raise ClusterError(f"this machine cannot slow a disk: its kernel has no {WRITE_LIMITS}")
        device = device_of(self._on_machine(self._disk(name)))
        if bytes_per_second:
            self._write_limits.set(device, bytes_per_second)
        else:
            self._write_limits.lift(device)

    @property
    def _imported(self) -> Path:
        return self._root / "imported.json"

    def _disk(self, name: str) -> Path:
        if not _DISK_NAME.fullmatch(name):
            raise CommandUsageError(f"{name!r} cannot name a disk; use at most 63 lower-case letters, digits and inner hyphens")
        return DISKS_FOLDER / name

    def _on_machine(self, path: Path) -> Path:
        """Where this machine has a path of the node."""
        return self.box.root() / path.relative_to("/")

    def _mount_device(self, image: Path, size: str, path: Path) -> None:
        self.box.run(["install", "-d", image.parent])
        self.box.run(["truncate", "--size", size, image])
        self.box.run(["mkfs.ext4", "-q", "-m", "0", image])
        self.box.run(["mount", "-o", "loop", image, path])
        self.box.run(["rmdir", path / "lost+found"])

    def _is_mounted(self, path: Path) -> bool:
        return any(line.split()[1] == str(path) for line in self.box.run(["cat", "/proc/mounts"]).splitlines())

    def _configure(self) -> None:
        # Outside names do not resolve in pods, on purpose: nothing here may depend on the world.
        resolv_conf = self._root / "resolv.conf"
        resolv_conf.write_text("nameserver 127.0.0.53\n")
        plugins = self._root / "opt/cni/bin"
        networks = self._root / "etc/cni/net.d"
        for folder in (plugins, networks):
            folder.mkdir(parents=True, exist_ok=True)
        for name in CNI_PLUGINS:
            shutil.copy2(path_of(name, self._paths), plugins / name)
        (networks / "10-fairlead.conflist").write_text(node_config.cni(self.node))
        if self.node.is_transfer_node:
            (networks / multus.CONFIGURATION_FILE).write_text(multus.configuration(self.node, self._paths))
        (self._root / "containerd.toml").write_text(node_config.containerd(path_of("runc", self._paths)))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        kubelet = node_config.kubelet(self.node, self._paths, resolv_conf, machine_memory_bytes=memory)
        (self._root / "kubelet.yaml").write_text(kubelet)
        (self._root / "kube-proxy.yaml").write_text(node_config.kube_proxy(self._paths))


def archive_from(path: str) -> Path:
    """An image archive given on the command line; raises UsageError if there is no such file."""
    archive = Path(path).resolve()
    if not archive.is_file():
        raise CommandUsageError(f"there is no image archive {path}; write one with `buildah push IMAGE docker-archive:FILE:IMAGE`")
    return archive


def all_nodes(paths: Layout) -> list[KubernetesNode]:
    return [KubernetesNode(node, paths) for node in layout.NODES]


def require_running(nodes: list[KubernetesNode]) -> None:
    """Raises ClusterError naming the nodes that are not running."""
    stopped = [node.node.name for node in nodes if node.box.identity() is None]
    if stopped:
        raise ClusterError(f"not running: {', '.join(stopped)}; start the cluster with `hack/cluster/cluster up`")
