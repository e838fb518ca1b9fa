"""Goes on sampling a path while a transfer runs, and keeps the last minute."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fairlead_advisor.errors import AdvisorError
from fairlead_advisor.probe.session import ProbeSession
from fairlead_advisor.probe.socket import Clocks, EchoEndpoint, keep_probing
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.probe.wire import Codec

HISTORY_S = 60.0
_RETRY_S = 5.0
FOLLOW_S = 5.0
"""How often the monitor asks where the peer is: of several paths another one may be in use by now."""
_NS = 1_000_000_000

_log = logging.getLogger(__name__)


class Monitor:
    """Samples of one peer. Without answers, or without a socket, `recent` is empty, which is no error.

    `follow` tells where the peer is by now.
    """

    def __init__(
        self,
        endpoint: EchoEndpoint,
        key: bytes,
        rate_hz: float,
        clocks: Clocks,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        follow: Callable[[], Awaitable[EchoEndpoint]] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._follow = follow
        self._rate_hz = rate_hz
        self._clocks = clocks
        self._sleep = sleep
        self._session = ProbeSession(Codec(key), capacity=round(rate_hz * HISTORY_S))

    async def run(self) -> None:
        """Samples until cancelled; a socket that cannot be had is asked for again."""
        while True:
            try:
                await self._sample()
                continue
            except AdvisorError as error:
                _log.warning("the path is not sampled: %s", error)
            await self._sleep(_RETRY_S)

    async def _sample(self) -> None:
        """Samples until the peer is somewhere else."""
        tasks = [asyncio.ensure_future(keep_probing(self._endpoint, self._session, self._rate_hz, self._clocks))]
        if self._follow is not None:
            tasks.append(asyncio.ensure_future(self._until_moved(self._follow)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_moved(self, follow: Callable[[], Awaitable[EchoEndpoint]]) -> None:
        while (now := await follow()) == self._endpoint:
            await self._sleep(FOLLOW_S)
        _log.info("the peer is at %s now, no longer at %s", now, self._endpoint)
        self._endpoint = now

    def recent(self, seconds: float) -> Trace:
        """The samples of the last `seconds`, at most HISTORY_S, whose fate is known."""
        now_ns = self._clocks.monotonic_ns()
        return self._session.recent(now_ns - round(seconds * _NS), now_ns)

    def replied(self, after_s: float, until_s: float) -> list[float]:
        """The RTTs in ms of the replies that came after `after_s` and until `until_s`, in s on the monotonic clock."""
        return [rtt_ns / 1e6 for rtt_ns in self._session.replied(round(after_s * _NS), round(until_s * _NS))]

    def samples(self) -> list[tuple[float, float | None]]:
        """All kept samples whose fate is known: the send time in s on the monotonic clock and the RTT in ms, None for a lost one."""
        known = self._session.samples(self._clocks.monotonic_ns())
        return [(sent_ns / _NS, None if rtt_ns is None else rtt_ns / 1e6) for sent_ns, rtt_ns in known]
