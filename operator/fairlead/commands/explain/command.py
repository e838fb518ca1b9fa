"""The command line of `fairlead explain`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime

from fairlead.commands.connection import Connection, KubeconfigError, read_connection, user_clock
from fairlead.commands.explain.account import Explanation, account_of
from fairlead.commands.explain.advice import next_steps
from fairlead.commands.explain.facts import ExplainError, Facts, read_facts
from fairlead.commands.explain.text import render
from fairlead.kube.client import KubeClient

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def main(arguments: Sequence[str]) -> int:
    """Prints why a job stands where it stands. Returns 0, 1 if it cannot be read, 2 if a flag or the kubeconfig is wrong, 130 on SIGINT."""
    options = _parser().parse_args(arguments)
    try:
        name = _name(options.job)
        connection = read_connection(options.kubeconfig, options.context, os.environ)
        facts, now = asyncio.run(_read(connection, _name(options.namespace or connection.namespace), name, options.timeout))
    except (KubeconfigError, _UsageError) as error:
        print(f"fairlead explain: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except ExplainError as error:
        print(f"fairlead explain: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("fairlead explain: interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    explanation = account_of(facts)
    steps = next_steps(explanation, now)
    print(to_json(explanation, steps) if options.output == "json" else render(explanation, steps, now))  # noqa: T201
    return 0


def to_json(explanation: Explanation, steps: Sequence[str]) -> str:
    """The explanation for programs (docs/reference/explain.md)."""
    return json.dumps({**explanation.to_object(), "nextSteps": list(steps)}, indent=2, allow_nan=False)


class _UsageError(Exception):
    """A word of the command line cannot be what it stands for."""


def _name(text: str) -> str:
    """`tj/NAME` is taken too, as kubectl prints names."""
    name = text.removeprefix("transferjob.fairlead.io/").removeprefix("transferjob/").removeprefix("tj/")
    if not _NAME.fullmatch(name) or len(name) > 253:
        raise _UsageError(f"{text!r} is no name of a Kubernetes object: write lower-case letters, digits, - and .")
    return name


async def _read(connection: Connection, namespace: str, name: str, timeout_seconds: float) -> tuple[Facts, datetime]:
    """What was read, and the API server's time then."""
    clock = user_clock()
    client = KubeClient(connection.configuration, user_agent="fairlead-explain", timeout_seconds=timeout_seconds, clock=clock)
    try:
        return await read_facts(client, connection.configuration.host, namespace, name), clock.now()
    finally:
        await client.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairlead explain",
        description="Prints why a transfer job stands where it stands, and what to do next."
        " Needs get and list on transferjobs, and shows more with list on events, fairnesspolicies and networkpaths.",
    )
    parser.add_argument("job", metavar="JOB", help="name of the TransferJob")
    parser.add_argument("-n", "--namespace", help="namespace of the job; the context's if absent")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text for people or json for programs")
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; KUBECONFIG or ~/.kube/config if absent")
    parser.add_argument("--context", help="context of the kubeconfig; its current one if absent")
    parser.add_argument("--timeout", type=_seconds, default=15.0, metavar="SECONDS", help="how long each request may take (15)")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.0 < seconds <= 600.0:
        raise argparse.ArgumentTypeError("write seconds above 0, at most 600")
    return seconds
