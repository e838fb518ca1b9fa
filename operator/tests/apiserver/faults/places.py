"""Makes the bed of runs: an API server of its own with the chart in it, or a namespace of one that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import installation
import private_network
from control_plane import CHECKOUT, ControlPlane, find_programs
from lab import LEASE, NAMESPACES, REQUEST_SECONDS, Kubectl, Lab

from fairlead.kube.client import KubeClient, load_configuration
from faults.bed import Bed, ForkServer
from faults.runs import PROXY_HOST, PROXY_PORT, clear

OPERATOR = "system:serviceaccount:fairlead-system:fairlead"


@asynccontextmanager
async def bed_of(plane: ControlPlane, admin: Path, namespace: str, folder: Path) -> AsyncIterator[Bed]:
    """Runs in a namespace."""
    plane.kubeconfig(OPERATOR, stem="operator")
    certificate, key = plane.identity("operator")
    through_proxy = folder / "proxy.kubeconfig"
    through_proxy.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
        "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        f"clusters: [{{name: test, cluster: {{server: 'http://{PROXY_HOST}:{PROXY_PORT}'}}}}]\n"
        "users: [{name: test, user: {}}]\n"
    )
    client = KubeClient(await load_configuration(admin), timeout_seconds=REQUEST_SECONDS)
    # One identity for all operators of a bed: none of them lives beside the next one, which need not wait for the Lease's end.
    options = {"identity": "operator", "lease": LEASE}
    flags = Lab(namespace, client, Kubectl(Path(), Path()), through_proxy, options).operator_flags()
    forkserver = ForkServer()
    try:
        await forkserver.start()
        pairs = (flag.removeprefix("--").split("=", 1) for flag in flags)
        yield Bed(client, namespace, plane.url, plane.ca, certificate, key, folder, forkserver, dict(pairs))
    finally:
        await forkserver.stop()
        await client.close()


@asynccontextmanager
async def own_bed(folder: Path) -> AsyncIterator[Bed]:
    """Runs on an API server that is started for them, in a network namespace of this process."""
    programs = find_programs()
    private_network.enter()
    plane = ControlPlane(folder, programs)
    try:
        plane.start()
        admin = plane.kubeconfig("admin", ("system:masters",))
        installation.install(Kubectl(programs["kubectl"], admin), CHECKOUT / "charts" / "fairlead")
        async with bed_of(plane, admin, NAMESPACES[0], folder) as bed:
            await installation.make_namespace(bed.client, bed.namespace)
            yield bed
            await clear(bed)
    finally:
        plane.stop()
