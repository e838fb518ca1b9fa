import asyncio

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, ProbeError, TraceError
from fairlead_advisor.probe.session import Counters
from fairlead_advisor.probe.socket import Enough, ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.effects import BackgroundClassifier, SidecarEffects
from fairlead_advisor.steer.mover import Peer
from fairlead_advisor.steer.survey import Survey, survey
from tests.steer.conftest import EPOCH
from tests.support.model_mover import PEER, Clock, QuietPath, seen
from tests.support.traces import steady

DOUBT, SURE = seen("B1-C0", 0.9), seen("B1-C0", 0.97)


class Asked:
    """Answers each window with the next of `answers`; an error among them is raised."""

    def __init__(self, *answers: Background | AdvisorError) -> None:
        self.answers = list(answers)
        self.windows_s: list[float] = []

    async def classify(self, _trace: Trace, window_s: float) -> Background:
        self.windows_s.append(window_s)
        answer = self.answers.pop(0)
        if isinstance(answer, AdvisorError):
            raise answer
        return answer


async def surveyed(asked: Asked | None, budget_s: float = 10.0, windows_s: tuple[float, ...] = (20.0, 5.0, 10.0)) -> tuple[Survey, Clock]:
    clock = Clock(1000.0)
    effects = SidecarEffects(
        probe=QuietPath(clock).probe,
        monitor=lambda _peer: pytest.fail("not asked for"),
        now=lambda: EPOCH,
        classifier=None if asked is None else BackgroundClassifier(asked.classify, windows_s),
        no_classifier="no model" if asked is None else "",
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
    )
    return await survey(effects, PEER, budget_s), clock


async def test_a_sure_answer_on_the_shortest_window_ends_it() -> None:
    asked = Asked(SURE)
    found, clock = await surveyed(asked)
    assert (found.background, found.failure, asked.windows_s) == (SURE, "", [5.0])
    assert 5 < clock.now_s < 6


@pytest.mark.parametrize(
    "first", [DOUBT, seen("B1-C0", 0.97, abstained=True), TraceError("not covered"), ClassifierAnswerError("no number")]
)
async def test_doubt_is_answered_by_the_longest_window_that_the_budget_has(first: Background | AdvisorError) -> None:
    asked = Asked(first, DOUBT)
    found, clock = await surveyed(asked)
    assert (found.background, asked.windows_s, clock.now_s) == (DOUBT, [5.0, 10.0], 10.0)


async def test_a_larger_budget_is_used_when_in_doubt_and_never_exceeded() -> None:
    asked = Asked(DOUBT, DOUBT, DOUBT)
    assert (await surveyed(asked, 25.0))[1].now_s == 20.0
    assert asked.windows_s == [5.0, 10.0, 20.0]


async def test_a_budget_too_small_for_the_model_measures_the_path_and_says_so() -> None:
    found, clock = await surveyed(Asked(), 3.0)
    assert (found.background, clock.now_s) == (None, 3.0)
    assert found.failure == "the probe's 3 s are too few for the classifier, which needs 5: raise --seconds"


async def test_without_a_model_the_path_is_measured_and_the_reason_told() -> None:
    found, clock = await surveyed(None)
    assert (found.background, found.failure, clock.now_s) == (None, "no model", 10.0)


async def test_a_classifier_that_fails_is_told() -> None:
    found, _ = await surveyed(Asked(ClassifierAnswerError("a"), ClassifierAnswerError("not a number")))
    assert (found.background, found.failure) == (None, "the classifier failed: not a number")


async def test_a_classifier_that_hangs_is_given_up_and_told() -> None:
    ended: list[float] = []

    async def hangs(_trace: Trace, window_s: float) -> Background:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(window_s)
        raise AssertionError("it hangs")

    clock = Clock(1000.0)
    effects = SidecarEffects(
        probe=QuietPath(clock).probe,
        monitor=lambda _peer: pytest.fail("not asked for"),
        now=lambda: EPOCH,
        classifier=BackgroundClassifier(hangs, (5.0, 10.0), answers_within_s=0.001),
        monotonic_s=lambda: clock.now_s,
        sleep=clock.sleep,
    )
    found = await survey(effects, PEER, 10.0)
    assert (found.background, found.failure) == (None, "the classifier failed: no answer within 0.001 s")
    assert (ended, clock.now_s) == ([5.0, 10.0], 10.0)


@pytest.mark.parametrize(("windows_s", "waits_s"), [((10.0,), 10.0), ((5.0, 10.0), 5.25)])
async def test_an_echo_that_never_answers_is_not_classified_nor_asked_for_longer_than_a_window(
    windows_s: tuple[float, ...], waits_s: float
) -> None:
    clock, asked = Clock(1000.0), Asked()
    silent = steady(500, 0.02, None)

    async def probe(_peer: Peer, seconds: float, enough: Enough | None) -> ProbeResult:
        if enough is None or not await enough(lambda: silent):
            await clock.sleep(seconds)
        return ProbeResult(silent, Counters())

    classifier = BackgroundClassifier(asked.classify, windows_s)
    effects = SidecarEffects(probe, lambda _peer: pytest.fail("no"), lambda: EPOCH, classifier=classifier, sleep=clock.sleep)
    assert (await survey(effects, PEER, 10.0)).failure == "the echo answered no request"
    assert (asked.windows_s, clock.now_s) == ([], waits_s)


async def test_a_path_that_cannot_be_sampled_is_the_callers_to_tell() -> None:
    async def probe(_peer: Peer, _seconds: float, _enough: Enough | None) -> ProbeResult:
        raise ProbeError("no route")

    with pytest.raises(ProbeError, match="no route"):
        await survey(SidecarEffects(probe, lambda _peer: pytest.fail("no"), lambda: EPOCH, no_classifier="none"), PEER, 10.0)
