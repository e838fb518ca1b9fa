"""Measures TransferJobs over one and over both interfaces of their nodes; writes build/bench/interfaces.json.

On the local cluster, which must be up. Its two emulated paths are given equal rates, and then rates of 3:1; each round has, in random
order, a job over each of them alone and one over both. A job is a user's: operator, advisor, TLS and disks are as they come, and its
goodput is that of its status, of the whole bulk phase. All jobs of a setting move for about the same time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.api.shared.quantity import parse_rate
from fairlead_dev.bench.lab.machine import load
from fairlead_dev.bench.placement.multi import EQUAL, UNEQUAL, EmulatedPath, PathGoodputs, against_equal, against_sum, ratio_row
from fairlead_dev.bench.rows import Goal, Row
from fairlead_dev.bench.runner import Part, PartsBench, exit_with, run_bench
from fairlead_dev.checkout import BINARIES, CHECKOUT
from fairlead_dev.clients.kubectl import CommandError, Object
from fairlead_dev.clients.release import DEMO_NAMESPACE, local_helm_arguments
from fairlead_dev.clients.volumes import MOVER_ID, local_volume, wait_bound
from fairlead_dev.clients.watch import ObjectWatch
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.cluster.layout import DATA_LINKS, WanSettings
from fairlead_dev.errors import LabError

NODES = ("dtn-a", "dtn-b")
DISK = "bench-interfaces"
CLAIMS = ("from", "to")
SEED = 20261124
"""Draws the order of the jobs."""
ROUNDS, SECONDS = 3, 25.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 5.0
FILES = 10
JOB_LIMIT_S = 300.0
LOOK_S = 0.2


class JobsOverPaths:
    """A namespace with a disk on either node and source folders of the sizes asked for. Use as a context manager."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster, self._kubectl = cluster, cluster.kubectl
        self._jobs = 0

    def __enter__(self) -> JobsOverPaths:
        self._remove()
        self._kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEMO_NAMESPACE}})
        self._disks = [self._cluster.disk(node, f"{DISK}-{claim}") for node, claim in zip(NODES, CLAIMS, strict=True)]
        for disk, claim in zip(self._disks, CLAIMS, strict=True):
            self._kubectl.apply(*local_volume(disk, claim, DEMO_NAMESPACE))
        wait_bound(self._kubectl, CLAIMS, DEMO_NAMESPACE)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def goodput_bps(self, interfaces: Sequence[str], size_bytes: int) -> float:
        """Moves so many bytes by a job over these interfaces. Raises LabError unless it succeeds."""
        destination = self._disks[1]
        folder = f"{size_bytes}-bytes"
        self._write(folder, size_bytes)
        self._jobs += 1
        name = f"job-{self._jobs}"
        carried: Object = {"interfaces": list(interfaces)} if len(interfaces) > 1 else {"interface": interfaces[0]}
        spec = {
            end: {"node": node, **carried, "volume": {"persistentVolumeClaim": {"claimName": claim}}, "path": path}
            for end, node, claim, path in zip(("source", "destination"), NODES, CLAIMS, (folder, name), strict=True)
        }
        metadata = {"name": name, "namespace": DEMO_NAMESPACE}
        self._kubectl.apply({"apiVersion": "fairlead.io/v1alpha1", "kind": "TransferJob", "metadata": metadata, "spec": spec})
        status = self._ended(name)
        self._kubectl.delete("transferjob", [name], namespace=DEMO_NAMESPACE, wait_s=JOB_LIMIT_S)
        self._cluster.on(destination.node, "rm", "-r", f"{destination.path}/{name}")
        if status["phase"] != "Succeeded" or status["attempts"] != 1:
            raise LabError(f"the job over {', '.join(interfaces)} ended as {status['phase']} after {status['attempts']} attempts")
        return float(parse_rate(status["progress"]["rate"]))

    def _write(self, folder: str, size_bytes: int) -> None:
        disk = self._disks[0]
        target = f"{disk.path}/{folder}"
        size = ("--bytes", str(size_bytes), "--files", str(FILES), "--seed", "1", "--owner", str(MOVER_ID))
        script = '[ -d "$1" ] || exec python3 "$0" trees plain "$@"'
        self._cluster.on(disk.node, "sh", "-c", script, str(CHECKOUT / "hack"), target, *size, timeout_s=JOB_LIMIT_S)

    def _ended(self, name: str) -> Object:
        deadline_s = time.monotonic() + JOB_LIMIT_S
        with ObjectWatch(self._kubectl, "transferjob", name=name, namespace=DEMO_NAMESPACE) as versions:
            while time.monotonic() < deadline_s:
                changes = versions.changes()
                status: dict[str, Any] = changes[-1].object.get("status", {}) if changes else {}
                if status.get("phase") in ("Succeeded", "Failed"):
                    return status
                time.sleep(LOOK_S)
        raise LabError(f"job {name} did not end within {JOB_LIMIT_S:g} s; it was last seen as {status.get('phase')}")

    def _remove(self) -> None:
        if self._kubectl.get("namespace", DEMO_NAMESPACE) is not None:
            jobs = [job["metadata"]["name"] for job in self._kubectl.list("transferjobs", namespace=DEMO_NAMESPACE)]
            self._kubectl.delete("transferjobs", jobs, namespace=DEMO_NAMESPACE, wait_s=JOB_LIMIT_S)
            self._kubectl.delete("namespace", [DEMO_NAMESPACE], wait_s=JOB_LIMIT_S)
        names = [f"{DISK}-{claim}" for claim in CLAIMS]
        self._kubectl.delete("persistentvolume", names)
        for node, name in zip(NODES, names, strict=True):
            self._cluster.remove_disk(node, name)


