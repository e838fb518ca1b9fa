"""The command line of `fairlead selftest`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.commands.connection import Connection, KubeconfigError, read_connection
from fairlead.commands.selftest import files, objects
from fairlead.commands.selftest.objects import SelftestEnd, SelftestPlan
from fairlead.commands.selftest.run import SelftestError, selftest
from fairlead.kube.client import DTNS, KubeClient
from fairlead.kube.errors import KubeError

EXIT_FAILED = 1
EXIT_USAGE = 2

NO_NODES = (
    "there are no two data transfer nodes to choose from (kubectl get dtn shows those whose agents report):"
    " set the chart's test.source.node and test.destination.node"
)


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if the file was moved, or the step done; 1 if not, 2 if a flag or the kubeconfig is wrong."""
    options = _parser().parse_args(arguments)
    try:
        match options.action:
            case "write":
                files.write(options.folder, options.bytes, options.seed)
            case "compare":
                files.compare(options.folder, options.bytes, options.seed)
            case "remove-source" | "remove-destination":
                files.remove(options.folder)
            case _:
                asyncio.run(_run(read_connection(options.kubeconfig, None, os.environ), options))
    except KubeconfigError as error:
        print(f"fairlead selftest: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except (SelftestError, KubeError, files.WrongFileError, OSError) as error:
        print(f"fairlead selftest: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    except asyncio.CancelledError:
        print("fairlead selftest: interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


async def _run(connection: Connection, options: argparse.Namespace) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    client = KubeClient(connection.configuration, user_agent="fairlead-selftest")
    try:
        nodes = (options.source_node, options.destination_node)
        if not all(nodes):
            chosen = objects.choose_nodes([body async for page in client.list_pages(DTNS) for body in page])
            if chosen is None:
                raise SelftestError(NO_NODES)
            nodes = chosen
        plan = SelftestPlan(
            token=secrets.token_hex(4),
            namespace=options.namespace,
            source=SelftestEnd(nodes[0], options.source_claim),
            destination=SelftestEnd(nodes[1], options.destination_claim),
            network=options.network,
            storage_class=options.storage_class,
            image=options.image,
            pull_policy=options.pull_policy,
            pull_secrets=tuple(name for name in options.pull_secrets.split(",") if name),
            user=options.user,
            group=options.group,
            tolerations=tuple(json.loads(options.tolerations)),
            bytes_total=options.bytes,
            timeout_seconds=options.timeout,
        )
        await selftest(client, plan, lambda line: print(line, flush=True))  # noqa: T201
    finally:
        await client.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fairlead selftest", description="Moves a file between two nodes. `helm test` runs it.")
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ("write", "compare", "remove-source", "remove-destination"):
        step = actions.add_parser(action, help="what the test's own pods run at an end")
        step.add_argument("folder", type=Path)
        step.add_argument("--bytes", type=int, required=True)
        step.add_argument("--seed", required=True)
    run = actions.add_parser("run", help="the whole test")
    run.add_argument("--namespace", required=True, help="namespace of the job")
    run.add_argument("--network", choices=("Host", "Pod"), required=True)
    run.add_argument("--image", required=True, help="the operator's image, for pods that write and compare")
    run.add_argument("--pull-policy", default="IfNotPresent")
    run.add_argument("--pull-secrets", default="", help="names, separated by commas")
    run.add_argument("--tolerations", default="[]", help="of those pods, as JSON")
    for end in ("source", "destination"):
        run.add_argument(f"--{end}-node", default="", help="two DataTransferNodes are chosen unless both nodes are given")
        run.add_argument(f"--{end}-claim", default="", help="a claim is made if absent")
    run.add_argument("--storage-class", default="", help="of claims that are made; the cluster's default if absent")
    run.add_argument("--user", type=int, default=65532)
    run.add_argument("--group", type=int, default=65532)
    run.add_argument("--bytes", type=int, default=1 << 24)
    run.add_argument("--timeout", type=int, default=180, metavar="SECONDS", help="how long the transfer may take")
    run.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; the pod's service account if absent")
    return parser
