"""The loop against a model of a mover and a clock that only the loop moves."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.errors import ClassifierAnswerError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.steer.driver import Driver
from fairlead_advisor.steer.effects import BackgroundClassifier, Neighbours, PathMonitor, SidecarEffects
from tests.support.model_mover import PEER, Clock, ModelMover, QuietPath, StillPath, TimeIsOverError, Watched

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def deaf(_now_s: float) -> Background:
    raise ClassifierAnswerError("nothing is to be heard beside the data")


@pytest.fixture
def watch(tmp_path: Path) -> Callable[..., Watched]:
    def begin(
        seconds: float,
        limits: TransportLimits | None = None,
        classify: Callable[[float], Background] | None = None,
        prepare: Callable[[ModelMover, Clock], None] = lambda mover, clock: None,
        in_force: str = "cubic",
        streams: int = 4,
        note: Callable[[DecisionBoard, Clock], None] = lambda board, clock: None,
        answered: Background | None = None,
        hears: Callable[[float], Background] = deaf,
        sampled_by: Callable[[Clock], PathMonitor] | None = None,
        beside: Callable[[Clock], Neighbours] | None = None,
    ) -> Watched:
        clock = Clock(seconds)
        mover = ModelMover(clock, streams=streams, control=in_force)
        prepare(mover, clock)
        record = tmp_path / "decisions.jsonl"
        now = lambda: EPOCH + timedelta(seconds=clock.now_s)  # noqa: E731
        board = DecisionBoard(AdvisorMetrics(), Journal(record, now), now)
        reason = DecisionReason.NO_MODEL if answered is None else DecisionReason.UNSURE if answered.abstained else DecisionReason.CLASSIFIED
        if answered is not None and answered.measured_at is not None:
            reason = DecisionReason.KNOWN
        abstained = answered is None or answered.abstained
        first = Decision(in_force, streams, abstained=abstained, reason=reason, message="as told", background=answered)
        board.publish(PATH, first, applied=True)
        board.record()
        clock.each_second = lambda: note(board, clock)
        path = QuietPath(clock)

        still = StillPath()

        async def told(trace: Trace, window_s: float) -> Background:
            assert classify is not None
            if not mover.is_held:
                assert (trace, window_s + 1) == (still.trace, still.asked_s[-1]), "the window's samples, and a second that is not over"
            return classify(clock.now_s) if mover.is_held else hears(clock.now_s)

        effects = SidecarEffects(
            probe=path.probe,
            monitor=lambda _peer: pytest.fail("it has one"),
            now=now,
            classifier=None if classify is None else BackgroundClassifier(told, (5.0, 10.0)),
            monotonic_s=lambda: clock.now_s,
            sleep=clock.sleep,
        )
        monitor: PathMonitor = still if sampled_by is None else sampled_by(clock)
        neighbours = None if beside is None else beside(clock)
        bounds = limits or TransportLimits(1, 32)
        driver = Driver(mover, effects, board, bounds, history=History(), peer=PEER, monitor=monitor, neighbours=neighbours)
        with pytest.raises(TimeIsOverError):
            asyncio.run(driver.run())
        return Watched(clock, mover, board, record, path)

    return begin
