"""A cluster from start to stop."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead_dev.clients.release import RELEASE, RELEASE_NAMESPACE, monitored_arguments
from fairlead_dev.clock import Clock
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts import build, earlier, programs, store
from fairlead_dev.cluster.artifacts.images import KUEUE_IMAGES, MONITORING_IMAGES, Archive, ImageSet
from fairlead_dev.cluster.artifacts.programs import path_of
from fairlead_dev.cluster.cleanup import Cleanup
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.kubernetes import addons, kueue, monitoring, multus, node_config, pki
from fairlead_dev.cluster.kubernetes.control_plane import ControlPlane
from fairlead_dev.cluster.kubernetes.node import KubernetesNode, all_nodes, require_running
from fairlead_dev.cluster.kubernetes.wan import WideAreaLink
from fairlead_dev.cluster.layout import DATA_LINKS, NODES, DataLink, Layout, WanSettings
from fairlead_dev.cluster.machine import network, preflight, shell
from fairlead_dev.cluster.machine.box import Box
from fairlead_dev.cluster.machine.progress import BuildProgress, duration

READY_TIMEOUT_S = 300
HEALTH_PATIENCE_S, HEALTH_INTERVAL_S = 30.0, 1.0
"""How long a cluster that runs is asked again before it is taken for broken, and how often."""


class Cluster:
    """The one local cluster of a state folder."""

    def __init__(self, paths: Layout, progress: BuildProgress) -> None:
        self.paths = paths
        self.progress = progress
        self.control_plane = ControlPlane(paths)
        self.nodes = all_nodes(paths)
        self.wans = {link: WideAreaLink(paths, link) for link in DATA_LINKS}
        self.images = ImageSet(paths, progress)
        self._cleanup = Cleanup(paths)
        self._complete = paths.state / "complete"

    def node(self, name: str) -> KubernetesNode:
        """The node of this name. Raises CommandUsageError where there is none."""
        return KubernetesNode(layout.node_named(name), self.paths)

    def box(self, name: str) -> Box:
        """The box of a node, or of the control plane. Raises CommandUsageError where there is none."""
        return self.control_plane.box if name == layout.CONTROL_PLANE else self.node(name).box

    def preflight(self, *, install: bool) -> None:
        """Raises ClusterError with everything the machine lacks."""
        cold = bool(build.missing(programs.PROGRAMS, self.paths))
        preflight.require(self.paths, self.progress, cold=cold, install=install)

    def build(self, names: list[str]) -> None:
        """Compile the programs of these names, or all."""
        with self._exclusive("build"):
            build.build_programs(programs.select(names), self.paths, self.progress)

    def build_archives(self) -> list[Archive]:
        """Build the images of which something has changed."""
        with self._exclusive("build"):
            return self._build_all(project=True)

    def build_images(self) -> list[Archive]:
        """Build what has changed, and import it into the nodes if the cluster is up."""
        archives = self.build_archives()
        if self.is_up():
            self._import(archives)
        return archives

    def build_images_of(self, commit: str) -> str:
        """Build the images of an earlier commit, import them into the nodes if the cluster is up, and return their tag."""
        paths, tag = earlier.layout_of(commit, self.paths)
        with self._exclusive("build"):
            build.build_rust_programs(paths, self.progress)
            archives = ImageSet(paths, self.progress, tag).ensure_project()
        if self.is_up():
            self._import(archives)
        return tag

    def load(self, archives: list[Path]) -> None:
        """Import image archives into every node."""
        require_running(self.nodes)
        for archive in archives:
            with self.progress.step(f"loading {archive.name} into {len(self.nodes)} nodes"), ThreadPoolExecutor() as pool:
                list(pool.map(lambda node, archive=archive: node.import_archive(archive), self.nodes))

    def up(self, wans: Mapping[DataLink, WanSettings], *, install: bool, project_images: bool) -> None:
        """Start the cluster, building what is missing; returns at once if it is up and healthy."""
        self.preflight(install=install)
        # First without waiting for others: whoever works on a healthy cluster need not be disturbed.
        if self.trouble() is None:
            self.progress.say("The cluster is already up and healthy.")
            return
        with self._exclusive("cluster"):
            trouble = self.lasting_trouble()
            if trouble is None:
                self.progress.say("The cluster is already up and healthy.")
                return
            self._cleanup.refuse_other_cluster()
            with self._exclusive("build"):
                archives = self._build_all(project=project_images)
            store.ensure_store(archives, self.paths, self.progress)
            self._remove_leavings(trouble)
            began = time.monotonic()
            self._start(wans)
            self._complete.touch()
        self.progress.say(f"The cluster is up after {duration(time.monotonic() - began)}.")

    def down(self) -> list[str]:
        """Remove the cluster and return an account of it; empty if there was nothing."""
        if os.geteuid() != 0:
            raise ClusterError("stopping the cluster needs root (sudo hack/cluster/cluster down)")
        with self._exclusive("cluster"):
            return self._cleanup.remove_all().lines()

    def is_up(self) -> bool:
        """Whether a start has been completed and every box runs."""
        return self._complete.exists() and all(box.identity() for box in (self.control_plane.box, *(node.box for node in self.nodes)))

    def trouble(self) -> str | None:
        """Why the cluster is not healthy; None if it is."""
        return self._ended() or self._unhealthy()

    def lasting_trouble(self, clock: Clock = time) -> str | None:
        """The same, where one answer may come late on a busy machine: a cluster that runs is asked for some time until it is healthy."""
        deadline_s = clock.monotonic() + HEALTH_PATIENCE_S
        while True:
            ended = self._ended()
            trouble = ended or self._unhealthy()
            if ended or trouble is None or clock.monotonic() >= deadline_s:
                return trouble
            clock.sleep(HEALTH_INTERVAL_S)

    def _ended(self) -> str | None:
        """What of the cluster does not run, which no time mends."""
        if not self._complete.exists():
            return "it is not up"
        stopped = [box.name for box in (self.control_plane.box, *(node.box for node in self.nodes)) if not box.identity()]
        if stopped:
            return f"stopped: {', '.join(stopped)}"
        ended = [link.interface for link, wan in self.wans.items() if not wan.is_running()]
        if ended:
            return f"the WAN emulator of {', '.join(ended)} has ended"
        return None

    def _unhealthy(self) -> str | None:
        """What the control plane says against the cluster's health."""
        try:
            ready = self.control_plane.nodes()
        except ClusterError:
            return "the API server does not answer"
        not_ready = [node.name for node in NODES if not ready.get(node.name)]
        return f"not Ready: {', '.join(not_ready)}" if not_ready else None

    def require_up(self) -> None:
        """Raises ClusterError if the control plane does not run."""
        if not self.control_plane.box.identity():
            raise ClusterError("the cluster is not up; start it with `hack/cluster/cluster up`")

    def monitoring_up(self) -> None:
        """Start the Prometheus operator and Prometheus, building what is missing, and have the chart that is installed watched by them."""
        self.require_up()
        self._provide(MONITORING_IMAGES, monitoring.NODE)
        with self.progress.step("Prometheus operator and Prometheus", 30):
            files = [word for path in monitoring.operator_files() for word in ("-f", str(path))]
            self._kubectl("apply", "--server-side", "--force-conflicts", *files)
            kinds = [f"crd/{name}" for name in monitoring.KINDS]
            self._kubectl("wait", "--for=condition=Established", f"--timeout={READY_TIMEOUT_S}s", *kinds)
            self.control_plane.apply(monitoring.objects())
            for what in ("deployment/prometheus-operator", "prometheus/prometheus"):
                self._kubectl("-n", monitoring.NAMESPACE, "wait", "--for=condition=Available", f"--timeout={READY_TIMEOUT_S}s", what)
        self._set_values(monitored_arguments(True))

    def monitoring_down(self) -> None:
        """Remove Prometheus, its operator, its definitions and so all monitors and rules."""
        self.require_up()
        with self.progress.step("removing Prometheus and its operator"):
            # Helm cannot change a release any more of which a kind is gone.
            self._set_values(monitored_arguments(False))
            ignore = ("--ignore-not-found", f"--timeout={READY_TIMEOUT_S}s")
            self._kubectl("delete", *ignore, "namespace", monitoring.NAMESPACE)
            self._kubectl("delete", *ignore, *monitoring.cluster_objects(), *(f"crd/{name}" for name in monitoring.KINDS))

    def kueue_up(self) -> None:
        """Start Kueue, building what is missing, and have the operator that is installed heed it."""
        self.require_up()
        self._provide(KUEUE_IMAGES, kueue.NODE)
        with self.progress.step("Kueue", 30):
            bodies = self._kueue_objects()
            self.control_plane.apply([each for each in bodies if kueue.is_definition(each) or each["kind"] == "Namespace"])
            kinds = [f"crd/{each['metadata']['name']}" for each in bodies if kueue.is_definition(each)]
            self._kubectl("wait", "--for=condition=Established", f"--timeout={READY_TIMEOUT_S}s", *kinds)
            self.control_plane.apply(bodies)
            ready = ("wait", "--for=condition=Available", f"--timeout={READY_TIMEOUT_S}s")
            self._kubectl("-n", kueue.NAMESPACE, *ready, f"deployment/{kueue.DEPLOYMENT}")
            services = [f"apiservice/{each['metadata']['name']}" for each in bodies if each["kind"] == "APIService"]
            self._kubectl(*ready, *services)
            shell.wait_until(self._kueue_answers, "Kueue's webhooks do not answer", timeout_s=READY_TIMEOUT_S, interval_s=1)
        self._set_values(["--set", "kueue.enabled=true"])

    def kueue_down(self) -> None:
        """Remove Kueue with its queues, its workloads and its definitions."""
        self.require_up()
        with self.progress.step("removing Kueue"):
            self._set_values(["--set", "kueue.enabled=false"])
            limits = ("--ignore-not-found", f"--timeout={READY_TIMEOUT_S}s")
            for kind in kueue.own_resources():
                if self._serves(kind):
                    self._kubectl("delete", *limits, kind, "--all", "--all-namespaces")
            manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": kueue.in_order_of_removal(self._kueue_objects())})
            shell.run(self.control_plane.kubectl(["delete", *limits, "-f", "-"]), stdin=manifest, timeout_s=2 * READY_TIMEOUT_S)

    def _kueue_objects(self) -> list[dict[str, Any]]:
        command = kueue.template_command(path_of("helm", self.paths))
        return kueue.objects(shell.run(command, stdin=json.dumps(kueue.values()), timeout_s=READY_TIMEOUT_S))

    def _kueue_answers(self) -> bool:
        try:
            command = self.control_plane.kubectl(["create", "--dry-run=server", "-f", "-"])
            shell.run(command, stdin=json.dumps(kueue.probe()), timeout_s=30)
        except ClusterError:
            return False
        return True

    def _serves(self, kind: str) -> bool:
        return bool(shell.run(self.control_plane.kubectl(["get", "crd", kind, "--ignore-not-found", "-o", "name"]), timeout_s=60).strip())

    def _provide(self, images: Mapping[str, str], name: str) -> None:
        """Build images of one program each, and import them into a node."""
        with self._exclusive("build"):
            build.build_programs(programs.select(list(images)), self.paths, self.progress)
            archives = self.images.ensure_programs(images)
        node = next(node for node in self.nodes if node.node.name == name)
        with self.progress.step(f"importing {', '.join(images)} into {name}") as step:
            step.detail = ", ".join(node.import_images(archives)) or "none had changed"

    def _set_values(self, arguments: list[str]) -> None:
        """Upgrade the chart that is installed, if there is one, with these options."""

        def run(*words: str) -> str:
            command = network.inside(layout.CONTROL_PLANE, [path_of("helm", self.paths), *words, "--namespace", RELEASE_NAMESPACE])
            return shell.run(command, env=self.environment(), timeout_s=READY_TIMEOUT_S)

        if not run("list", "--all", "--short", "--filter", f"^{RELEASE}$").strip():
            return
        chart = str(self.paths.repository / "charts" / "fairlead")
        run("upgrade", RELEASE, chart, "--reset-then-reuse-values", *arguments)

    def _kubectl(self, *arguments: str) -> None:
        shell.run(self.control_plane.kubectl(list(arguments)), timeout_s=2 * READY_TIMEOUT_S)

    def environment(self) -> dict[str, str]:
        """What a program needs to use the cluster from inside its network."""
        search = [str(self.paths.checkout_programs), os.environ.get("PATH", os.defpath)]
        return {"KUBECONFIG": str(self.paths.admin_kubeconfig), "PATH": os.pathsep.join(search)}

    def _build_all(self, *, project: bool) -> list[Archive]:
        build.build_programs(programs.PROGRAMS, self.paths, self.progress)
        build.build_rust_programs(self.paths, self.progress)
        return [*self.images.ensure_system(), *(self.images.ensure_project() if project else [])]

    def _import(self, archives: list[Archive]) -> None:
        with self.progress.step("importing changed images into the nodes") as step, ThreadPoolExecutor() as pool:
            imported = {name for names in pool.map(lambda node: node.import_images(archives), self.nodes) for name in names}
            step.detail = ", ".join(sorted(imported)) or "none had changed"

    def _remove_leavings(self, trouble: str) -> None:
        leavings = self._cleanup.leavings()
        if not leavings:
            return
        self.progress.say(f"Starting afresh, since there is a cluster but {trouble}: {'; '.join(leavings)}")
        with self.progress.step("removing it"):
            self._cleanup.remove_all()

    def _start(self, wans: Mapping[DataLink, WanSettings]) -> None:
        self._cleanup.claim_state()
        self._cleanup.settings.apply()
        self._cleanup.make_mount_points()
        with self.progress.step("networks and keys", 2), ThreadPoolExecutor() as pool:
            _finish([pool.submit(network.create, self._cleanup.namespaces_record), pool.submit(pki.create, self.paths)])
        with self.progress.step("control plane and node runtimes", 8), ThreadPoolExecutor() as pool:
            _finish([pool.submit(self._start_control_plane), *(pool.submit(node.start_runtime) for node in self.nodes)])
        with self.progress.step("wide-area links"), ThreadPoolExecutor() as pool:
            _finish([pool.submit(self.wans[link].start, settings) for link, settings in wans.items()])
        with self.progress.step(f"nodes {', '.join(node.name for node in NODES)}", 5), ThreadPoolExecutor() as pool:
            _finish([pool.submit(node.start_kubernetes) for node in self.nodes])
            self._wait_for_nodes()
        with self.progress.step("name service", 5):
            rollout = ["-n", "kube-system", "rollout", "status", f"deployment/{addons.DNS_DEPLOYMENT}", f"--timeout={READY_TIMEOUT_S}s"]
            shell.run(self.control_plane.kubectl(rollout))

    def _start_control_plane(self) -> None:
        self.control_plane.box.start(path_of("pause", self.paths))
        self.control_plane.start()
        self.control_plane.apply([*(node_config.node_object(node) for node in NODES), *addons.objects(), *multus.objects()])

    def _wait_for_nodes(self) -> None:
        def all_ready() -> bool:
            try:
                return sum(self.control_plane.nodes().values()) == len(NODES)
            except ClusterError:
                # On a busy machine one question may take too long, and the next one be answered.
                return False

        try:
            shell.wait_until(all_ready, "not all nodes became Ready", timeout_s=READY_TIMEOUT_S, interval_s=0.3)
        except ClusterError as error:
            slow = ", ".join(name for name, ready in self.control_plane.nodes().items() if not ready)
            raise ClusterError(f"{error}: {slow}; see `hack/cluster/cluster logs {slow.split(',')[0]} kubelet`") from error

    @contextmanager
    def _exclusive(self, what: str) -> Iterator[None]:
        """Wait until no other command does the same; the kernel frees the lock of a killed one."""
        lock = self.paths.cache / f".{what}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.progress.say("Waiting for another command on the local cluster to end …")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _finish(futures: list[Future[None]]) -> None:
    """Wait for all, so that nothing runs on behind an error, then raise the first error."""
    errors = [future.exception() for future in futures]
    for error in errors:
        if error:
            raise error
