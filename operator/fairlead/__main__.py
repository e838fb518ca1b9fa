"""Runs the operator: `python -m fairlead` or `fairlead`.

`fairlead allocate FILE` asks its sums without a cluster, `fairlead explain JOB` prints why a job stands where it stands,
`fairlead preflight JOB.yaml` checks a job before it is created, `fairlead selftest` moves a file as a test, `fairlead uninstall` lets
jobs go before the chart's release goes, and `fairlead guard` and `fairlead node-agent` are what runs on the nodes.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import kopf
from kopf._cogs.structs.references import Insights  # kopf names no public way to learn when its scan is over

from fairlead.handlers.options import OptionError, Options, read_options
from fairlead.handlers.registry import build_registry, operator_settings
from fairlead.handlers.runtime import Runtime

EXIT_FAILED = 1
EXIT_USAGE = 2
SCAN_TIMEOUT_SECONDS = 10

logger = logging.getLogger("fairlead")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until a signal; returns the exit code: 0 stopped, 1 failed, 2 a flag is wrong."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["allocate"]:
        from fairlead.commands import allocate  # noqa: PLC0415 - the operator needs none of it

        return allocate.main(words[1:])
    if words[:1] == ["explain"]:
        from fairlead.commands.explain import command as explain  # noqa: PLC0415 - it runs at a user's, apart from the operator

        return explain.main(words[1:])
    if words[:1] == ["preflight"]:
        from fairlead.commands.preflight import command as preflight  # noqa: PLC0415 - it runs at a user's, apart from the operator

        return preflight.main(words[1:])
    if words[:1] == ["uninstall"]:
        from fairlead.commands import uninstall  # noqa: PLC0415 - Helm runs it, apart from the operator

        return uninstall.main(words[1:])
    if words[:1] == ["selftest"]:
        from fairlead.commands.selftest import command as selftest  # noqa: PLC0415 - likewise

        return selftest.main(words[1:])
    if words[:1] == ["guard"]:
        from fairlead.guard import main as guard  # noqa: PLC0415 - it runs on the nodes, apart from the operator

        return guard.main(words[1:])
    if words[:1] == ["node-agent"]:
        from fairlead.agent import main as agent  # noqa: PLC0415 - likewise

        return agent.main(words[1:])
    try:
        options = read_options(words)
    except OptionError as error:
        print(f"fairlead: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    kopf.configure(
        debug=options.log_level == "debug",
        quiet=options.log_level == "warning",
        log_format=kopf.LogFormat.JSON if options.log_format == "json" else kopf.LogFormat.FULL,
    )
    if options.log_level != "debug":
        # One line for every event of every object repeats what the objects show.
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    try:
        asyncio.run(run(options))
    except Exception as error:
        # kopf raises a summary; what happened is its cause.
        logger.error("stopped: %s", error.__cause__ or error)
        return EXIT_FAILED
    return 0


async def run(options: Options, stop_flag: asyncio.Event | None = None, ready_flag: asyncio.Event | None = None) -> None:
    """Runs one operator until `stop_flag` is set or a signal comes. `ready_flag` is set when the workers run."""
    runtime = Runtime(options)
    stop = asyncio.Event() if stop_flag is None else stop_flag
    insights, stop_kopf = Insights(), asyncio.Event()
    stopping = asyncio.create_task(_stop_after_scan(stop, insights.ready_resources, stop_kopf))
    earlier = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=build_registry(runtime),
        settings=operator_settings(),
        insights=insights,
        standalone=True,
        # Without it, kopf asks who the user is, and the user of a container need not have a name. Its type is not exported.
        identity=cast(Any, platform.node()),
        clusterwide=not options.tenant_namespaces,
        namespaces=options.tenant_namespaces,
        stop_flag=stop_kopf,
        ready_flag=ready_flag,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await kopf.run_tasks(tasks, ignored=earlier)
    finally:
        stopping.cancel()


async def _stop_after_scan(stop: asyncio.Event, scanned: asyncio.Event, stop_kopf: asyncio.Event) -> None:
    """Hands `stop` on when kopf's scan of the API's resources is over: kopf would close its session under the scan's requests."""
    await stop.wait()
    with suppress(TimeoutError):
        await asyncio.wait_for(scanned.wait(), SCAN_TIMEOUT_SECONDS)
    stop_kopf.set()


if __name__ == "__main__":
    sys.exit(main())
