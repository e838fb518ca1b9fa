"""The operator as a process, with the settings that the chart gives it, and what it costs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

PORTS = ((19090, 18080), (19091, 18081))
"""Where an operator serves its metrics and its health, and where one beside it does."""
END_SECONDS = 120.0
LOOK_SECONDS = 0.1


class Figures:
    """One reading of the operator's metrics."""

    def __init__(self, page: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    def sum(self, name: str) -> float:
        """Of all label values."""
        return sum(sample.value for sample in self._samples if sample.name == name)

    def buckets(self, name: str) -> dict[float, float]:
        """A histogram's cumulative counts by upper bound."""
        return {float(sample.labels["le"]): sample.value for sample in self._samples if sample.name == f"{name}_bucket"}


def quantile(before: Mapping[float, float], after: Mapping[float, float], part: float) -> float | None:
    """The quantile of what a histogram counted between two readings, by linear interpolation as Prometheus does; None of nothing."""
    counts = {bound: after[bound] - before.get(bound, 0.0) for bound in sorted(after)}
    total = max(counts.values(), default=0.0)
    if total <= 0:
        return None
    below, low = 0.0, 0.0
    for bound, count in counts.items():
        if count >= part * total:
            return low if bound == float("inf") else low + (bound - low) * (part * total - below) / max(count - below, 1e-9)
        below, low = count, bound
    return low


class LoadedOperator:
    """One operator."""

    def __init__(self, process: asyncio.subprocess.Process, metrics_port: int) -> None:
        self._process = process
        self._metrics_port = metrics_port

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def memory_bytes(self) -> int:
        """What it holds in memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async def figures(self, *names: str) -> Figures:
        """These of its metrics now: all of those that it shows of ten thousand jobs would take it seconds."""
        where, asked = f"http://127.0.0.1:{self._metrics_port}/metrics", [("name[]", name) for name in names]
        async with aiohttp.ClientSession() as session, session.get(where, params=asked) as answer:
            return Figures(await answer.text())

    async def until(self, name: str, least: float, timeout_seconds: float) -> None:
        """Waits until the sum of a metric is at least that. Raises TimeoutError."""
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    if (await self.figures(name)).sum(name) >= least:
                        return
                except aiohttp.ClientError:
                    # It does not listen yet.
                    pass
                await asyncio.sleep(LOOK_SECONDS)

    async def kill(self) -> None:
        """Ends it as a machine that fails does."""
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Ends it as the kubelet does, and waits."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(self._process.wait(), END_SECONDS)


@asynccontextmanager
async def operator(flags: Mapping[str, str], log: Path, place: int = 0) -> AsyncIterator[LoadedOperator]:
    """An operator with these flags until the block is left, at one of the places for one."""
    metrics, health = PORTS[place]
    addresses = {"metrics-address": f"127.0.0.1:{metrics}", "health-address": f"127.0.0.1:{health}"}
    words = [f"--{name}={value}" for name, value in {**flags, **addresses}.items()]
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "fairlead", *words, stdout=output, stderr=output)
    made = LoadedOperator(process, metrics)
    try:
        yield made
    finally:
        await made.end()
