"""`fairlead guard --node NAME`: holds the caps of this node's senders with nftables until it is stopped. Needs CAP_NET_ADMIN."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from kubernetes.aio import client, watch

from fairlead.guard.loop import Change, Guard, Pod, RulesRefusedError
from fairlead.kube.client import PODS, ClientConfigurationError, KubeClient, load_configuration
from fairlead.kube.observe.pods import MOVER_SELECTOR

WATCH_SECONDS = 300
"""A watch ends after so long and everything is listed again, which also finds what a watch may have missed."""
EXIT_FAILED = 1

logger = logging.getLogger("fairlead.guard")


def main(arguments: Sequence[str]) -> int:
    """Runs until a signal. Returns the exit code: 0 stopped, 1 failed."""
    parser = argparse.ArgumentParser(prog="fairlead guard", description=__doc__)
    parser.add_argument("--node", default=os.environ.get("FAIRLEAD_NODE", ""), help="the node's name (FAIRLEAD_NODE)")
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file; without it the pod's service account is used")
    options = parser.parse_args(arguments)
    if not options.node:
        parser.error("--node (FAIRLEAD_NODE): missing: give the name of the node that this runs on")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_run(options.node, options.kubeconfig))
    except (ClientConfigurationError, RulesRefusedError) as error:
        print(f"fairlead guard: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


class NodePods:
    """The movers of one node, as the API server shows them."""

    def __init__(self, configuration: client.Configuration, node: str) -> None:
        self._configuration = configuration
        self._kube = KubeClient(configuration)
        self._on_node = f"spec.nodeName={node}"

    async def close(self) -> None:
        """Closes the connections."""
        await self._kube.close()

    async def now(self) -> list[Pod]:
        """All of them. Raises KubeError."""
        pages = self._kube.list_pages(PODS, label_selector=MOVER_SELECTOR, field_selector=self._on_node)
        return [pod async for page in pages for pod in page]

    async def changes(self) -> AsyncIterator[Change]:
        """What becomes of them, for some minutes; it begins with all of them once more."""
        async with client.ApiClient(self._configuration) as api, watch.Watch() as events:  # type: ignore[no-untyped-call]
            listing = client.CoreV1Api(api).list_pod_for_all_namespaces
            wanted = {"label_selector": MOVER_SELECTOR, "field_selector": self._on_node, "timeout_seconds": WATCH_SECONDS}
            async for event in events.stream(listing, **wanted):
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    yield event["type"], event["raw_object"]


async def _run(node: str, kubeconfig: Path | None) -> None:
    pods = NodePods(await load_configuration(kubeconfig), node)
    task = asyncio.ensure_future(Guard(pods=pods.now, changes=pods.changes, install=install).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    logger.info("guarding node %s", node)
    try:
        await task
    except asyncio.CancelledError:
        logger.info("stopped; the node has no rules of ours any more")
    finally:
        await pods.close()


async def install(script: str) -> None:
    """Gives a script to `nft`, which takes it as a whole or not at all. Raises RulesRefusedError."""
    try:
        nft = await asyncio.create_subprocess_exec(
            "nft", "-f", "-", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise RulesRefusedError(f"nft cannot be started ({error.strerror}): install the package nftables") from error
    _, output = await nft.communicate(script.encode())
    if nft.returncode:
        raise RulesRefusedError(f"nft refused the rules: {output.decode(errors='replace').strip()}")
