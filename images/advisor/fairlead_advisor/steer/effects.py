"""The outside world as the sidecar sees it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
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
class News:
    """What other jobs of ours that send to the same peer have said: `called` if the data of one pause now, `has_bbr` if one has BBR."""

    called: bool = False
    has_bbr: bool = False


class Neighbours(Protocol):
    """The advisors of other transfers from this node to the same peer.

    `call` says that own data pause now, `have_bbr` that they have BBR. `rest` returns after so many seconds, or when somebody calls.
    """

    def heard(self) -> News: ...

    def call(self) -> None: ...

    def have_bbr(self) -> None: ...

    async def rest(self, seconds: float) -> None: ...


def no_neighbours(_peer: Peer) -> AbstractAsyncContextManager[Neighbours | None]:
    """For a transfer that is alone on its node."""
    return nullcontext(None)


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
    `sleep` takes seconds. `neighbours` are heard while its context is entered; None where they cannot be.
    """

    probe: Callable[[Peer, float, Enough | None], Awaitable[ProbeResult]]
    monitor: Callable[[Peer], PathMonitor]
    now: Callable[[], datetime]
    classifier: BackgroundClassifier | None = None
    no_classifier: str = ""
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    neighbours: Callable[[Peer], AbstractAsyncContextManager[Neighbours | None]] = no_neighbours
