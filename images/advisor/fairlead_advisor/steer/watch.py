"""Follows a running transfer: adapts the stream count, and leaves congestion control and send buffers to others."""

import logging
from dataclasses import replace

from fairlead_advisor.decide import optimizer
from fairlead_advisor.decide.model import History, Limits
from fairlead_advisor.decide.optimizer import Observation
from fairlead_advisor.decide.rule import counted
from fairlead_advisor.decide.streams import Optimum, fit_coefficient
from fairlead_advisor.errors import AdvisorError, TransportRefusedError
from fairlead_advisor.record.board import Board
from fairlead_advisor.record.published import Summing
from fairlead_advisor.steer.background.lookout import Lookout
from fairlead_advisor.steer.buffering import Buffering
from fairlead_advisor.steer.course import Course
from fairlead_advisor.steer.effects import Effects, MoverClient, PathMonitor
from fairlead_advisor.steer.mover import Peer, Transport
from fairlead_advisor.steer.observe import HeldBack, Sample, held_back, limits_now, observe, rtt_floor

PERIOD_S = 1.0
REST_PERIOD_S = 3.0
"""Between two questions for the mover's statistics: while something is tried or may have changed, and while nothing does."""
STREAMS_PERIOD_S = 10.0
"""Between two publications of a stream count."""
SEARCH_PERIOD_S = 60.0
"""Between two publications while a search goes on."""

TRANSFERRING = "Transferring"

_log = logging.getLogger(__name__)


