"""The command line of `fairlead preflight`."""

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
from fairlead.commands.preflight.findings import PreflightFindings, findings_of
from fairlead.commands.preflight.job import ManifestError, name_of, namespace_of, read_manifest
from fairlead.commands.preflight.run import PreflightError, check
from fairlead.commands.preflight.text import render
from fairlead.kube.client import KubeClient, KubeObject

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Prints what was checked. Returns 0 if all passed, 1 if not, 2 if a flag, the file or the kubeconfig is wrong, 130 on a signal."""
    options = _parser().parse_args(arguments)
    try:
        manifest = _read(options.file)
        connection = read_connection(options.kubeconfig, options.context, os.environ)
        given, named = options.namespace, namespace_of(manifest)
        if given is not None and named is not None and given != named:
            raise ManifestError(f"its namespace is {named}, and -n says {given}: give one of them")
        findings = asyncio.run(_check(connection, manifest, given or named or connection.namespace, options.timeout))
    except (KubeconfigError, ManifestError) as error:
        print(f"fairlead preflight: {options.file}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except PreflightError as error:
        print(f"fairlead preflight: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("fairlead preflight: interrupted; nothing is left behind", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    print(to_json(findings) if options.output == "json" else render(findings))  # noqa: T201
    return 0 if findings.passed else EXIT_FAILED


def to_json(findings: PreflightFindings) -> str:
    """The findings for programs (docs/reference/preflight.md)."""
    return json.dumps(findings.to_object(), indent=2, allow_nan=False)


def _read(file: str) -> KubeObject:
    try:
        return read_manifest(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"it cannot be read ({error}): name a file with a TransferJob, or - for standard input") from error


async def _check(connection: Connection, manifest: KubeObject, namespace: str, timeout_seconds: int) -> PreflightFindings:
    task = asyncio.current_task()
    if task is not None:
        # As SIGINT, which `asyncio.run` turns into a cancellation by itself.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    client = KubeClient(connection.configuration, user_agent="fairlead-preflight", timeout_seconds=15.0)
    try:
        found = await check(client, manifest, namespace, secrets.token_hex(4), timeout_seconds)
    finally:
        await client.close()
    return findings_of(namespace, name_of(manifest), found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairlead preflight",
        description="Checks a transfer job before it is created, with movers on its nodes, and moves nothing."
        " Needs create, get and delete on transferjobs in the job's namespace.",
    )
    parser.add_argument("file", metavar="JOB.yaml", help="file with one TransferJob, or - for standard input")
    parser.add_argument("-n", "--namespace", help="namespace, where the file names none; the context's if absent")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text for people or json for programs")
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; KUBECONFIG or ~/.kube/config if absent")
    parser.add_argument("--context", help="context of the kubeconfig; its current one if absent")
    parser.add_argument("--timeout", type=_seconds, default=120, metavar="SECONDS", help="how long the checks may take (120)")
    return parser


def _seconds(text: str) -> int:
    seconds = int(text)
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("write whole seconds from 1 to 3600")
    return seconds
