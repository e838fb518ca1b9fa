"""Puts one operator under load on a real API server: prints a table, writes build/bench/load.json.

Nodes, kubelets and movers are simulated by one process, and movers answer 100 ms later, as from far away; API server, etcd and operator
are real, and all share this machine's processors. So jobs per second are those of the whole, and the operator's own part is its
processor time. Needs root and the built programs.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import installation
import private_network
from control_plane import CHECKOUT, ControlPlane, find_programs
from lab import LEASE, NAMESPACES, REQUEST_SECONDS, Kubectl
from load import links, measure
from load.cluster import LoadedCluster
from load.movers import FarMovers

from fairlead.kube.client import KubeClient, ResourceKind, load_configuration
from fairlead_dev.bench.rows import Row, heading, line, write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.stopping import exit_code, stoppable

PORTS = range(24000, 26000)
TENANTS = 8
PARTS = ("throughput", "live", "cap-fall", "cold-start", "takeover", "idle", "links", "placed")


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much load."""
    parser.add_argument("--jobs", type=int, default=500, help="jobs that come at once and end at once [%(default)s]")
    parser.add_argument("--live", type=int, default=500, help="jobs that transfer at the same time [%(default)s]")
    parser.add_argument("--placed", type=int, default=0, help="jobs that are created at once and transfer on, after all else [%(default)s]")
    parser.add_argument("--until", choices=PARTS, default=PARTS[-1], help="the last part that is measured [%(default)s]")
    parser.add_argument("--nodes", type=int, default=100, help="data transfer nodes [%(default)s]")
    parser.add_argument("--round-trip-ms", type=float, default=100.0, help="how far away movers are [%(default)s]")


def run(options: argparse.Namespace) -> int:
    """Measures all parts, prints and writes."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    private_network.enter()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="fairlead-load-") as folder:
        rows = stoppable(_measure(options, Path(folder)))
    rows.append(Row("load_before", round(load_before, 2), "processes", more={"processors": os.cpu_count()}))
    print(heading())
    for row in rows:
        print(line(row))
    write(rows, options.output)
    return 0


async def _measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    programs = find_programs()
    plane = ControlPlane(folder, programs)
    try:
        plane.start()
        admin = plane.kubeconfig("admin", ("system:masters",))
        installation.install(Kubectl(programs["kubectl"], admin), CHECKOUT / "charts" / "fairlead")
        client = KubeClient(await load_configuration(admin), timeout_seconds=REQUEST_SECONDS)
        try:
            movers = FarMovers(PORTS, options.round_trip_ms / 1e3)
            cluster = LoadedCluster(client, movers, options.nodes)
            namespaces = list(NAMESPACES[:TENANTS])
            for name in namespaces:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await client.create(ResourceKind("v1", "namespaces", namespaced=False), None, body)
            await cluster.install(namespaces)
            lab = measure.LoadLab(plane, cluster, namespaces, _flags(plane), folder)
            async with cluster.running():
                return await _parts(lab, options)
        finally:
            await client.close()
    finally:
        plane.stop()


async def _parts(lab: measure.LoadLab, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    async with aclosing(_measured(lab, options)) as parts:
        async for part, found in parts:
            rows.extend(found)
            for row in found:
                print(line(row), file=sys.stderr, flush=True)
            if part == options.until:
                break
    return rows


async def _measured(lab: measure.LoadLab, options: argparse.Namespace) -> AsyncGenerator[tuple[str, list[Row]]]:
    """Each of `PARTS` with its rows; the next one is measured when it is asked for."""
    async with lab.operator() as operator:
        yield "throughput", await measure.throughput(lab, operator, options.jobs)
        yield "live", await measure.live(lab, operator, options.live)
        yield "cap-fall", await measure.cap_fall(lab)
    yield "cold-start", await measure.cold_start(lab, options.live)
    yield "takeover", await measure.takeover(lab)
    yield "idle", await measure.idle(lab, options.jobs + options.live)
    yield "links", links.rounds_over_links()
    if options.placed:
        yield "placed", await measure.placed(lab, options.placed)


def _flags(plane: ControlPlane) -> dict[str, str]:
    """Those of the chart; what is not named has its default."""
    return {
        "mover-image": "fairlead-mover:test",
        "advisor-image": "fairlead-advisor:test",
        "kubeconfig": str(plane.kubeconfig(measure.ACCOUNT)),
        "lease": LEASE,
        "host-network-namespaces": ",".join(NAMESPACES),
        "log-format": "plain",
    }


BENCH = BenchCommand("load", __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(exit_code("load", BENCH.main))
