"""The operator's page as Prometheus reads it: over HTTP, from the operator's own listener, which makes it for each request."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final

from fairlead.handlers.listener import OperatorListener
from fairlead.handlers.metrics import OperatorMetrics, metrics_app

_HOST: Final = "127.0.0.1"
_LIMIT_S: Final = 30.0


def read_seconds(metrics: OperatorMetrics, times: int) -> tuple[list[float], bytes]:
    """How long each of so many reads of the page takes, from the connection to the last byte, and what was read last."""
    seconds, page = [], b""
    with _served(metrics) as address:
        for _ in range(times):
            began = time.perf_counter()
            with urllib.request.urlopen(address, timeout=_LIMIT_S) as answer:
                page = answer.read()
            seconds.append(time.perf_counter() - began)
    return seconds, page


@contextmanager
def _served(metrics: OperatorMetrics) -> Iterator[str]:
    """The page's address while the block lasts. It is served by a thread, as the operator is another process than Prometheus."""
    ready: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event, int] | Exception] = SimpleQueue()

    async def serve() -> None:
        ended = asyncio.Event()
        async with OperatorListener().serve(metrics_app(metrics), _HOST, 0) as port:
            ready.put((asyncio.get_running_loop(), ended, port))
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:
            ready.put(error)

    thread = threading.Thread(target=run, name="the operator's page", daemon=True)
    thread.start()
    begun = ready.get(timeout=_LIMIT_S)
    if isinstance(begun, Exception):
        raise begun
    loop, ended, port = begun
    try:
        yield f"http://{_HOST}:{port}/metrics"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(_LIMIT_S)
