"""`fairlead guard --node NAME`: holds this node's senders to their caps, whatever they do. Needs CAP_NET_ADMIN and CAP_BPF."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes.aio.client import Configuration

from fairlead.guard.cgroups import NetworkClasses, PodGroups, classes_root, unified_root
from fairlead.guard.holds import Holds, RulesRefusedError
from fairlead.guard.loop import Guard, Pod
from fairlead.guard.programs import CgroupPrograms
from fairlead.guard.senders import JobRef
from fairlead.guard.serve import metrics_page
from fairlead.kube.client import JOBS, PODS, Change, ClientConfigurationError, KubeClient, load_configuration
from fairlead.kube.observe.pods import MOVER_SELECTOR
from fairlead.pages import PageServer, probe_page, read_address

EXIT_FAILED = 1
WATCH_SECONDS = 300
"""A watch ends after so long and everything is listed again, which also finds what a watch may have missed."""
SILENCE_SECONDS = 90.0
"""API servers tell each watch about once a minute how far it has come. Not where nothing at all changes: then a new watch costs little."""
_CGROUPS = "/sys/fs/cgroup"
_ADDRESS = ":9810"

logger = logging.getLogger("fairlead.guard")


def main(arguments: Sequence[str]) -> int:
    """Runs until a signal. Returns the exit code: 0 stopped, 1 failed."""
    parser = argparse.ArgumentParser(prog="fairlead guard", description=__doc__)
    parser.add_argument("--node", default=os.environ.get("FAIRLEAD_NODE", ""), help="the node's name (FAIRLEAD_NODE)")
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file; without it the pod's service account is used")
    cgroups = Path(os.environ.get("FAIRLEAD_CGROUPS", _CGROUPS))
    parser.add_argument(
        "--cgroups", type=Path, default=cgroups, help=f"where the node's control groups are (FAIRLEAD_CGROUPS) [{_CGROUPS}]"
    )
    address = os.environ.get("FAIRLEAD_GUARD_ADDRESS", _ADDRESS)
    parser.add_argument(
        "--address",
        default=address,
        help=f"where probes and metrics are served; without a host on all addresses (FAIRLEAD_GUARD_ADDRESS) [{_ADDRESS}]",
    )
    options = parser.parse_args(arguments)
    if not options.node:
        parser.error("--node (FAIRLEAD_NODE): missing: give the name of the node that this runs on")
    try:
        host, port = read_address(options.address)
    except ValueError as error:
        parser.error(f"--address (FAIRLEAD_GUARD_ADDRESS): {options.address!r}: {error}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_run(options.node, options.kubeconfig, options.cgroups, host, port))
    except (ClientConfigurationError, OSError) as error:
        print(f"fairlead guard: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


class NodePods:
    """The movers of one node and their jobs, as the API server shows them."""

    def __init__(self, configuration: Configuration, node: str) -> None:
        # Each watch keeps a connection.
        configuration.connection_pool_maxsize = 0
        self._kube = KubeClient(configuration)
        self._on_node = f"spec.nodeName={node}"
        self._listed = ""
        """The version of the list; none stands for all pods once more."""

    async def close(self) -> None:
        """Closes the connections."""
        await self._kube.close()

    async def now(self) -> list[Pod]:
        """All of them. Raises KubeError."""
        pages = self._kube.list_pages(PODS, label_selector=MOVER_SELECTOR, field_selector=self._on_node, on_version=self._note)
        return [pod async for page in pages for pod in page]

    def _note(self, version: str) -> None:
        self._listed = version

    async def changes(self) -> AsyncIterator[Change]:
        """What becomes of the node's pods since they were listed, others' among them, for some minutes. Raises KubeError."""
        async for change in self._kube.changes(
            PODS, self._listed, WATCH_SECONDS, field_selector=self._on_node, silence_seconds=SILENCE_SECONDS
        ):
            yield change

    async def job(self, job: JobRef) -> AsyncIterator[Mapping[str, Any]]:
        """A job as it is, then each change of it, for some minutes. Raises KubeError."""
        of_name = f"metadata.name={job.name}"
        async for change in self._kube.changes(
            JOBS, "", WATCH_SECONDS, namespace=job.namespace, field_selector=of_name, silence_seconds=SILENCE_SECONDS
        ):
            if change.kind != "DELETED":
                yield change.body


def means(cgroups: Path) -> tuple[CgroupPrograms | None, NetworkClasses | None]:
    """What this node offers to hold what a pod's processes send, by where its control groups are."""
    unified, classes = unified_root(cgroups), classes_root(cgroups)
    programs = None
    if unified is None:
        logger.warning("there are no control groups of version 2 below %s", cgroups)
    else:
        programs = CgroupPrograms(PodGroups(unified))
        try:
            programs.check()
        except OSError as error:
            logger.warning(
                "no programs can be put at control groups (Linux 5.12 or later, CAP_BPF, and under SELinux the type spc_t): %s", error
            )
            programs = None
    if programs is None and classes is None:
        logger.warning("nor network classes: senders are held where they send to their receivers, and nowhere else")
    return programs, NetworkClasses(classes) if programs is None and classes is not None else None


async def _run(node: str, kubeconfig: Path | None, cgroups: Path, host: str, port: int) -> None:
    pods = NodePods(await load_configuration(kubeconfig), node)
    programs, classes = means(cgroups)
    holds = Holds(programs=programs, classes=classes, install=install, check=check)
    guard = Guard(pods=pods.now, changes=pods.changes, jobs=pods.job, holds=holds)
    pages = {
        "/healthz": probe_page(lambda: guard.is_alive),
        "/readyz": probe_page(lambda: guard.is_synced),
        "/metrics": metrics_page(holds),
    }
    server = await PageServer(pages).start(host, port)
    task = asyncio.ensure_future(guard.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    logger.info("guarding node %s", node)
    try:
        await task
    except asyncio.CancelledError:
        logger.info("stopped; caps stay in force")
    finally:
        server.close()
        await pods.close()


async def install(script: str) -> None:
    """Gives a script to `nft`, which takes it as a whole or not at all. Raises RulesRefusedError."""
    await _nft(script)


async def check(script: str) -> None:
    """Asks `nft` whether it would take a script, and changes nothing. Raises RulesRefusedError."""
    await _nft(script, "--check")


async def _nft(script: str, *options: str) -> None:
    try:
        nft = await asyncio.create_subprocess_exec(
            "nft", *options, "-f", "-", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise RulesRefusedError(f"nft cannot be started ({error.strerror}): install the package nftables") from error
    _, output = await nft.communicate(script.encode())
    if nft.returncode:
        raise RulesRefusedError(f"nft refused the rules: {output.decode(errors='replace').strip()}")
