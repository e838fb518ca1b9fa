"""The operator as a process: what kopf is given, and how it begins and ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import platform
import signal
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import kopf
from kopf._cogs.structs.references import Insights  # kopf names no public way to learn when its scan is over

from fairlead.handlers.options import OptionError, Options, read_options
from fairlead.handlers.registry import build_registry, operator_settings, takers_of
from fairlead.handlers.runtime import Runtime
from fairlead.handlers.timings import Timings
from fairlead.handlers.watching import outlive_errors, take_events
from fairlead.kube.clock import ServerClock

EXIT_FAILED = 1
EXIT_USAGE = 2
SCAN_TIMEOUT_SECONDS = 10
TLS_BUFFER_BYTES = 32 * 1024

logger = logging.getLogger("fairlead")


class LeaseLostError(Exception):
    """Another operator has taken over."""


def collect_garbage_rarely() -> None:
    """Looks for cycles less often: of many jobs each round makes hundreds of thousands of objects, hardly any of which are in one."""
    # Python begins with (700, 10, 10).
    gc.set_threshold(50_000, 20, 50)


def keep_little_for_connections() -> None:
    """Of a hundred connections to the API server each has a buffer of 256 KiB by itself; a record of TLS has 16."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES


def main(words: Sequence[str], timings: Timings | None = None, clock: ServerClock | None = None) -> int:
    """Runs until a signal; returns the exit code: 0 stopped, 1 failed, 2 a flag is wrong."""
    try:
        options = read_options(words)
    except OptionError as error:
        print(f"fairlead: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    collect_garbage_rarely()
    keep_little_for_connections()
    kopf.configure(
        debug=options.log_level == "debug",
        quiet=options.log_level == "warning",
        log_format=kopf.LogFormat.JSON if options.log_format == "json" else kopf.LogFormat.FULL,
    )
    if options.log_level != "debug":
        # One line for every event of every object repeats what the objects show.
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    try:
        asyncio.run(run(options, clock=clock, timings=timings))
    except Exception as error:
        # kopf raises a summary; what happened is its cause.
        logger.error("stopped: %s", error.__cause__ or error)
        return EXIT_FAILED
    return 0


async def run(
    options: Options,
    stop_flag: asyncio.Event | None = None,
    ready_flag: asyncio.Event | None = None,
    clock: ServerClock | None = None,
    timings: Timings | None = None,
) -> None:
    """Runs one operator until `stop_flag` is set or a signal comes. `ready_flag` is set when it keeps up with the cluster; its workers run
    once it leads. Raises LeaseLostError."""
    stop = asyncio.Event() if stop_flag is None else stop_flag
    lost: list[str] = []

    def end(message: str) -> None:
        lost.append(message)
        stop.set()

    timings = Timings() if timings is None else timings
    runtime = Runtime(options, on_lost=end, clock=clock, timings=timings)
    outlive_errors(timings.watch_retry_seconds)
    take_events(takers_of(runtime), runtime.see_gap)
    insights, stop_kopf = Insights(), asyncio.Event()
    stopping = asyncio.create_task(_stop_after_scan(stop, insights.ready_resources, stop_kopf))
    earlier = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=build_registry(runtime),
        settings=operator_settings(timings),
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
    if lost:
        raise LeaseLostError(lost[0])


async def _stop_after_scan(stop: asyncio.Event, scanned: asyncio.Event, stop_kopf: asyncio.Event) -> None:
    """Hands `stop` on when kopf's scan of the API's resources is over: kopf would close its session under the scan's requests."""
    await stop.wait()
    with suppress(TimeoutError):
        await asyncio.wait_for(scanned.wait(), SCAN_TIMEOUT_SECONDS)
    stop_kopf.set()
