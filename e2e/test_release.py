"""The release while data move: an upgrade from the chart and images before these, `helm test`, and two ways to uninstall."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import BUILD
from e2e.lib import guard, install
from e2e.lib.history import condition
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_CLAIM, DESTINATION_NODE, FOLDER, SOURCE_CLAIM, SOURCE_NODE
from e2e.lib.slow import start_slowly
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.clients.release import PARTS, RELEASE, RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import compare

pytestmark = [pytest.mark.release, pytest.mark.exclusive, pytest.mark.timeout(1800)]

DATA = Path(__file__).resolve().parents[1] / "hack" / "tests" / "chart" / "data"
PREVIOUS_CHART = DATA / "fairlead-0.1.0.tgz"
PREVIOUS_TAG = (DATA / "previous-commit").read_text()[:12]
"""As `hack/cluster/cluster images --of` tags the images of the commit that the chart is of."""

BYTES = 80_000_000
SLOW = {"limit": "2M"}
"""The data last for more than five minutes, until a test lifts the limit."""
GUARDED = {"nodeGuard": {"enabled": True}}
CRDS = tuple(f"{plural}.fairlead.io" for plural in ("datatransfernodes", "fairnesspolicies", "networkpaths", "transferjobs"))
CLUSTER_KINDS = (
    "clusterroles",
    "clusterrolebindings",
    "priorityclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)
KINDS = (
    *("deployments", "daemonsets", "jobs", "pods", "services", "configmaps", "secrets", "serviceaccounts"),
    *("roles", "rolebindings", "networkpolicies", "poddisruptionbudgets"),
)


@pytest.fixture
def installed(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[None]:
    """No release and no definitions: each test installs what it is about."""
    install.uninstall(cluster)
    remove_definitions(kubectl)
    yield


def remove_definitions(kubectl: Kubectl) -> None:
    kubectl.delete("crd", CRDS, wait_s=PATIENCE_S)


def install_present(lab: Lab, **more: Any) -> None:
    """The chart and images under test."""
    install.install(lab.cluster, {lab.namespace}, str(time.time_ns()), BUILD, more)


def operators(kubectl: Kubectl) -> list[Object]:
    return kubectl.list("pods", namespace=RELEASE_NAMESPACE, selector="app.kubernetes.io/component=operator")


def final_names(lab: Lab) -> list[bytes]:
    """Files at the destination that are no partial ones."""
    return [path for path, entry in lab.listing(lab.destination).items() if entry.kind != "d" and b".fairlead-" not in path]


def of_the_release(kubectl: Kubectl) -> list[str]:
    """Objects of the release, in whichever namespace; its definitions and its namespaces are looked at apart."""
    return [
        f"{each['kind']}/{each['metadata']['name']}"
        for kind in KINDS
        for each in kubectl.list(kind, selector=f"app.kubernetes.io/instance={RELEASE}")
    ]


def assert_nothing_is_left_behind(lab: Lab, kubectl: Kubectl) -> None:
    lab.wait_no_mover_pods()
    assert [secret["metadata"]["name"] for secret in kubectl.list("secrets", namespace=lab.namespace)] == []
    assert final_names(lab) == []
    wait_until(lambda: not of_the_release(kubectl), "no object of the release", last_seen=lambda: of_the_release(kubectl))
    for node in (SOURCE_NODE, DESTINATION_NODE):
        assert not guard.has_rules(lab.cluster, node)


def test_a_transfer_outlives_the_upgrade_from_the_chart_and_images_before_these(lab: Lab, kubectl: Kubectl) -> None:
    install.install(lab.cluster, {lab.namespace}, str(time.time_ns()), BUILD, {}, PREVIOUS_CHART, PREVIOUS_TAG)
    job = start_slowly(lab, BYTES, SLOW)
    movers = {pod["metadata"]["uid"]: pod for pod in job.pods()}
    images = {container["image"] for pod in [*movers.values(), *operators(kubectl)] for container in pod["spec"]["containers"]}
    assert {image.rpartition(":")[2] for image in images} == {PREVIOUS_TAG}

    # As docs/how-to/upgrade.md has it, and these images.
    tags = [word for part in PARTS for word in ("--set-string", f"images.{part}.tag={install.TAG}")]
    words = ("upgrade", RELEASE, str(install.chart_of(lab.cluster)), "--reset-then-reuse-values", "--wait")
    install.helm(lab.cluster, *words, "--timeout", install.HELM_TIMEOUT, *tags)
    upgraded = len(job.changes)
    assert {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in operators(kubectl) if is_up(pod)} == {install.TAG}
    wait_until(lambda: len(job.changes) > upgraded, "a status that the new operator has written", last_seen=lambda: job.status)
    assert job.status["phase"] == "Transferring"

    job.patch(bandwidth=None)
    done = job.wait_succeeded()
    assert done["status"]["attempts"] == 1, done["status"].get("lastFailure")
    assert {change.object["metadata"]["uid"] for change in lab.pod_versions()} == movers.keys()
    assert lab.partial_files() == []
    lab.assert_equal()

    again = lab.submit("again", destination={"path": "again"})
    again.wait_succeeded()
    assert compare(lab.listing(lab.source, FOLDER), lab.listing(lab.destination, "again")) == []


def is_up(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def test_helm_test_moves_a_file_and_removes_what_it_made(lab: Lab, kubectl: Kubectl) -> None:
    ends = {
        "source": {"node": SOURCE_NODE, "claimName": SOURCE_CLAIM},
        "destination": {"node": DESTINATION_NODE, "claimName": DESTINATION_CLAIM},
    }
    install_present(lab, test={"namespace": lab.namespace, **ends})
    carried_before = lab.cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE)
    printed = install.helm(lab.cluster, "test", RELEASE, "--logs", "--timeout", "10m", timeout_s=900)
    assert "Phase:          Succeeded" in printed
    assert "16000000 bytes" in printed
    assert lab.cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE) - carried_before > 16_000_000
    assert lab.listing(lab.source) == lab.listing(lab.destination) == {}
    wait_until(lambda: not kubectl.list("pods", namespace=lab.namespace), "no pod is left")
    assert kubectl.list("transferjobs", namespace=lab.namespace) == []
    assert kubectl.list("clusterroles", selector="app.kubernetes.io/component=test") == []
    # It stays for its log, and is no part of the release: docs/how-to/uninstall.md.
    kubectl.delete("pod", [f"{RELEASE}-test"], namespace=RELEASE_NAMESPACE, wait_s=PATIENCE_S)


def test_an_uninstallation_in_mid_transfer_lets_the_job_go_and_a_new_installation_goes_on_with_it(lab: Lab, kubectl: Kubectl) -> None:
    install_present(lab, **GUARDED)
    wait_until(lambda: guard.runs(kubectl), "the guard on every node")
    job = start_slowly(lab, BYTES, SLOW)
    assert job.object["metadata"]["finalizers"]

    install.uninstall(lab.cluster)

    assert_nothing_is_left_behind(lab, kubectl)
    assert {each["metadata"]["name"] for each in kubectl.list("crd")} >= {*CRDS}
    kept = kubectl.get("transferjob", job.name, namespace=lab.namespace)
    assert kept is not None
    assert kept["metadata"].get("finalizers", []) == []
    assert kept["status"]["phase"] == "Transferring"
    assert lab.partial_files(), "what has arrived was to be kept"
    kubectl.delete("namespace", [RELEASE_NAMESPACE, guard.NAMESPACE], wait_s=PATIENCE_S)

    install_present(lab)
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts") == 2, "a second attempt")
    job.patch(bandwidth=None)
    done = job.wait_succeeded()
    succeeded = condition(done, "Succeeded")
    assert succeeded is not None
    assert "bytes were there from earlier attempts" in succeeded["message"]
    assert lab.partial_files() == []
    lab.assert_equal()


def test_an_uninstallation_that_takes_the_definitions_along_removes_jobs_and_partial_files(lab: Lab, kubectl: Kubectl) -> None:
    install_present(lab, crds={"install": True, "keep": False}, **GUARDED)
    wait_until(lambda: guard.runs(kubectl), "the guard on every node")
    start_slowly(lab, BYTES, SLOW)
    assert lab.partial_files()

    install.uninstall(lab.cluster)

    assert_nothing_is_left_behind(lab, kubectl)
    assert lab.partial_files() == []
    assert {each["metadata"]["name"] for each in kubectl.list("crd")} & {*CRDS} == set()
    kubectl.delete("namespace", [lab.namespace, RELEASE_NAMESPACE, guard.NAMESPACE], wait_s=PATIENCE_S)
