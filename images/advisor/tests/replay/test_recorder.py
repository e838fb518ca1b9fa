"""What the recorder writes is what the replay's world answers."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairlead_advisor.decide.model import BufferLimits, History, TransportLimits
from fairlead_advisor.decide.transfer import TransportSettings
from fairlead_advisor.errors import ClassifierAnswerError, TransportRefusedError
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.published import Published
from fairlead_advisor.replay.recorder import EventLog, RecordedMover, recorded
from fairlead_advisor.replay.run import replay
from fairlead_advisor.replay.world import World, read_events
from fairlead_advisor.steer.effects import BackgroundClassifier, SidecarEffects
from fairlead_advisor.steer.sidecar import Files, Sidecar
from tests.support.model_mover import PEER, CallingJob, Clock, MetMover, ModelMover, QuietPath, StillPath, seen
from tests.support.traces import steady

REFUSED = TransportSettings("htcp", None)


async def rehearse(mover: RecordedMover | World, effects: SidecarEffects) -> list[object]:
    """A few calls of each kind, and what they answered."""
    assert effects.classifier is not None
    answers: list[object] = [await mover.stats(), await mover.set_transport(TransportSettings("bbr", 2, 1 << 20))]
    with pytest.raises(TransportRefusedError) as refused:
        await mover.set_transport(REFUSED)
    answers += [refused.value.field, refused.value.reason, str(refused.value)]
    probed = await effects.probe(PEER, 5.0, None)
    answers += [list(probed.trace.rtts_ms), probed.counters, effects.monotonic_s(), effects.now()]
    answers.append(await effects.classifier.classify(steady(), 5.0))
    with pytest.raises(ClassifierAnswerError, match="not a number"):
        await effects.classifier.classify(steady(), 10.0)
    async with effects.neighbours(PEER) as neighbours:
        assert neighbours is not None
        for _ in range(3):
            answers += [neighbours.heard(), effects.monotonic_s()]
            await neighbours.rest(3.0)
    monitor, now_s = effects.monitor(PEER), effects.monotonic_s()
    answers += [list(monitor.recent(60.0).rtts_ms), monitor.replied(0.0, now_s + 60.0)]
    return answers


async def control_after(mover: RecordedMover | World, clock: Clock, wanted: str) -> str | None:
    """What the sockets report a second after a switch."""
    await mover.set_transport(TransportSettings(wanted, None))
    clock.now_s += 1.0
    return (await mover.stats()).streams[0].congestion_control


@pytest.mark.parametrize(("wanted", "reported"), [("bbr", "bbr"), ("reno", None)], ids=["as logged", "on another course"])
def test_the_logged_sockets_do_not_tell_what_another_switch_would_have_left_them_with(
    tmp_path: Path, wanted: str, reported: str | None
) -> None:
    clock = Clock(1e9)
    effects = SidecarEffects(
        QuietPath(clock).probe,
        lambda _peer: StillPath(),
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
    )
    file = tmp_path / "events.jsonl.gz"
    with EventLog(file, effects) as log:
        log.start(TransportLimits(1, 8), History(), None, 10.0, effects)
        assert asyncio.run(control_after(RecordedMover(ModelMover(clock), log), clock, "bbr")) == "bbr"
    assert asyncio.run(control_after(World(read_events(file)), clock, wanted)) == reported


def test_a_recorded_call_is_answered_again_as_it_was(tmp_path: Path) -> None:
    clock = Clock(1e9)
    mover = ModelMover(clock, buffers=BufferLimits(1 << 20, 1 << 22))
    set_transport = mover.set_transport

    async def refusing(wanted: TransportSettings) -> TransportSettings:
        if wanted == REFUSED:
            raise TransportRefusedError("congestion_control", "Unavailable", "htcp is not offered")
        return await set_transport(wanted)

    mover.set_transport = refusing  # type: ignore[method-assign]

    async def classify(_trace: object, window_s: float) -> object:
        if window_s == 10.0:
            raise ClassifierAnswerError("not a number")
        return seen("B1-C0")

    effects = SidecarEffects(
        QuietPath(clock).probe,
        lambda _peer: StillPath(),
        lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock.now_s),
        classifier=BackgroundClassifier(classify, (5.0, 10.0)),  # type: ignore[arg-type]
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
        neighbours=lambda _peer: nullcontext(CallingJob(clock, calls_s=clock.now_s + 1.25)),
    )
    file = tmp_path / "events.jsonl.gz"
    with EventLog(file, effects) as log:
        log.start(TransportLimits(1, 8), History(1e9, 2e-6), None, 10.0, effects)
        original = asyncio.run(rehearse(RecordedMover(mover, log), recorded(effects, log)))
    world = World(read_events(file))
    assert asyncio.run(rehearse(world, world.effects())) == original
    assert world.missing == []


def restarted(file: Path, folder: Path) -> Published:
    """What a sidecar publishes that is started again while two of twelve streams are open; `file` is its event log."""
    clock = Clock(5.0)
    effects = SidecarEffects(
        QuietPath(clock).probe,
        lambda _peer: StillPath(),
        lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock.now_s),
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
    )
    journal = Journal(folder / "decisions.jsonl", effects.now)
    journal.decided({"decision": {"congestion_control": "cubic", "streams": 12, "reason": "Classified", "message": "as told"}})
    board = DecisionBoard(AdvisorMetrics(), journal, effects.now)
    limits, history = TransportLimits(12, 12), History()
    with EventLog(file, effects) as log:
        log.start(limits, history, None, 10.0, effects, record=journal.resume())
        mover = RecordedMover(MetMover(clock, streams=2), log)
        files = Files(folder / "trace.csv", journal)
        sidecar = Sidecar(mover, recorded(effects, log), board, limits, history=history, files=files, probe_s=10.0)
        with pytest.raises(ExceptionGroup):
            asyncio.run(sidecar.run())
    assert board.published is not None
    return board.published


def test_a_sidecar_that_was_started_again_is_replayed_from_what_it_took_over(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl.gz"
    published = restarted(file, tmp_path)
    assert published.decision.streams == 12
    replayed = asyncio.run(replay(read_events(file)))
    assert replayed.last is not None and replayed.last.decision == published.decision
    assert [entry["number"] for entry in replayed.record if entry["kind"] == "decision"] == [2]


def test_the_log_of_a_sidecar_before_is_kept(tmp_path: Path) -> None:
    clock = Clock(5.0)
    effects = SidecarEffects(QuietPath(clock).probe, lambda _peer: StillPath(), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for probe_s in (10.0, 20.0, 30.0):
        with EventLog(tmp_path / "events.jsonl.gz", effects) as log:
            log.start(TransportLimits(), History(), None, probe_s, effects)
    files = ["events.jsonl.gz", "events.jsonl.2.gz", "events.jsonl.3.gz"]
    assert [read_events(tmp_path / name)[0]["probe_s"] for name in files] == [10.0, 20.0, 30.0]
