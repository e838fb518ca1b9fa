import asyncio
from dataclasses import replace

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.errors import MoverUnavailableError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.effects import BackgroundClassifier, SidecarEffects
from fairlead_advisor.steer.paused_probe import DRAIN_S, LONGEST_QUIET_S, TOGETHER_S, PausedProbe, probe_paused
from tests.steer.conftest import EPOCH
from tests.support.model_mover import PEER, Clock, ModelMover, QuietPath, seen


def effects_on(clock: Clock, answer: Background) -> SidecarEffects:
    async def classify(_trace: Trace, _window_s: float) -> Background:
        return answer

    return SidecarEffects(
        probe=QuietPath(clock).probe,
        monitor=lambda _peer: pytest.fail("not asked for"),
        now=lambda: EPOCH,
        classifier=BackgroundClassifier(classify, (5.0, 10.0)),
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
    )


async def looked(mover: ModelMover, clock: Clock, answer: Background) -> PausedProbe:
    return await probe_paused(mover, effects_on(clock, answer), PEER)


async def test_even_an_unsure_look_fits_into_the_quiet_that_the_mover_grants() -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock)
    found = await looked(mover, clock, seen("B0-C0", 0.6, abstained=True))
    assert found.survey is not None and found.survey.background is not None
    assert found.paused_s < LONGEST_QUIET_S
    assert [seconds for _, seconds in mover.holds] == [LONGEST_QUIET_S, 0]


@pytest.mark.parametrize("drained_s", [0.0, 3.5])
async def test_who_pauses_with_others_waits_for_the_slowest_of_them(drained_s: float) -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock, drains=not drained_s)
    clock.events.append((drained_s, lambda: setattr(mover, "drains", True)))
    found = await probe_paused(mover, effects_on(clock, seen("B0-C0")), PEER, together=True)
    assert found.survey is not None and found.survey.background == seen("B0-C0")
    assert found.paused_s == pytest.approx(TOGETHER_S, abs=0.01)


async def test_who_is_in_doubt_holds_nobody_up_for_longer() -> None:
    clock = Clock(100.0)
    doubts = seen("B0-C0", 0.6, abstained=True)
    found = await probe_paused(ModelMover(clock), effects_on(clock, doubts), PEER, together=True)
    assert found.paused_s == (await looked(ModelMover(clock), clock, doubts)).paused_s


async def test_sampling_begins_when_the_own_data_have_arrived() -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock, drains=False)
    clock.events.append((2.0, lambda: setattr(mover, "drains", True)))
    found = await looked(mover, clock, seen("B0-C0"))
    assert found.survey is not None
    assert 2 + 5 < found.paused_s < 2 + 5 + 1


async def test_data_that_do_not_drain_end_the_look() -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock, drains=False)
    found = await looked(mover, clock, seen("B0-C0"))
    assert (found.survey, found.failure) == (None, "the transfer's own data were still arriving after 4 s")
    assert found.paused_s <= DRAIN_S + 0.5
    assert mover.holds[-1][1] == 0


async def test_a_release_that_is_not_answered_is_sent_once_more() -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock)
    hold_data = mover.hold_data

    async def losing_the_first_release(seconds: float) -> None:
        if seconds == 0 and len(mover.holds) == 1:
            mover.holds.append((clock.now_s, seconds))
            raise MoverUnavailableError("no answer in time")
        await hold_data(seconds)

    mover.hold_data = losing_the_first_release  # type: ignore[method-assign]
    await looked(mover, clock, seen("B0-C0"))
    assert [seconds for _, seconds in mover.holds] == [LONGEST_QUIET_S, 0, 0]
    assert not mover.is_held


async def test_a_look_that_is_cancelled_lets_the_data_flow_again() -> None:
    clock = Clock(100.0)
    mover = ModelMover(clock)
    sampling = asyncio.Event()

    async def classify(_trace: Trace, _window_s: float) -> Background:
        sampling.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    effects = replace(effects_on(clock, seen("B0-C0")), classifier=BackgroundClassifier(classify, (5.0, 10.0)))
    look = asyncio.create_task(probe_paused(mover, effects, PEER))
    await sampling.wait()
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert [seconds for _, seconds in mover.holds] == [LONGEST_QUIET_S, 0]
