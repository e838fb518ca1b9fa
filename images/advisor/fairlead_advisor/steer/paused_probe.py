"""A paused probe: the mover holds its data back, since the classifier was trained on paths without our own traffic."""

import asyncio
import logging
from dataclasses import dataclass

from fairlead_advisor.decide.transfer import MoverStats
from fairlead_advisor.errors import AdvisorError, NotQuietError
from fairlead_advisor.steer.effects import MoverClient, SidecarEffects
from fairlead_advisor.steer.mover import Peer
from fairlead_advisor.steer.survey import Survey, survey

LONGEST_QUIET_S = 15.0
"""The mover goes on by itself after so long, whatever becomes of the advisor."""
WINDOW_BUDGET_S = 10.0
DRAIN_S = 4.0
"""For what sits in the sockets' buffers to arrive; if it takes longer the probe is given up."""
TOGETHER_S = 9.5
"""For so long jobs of ours that pause together hold their data back at least: what the last one needs to drain and for a short window."""

_LEAST_PAUSE_S = 0.2
# A sender that stopped for good must not be waited for while this process is to end.
_RELEASE_S = 0.5
_RELEASES = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PausedProbe:
    """A paused probe and for how long data were held back; `survey` is None if it could not be taken, and then `failure` is the reason."""

    paused_s: float
    survey: Survey | None
    failure: str = ""


async def probe_paused(mover: MoverClient, effects: SidecarEffects, peer: Peer, *, together: bool = False) -> PausedProbe:
    """Holds the data back, samples, and lets them flow again, also when it fails or is cancelled; `together`: other jobs of ours do too."""
    began_s = effects.monotonic_s()
    found: Survey | None = None
    failure = ""
    try:
        await mover.hold_data(LONGEST_QUIET_S)
        await _drain(mover, effects)
        found = await survey(effects, peer, WINDOW_BUDGET_S)
        if together:
            # Who has an answer already would be in the windows of those that have none yet.
            await effects.sleep(max(0.0, began_s + TOGETHER_S - effects.monotonic_s()))
    except AdvisorError as error:
        failure = str(error)
    finally:
        await _release(mover)
    return PausedProbe(effects.monotonic_s() - began_s, found, failure)


async def _drain(mover: MoverClient, effects: SidecarEffects) -> None:
    """Returns once a whole round trip has brought nothing more; NotQuietError if that takes too long."""
    began_s, before = effects.monotonic_s(), await mover.stats()
    while effects.monotonic_s() - began_s < DRAIN_S:
        await effects.sleep(max(_LEAST_PAUSE_S, 1.25 * max(before.rtts_s, default=0.0)))
        after = await mover.stats()
        if _acknowledged(after) == _acknowledged(before):
            return
        before = after
    raise NotQuietError(f"the transfer's own data were still arriving after {DRAIN_S:g} s")


def _acknowledged(stats: MoverStats) -> list[int | None]:
    return [stream.bytes_sent for stream in stats.streams]


async def _release(mover: MoverClient) -> None:
    """Asks twice at most: each second without data costs the transfer more than a request."""
    failure = "no answer in time"
    for _ in range(_RELEASES):
        try:
            async with asyncio.timeout(_RELEASE_S):
                await mover.hold_data(0)
            return
        except TimeoutError:
            pass
        except AdvisorError as error:
            failure = str(error)
            if not error.retryable:
                break
    _log.warning("the mover was not told that the look is over, it goes on by itself: %s", failure)
