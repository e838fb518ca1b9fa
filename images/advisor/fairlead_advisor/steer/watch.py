"""Follows a running transfer: adapts the stream count, and with a classifier the congestion control."""

import logging
from dataclasses import replace

from fairlead_advisor.decide import optimizer
from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, Decision, History, Limits, Measured, PathMeasurement, Reason
from fairlead_advisor.decide.optimizer import Observation
from fairlead_advisor.decide.rule import counted, decide
from fairlead_advisor.decide.streams import Optimum, fit_coefficient
from fairlead_advisor.decide.switching import Glance, SwitchState, Verdict, look
from fairlead_advisor.errors import AdvisorError, TransportRefusedError
from fairlead_advisor.probe.summary import summarize
from fairlead_advisor.record.board import Board
from fairlead_advisor.record.published import Summing
from fairlead_advisor.steer.effects import Effects, MoverClient, PathMonitor
from fairlead_advisor.steer.mover import Transport
from fairlead_advisor.steer.observe import Sample, measurement, observe, rtt_floor

PERIOD_S = 1.0
REST_PERIOD_S = 3.0
"""Between two questions for the mover's statistics: while something is tried, and while nothing is."""
LOOK_PERIOD_S = 10.0
"""Between two decisions, and between two publications of a stream count."""
SEARCH_PERIOD_S = 60.0
"""Between two publications while a search goes on."""

TRANSFERRING = "Transferring"

_log = logging.getLogger(__name__)


