"""What is put into an empty API server: nodes, what a chart renders, and a namespace with claims for each test."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path

from control_plane import find_programs
from lab import NAMESPACES, NARROW, NODES, NOT_ALLOWED, PATIENCE_SECONDS, Kubectl, read_documents, transfer_job

from fairlead.kube.client import CLAIMS, DTNS, JOBS, PATHS, PODS, VOLUMES, KubeClient, ResourceKind
from fairlead.kube.errors import NotFoundError

NARROW_IDENTITIES = tuple(
    f"identities.namespaces.{NARROW}.{rule}"
    for rule in ("users={10000-10999}", "defaultUser=10000", "groups={10000-10999,500}", "fsGroups={10000}")
)
"""What the movers of one namespace may run with, for helm's `--set`."""


def install(kubectl: Kubectl, chart: Path, *values: str) -> str:
    """Installs nodes, namespaces and a chart without its workload; returns all that the chart renders. `values` go to helm's `--set`."""
    kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [_namespace(name) for name in ("fairlead-system", NOT_ALLOWED, NARROW)]})
    kubectl.apply(
        {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}} for n in NODES]}
    )
    for node in NODES:
        kubectl(
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=merge",
            "-p",
            '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}',
        )
    kubectl.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "bulk"}, "value": 1})
    rendered = subprocess.run(
        [
            *(str(find_programs()["helm"]), "template", "fairlead", str(chart)),
            *(
                "--no-hooks",
                "--namespace",
                "fairlead-system",
                "--kube-version",
                "1.34.0",
                "--set",
                f"hostNetwork.namespaces={{{','.join(NAMESPACES)}}}",
            ),
            # The images of `Lab.operator_options`: the admission policies know no others.
            *("--set", "images.mover.tag=test", "--set", "images.advisor.tag=test"),
            *(f"--set={value}" for value in values),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    # Those of the chart that is installed, which may be an earlier one's.
    kinds = [f"crd/{each['metadata']['name']}" for each in read_documents(rendered) if each["kind"] == "CustomResourceDefinition"]
    assert kinds, "the chart has no definitions"
    kubectl("wait", "--for=condition=Established", f"--timeout={PATIENCE_SECONDS:.0f}s", *kinds)
    _wait_until_in_force(kubectl)
    return rendered


def _wait_until_in_force(kubectl: Kubectl) -> None:
    """An API server takes up policies and rights a moment after they were made, and whichever test comes first must not meet it before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    refused = json.dumps(transfer_job(NOT_ALLOWED, "refused"))
    rights = ("auth", "can-i", "list", "transferjobs.fairlead.io", "-A", "--as=system:serviceaccount:fairlead-system:fairlead")
    while (
        "hostNetwork.namespaces" not in kubectl("create", "--dry-run=server", "-f", "-", stdin=refused, check=False).stderr
        or kubectl(*rights, check=False).returncode != 0
    ):
        assert time.monotonic() < deadline, "the admission policy or the operator's rights did not come into force"
        time.sleep(0.1)


async def make_namespace(client: KubeClient, namespace: str) -> None:
    """A namespace with the claims `raw` and `scratch`, bound to volumes of `dtn-a` and `dtn-b`."""
    await client.create(ResourceKind("v1", "namespaces", namespaced=False), namespace, _namespace(namespace))
    for claim, node in (("raw", "dtn-a"), ("scratch", "dtn-b")):
        volume = f"{namespace}-{claim}"
        await client.create(VOLUMES, namespace, _volume(volume, node))
        await client.create(CLAIMS, namespace, _claim(namespace, claim, volume))
        bound = {"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}
        await client.merge_patch(CLAIMS, namespace, claim, bound, subresource="status")


async def release(client: KubeClient, namespace: str) -> None:
    """Removes the namespace's jobs and pods, all paths and data transfer nodes: the next test's operator must not meet them."""
    jobs = [job["metadata"] async for page in client.list_pages(JOBS, namespace) for job in page]
    for job in jobs:
        with contextlib.suppress(NotFoundError):
            if job.get("finalizers"):
                await client.merge_patch(JOBS, namespace, job["name"], {"metadata": {"finalizers": None}})
            await client.delete(JOBS, namespace, job["name"], uid=job["uid"])
    # No garbage collector runs here, and ports that a pod left behind holds are not given to the next test's.
    for pod in [pod["metadata"] async for page in client.list_pages(PODS, namespace) for pod in page]:
        with contextlib.suppress(NotFoundError):
            await client.delete(PODS, namespace, pod["name"], uid=pod["uid"], grace_seconds=0)
    # What one test's jobs have learnt of a path would be told to the next one's, and likewise where movers may be placed.
    for kind in (PATHS, DTNS):
        # An earlier chart lacks kinds that this checkout has.
        with contextlib.suppress(NotFoundError):
            for left in [body["metadata"] async for page in client.list_pages(kind) for body in page]:
                with contextlib.suppress(NotFoundError):
                    await client.delete(kind, None, left["name"], uid=left["uid"])


def _namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _volume(name: str, node: str) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def _claim(namespace: str, name: str, volume: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