@contextmanager
def shaped(cluster: LocalCluster, paths: Sequence[EmulatedPath]) -> Iterator[None]:
    """The cluster's paths with these rates and delays and a buffer of one BDP; as the cluster has them after the block."""
    try:
        for link, path in zip(DATA_LINKS, paths, strict=True):
            _restart(cluster, link.interface, WanSettings(f"{path.rate_mbps}M", path.one_way_delay, "1BDP"))
        yield
    finally:
        for link in DATA_LINKS:
            _restart(cluster, link.interface, link.defaults)


def _restart(cluster: LocalCluster, interface: str, settings: WanSettings) -> None:
    cluster.show("wan", "restart", "--link", interface, *settings.arguments())


@dataclass(frozen=True, slots=True)
class ClusterLab:
    """The local cluster with the chart installed. `rounds` of jobs that move for about `seconds`."""

    cluster: LocalCluster
    rounds: int
    seconds: float


def installed(options: argparse.Namespace, _scratch: Path) -> ClusterLab:
    """Installs the chart of this checkout. Raises LabError."""
    cluster = LocalCluster(CHECKOUT)
    with as_lab_errors():
        cluster.inside(str(BINARIES / "helm"), *local_helm_arguments(CHECKOUT, str(time.time_ns())))
    return ClusterLab(cluster, *((QUICK_ROUNDS, QUICK_SECONDS) if options.quick else (ROUNDS, SECONDS)))


@contextmanager
def as_lab_errors() -> Iterator[None]:
    """A command of the cluster that fails is this machine's fault."""
    try:
        yield
    except CommandError as error:
        raise LabError(str(error)) from None


def measure(lab: ClusterLab, paths: Sequence[EmulatedPath]) -> PathGoodputs:
    """Goodputs of all rounds. Raises LabError."""
    figures, chance = PathGoodputs(), random.Random(SEED)
    links = [link.interface for link in DATA_LINKS]
    sizes = [int(path.rate_mbps * 1e6 / 8 * lab.seconds) for path in paths]
    with as_lab_errors(), shaped(lab.cluster, paths), JobsOverPaths(lab.cluster) as jobs:
        for number in range(lab.rounds):
            turns = [
                (figures.alone[0], links[:1], sizes[0]),
                (figures.alone[1], links[1:], sizes[1]),
                (figures.both, links, sum(sizes)),
            ]
            for runs, interfaces, size in chance.sample(turns, len(turns)):
                runs.append(jobs.goodput_bps(interfaces, size))
                print(f"  round {number + 1}, {' and '.join(interfaces)}: {runs[-1] / 1e6:.1f} Mb/s (load {load():.1f})", flush=True)
    return figures


def equal(lab: ClusterLab) -> list[Row]:
    """Over two equal paths, beside one of them."""
    figures = measure(lab, EQUAL)
    return [ratio_row("job_equal", figures, against_equal(figures))]


def unequal(lab: ClusterLab) -> list[Row]:
    """Over paths of 3:1, beside the sum of both."""
    figures = measure(lab, UNEQUAL)
    return [ratio_row("job_unequal", figures, against_sum(figures))]


PARTS = (
    Part("equal", ("job_equal",), equal, 1800),
    Part("unequal", ("job_unequal",), unequal, 1800),
)
GOALS = {"job_equal": Goal("at_least", 1.9), "job_unequal": Goal("at_least", 0.95)}
BENCH = PartsBench(name="interfaces", about=__doc__, parts=PARTS, goals=GOALS, lab=installed, remove_leftovers=lambda: None)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