class Watch:
    """One transfer under way. `path` and `decision` are what stands when it begins; without a monitor RTTs come from the sockets."""

    def __init__(
        self, mover: MoverClient, effects: Effects, board: Board, limits: Limits, *, history: History, monitor: PathMonitor | None
    ) -> None:
        if board.published is None:
            raise ValueError("there is nothing to watch before a decision stands")
        self._mover = mover
        self._effects = effects
        self._board = board
        self._limits = limits
        self._monitor = monitor
        self._path: PathMeasurement = board.published.path
        self._decision: Decision = board.published.decision
        self._floor_s = self._path.rtt_minimum_s
        self._before: Sample | None = None
        self._streams: optimizer.State | None = None
        self._switching = SwitchState(self._decision.congestion_control, effects.monotonic_s())
        self._history = history
        self._why_streams = ""
        self._looked_s = self._published_s = effects.monotonic_s()
        self._looked_bits = self._bits = self._looked_seconds = self._seconds = 0.0

    async def run(self) -> None:
        """Watches until cancelled. A mover that does not answer, or talks nonsense, is asked again and nothing is changed."""
        try:
            while True:
                await self._tick()
                await self._effects.sleep(REST_PERIOD_S if self._rests() else PERIOD_S)
        finally:
            self._board.ended(self._sum_up())

    def _rests(self) -> bool:
        return self._streams is not None and self._streams.phase is optimizer.Phase.REST

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
        self._limits = replace(self._limits, available=stats.available_congestion_controls, cap_bps=stats.cap_bps)
        if before is None or sample.at_s <= before.at_s:
            return
        seen = self._observe(before, sample)
        await self._adapt_streams(seen)
        await self._adapt_congestion_control(seen.at_s)
        self._publish_streams(seen.at_s)

    def _observe(self, before: Sample, sample: Sample) -> Observation:
        rtts_ms = self._monitor.recent(sample.at_s - before.at_s).answered_rtts_ms() if self._monitor else []
        self._floor_s = rtt_floor([self._floor_s], sample.stats, rtts_ms)
        seen = observe(before, sample, rtts_ms, self._floor_s)
        self._board.metrics.observed(seen)
        self._bits += seen.goodput_bps * seen.seconds
        self._seconds += seen.seconds
        return seen

    async def _adapt_streams(self, seen: Observation) -> None:
        if self._streams is None:
            self._streams = self._search_from(self._count_in_force(seen), seen.at_s)
        if self._switching.trial is not None:
            # One thing is tried at a time: the goodput must tell which of the two it was.
            return
        step = optimizer.step(self._streams, seen)
        self._streams = step.state
        if step.outcome is not None:
            self._board.tried(step.outcome)
            if step.outcome.kept != step.outcome.base.streams:
                self._why_streams = step.outcome.why
        if step.change is not None:
            await self._set_streams(step.change, seen)

    def _count_in_force(self, seen: Observation) -> int:
        applied = self._board.published is not None and self._board.published.applied
        return self._decision.streams if applied else seen.streams

    def _search_from(self, streams: int, now_s: float) -> optimizer.State:
        return optimizer.start(streams, self._limits.streams_minimum, self._limits.streams_maximum, now_s, self._floor_s)

    async def _set_streams(self, change: optimizer.Change, seen: Observation) -> None:
        try:
            await self._mover.set_transport(Transport(None, change.streams))
        except TransportRefusedError as refusal:
            _log.warning("the mover refused %d streams, %d stay: %s", change.streams, seen.streams, refusal)
            low, high = min(self._limits.streams_minimum, seen.streams), seen.streams
            self._limits = replace(self._limits, streams_minimum=low, streams_maximum=high)
            self._streams = self._search_from(seen.streams, seen.at_s)
        except AdvisorError as error:
            # The count did not change, so that the search gives the trial up in its own time.
            _log.warning("the stream count is not changed: %s", error)

    async def _adapt_congestion_control(self, now_s: float) -> None:
        classify = self._effects.classify
        if classify is None or self._monitor is None or self._limits.congestion_control is not None:
            return
        if now_s - self._looked_s < LOOK_PERIOD_S:
            return
        bits, seconds = self._bits - self._looked_bits, self._seconds - self._looked_seconds
        self._looked_s, self._looked_bits, self._looked_seconds = now_s, self._bits, self._seconds
        trace = self._monitor.recent(LOOK_PERIOD_S)
        try:
            background = classify(trace)
        except AdvisorError as error:
            _log.warning("the path was not classified: %s", error)
            return
        path = measurement(summarize(trace))
        decision = decide(path, self._limits, background, self._history)
        # What was chosen on a sure answer stays in force until another sure answer speaks against it.
        sure = decision.reason is Reason.CLASSIFIED
        wanted = decision.congestion_control if sure else self._switching.in_force
        await self._look(Glance(now_s, wanted, bits / seconds if seconds else 0.0), path, decision)

    async def _look(self, glance: Glance, path: PathMeasurement, decision: Decision) -> None:
        before = self._switching
        step = look(before, glance)
        self._switching = step.state
        if step.verdict is not None:
            self._board.proved(step.verdict)
            self._remember(step.verdict)
        if step.switch is None:
            return
        try:
            await self._mover.set_transport(Transport(step.switch.to, None))
        except AdvisorError as error:
            _log.warning("the congestion control stays %s: %s", before.in_force, error)
            self._switching = replace(before, votes=())
            return
        self._board.switched(before.in_force, step.switch)
        streams = self._streams.streams if self._streams else self._decision.streams
        message = f"{decision.message}; {step.switch.why}"
        self._path, self._why_streams = path, ""
        self._decision = replace(decision, congestion_control=step.switch.to, streams=streams, message=message)
        self._streams = self._search_from(streams, glance.at_s)
        self._board.stand(path, self._decision, applied=True, decided_at=self._effects.now())
        self._board.record()

    def _remember(self, verdict: Verdict) -> None:
        # A switch back to the safe default may give share away on purpose: it does not measure what the other one is worth.
        if verdict.before != DEFAULT_CONGESTION_CONTROL:
            return
        old = self._history.measured.get(verdict.congestion_control, Measured(0, 1.0))
        mean = (old.count * old.goodput_ratio + verdict.goodput_ratio) / (old.count + 1)
        measured = {**self._history.measured, verdict.congestion_control: Measured(old.count + 1, mean)}
        self._history = replace(self._history, measured=measured)

    def _publish_streams(self, now_s: float) -> None:
        published, state = self._board.published, self._streams
        if published is None or state is None or not published.applied:
            return
        # Each publication becomes a write to the cluster's API: a search under way is told seldom, its result soon.
        period_s = LOOK_PERIOD_S if state.phase is optimizer.Phase.REST else SEARCH_PERIOD_S
        if state.streams == published.decision.streams or now_s - self._published_s < period_s:
            return
        self._published_s = now_s
        why = f": {self._why_streams}" if self._why_streams else ""
        message = f"{self._decision.message}; now {counted(state.streams)}{why}"
        self._board.stand(self._path, replace(self._decision, streams=state.streams, message=message), applied=True)

    def _sum_up(self) -> Summing:
        goodput_bps = self._bits / self._seconds if self._seconds else None
        state = self._streams
        coefficient = None
        if state is not None and state.settled and goodput_bps and self._floor_s:
            coefficient = fit_coefficient([Optimum(state.streams, goodput_bps, self._floor_s)])
        streams = state.streams if state else self._decision.streams
        return Summing(self._switching.in_force, streams, goodput_bps, self._seconds, coefficient)
