"""Starts an API server in a network namespace of its own, installs what the chart renders, and gives every test a namespace."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import private_network
import pytest
from control_plane import CHECKOUT, ControlPlane, find_programs
from lab import NAMESPACES, NODES, NOT_ALLOWED, PATIENCE_SECONDS, Kubectl, Lab, transfer_job

from fairlead.kube.client import CLAIMS, JOBS, PATHS, PODS, VOLUMES, KubeClient, ResourceKind, load_configuration
from fairlead.kube.errors import NotFoundError

_numbers = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    programs = find_programs()
    private_network.enter()
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), programs)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def admin_kubeconfig(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig("admin", ("system:masters",))


@pytest.fixture(scope="session")
def kubectl(admin_kubeconfig: Path) -> Kubectl:
    return Kubectl(find_programs()["kubectl"], admin_kubeconfig)


@pytest.fixture(scope="session")
def cluster(kubectl: Kubectl) -> None:
    """Nodes, namespaces, and everything that the chart renders except the workload."""
    kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [_namespace(name) for name in ("fairlead-system", NOT_ALLOWED)]})
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
            *(str(find_programs()["helm"]), "template", "fairlead", str(CHECKOUT / "charts" / "fairlead")),
            *("--namespace", "fairlead-system", "--kube-version", "1.34.0", "--set", f"hostNetwork.namespaces={{{','.join(NAMESPACES)}}}"),
            # The images of `Lab.operator_options`: the admission policies know no others.
            *("--set", "images.mover.tag=test", "--set", "images.advisor.tag=test"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    kinds = [f"crd/{kind}.fairlead.io" for kind in ("transferjobs", "fairnesspolicies", "networkpaths")]
    kubectl("wait", "--for=condition=Established", f"--timeout={PATIENCE_SECONDS:.0f}s", *kinds)
    _wait_until_in_force(kubectl)


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


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig("system:serviceaccount:fairlead-system:fairlead")


@pytest.fixture
async def lab(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path, operator_kubeconfig: Path) -> AsyncIterator[Lab]:
    client = KubeClient(await load_configuration(admin_kubeconfig))
    namespace = NAMESPACES[next(_numbers)]
    await client.create(ResourceKind("v1", "namespaces", namespaced=False), namespace, _namespace(namespace))
    for claim, node in (("raw", "dtn-a"), ("scratch", "dtn-b")):
        volume = f"{namespace}-{claim}"
        await client.create(VOLUMES, namespace, _volume(volume, node))
        await client.create(CLAIMS, namespace, _claim(namespace, claim, volume))
        bound = {"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}
        await client.merge_patch(CLAIMS, namespace, claim, bound, subresource="status")
    try:
        yield Lab(namespace, client, kubectl, operator_kubeconfig)
    finally:
        # The next test's operator serves every namespace and must not meet this one's jobs.
        await _release(client, namespace)
        await client.close()


async def _release(client: KubeClient, namespace: str) -> None:
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
    # What one test's jobs have learnt of a path would be told to the next one's.
    for path in [path["metadata"] async for page in client.list_pages(PATHS) for path in page]:
        with contextlib.suppress(NotFoundError):
            await client.delete(PATHS, None, path["name"], uid=path["uid"])


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
