"""`fairlead node-agent --node NAME`: describes this node in its DataTransferNode. Needs no privilege."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import logging
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from fairlead.agent.collect import Collector
from fairlead.agent.files import HostFiles
from fairlead.agent.links import read_links
from fairlead.agent.loop import Agent
from fairlead.agent.serve import InterfaceCounters, metrics_page, node_page
from fairlead.agent.storage import StorageReader
from fairlead.api.datatransfernode.status import MOST_STORAGE, AgentStatus
from fairlead.kube.client import ClientConfigurationError, KubeClient, load_configuration
from fairlead.pages import PageServer, probe_page

EXIT_FAILED = 1
_ADDRESS = "0.0.0.0:9811"

logger = logging.getLogger("fairlead.agent")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The command line."""

    node: str
    kubeconfig: Path | None
    root: Path
    host: str
    port: int
    node_addresses: frozenset[str]
    storage: Mapping[str, Path]
    instance: str


def main(arguments: Sequence[str]) -> int:
    """Runs until a signal. Returns the exit code: 0 stopped, 1 failed."""
    options = read_options(arguments, os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_run(options))
    except (ClientConfigurationError, OSError) as error:
        print(f"fairlead node-agent: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


def read_options(arguments: Sequence[str], environment: Mapping[str, str]) -> AgentOptions:
    """The options, by flags or environment. Exits with a message that names the flag where one is wrong."""
    parser = argparse.ArgumentParser(prog="fairlead node-agent", description=__doc__)

    def flag(name: str, what: str, default: str) -> None:
        variable = f"FAIRLEAD_{name.upper().replace('-', '_')}"
        parser.add_argument(f"--{name}", default=environment.get(variable, default), help=f"{what} ({variable}) [{default}]")

    flag("node", "the node's name", "")
    flag("agent-address", "where the report, probes and metrics are served", _ADDRESS)
    flag("node-address", "the kubelet's addresses, separated by commas: the interface that has one is for management", "")
    flag("storage", "file systems, as PATH=FOLDER separated by commas: the path on the node, and where it is mounted here", "")
    flag("instance", "what tells this agent from another one; its pod's UID", "")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where sys and proc are [/]")
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file; without it the pod's service account is used")
    options = parser.parse_args(arguments)
    if not options.node:
        parser.error("--node (FAIRLEAD_NODE): missing: give the name of the node that this runs on")
    host, _, port = options.agent_address.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--agent-address (FAIRLEAD_AGENT_ADDRESS): {options.agent_address!r}: give an address and a port, e.g. {_ADDRESS}")
    try:
        addresses = frozenset(str(ip_address(text.strip())) for text in options.node_address.split(",") if text.strip())
    except ValueError as error:
        parser.error(f"--node-address (FAIRLEAD_NODE_ADDRESS): {error}")
    pairs = [text.partition("=") for text in options.storage.split(",") if text.strip()]
    if len(pairs) > MOST_STORAGE or any(not path.startswith("/") or not folder for path, _, folder in pairs):
        parser.error(f"--storage (FAIRLEAD_STORAGE): give at most {MOST_STORAGE} as PATH=FOLDER, e.g. /data=/host/data")
    return AgentOptions(
        node=options.node,
        kubeconfig=options.kubeconfig,
        root=options.root,
        host=host.strip("[]"),
        port=int(port),
        node_addresses=addresses,
        storage={path: Path(folder) for path, _, folder in pairs},
        instance=options.instance or str(uuid.uuid4()),
    )


async def _run(options: AgentOptions) -> None:
    client = KubeClient(await load_configuration(options.kubeconfig), user_agent="fairlead-node-agent")
    files = HostFiles(options.root)
    collector = Collector(
        files=files,
        links=read_links,
        storage=StorageReader(options.storage),
        management=options.node_addresses,
        agent=AgentStatus(instance=options.instance, version=_version()),
        clock=time.monotonic,
    )
    agent = Agent(
        node=options.node,
        look=lambda: asyncio.to_thread(collector.look),
        client=client,
        now=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
        chance=random.random,
    )
    counters = InterfaceCounters(agent, files)
    pages = {
        "/healthz": probe_page(lambda: agent.is_alive),
        "/readyz": probe_page(lambda: agent.has_reported),
        "/metrics": metrics_page(agent, counters),
        "/v1/node": node_page(options.node, agent, counters),
    }
    server = await PageServer(pages).start(options.host, options.port)
    task = asyncio.ensure_future(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    logger.info("describing node %s", options.node)
    try:
        await task
    except asyncio.CancelledError:
        logger.info("stopped")
    finally:
        server.close()
        await client.close()


def _version() -> str | None:
    try:
        return importlib.metadata.version("fairlead")
    except importlib.metadata.PackageNotFoundError:
        return None
