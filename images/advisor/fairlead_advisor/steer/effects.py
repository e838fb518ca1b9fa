"""The outside world as the sidecar sees it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fairlead_advisor.decide.background import Background
from fairlead_advisor.probe.socket import ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.mover import Peer, Stats, Transport


class MoverClient(Protocol):
    """What the sidecar asks of the mover."""

    async def peer(self) -> Peer: ...

    async def stats(self) -> Stats: ...

    async def set_transport(self, wanted: Transport) -> Transport: ...


class PathMonitor(Protocol):
    """Goes on sampling the path; `recent` has the samples of the last so many seconds."""

    async def run(self) -> None: ...

    def recent(self, seconds: float) -> Trace: ...


@dataclass(frozen=True, slots=True)
class Effects:
    """`probe` measures an idle path, `monitor` one under load. `classify` tells the background from a trace; None without a model.

    `glance` is a short `probe`, for a path that is known already. `now` is for people, `monotonic_s` for intervals; `sleep` takes seconds.
    """

    probe: Callable[[Peer], Awaitable[ProbeResult]]
    monitor: Callable[[Peer], PathMonitor]
    now: Callable[[], datetime]
    classify: Callable[[Trace], Background] | None = None
    glance: Callable[[Peer], Awaitable[ProbeResult]] | None = None
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
