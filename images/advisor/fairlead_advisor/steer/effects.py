"""The outside world as the sidecar sees it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.transfer import MoverStats, TransportSettings
from fairlead_advisor.probe.socket import Enough, ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.mover import Peer


class MoverClient(Protocol):
    """What the sidecar asks of the mover."""

    async def peer(self) -> Peer: ...

    async def stats(self) -> MoverStats: ...

    async def set_transport(self, wanted: TransportSettings) -> TransportSettings: ...

    async def hold_data(self, seconds: float) -> None: ...


class PathMonitor(Protocol):
    """Goes on sampling the path; `recent` has the samples of the last so many seconds, by when they were sent.

    `replied` has the RTTs in ms of the replies that came after the first and until the second time, in s on the monotonic clock.
    `samples` has all that are kept: send times on the same clock with RTTs in ms, None for a lost request.
    """

    async def run(self) -> None: ...

    def recent(self, seconds: float) -> Trace: ...

    def replied(self, after_s: float, until_s: float) -> list[float]: ...

    def samples(self) -> list[tuple[float, float | None]]: ...


@dataclass(frozen=True, slots=True)
class BackgroundClassifier:
    """`classify` classifies the last so many seconds of a trace, one of `windows_s`; it raises AdvisorError alone.

    What takes longer than `answers_within_s` hangs, since an answer takes milliseconds: nobody waits for it any longer.
    """

    classify: Callable[[Trace, float], Awaitable[Background]]
    windows_s: tuple[float, ...]
    answers_within_s: float = 5.0


@dataclass(frozen=True, slots=True)
class SidecarEffects:
    """`probe` samples an idle path for so many seconds or until it is enough, `monitor` one under load.

    `classifier` is None without a model, and `no_classifier` is the reason. `now` is for people, `monotonic_s` for intervals;
    `sleep` takes seconds.
    """

    probe: Callable[[Peer, float, Enough | None], Awaitable[ProbeResult]]
    monitor: Callable[[Peer], PathMonitor]
    now: Callable[[], datetime]
    classifier: BackgroundClassifier | None = None
    no_classifier: str = ""
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