class Watch:
    """One transfer under way, from what stands on the board when it begins; without a monitor RTTs come from the sockets."""

    def __init__(
        self,
        mover: MoverClient,
        effects: Effects,
        board: Board,
        limits: Limits,
        *,
        history: History,
        peer: Peer | None,
        monitor: PathMonitor | None,
    ) -> None:
        if board.published is None:
            raise ValueError("there is nothing to watch before a decision stands")
        self._mover = mover
        self._effects = effects
        self._board = board
        self._monitor = monitor
        path = board.published.path
        self._course = Course(path, board.published.decision, limits, history, floor_s=path.rtt_minimum_s)
        self._lookout = Lookout(mover, effects, board, self._course, peer=peer, monitor=monitor)
        self._buffering = Buffering(mover, board, self._course)
        self._before: Sample | None = None
        self._streams: optimizer.State | None = None
        self._published_s = self._interrupted_s = effects.monotonic_s()
        self._bits = self._seconds = 0.0
        self._held: HeldBack | None = None

    async def run(self) -> None:
        """Watches until cancelled. A mover that does not answer, or talks nonsense, is asked again and nothing is changed."""
        try:
            while True:
                await self._tick()
                await self._effects.sleep(REST_PERIOD_S if self._rests() else PERIOD_S)
        finally:
            self._board.ended(self._sum_up())

    def _rests(self) -> bool:
        return self._streams is not None and self._streams.rests and not self._lookout.alert and not self._lookout.on_trial

    async def _tick(self) -> None:
        try:
            stats = await self._mover.stats()
        except AdvisorError:
            self._board.metrics.transfer(None)
            self._before = None
            return
        self._board.metrics.transfer(len(stats.streams), stats.rtts_s)
        if stats.stage != TRANSFERRING or not stats.streams:
            self._before = None
            return
        sample, before = Sample(self._effects.monotonic_s(), stats), self._before
        self._before = sample
        self._course.limits = limits_now(self._course.limits, stats)
        if before is None or sample.at_s <= before.at_s:
            return
        rtts_ms = self._monitor.recent(sample.at_s - before.at_s).answered_rtts_ms() if self._monitor else []
        seen, held = self._observe(before, sample, rtts_ms), held_back(before, sample)
        if held is not None:
            self._held = held if self._held is None else self._held + held
            self._board.metrics.held_back(held.send_buffer_ratio, held.receive_window_ratio)
        if before.at_s < self._interrupted_s:
            # Counted, but nothing to learn from: for a part of it data stood still.
            return
        if await self._lookout.follow(stats, seen, rtts_ms):
            await self._interrupted(seen)
            return
        if not self._lookout.on_trial:
            await self._buffering.follow(stats, seen, held)
        await self._adapt_streams(seen)
        self._publish_streams(seen.at_s)

    def _observe(self, before: Sample, sample: Sample, rtts_ms: list[float]) -> Observation:
        self._course.floor_s = rtt_floor([self._course.floor_s], sample.stats, rtts_ms)
        seen = observe(before, sample, rtts_ms, self._course.floor_s)
        self._board.metrics.observed(seen)
        self._bits += seen.goodput_bps * seen.seconds
        self._seconds += seen.seconds
        return seen

    async def _interrupted(self, seen: Observation) -> None:
        """Data stood still, or another congestion control is in force: what was being measured is measured anew."""
        now_s = self._interrupted_s = self._effects.monotonic_s()
        if self._streams is None:
            return
        step = optimizer.resumed(self._streams, now_s)
        self._streams = self._search_from(step.state.streams, now_s) if self._lookout.on_trial else step.state
        if step.change is not None:
            await self._set_streams(step.change, seen)

    async def _adapt_streams(self, seen: Observation) -> None:
        if self._streams is None:
            self._streams = self._search_from(self._count_in_force(seen), seen.at_s)
        # One thing at a time: the goodput must tell which it was. A trial under way comes to its end.
        if self._lookout.on_trial or (self._lookout.alert and self._streams.trial is None):
            return
        step = optimizer.step(self._streams, seen)
        self._streams = step.state
        if step.outcome is not None:
            self._board.tried(step.outcome)
            if step.outcome.kept != step.outcome.base.streams:
                self._course.why_streams = step.outcome.why
        if step.change is not None:
            await self._set_streams(step.change, seen)
        if step.outcome is not None and step.outcome.kept != step.outcome.base.streams:
            self._lookout.own_change(seen.at_s)
        self._lookout.own_trial(seen.at_s, self._streams.wanted - self._streams.streams)

    def _count_in_force(self, seen: Observation) -> int:
        applied = self._board.published is not None and self._board.published.applied
        return self._course.decision.streams if applied else seen.streams

    def _search_from(self, streams: int, now_s: float) -> optimizer.State:
        limits = self._course.limits
        return optimizer.start(
            streams, limits.streams_minimum, limits.streams_maximum, now_s, self._course.floor_s, spares_others=limits.spares_others
        )

    async def _set_streams(self, change: optimizer.Change, seen: Observation) -> None:
        try:
            await self._mover.set_transport(Transport(None, change.streams))
        except TransportRefusedError as refusal:
            _log.warning("the mover refused %d streams, %d stay: %s", change.streams, seen.streams, refusal)
            low, high = min(self._course.limits.streams_minimum, seen.streams), seen.streams
            self._course.limits = replace(self._course.limits, streams_minimum=low, streams_maximum=high)
            self._streams = self._search_from(seen.streams, seen.at_s)
        except AdvisorError as error:
            # The count did not change, so that the search gives the trial up in its own time.
            _log.warning("the stream count is not changed: %s", error)

    def _publish_streams(self, now_s: float) -> None:
        published, state = self._board.published, self._streams
        if published is None or state is None or not published.applied:
            return
        # Each publication becomes a write to the cluster's API: a search under way is told seldom, its result soon.
        period_s = STREAMS_PERIOD_S if state.phase is optimizer.Phase.REST else SEARCH_PERIOD_S
        if state.streams == published.decision.streams or now_s - self._published_s < period_s:
            return
        self._published_s = now_s
        course = self._course
        why = f": {course.why_streams}" if course.why_streams else ""
        message = f"{course.decision.message}; now {counted(state.streams)}{why}"
        self._board.stand(course.path, replace(course.decision, streams=state.streams, message=message), applied=True)

    def _sum_up(self) -> Summing:
        goodput_bps = self._bits / self._seconds if self._seconds else None
        state, floor_s = self._streams, self._course.floor_s
        coefficient = None
        if state is not None and state.settled and goodput_bps and floor_s:
            coefficient = fit_coefficient([Optimum(state.streams, goodput_bps, floor_s)])
        streams = state.streams if state else self._course.decision.streams
        held = self._held
        return Summing(
            self._lookout.in_force,
            streams,
            goodput_bps,
            self._seconds,
            coefficient,
            send_buffer_limited_ratio=None if held is None else held.send_buffer_ratio,
            receive_window_limited_ratio=None if held is None else held.receive_window_ratio,
        )
