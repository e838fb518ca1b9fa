"""Keeps the send buffers of a running transfer from bounding it, where the host grants more by asking than the kernel takes by itself."""

import logging
import statistics
from dataclasses import replace

from fairlead_advisor.decide import buffers
from fairlead_advisor.decide.buffers import BufferChoice
from fairlead_advisor.decide.model import BufferLimits, Decision
from fairlead_advisor.decide.optimizer import Observation
from fairlead_advisor.errors import AdvisorError
from fairlead_advisor.record.board import Board
from fairlead_advisor.steer.course import Course
from fairlead_advisor.steer.effects import MoverClient
from fairlead_advisor.steer.mover import Stats, Transport
from fairlead_advisor.steer.observe import HeldBack

PERIOD_S = 10.0
"""Between two requests; one that failed is not repeated for REFUSED_S."""
REFUSED_S = 300.0
HELD_BACK_RATIO = 0.1
"""Of the time under way: from here on a buffer that is too small is worth a word."""

_log = logging.getLogger(__name__)


class Buffering:
    """One transfer's send buffers. What is needed follows from the goodput and the RTT under load, both as measured."""

    def __init__(self, mover: MoverClient, board: Board, course: Course) -> None:
        self._mover = mover
        self._board = board
        self._course = course
        self._not_before_s = float("-inf")
        self._told = False

    async def follow(self, stats: Stats, seen: Observation, held: HeldBack | None) -> None:
        """Takes a second or so of the transfer in, and asks for larger buffers if that is of use."""
        host = stats.buffers
        if host is None or not stats.rtts_s or not seen.streams or seen.at_s < self._not_before_s:
            return
        needed = buffers.needed_bytes(seen.goodput_bps, statistics.fmean(stats.rtts_s), seen.streams)
        choice = buffers.choose(needed, host)
        if choice.in_force_bytes is not None and choice.in_force_bytes != host.set_bytes:
            await self._set(choice, choice.in_force_bytes, host, seen.at_s)
        elif choice.short and not self._told and held is not None and held.send_buffer_ratio >= HELD_BACK_RATIO:
            self._told = True
            _log.warning("%s", choice.told)
            self._stand(choice)

    async def _set(self, choice: BufferChoice, wanted: int, host: BufferLimits, now_s: float) -> None:
        self._not_before_s = now_s + PERIOD_S
        try:
            await self._mover.set_transport(Transport(None, None, wanted))
        except AdvisorError as error:
            _log.warning("the send buffers stay as they are: %s", error)
            self._not_before_s = now_s + REFUSED_S
            return
        self._board.buffered(host.set_bytes, wanted, choice.needed_bytes or wanted, choice.told)
        self._stand(choice)

    def _stand(self, choice: BufferChoice) -> None:
        course, published = self._course, self._board.published
        course.decision = _with(course.decision, choice)
        if published is not None:
            self._board.stand(course.path, _with(published.decision, choice), applied=published.applied)


def _with(decision: Decision, choice: BufferChoice) -> Decision:
    return replace(
        decision,
        socket_buffer_bytes=choice.in_force_bytes,
        socket_buffer_needed_bytes=choice.needed_bytes,
        message=f"{decision.message}; {choice.told}",
    )
