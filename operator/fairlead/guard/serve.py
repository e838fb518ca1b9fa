"""Probes and metrics of the guard over HTTP, on the node's network, where anybody may connect: few connections, and short ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from fairlead.guard.holds import HeldBy, Holds

CONNECTIONS = 16
"""With one more the oldest is closed."""
CONNECTION_SECONDS = 5.0
_REQUEST_BYTES = 8 << 10
_PREFIX = "fairlead_guard"

Page = Callable[[], tuple[int, bytes]]
"""HTTP's status and the body."""


class HoldFigures(Collector):
    """What the guard holds, at each scrape."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def collect(self) -> Iterable[Metric]:
        """The metrics of docs/reference."""
        now = self._holds.now.values()
        senders = GaugeMetricFamily(f"{_PREFIX}_senders", "Senders with a cap, by what holds them.", labels=["by"])
        for by in HeldBy:
            senders.add_metric([by], sum(hold.by is by for hold in now))
        labels = ["namespace", "pod"]
        loose = GaugeMetricFamily(f"{_PREFIX}_sender_loose", "1 for a sender that can get past its cap.", labels=[*labels, "by"])
        cap = GaugeMetricFamily(f"{_PREFIX}_cap_bytes_per_second", "The cap in force.", labels=labels)
        packets = CounterMetricFamily(f"{_PREFIX}_dropped_packets", "Packets above the cap, where a program holds it.", labels=labels)
        dropped = CounterMetricFamily(f"{_PREFIX}_dropped_bytes", "Bytes above the cap, where a program holds it.", labels=labels)
        for uid, hold in self._holds.now.items():
            pod = [hold.sender.job.namespace, hold.sender.name]
            if hold.by in (HeldBy.RECEIVER, HeldBy.NOTHING):
                loose.add_metric([*pod, hold.by], 1)
            cap.add_metric(pod, hold.cap_bps / 8)
            counted = self._holds.dropped(uid)
            packets.add_metric(pod, counted.packets)
            dropped.add_metric(pod, counted.count_bytes)
        refusals = CounterMetricFamily(f"{_PREFIX}_rules_refused", "How often nft took none of the rules.", value=self._holds.refusals)
        return senders, loose, cap, packets, dropped, refusals


def metrics_page(holds: Holds) -> Page:
    """The figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(HoldFigures(holds))
    return lambda: (200, generate_latest(registry))


def probe_page(is_well: Callable[[], bool]) -> Page:
    """200 or 503."""
    return lambda: (200, b"ok\n") if is_well() else (503, b"not now\n")


class PageServer:
    """Answers `GET PATH` with a page and closes the connection."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._open: dict[asyncio.StreamWriter, None] = {}

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listens until the server is closed. Raises OSError if the address is taken."""
        return await asyncio.start_server(self._serve, host, port, limit=_REQUEST_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > CONNECTIONS:
            next(iter(self._open)).transport.abort()
        try:
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                async with asyncio.timeout(CONNECTION_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, body = self._answer(head.split(b"\r\n", 1)[0].decode(errors="replace"))
                    writer.write(_head(status, len(body)) + body)
                    await writer.drain()
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _answer(self, request: str) -> tuple[int, bytes]:
        method, _, rest = request.partition(" ")
        page = self._pages.get(rest.partition(" ")[0].partition("?")[0])
        if page is None:
            return 404, b"there are " + ", ".join(self._pages).encode() + b"\n"
        return page() if method == "GET" else (405, b"only GET\n")


def _head(status: int, length_bytes: int) -> bytes:
    fields = (f"Content-Type: {CONTENT_TYPE_PLAIN_0_0_4}", f"Content-Length: {length_bytes}", "Connection: close")
    return "\r\n".join((f"HTTP/1.1 {status} -", *fields, "", "")).encode()
