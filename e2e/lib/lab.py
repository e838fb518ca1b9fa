"""What one test has to itself: a namespace, a disk with a claim on each data transfer node, and the jobs it submits."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.lib import evidence
from e2e.lib.job import Job
from e2e.lib.manifests import DESTINATION_CLAIM, DESTINATION_NODE, FOLDER, SOURCE_CLAIM, SOURCE_NODE, transfer_job
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import CommandError, Kubectl, Object
from fairlead_dev.clients.volumes import MOVER_ID, Disk, local_volume
from fairlead_dev.clients.watch import ObjectWatch, WatchEvent
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, ListingError, compare, parse_listing
from fairlead_dev.trees.plan import planned


class Lab:
    """A namespace of its own with source and destination disks. Use as a context manager."""

    def __init__(
        self,
        cluster: LocalCluster,
        kubectl: Kubectl,
        namespace: str,
        destination_size: str | None = None,
        *,
        destination_on_device: bool = False,
    ) -> None:
        self.cluster, self.kubectl, self.namespace = cluster, kubectl, namespace
        self._source_name, self._destination_name = f"{namespace}-src", f"{namespace}-dst"
        self._destination_size, self._destination_on_device = destination_size, destination_on_device
        self._stack = ExitStack()
        self._jobs: list[Job] = []
        self.source: Disk
        self.destination: Disk
        self._pods: ObjectWatch

    def __enter__(self) -> Self:
        self._remove_leavings()
        self.source = self.cluster.disk(SOURCE_NODE, self._source_name)
        self.destination = self.cluster.disk(
            DESTINATION_NODE, self._destination_name, self._destination_size, on_device=self._destination_on_device
        )
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            *local_volume(self.source, SOURCE_CLAIM, self.namespace),
            *local_volume(self.destination, DESTINATION_CLAIM, self.namespace),
        )
        wait_until(self._is_bound, "both claims have their volumes, as a user's have when he comes to move files")
        self._pods = self._stack.enter_context(ObjectWatch(self.kubectl, "pods", namespace=self.namespace))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
        self.delete_jobs()
        self.kubectl.delete("namespace", [self.namespace], wait_s=None)
        self.kubectl.delete("persistentvolume", [self._source_name, self._destination_name], wait_s=None)
        self._remove_disks()

    def write(self, disk: Disk, shape: str, folder: str = FOLDER, *, bytes_total: int = 0, files: int = 1, seed: int = 1) -> None:
        """Writes a tree (a shape of `trees`) into a folder of a disk, owned by the movers' user."""
        self.cluster.write_tree(disk, folder, planned(shape, bytes_total, files, seed))

    def write_file(self, disk: Disk, path: str, content: str) -> None:
        """Writes one small file below a disk's root, with its folders, owned by the movers' user."""
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && chown -R "$2:$2" -- "$3"'
        top = f"{disk.path}/{path.split('/')[0]}"
        self.cluster.on(disk.node, "sh", "-c", script, "sh", f"{disk.path}/{path}", str(MOVER_ID), top, stdin=content)

    def make_folder(self, disk: Disk, folder: str = FOLDER) -> None:
        """Makes an empty folder below a disk's root, owned by the movers' user."""
        self.cluster.on(disk.node, "install", "-d", "-o", str(MOVER_ID), "-g", str(MOVER_ID), f"{disk.path}/{folder}")

    def listing(self, disk: Disk, folder: str = "") -> Listing:
        """Everything below a folder of a disk (the whole disk without one), by find and sha256sum; empty where the folder is absent.

        Listed again while a mover still adds or removes names in it.
        """
        script = 'if [ -d "$1" ]; then exec sh -c "$2" sh "$1"; else printf "CHECKSUMS\\0END\\0"; fi'
        command = ("sh", "-c", script, "sh", f"{disk.path}/{folder}", LIST_SCRIPT)

        def settled() -> tuple[Listing]:
            return (parse_listing(self.cluster.on(disk.node, *command)),)

        (listing,) = wait_until(settled, f"{disk.path}/{folder} holds still to be listed", not_yet=(ListingError, CommandError))
        return listing

    def kept(self, disk: Disk) -> Listing:
        """What a disk holds, to tell later that nothing was touched. Directories' times are left out: partial files come and go in them."""
        listing = self.listing(disk)
        return {path: replace(entry, mtime="") if entry.kind == "d" else entry for path, entry in listing.items()}

    def assert_equal(self, folder: str = FOLDER) -> None:
        """Asserts that both ends hold the same tree."""
        source, destination = self.listing(self.source, folder), self.listing(self.destination, folder)
        assert source, "the source is empty: nothing was compared"
        assert [str(difference) for difference in compare(source, destination)] == []

    def partial_files(self) -> list[bytes]:
        """Names at the destination that only the movers may have made: what must be gone in the end."""
        command = ("find", self.destination.path, "-mindepth", "1", "-printf", "%P\\0")

        def listed() -> tuple[list[bytes]]:
            return (self.cluster.on(self.destination.node, *command).split(b"\0"),)

        # While a mover removes names, find may fail over one that is gone.
        (names,) = wait_until(listed, f"{self.destination.path} holds still to be listed", not_yet=(CommandError,))
        return [name for name in names if b".fairlead-" in name]

    def submit(self, name: str = "job", **spec: Any) -> Job:
        """Creates a job from the source disk to the destination disk with `spec` merged over it, and watches it."""
        return self.submit_object(transfer_job(self.namespace, name, **spec))

    def submit_object(self, job: Object) -> Job:
        """Creates a job and watches it. The API server's refusal is a CommandError."""
        self.kubectl.create(job)
        watched = self._stack.enter_context(Job(self.kubectl, self.namespace, job["metadata"]["name"]))
        self._jobs.append(watched)
        return watched

    def pod_versions(self) -> list[WatchEvent]:
        """Every version of every pod of the namespace so far."""
        return self._pods.changes()

    def wait_no_mover_pods(self) -> None:
        """Waits until no pod is left in the namespace."""
        wait_until(lambda: not self.kubectl.list("pods", namespace=self.namespace), "no pod is left")

    def delete_jobs(self) -> None:
        """Deletes the namespace's jobs and waits until they are gone."""
        try:
            self.kubectl.delete_all("transferjobs", self.namespace, wait_s=PATIENCE_S)
        except CommandError as error:
            # A test of the release may have left no definitions, and so no jobs.
            if "doesn't have a resource type" not in error.stderr:
                raise

    def keep_evidence(self, folder: Path) -> None:
        """Writes the state of everything into a folder."""
        evidence.keep(folder, self.kubectl, self.namespace, {"pods": self._pods.changes(), **{job.name: job.changes for job in self._jobs}})

    def _is_bound(self) -> bool:
        claims = (self.kubectl.get("persistentvolumeclaim", claim, self.namespace) for claim in (SOURCE_CLAIM, DESTINATION_CLAIM))
        return all(claim is not None and claim.get("status", {}).get("phase") == "Bound" for claim in claims)

    def _remove_leavings(self) -> None:
        """Removes what an earlier run that was killed has left."""
        if self.kubectl.get("namespace", self.namespace) is not None:
            self.delete_jobs()
            self.kubectl.delete("namespace", [self.namespace], wait_s=PATIENCE_S)
            self.kubectl.delete("persistentvolume", [self._source_name, self._destination_name], wait_s=PATIENCE_S)
        self._remove_disks()

    def _remove_disks(self) -> None:
        self.cluster.remove_disk(SOURCE_NODE, self._source_name)
        self.cluster.remove_disk(DESTINATION_NODE, self._destination_name)


def refusal(kubectl: Kubectl, job: Object) -> str | None:
    """What the API server says against a job; None where it would take it."""
    try:
        kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(job))
    except CommandError as error:
        return error.stderr
    return None
