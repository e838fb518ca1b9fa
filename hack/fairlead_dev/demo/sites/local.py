"""The cluster of hack/cluster: three nodes on this machine, dtn-a and dtn-b joined by the emulated WAN."""

from __future__ import annotations

import time
from pathlib import Path

from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.release import local_helm_arguments, monitored_arguments
from fairlead_dev.clients.volumes import MOVER_ID, Disk, local_volume, wait_bound
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.demo.progress import LinkSample
from fairlead_dev.demo.sites.base import (
    FOLDER,
    MARK,
    NAMESPACE,
    SiteEnd,
    TreeSize,
    make_namespace,
    marked,
    refuse_other_namespace,
    remove_namespace,
)
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, parse_listing

NODES = {SiteEnd.SOURCE: "dtn-a", SiteEnd.DESTINATION: "dtn-b"}


class LocalSite:
    """Implements Site on the local cluster. The link is the emulator's, at the rate that `cluster up` gives it."""

    link_mbps: int | None = 200

    def __init__(self, checkout: Path, *, monitoring: bool = False) -> None:
        """`monitoring`: with a Prometheus that watches the demo, and the boards in the chart."""
        self._checkout = checkout
        self._monitoring = monitoring
        self._cluster = LocalCluster(checkout)

    @property
    def kubectl(self) -> Kubectl:
        return self._cluster.kubectl

    def start(self) -> None:
        self._cluster.show("up")
        # A cluster that was up before may have older images.
        self._cluster.show("images")
        if self._monitoring:
            self._cluster.show("monitoring", "up")
        refuse_other_namespace(self.kubectl)

    def install(self) -> None:
        helm = str(self._checkout / "build" / "bin" / "helm")
        watched = monitored_arguments(True) if self._monitoring else ()
        self._cluster.inside(helm, *local_helm_arguments(self._checkout, str(time.time_ns())), *watched)

    def clear(self) -> None:
        remove_namespace(self.kubectl)
        self.kubectl.delete("persistentvolume", [each["metadata"]["name"] for each in self.kubectl.list("persistentvolume", selector=MARK)])
        for end in SiteEnd:
            self._cluster.remove_disk(NODES[end], _disk_name(end))

    def lay_out(self, size: TreeSize) -> None:
        make_namespace(self.kubectl)
        for end in SiteEnd:
            self.kubectl.apply(*map(marked, local_volume(self._disk(end), end.value, NAMESPACE)))
        source = self._disk(SiteEnd.SOURCE)
        generator = ("python3", str(self._checkout / "hack"), "trees", "survey")
        self._cluster.on(source.node, *generator, f"{source.path}/{FOLDER}", *size.arguments(), "--owner", str(MOVER_ID), timeout_s=600)
        wait_bound(self.kubectl, [end.value for end in SiteEnd], NAMESPACE)

    def apply_job(self) -> None:
        self.kubectl.run("apply", "-f", "-", stdin=(self._checkout / "hack" / "demo" / "transferjob.yaml").read_text())

    def list_tree(self, end: SiteEnd) -> Listing:
        disk = self._disk(end)
        return parse_listing(self._cluster.on(disk.node, "sh", "-c", LIST_SCRIPT, "sh", f"{disk.path}/{FOLDER}", timeout_s=600))

    def link_sample(self) -> LinkSample | None:
        carried = self._cluster.bytes_carried(NODES[SiteEnd.SOURCE], NODES[SiteEnd.DESTINATION])
        return LinkSample(time.monotonic(), carried)

    def _disk(self, end: SiteEnd) -> Disk:
        return self._cluster.disk(NODES[end], _disk_name(end))


def _disk_name(end: SiteEnd) -> str:
    return f"demo-{end.value}"
