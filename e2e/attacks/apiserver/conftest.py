"""A real API server with the attacked checkout's chart in it, once for each worker, and a namespace for each attack."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import installation
import private_network
import pytest
from control_plane import ControlPlane, find_programs
from kubelet import FakeNodes
from lab import NAMESPACES, REQUEST_SECONDS, Kubectl

from e2e.attacks.lib.target import Target
from e2e.attacks.lib.victim import TENANT, Site, operator_environment
from fairlead.kube.client import KubeClient, load_configuration

_numbers = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server in a network namespace of its own."""
    private_network.enter()
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), find_programs())
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    """kubectl as the administrator."""
    return Kubectl(find_programs()["kubectl"], control_plane.kubeconfig("admin", ("system:masters",)))


@pytest.fixture(scope="session")
def environment(kubectl: Kubectl, target: Target) -> dict[str, str]:
    """Installs the attacked chart; the settings that it gives to the operator."""
    return operator_environment(installation.install(kubectl, target.chart))


@asynccontextmanager
async def _site(
    environment: dict[str, str], kubectl: Kubectl, control_plane: ControlPlane, target: Target, folder: Path
) -> AsyncIterator[Site]:
    client = KubeClient(await load_configuration(kubectl.kubeconfig), timeout_seconds=REQUEST_SECONDS)
    namespace = NAMESPACES[next(_numbers)]
    await installation.make_namespace(client, namespace)
    kubectl("-n", namespace, "create", "rolebinding", "tenant", "--clusterrole=cluster-admin", f"--user={TENANT}")
    operator = control_plane.kubeconfig("system:serviceaccount:fairlead-system:fairlead")
    try:
        yield Site(namespace, client, kubectl, operator, target=target, environment=environment, folder=folder)
    finally:
        await installation.release(client, namespace)
        await client.close()


@pytest.fixture
async def site(
    environment: dict[str, str], kubectl: Kubectl, control_plane: ControlPlane, target: Target, tmp_path: Path
) -> AsyncIterator[Site]:
    """A namespace where the tenant may do everything, with claims on two nodes, and the operator when `site.operator()` is entered."""
    async with _site(environment, kubectl, control_plane, target, tmp_path) as made:
        yield made


@pytest.fixture
async def neighbour(
    environment: dict[str, str], kubectl: Kubectl, control_plane: ControlPlane, target: Target, tmp_path: Path
) -> AsyncIterator[Site]:
    """The namespace of another tenant, whom `site`'s is to harm."""
    async with _site(environment, kubectl, control_plane, target, tmp_path) as made:
        yield made


@pytest.fixture
async def nodes(site: Site) -> AsyncIterator[FakeNodes]:
    """The two nodes of the namespace, whose movers say what the attack sets."""
    async with FakeNodes(site.client, site.namespace).running() as running:
        yield running
