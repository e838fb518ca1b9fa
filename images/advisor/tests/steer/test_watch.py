"""The loop against a model of a mover and a clock that only the loop moves."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Decision, History, Limits, PathMeasurement, Reason
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, MoverAnswerError, MoverUnavailableError, TransportRefusedError
from fairlead_advisor.models.classes import CLASSES
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.board import Board
from fairlead_advisor.record.journal import Journal, read_record
from fairlead_advisor.record.metrics import Metrics
from fairlead_advisor.steer.effects import Effects
from fairlead_advisor.steer.mover import Peer, Stats, StreamStats, Transport
from fairlead_advisor.steer.watch import Watch
from tests.support.traces import steady

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class TimeIsOverError(Exception):
    """The time of the test is over."""


@dataclass
class ModelMover:
    """Streams of a transfer whose goodput is a function of their number and congestion control."""

    clock: "Clock"
    goodput_bps: Callable[[int, str], float] = lambda streams, _control: min(96e6, 24e6 * streams)
    stage: str = "Transferring"
    streams: int = 4
    control: str = "cubic"
    failure: AdvisorError | None = None
    refusal: AdvisorError | None = None
    opens_at_most: int = 64
    patches: list[tuple[float, Transport]] = field(default_factory=list)
    _bytes: dict[int, float] = field(default_factory=dict)
    _moved_s: float = 0.0

    async def peer(self) -> Peer:
        raise MoverUnavailableError("not asked for")

    async def stats(self) -> Stats:
        if self.failure is not None:
            raise self.failure
        self._move()
        streams = tuple(StreamStats(n, int(self._bytes.get(n, 0.0)), 0, 0.061, 0.06, self.control) for n in range(self.streams))
        return Stats(self.stage, frozenset({"reno", "cubic", "bbr"}), streams)

    async def set_transport(self, wanted: Transport) -> Transport:
        self.patches.append((self.clock.now_s, wanted))
        if self.refusal is not None:
            raise self.refusal
        self._move()
        self.streams = min(wanted.streams or self.streams, self.opens_at_most)
        self.control = wanted.congestion_control or self.control
        return Transport(self.control, self.streams)

    def _move(self) -> None:
        share = self.goodput_bps(self.streams, self.control) / 8 * (self.clock.now_s - self._moved_s) / self.streams
        self._bytes = {number: self._bytes.get(number, 0.0) + share for number in range(self.streams)}
        self._moved_s = self.clock.now_s


@dataclass
class Clock:
    """Time passes only when somebody sleeps; `events` happen when their time has come, the last one ends the test."""

    ends_s: float
    events: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    each_second: Callable[[], None] = lambda: None
    now_s: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.each_second()
        for at_s, event in list(self.events):
            if at_s <= self.now_s:
                self.events.remove((at_s, event))
                event()
        if self.now_s >= self.ends_s:
            raise TimeIsOverError


@dataclass
class StillPath:
    trace: Trace = field(default_factory=steady)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def recent(self, seconds: float) -> Trace:
        return self.trace


@dataclass
class Watched:
    clock: Clock
    mover: ModelMover
    board: Board
    record: Path

    def entries(self, kind: str) -> list[dict[str, object]]:
        return [dict(entry) for entry in read_record(self.record) if entry["kind"] == kind]


@pytest.fixture
def watch(tmp_path: Path) -> Callable[..., Watched]:
    def begin(
        seconds: float,
        limits: Limits | None = None,
        classify: Callable[[float], Background] | None = None,
        prepare: Callable[[ModelMover, Clock], None] = lambda mover, clock: None,
        in_force: str = "cubic",
        streams: int = 4,
        note: Callable[[Board, Clock], None] = lambda board, clock: None,
    ) -> Watched:
        clock = Clock(seconds)
        mover = ModelMover(clock, streams=streams, control=in_force)
        prepare(mover, clock)
        record = tmp_path / "decisions.jsonl"
        now = lambda: EPOCH + timedelta(seconds=clock.now_s)  # noqa: E731
        board = Board(Metrics(), Journal(record, now), now)
        board.stand(PATH, Decision(in_force, streams, abstained=True, reason=Reason.NO_MODEL, message="as told"), applied=True)
        board.record()
        clock.each_second = lambda: note(board, clock)
        effects = Effects(
            probe=lambda _peer: pytest.fail("it must not probe"),
            monitor=lambda _peer: pytest.fail("it has one"),
            now=now,
            classify=None if classify is None else lambda _trace: classify(clock.now_s),
            monotonic_s=lambda: clock.now_s,
            sleep=clock.sleep,
        )
        watching = Watch(mover, effects, board, limits or Limits(1, 32), history=History(), monitor=StillPath())
        with pytest.raises(TimeIsOverError):
            asyncio.run(watching.run())
        return Watched(clock, mover, board, record)

    return begin


def seen(name: str, confidence: float = 0.9) -> Background:
    probabilities = {other: float(other == name) for other in CLASSES}
    return Background(probabilities, float(name.startswith("B1")), confidence, False, "test-1")


def published(watched: Watched) -> Decision:
    assert watched.board.published is not None
    return watched.board.published.decision


def test_streams_are_added_where_that_helps_and_the_decision_says_so(watch: Callable[..., Watched]) -> None:
    watched = watch(60, prepare=lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: min(96e6, 12e6 * n)))
    assert 8 <= watched.mover.streams <= 16
    assert all(wanted.congestion_control is None for _, wanted in watched.mover.patches)
    decision = published(watched)
    assert decision.streams >= 8
    assert decision.message.startswith(f"as told; now {decision.streams} streams: kept {decision.streams}")
    assert watched.board.published is not None and watched.board.published.changes[0].what == "streams"
    kept = [entry for entry in watched.entries("streams") if entry["kept"] == entry["tried"]]
    assert kept and kept[0]["from"] == 4


def test_what_is_published_moves_at_most_every_ten_seconds(watch: Callable[..., Watched]) -> None:
    counts: dict[float, int] = {}

    def note(board: Board, clock: Clock) -> None:
        if board.published is not None:
            counts[clock.now_s] = board.published.decision.streams

    prepare = lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: 2e6 * n)  # noqa: E731
    watched = watch(150, Limits(1, 64), prepare=prepare, streams=1, note=note)
    moments = [now_s for (_, before), (now_s, after) in itertools.pairwise(counts.items()) if before != after]
    assert watched.mover.streams == counts[150.0] == 64
    assert 1 <= len(moments) <= 4
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(moments))


def test_a_count_set_by_the_user_is_kept(watch: Callable[..., Watched]) -> None:
    assert watch(120, Limits(4, 4)).mover.patches == []


@pytest.mark.parametrize(
    "failure", [MoverUnavailableError("no answer in time"), MoverAnswerError("streams is not a list")], ids=["hung", "garbage"]
)
def test_a_mover_that_hangs_or_talks_nonsense_changes_nothing_and_is_met_again(
    watch: Callable[..., Watched], failure: AdvisorError
) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda n, _c: min(96e6, 12e6 * n)
        mover.failure = failure
        clock.events.append((50.0, lambda: setattr(mover, "failure", None)))

    watched = watch(100, prepare=prepare)
    assert watched.mover.patches and watched.mover.patches[0][0] > 50
    assert watched.mover.streams >= 8


@pytest.mark.parametrize("stage", ["AwaitingTransport", "Verifying", "Publishing", "Done"])
def test_nothing_is_tried_outside_the_transfer(watch: Callable[..., Watched], stage: str) -> None:
    assert watch(60, prepare=lambda mover, _clock: setattr(mover, "stage", stage)).mover.patches == []


def test_a_refused_count_is_not_asked_for_again(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, _clock: Clock) -> None:
        mover.goodput_bps = lambda n, _c: 5e6 * n
        mover.refusal = TransportRefusedError("streams", "OutOfRange", "no more")

    watched = watch(120, prepare=prepare)
    upward = [wanted for _, wanted in watched.mover.patches if wanted.streams is not None and wanted.streams > 4]
    assert len(upward) == 1
    assert published(watched).streams == 4


def test_a_change_that_does_not_arrive_is_given_up(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, _clock: Clock) -> None:
        mover.goodput_bps = lambda n, _c: 5e6 * n
        mover.refusal = MoverUnavailableError("no answer in time")

    watched = watch(40, prepare=prepare)
    assert [wanted.streams for _, wanted in watched.mover.patches[:2]] == [8, 4]
    assert published(watched).streams == 4


def bbr_is_there(mover: ModelMover, _clock: Clock) -> None:
    mover.goodput_bps = lambda _n, control: 50e6 if control == "bbr" else 9e6


def test_bbr_that_arrives_is_answered_after_three_looks_on_live_sockets(watch: Callable[..., Watched]) -> None:
    watched = watch(150, Limits(4, 4), classify=lambda now_s: seen("B1-C0" if now_s > 60 else "B0-C0"), prepare=bbr_is_there)
    switches = [(at_s, wanted) for at_s, wanted in watched.mover.patches if wanted.congestion_control]
    assert [wanted.congestion_control for _, wanted in switches] == ["bbr"]
    assert 80 <= switches[0][0] <= 101
    decision = published(watched)
    assert (decision.congestion_control, decision.reason) == ("bbr", Reason.CLASSIFIED)
    assert decision.background is not None and "3 of the last" in decision.message
    assert [entry["to"] for entry in watched.entries("switch")] == ["bbr"]
    assert [entry["kept"] for entry in watched.entries("outcome")] == [True]
    assert len(watched.entries("decision")) == 2


def test_a_switch_that_made_things_worse_is_undone(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, _clock: Clock) -> None:
        mover.goodput_bps = lambda _n, control: 20e6 if control == "bbr" else 60e6

    watched = watch(200, Limits(4, 4), classify=lambda _now_s: seen("B1-C0"), prepare=prepare)
    assert [wanted.congestion_control for _, wanted in watched.mover.patches] == ["bbr", "cubic"]
    assert published(watched).congestion_control == watched.mover.control == "cubic"
    assert [entry["undo"] for entry in watched.entries("switch")] == [False, True]
    assert [entry["kept"] for entry in watched.entries("outcome")] == [False]


@pytest.mark.parametrize(
    ("limits", "classify"),
    [
        pytest.param(Limits(4, 4), lambda _now_s: seen("B1-C0", confidence=0.3), id="unsure"),
        pytest.param(Limits(4, 4, congestion_control="cubic"), lambda _now_s: seen("B1-C0"), id="the user's choice"),
        pytest.param(Limits(4, 4), lambda now_s: seen("B1-C0" if int(now_s / 10) % 3 == 0 else "B0-C1"), id="never three of five"),
    ],
)
def test_the_congestion_control_stays(watch: Callable[..., Watched], limits: Limits, classify: Callable[[float], Background]) -> None:
    assert watch(200, limits, classify=classify, prepare=bbr_is_there).mover.patches == []


def test_a_classifier_that_fails_stops_nothing(watch: Callable[..., Watched]) -> None:
    def classify(_now_s: float) -> Background:
        raise ClassifierAnswerError("not a number")

    watched = watch(100, classify=classify, prepare=lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: 12e6 * min(n, 8)))
    assert watched.mover.streams >= 8


def test_no_stream_is_tried_while_a_switch_is_on_trial(watch: Callable[..., Watched]) -> None:
    watched = watch(200, Limits(1, 32), classify=lambda now_s: seen("B1-C0" if now_s > 60 else "B0-C0"), prepare=bbr_is_there)
    (switched_s,) = [at_s for at_s, wanted in watched.mover.patches if wanted.congestion_control == "bbr"]
    assert not [at_s for at_s, wanted in watched.mover.patches if switched_s < at_s < switched_s + 20]


def test_the_end_tells_the_goodput_and_what_a_later_job_may_start_from(watch: Callable[..., Watched]) -> None:
    watched = watch(120, prepare=lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: min(96e6, 12e6 * n)))
    (end,) = watched.entries("end")
    assert end["streams"] == published(watched).streams
    assert isinstance(end["goodput_bps"], int) and 50e6 < end["goodput_bps"] < 97e6
    assert isinstance(end["stream_coefficient"], float)
    assert end["stream_coefficient"] == pytest.approx(published(watched).streams / (end["goodput_bps"] * 0.06), rel=1e-3)
