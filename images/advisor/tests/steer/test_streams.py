import itertools
from collections.abc import Callable

import pytest

from fairlead_advisor.decide.model import Decision, TransportLimits
from fairlead_advisor.errors import AdvisorError, MoverAnswerError, MoverUnavailableError, TransportRefusedError
from fairlead_advisor.record.board import DecisionBoard
from tests.support.model_mover import Clock, FarPath, ModelMover, Watched


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


def test_a_queue_that_delays_the_echo_beyond_the_next_sample_is_seen(watch: Callable[..., Watched]) -> None:
    watched = watch(
        120, prepare=lambda mover, _clock: setattr(mover, "goodput_bps", lambda _n, _c: 96e6), sampled_by=lambda clock: FarPath(clock, 1.1)
    )
    assert watched.mover.streams == 1, "a path that is full of somebody's queue is left to its share"


def test_what_is_published_moves_at_most_every_ten_seconds(watch: Callable[..., Watched]) -> None:
    counts: dict[float, int] = {}

    def note(board: DecisionBoard, clock: Clock) -> None:
        if board.published is not None:
            counts[clock.now_s] = board.published.decision.streams

    prepare = lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: 2e6 * n)  # noqa: E731
    watched = watch(150, TransportLimits(1, 64), prepare=prepare, streams=1, note=note)
    moments = [now_s for (_, before), (now_s, after) in itertools.pairwise(counts.items()) if before != after]
    assert watched.mover.streams == counts[150.0] == 64
    assert 1 <= len(moments) <= 4
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(moments))


def test_a_count_set_by_the_user_is_kept(watch: Callable[..., Watched]) -> None:
    assert watch(120, TransportLimits(4, 4)).mover.patches == []


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


def test_the_end_tells_the_goodput_and_what_a_later_job_may_start_from(watch: Callable[..., Watched]) -> None:
    watched = watch(120, prepare=lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: min(96e6, 12e6 * n)))
    (end,) = watched.entries("end")
    assert end["streams"] == published(watched).streams
    assert isinstance(end["goodput_bps"], int) and 50e6 < end["goodput_bps"] < 97e6
    assert isinstance(end["stream_coefficient"], float)
    assert end["stream_coefficient"] == pytest.approx(published(watched).streams / (end["goodput_bps"] * 0.06), rel=1e-3)
