"""Starts an API server in a network namespace of its own, installs what the chart renders, and gives every test a namespace."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import installation
import private_network
import pytest
from control_plane import CHECKOUT, ControlPlane, find_programs
from lab import NAMESPACES, REQUEST_SECONDS, Kubectl, Lab

from fairlead.kube.client import KubeClient, load_configuration

_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first, so that nothing waits for them in the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


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
    installation.install(
        kubectl, CHECKOUT / "charts" / "fairlead", *installation.NARROW_IDENTITIES, "cilium.bandwidthManager=auto", "kueue.enabled=true"
    )


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig("system:serviceaccount:fairlead-system:fairlead")


@pytest.fixture
async def lab(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path, operator_kubeconfig: Path) -> AsyncIterator[Lab]:
    client = KubeClient(await load_configuration(admin_kubeconfig), timeout_seconds=REQUEST_SECONDS)
    namespace = NAMESPACES[next(_numbers)]
    await installation.make_namespace(client, namespace)
    try:
        yield Lab(namespace, client, kubectl, operator_kubeconfig)
    finally:
        await installation.release(client, namespace)
        await client.close()
