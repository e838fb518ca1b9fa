"""Jobs in a queue of Kueue, by Kueue itself beside a real API server: `make test-kueue` builds it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT, ControlPlane
from kubelet import FakeNodes
from lab import PATIENCE_SECONDS, Kubectl, Lab, eventually

from fairlead.api import names
from fairlead.core.queueing import BANDWIDTH, QUEUE_LABEL
from fairlead.kube.client import JOBS, KubeObject

HEALTH = "http://127.0.0.1:18082/readyz"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Definitions whose versions Kueue's own webhook converts."""


def _definitions(ca: Path) -> list[KubeObject]:
    module = CHECKOUT / "hack" / "cluster" / "go" / "kueue"
    listed = subprocess.run(
        ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"], cwd=module, capture_output=True, text=True, check=True
    )
    bodies = [yaml.safe_load(path.read_text()) for path in Path(listed.stdout.strip(), "config/components/crd/bases").glob("*.yaml")]
    client = {"url": "https://127.0.0.1:9443/convert", "caBundle": base64.b64encode(ca.read_bytes()).decode()}
    for body in bodies:
        if body["spec"]["names"]["plural"] in CONVERTED:
            webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
            body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return bodies


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane, kubectl: Kubectl, cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kueue with a ClusterQueue of 1 Gb/s. It has no admission webhooks here, only the one that converts versions."""
    folder = tmp_path_factory.mktemp("kueue")
    for body in _definitions(control_plane.ca):
        kubectl.apply(body, server_side=True)
    kubectl("create", "namespace", "kueue-system")
    certificates = folder / "upper" / "kueue" / "metrics" / "certs"
    certificates.mkdir(parents=True)
    shutil.copy(control_plane.server_certificate, certificates / "tls.crt")
    shutil.copy(control_plane.server_key, certificates / "tls.key")
    (folder / "work").mkdir()
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": HEALTH.split("/")[2]},
        "metrics": {"bindAddress": "127.0.0.1:18443"},
        "webhook": {"port": 9443, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    # Kueue reads the certificate of its metrics from a fixed place below /etc.
    layers = f"lowerdir=/etc,upperdir={folder / 'upper'},workdir={folder / 'work'}"
    mounted = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--",
        "sh",
        "-c",
        'mount -t overlay -o "$0" overlay /etc && exec "$@"',
        layers,
    ]
    program = [CHECKOUT / "build" / "bin" / "kueue", "--config", folder / "config.yaml", "--kubeconfig", kubectl.kubeconfig]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*mounted, *map(str, program), "--feature-gates=VisibilityOnDemand=false"], stdout=log, stderr=log)
    try:
        _wait_until_ready(process, folder / "log")
        _make_queue(kubectl)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(HEALTH, timeout=5):
                return
        except OSError:
            time.sleep(0.2)


def _make_queue(kubectl: Kubectl) -> None:
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    quota = {"name": "wan", "resources": [{"name": BANDWIDTH, "nominalQuota": "1G"}]}
    spec: dict[str, Any] = {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}}
    spec["resourceGroups"] = [{"coveredResources": [BANDWIDTH], "flavors": [quota]}]
    kubectl.apply({**version, "kind": "ResourceFlavor", "metadata": {"name": "wan"}}, server_side=True)
    kubectl.apply({**version, "kind": "ClusterQueue", "metadata": {"name": "uplink"}, "spec": spec}, server_side=True)


async def _submit(lab: Lab, name: str, **spec: Any) -> None:
    manifest = lab.manifest(name, suspend=True, **spec)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "bulk"}
    await lab.client.create(JOBS, lab.namespace, manifest)


async def _start(lab: Lab, nodes: FakeNodes, job: str, attempt: int = 1) -> KubeObject:
    """Both movers of the job's attempt; returns the receiver."""
    found = []
    for role in ("receiver", "sender"):

        async def look(role: str = role) -> KubeObject | None:
            for pod in await lab.pods():
                labels = pod["metadata"]["labels"]
                of_job = pod["metadata"]["annotations"].get(names.ANNOTATION_JOB) == job
                if of_job and (labels.get(names.LABEL_ROLE), labels.get(names.LABEL_ATTEMPT)) == (role, str(attempt)):
                    return pod
            return None

        found.append(await eventually(look, f"the {role} of {job}", lambda: lab.job(job)))
        await nodes.start(found[-1])
    await lab.condition("MoversReady", name=job)
    return found[0]


def _workloads(lab: Lab) -> dict[str, set[str]]:
    """The conditions that are true of each job's Workload."""
    items = json.loads(lab.kubectl("-n", lab.namespace, "get", "workloads.kueue.x-k8s.io", "-o", "json").stdout)["items"]
    return {
        each["metadata"]["ownerReferences"][0]["name"]: {
            condition["type"] for condition in each.get("status", {}).get("conditions", []) if condition["status"] == "True"
        }
        for each in items
    }


async def test_a_job_is_admitted_displaced_by_a_more_urgent_one_and_goes_on_when_that_has_ended(kueue: None, lab: Lab) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "uplink"}}
    lab.kubectl.apply({**queue, "metadata": {"name": "bulk", "namespace": lab.namespace}}, server_side=True)
    lab.options["kueue"] = "true"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await _submit(lab, "ordinary", bandwidth={"limit": "600M"})
        await _start(lab, nodes, "ordinary")

        await _submit(lab, "next", bandwidth={"limit": "600M"})

        async def waits() -> bool:
            return "next" in _workloads(lab) and (await lab.job("next"))["spec"]["suspend"]

        await eventually(waits, "the next job to wait for bandwidth", lambda: lab.job("next"))

        await _submit(lab, "urgent", bandwidth={"limit": "800M"}, priority=50)
        receiver = await _start(lab, nodes, "urgent")
        await lab.condition("Suspended", name="ordinary")
        assert "Admitted" not in _workloads(lab)["ordinary"]
        assert "Admitted" not in _workloads(lab)["next"]

        await nodes.finish(receiver)
        await lab.condition("Succeeded", name="urgent")

        async def told() -> bool:
            return "Finished" in _workloads(lab)["urgent"]

        await eventually(told, "Kueue to be told that the urgent job has ended", lambda: lab.job("urgent"))
        await _start(lab, nodes, "ordinary", attempt=2)
        assert (await lab.job("next"))["spec"]["suspend"]
