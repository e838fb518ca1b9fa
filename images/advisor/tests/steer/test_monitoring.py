"""Looks in mid-transfer against a model of a mover and a clock that only the loop moves."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Decision, DecisionReason, TransportLimits
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, MoverUnavailableError, TraceError, TransportRefusedError
from fairlead_advisor.record.explain import explain
from fairlead_advisor.record.journal import read_record
from fairlead_advisor.record.samples import sampled_traces
from tests.steer.conftest import EPOCH
from tests.support.model_mover import Clock, ModelMover, Watched, seen

NOBODY = seen("B0-C0")
UNSURE = seen("B1-C0", 0.6, abstained=True)
FIXED = TransportLimits(4, 4)


def published(watched: Watched) -> Decision:
    assert watched.board.published is not None
    return watched.board.published.decision


def switches(watched: Watched) -> list[tuple[float, str]]:
    return [(at_s, wanted.congestion_control) for at_s, wanted in watched.mover.patches if wanted.congestion_control]


def bbr_between(mover: ModelMover, clock: Clock, arrives_s: float = 60, leaves_s: float = 1e9) -> None:
    """BBR pushes CUBIC aside, and shares with BBR."""

    def goodput_bps(_streams: int, control: str) -> float:
        if not arrives_s < clock.now_s <= leaves_s:
            return 95e6
        return 48e6 if control == "bbr" else 15e6

    mover.goodput_bps = goodput_bps


def sees_bbr(arrives_s: float = 60, leaves_s: float = 1e9) -> Callable[[float], Background]:
    return lambda now_s: seen("B1-C0" if arrives_s < now_s <= leaves_s else "B0-C0")


def test_bbr_that_arrives_is_answered_within_twenty_seconds_on_live_sockets(watch: Callable[..., Watched]) -> None:
    watched = watch(150, FIXED, classify=sees_bbr(), prepare=bbr_between, answered=NOBODY)
    ((at_s, control),) = switches(watched)
    assert (control, 60 < at_s <= 80) == ("bbr", True)
    decision = published(watched)
    assert (decision.congestion_control, decision.reason) == ("bbr", DecisionReason.CLASSIFIED)
    assert decision.background is not None and "a quiet look, since the path changed: the goodput fell" in decision.message
    (look,) = watched.entries("look")
    assert (look["background"], look["sure"], look["news"]) == ({"class": "B1-C0", "probability": 0.97, "abstained": False}, True, True)
    assert [len(trace) for trace in sampled_traces(watched.entries("survey"))] == [500], "what was sampled can be trained on"
    assert [entry["to"] for entry in watched.entries("switch")] == ["bbr"]
    assert [entry["kept"] for entry in watched.entries("outcome")] == [True]
    assert len(watched.entries("decision")) == 2
    assert watched.board.published is not None and watched.board.published.looks.count == 1


def test_bbr_that_comes_and_leaves_is_followed_both_ways(watch: Callable[..., Watched]) -> None:
    prepare = lambda mover, clock: bbr_between(mover, clock, 60, 120)  # noqa: E731
    watched = watch(200, FIXED, classify=sees_bbr(60, 120), prepare=prepare, answered=NOBODY)
    (arrived_s, first), (left_s, second) = switches(watched)
    assert (first, second) == ("bbr", "cubic")
    assert (arrived_s <= 80, left_s <= 140) == (True, True)


def test_a_sure_early_answer_ends_the_look_and_lets_the_data_flow_at_once(watch: Callable[..., Watched]) -> None:
    watched = watch(100, FIXED, classify=sees_bbr(), prepare=bbr_between, answered=NOBODY)
    (began_s, held_s), (ended_s, none) = watched.mover.holds
    assert (held_s, none) == (15.0, 0)
    assert 5 < ended_s - began_s < 7
    assert watched.path.asked_s == [10.0]


@pytest.mark.parametrize("answered", [NOBODY, seen("B0-C1")])
def test_in_a_stationary_scene_nothing_is_held_and_nothing_switched(watch: Callable[..., Watched], answered: Background) -> None:
    watched = watch(400, FIXED, classify=lambda _now_s: answered, answered=answered)
    assert (watched.mover.holds, watched.mover.patches) == ([], [])


def test_a_change_that_alters_nothing_costs_one_look_and_no_switch(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, _c: 95e6 if clock.now_s <= 60 else 70e6

    watched = watch(400, FIXED, classify=lambda now_s: seen("B0-C1" if now_s > 60 else "B0-C0"), prepare=prepare, answered=NOBODY)
    assert (len(watched.mover.holds), switches(watched)) == (2, [])
    decision = published(watched)
    assert (decision.congestion_control, decision.background and decision.background.likeliest[0]) == ("cubic", "B0-C1")


@pytest.mark.parametrize("caps_bps", [(200e6, 400e6), (90e6, 82e6), (98e6, 112e6)], ids=["far above", "holding", "just above"])
def test_a_cap_that_is_rewritten_all_the_time_hides_nobody(watch: Callable[..., Watched], caps_bps: tuple[float, float]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.cap_bps = lambda now_s: caps_bps[int(now_s / 10) % 2]

    watched = watch(150, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    ((at_s, control),) = switches(watched)
    assert (control, 60 < at_s <= 80) == ("bbr", True)


def test_a_cap_that_is_cut_is_no_change_of_the_path(watch: Callable[..., Watched]) -> None:
    prepare = lambda mover, _clock: setattr(mover, "cap_bps", lambda now_s: 90e6 if now_s <= 60 else 40e6)  # noqa: E731
    watched = watch(200, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert (watched.mover.holds, watched.mover.patches) == ([], [])


def test_a_switch_is_not_to_blame_for_a_cap_that_was_cut_on_its_trial(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.cap_bps = lambda now_s: 100e6 if now_s <= 80 else 10e6

    watched = watch(150, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    ((at_s, control),) = switches(watched)
    assert (control, at_s + 20 > 80) == ("bbr", True)
    assert [entry["kept"] for entry in watched.entries("outcome")] == [True]


def test_what_a_lifted_cap_brought_is_not_put_down_to_the_switch(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        def goodput_bps(_streams: int, control: str) -> float:
            return 95e6 if not 60 < clock.now_s <= 150 else 75e6 if control == "bbr" else 4e6

        mover.goodput_bps = goodput_bps
        mover.cap_bps = lambda now_s: 16e6 if now_s <= 80 else None

    watched = watch(260, FIXED, classify=sees_bbr(60, 150), prepare=prepare, answered=NOBODY)
    assert [control for _, control in switches(watched)] == ["bbr", "cubic"]
    (first, _) = watched.entries("outcome")
    assert isinstance(first["goodput_ratio"], float) and first["goodput_ratio"] > 4, "of which most is the cap's"


def test_bbr_that_was_there_from_the_first_byte_is_heard_without_a_step(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, _clock: Clock) -> None:
        mover.goodput_bps = lambda _n, control: 20e6 if control == "bbr" else 2e6

    beside = lambda _now_s: seen("B1-B1")  # noqa: E731
    watched = watch(100, FIXED, classify=beside, prepare=prepare, answered=seen("B0-C1"), hears=beside)
    ((at_s, control),) = switches(watched)
    assert (control, at_s <= 35) == ("bbr", True)
    (look,) = watched.entries("look")
    assert look["why"] == "what is heard beside the data contradicts the last answer"
    assert look["story"] == "BBR is heard beside the data (97%)"
    assert "BBR is heard beside the data (97%)" in published(watched).message


def test_bbr_that_falls_silent_without_a_step_is_looked_for(watch: Callable[..., Watched]) -> None:
    hears = lambda now_s: seen("B1-B1" if now_s <= 100 else "B1-C1" if now_s <= 130 else "B0-C1")  # noqa: E731
    watched = watch(180, FIXED, classify=sees_bbr(0, 100), in_force="bbr", answered=seen("B1-C0"), hears=hears)
    ((at_s, control),) = switches(watched)
    assert (control, 100 < at_s <= 140) == ("cubic", True)
    (look,) = watched.entries("look")
    assert look["story"] == "no other BBR is heard beside the data any more (0%)"


@pytest.mark.parametrize(
    ("limits", "hears"),
    [
        pytest.param(TransportLimits(5, 5), lambda _now_s: seen("B1-B1"), id="own streams are too many"),
        pytest.param(FIXED, lambda _now_s: seen("B1-B1", 0.85), id="it is not sure"),
        pytest.param(FIXED, lambda _now_s: seen("B1-B1", abstained=True), id="it abstains"),
        pytest.param(FIXED, lambda now_s: seen("B1-B1" if int(now_s / 5) % 2 else "B0-C1"), id="it changes its mind"),
        pytest.param(TransportLimits(4, 4, congestion_control="cubic"), lambda _now_s: seen("B1-B1"), id="the user's choice"),
    ],
)
def test_nothing_is_held_for_what_is_not_heard_for_sure(
    watch: Callable[..., Watched], limits: TransportLimits, hears: Callable[[float], Background]
) -> None:
    asked_s: list[float] = []

    def noted(now_s: float) -> Background:
        asked_s.append(now_s)
        return hears(now_s)

    watched = watch(200, limits, classify=sees_bbr(0), streams=limits.streams_minimum, answered=NOBODY, hears=noted)
    assert (watched.mover.holds, watched.mover.patches) == ([], [])
    assert bool(asked_s) is (limits is FIXED), "nobody listens where nothing can follow"


def cubic_joins(mover: ModelMover, clock: Clock) -> None:
    mover.goodput_bps = lambda _n, _c: 95e6 if clock.now_s <= 60 else 55e6 if clock.now_s <= 200 else 20e6


def test_a_step_that_does_not_sound_like_bbr_costs_no_look_and_becomes_the_usual(watch: Callable[..., Watched]) -> None:
    classify = lambda now_s: seen("B0-C1" if now_s <= 200 else "B1-C1")  # noqa: E731
    watched = watch(180, FIXED, classify=classify, prepare=cubic_joins, answered=NOBODY, hears=classify)
    assert (watched.mover.holds, watched.mover.patches) == ([], [])
    again = watch(260, FIXED, classify=classify, prepare=cubic_joins, answered=NOBODY, hears=classify)
    (look,) = again.entries("look")
    assert look["why"] == "the path changed" and "before 55.0" in str(look["story"])
    assert [control for _, control in switches(again)] == ["bbr"]


def test_a_denied_step_that_is_over_does_not_make_a_later_one_the_usual(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, control: 48e6 if control == "bbr" else 50e6 if 60 < clock.now_s <= 67 or clock.now_s > 200 else 95e6

    # The later one can only be heard after six seconds.
    hears = lambda now_s: seen("B0-C1" if now_s <= 206 else "B1-C1", 0.89)  # noqa: E731
    watched = watch(260, FIXED, classify=sees_bbr(200), prepare=prepare, answered=NOBODY, hears=hears)
    ((at_s, control),) = switches(watched)
    assert (control, 200 < at_s <= 222) == ("bbr", True)


def test_what_is_heard_is_judged_together_with_an_unsure_answer(watch: Callable[..., Watched]) -> None:
    leans = seen("B1-C0", 0.75, abstained=True)
    watched = watch(200, FIXED, classify=lambda _now_s: seen("B1-C0", 0.85), answered=leans, hears=lambda _now_s: seen("B1-C1"))
    (look, *_) = watched.entries("look")
    probability = look["any_bbr"]
    assert look["why"] == "what is heard beside the data contradicts the last answer"
    assert isinstance(probability, float) and 0.75 < probability < 0.85, "neither answer alone"


def test_with_own_bbr_a_step_is_no_reason_while_somebody_elses_is_heard(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, _c: 30e6 if clock.now_s <= 60 else 60e6

    hears = lambda now_s: seen("B1-B1" if now_s <= 120 else "B1-C0")  # noqa: E731
    single = TransportLimits(1, 1)
    watched = watch(110, single, classify=sees_bbr(0, 120), prepare=prepare, in_force="bbr", streams=1, answered=seen("B1-C0"), hears=hears)
    assert watched.mover.holds == []
    several = watch(110, FIXED, classify=sees_bbr(0, 120), prepare=prepare, in_force="bbr", answered=seen("B1-C0"), hears=hears)
    assert len(several.entries("look")) == 1, "several own streams may sound like somebody else's"


def test_bbr_that_arrives_and_is_heard_is_answered_as_soon(watch: Callable[..., Watched]) -> None:
    hears = lambda now_s: seen("B0-C1" if now_s <= 64 else "B1-C1")  # noqa: E731
    watched = watch(150, FIXED, classify=sees_bbr(), prepare=bbr_between, answered=NOBODY, hears=hears)
    ((at_s, control),) = switches(watched)
    assert (control, 60 < at_s <= 75) == ("bbr", True)


def test_what_a_quiet_look_denies_is_heard_ever_more_seldom(watch: Callable[..., Watched]) -> None:
    watched = watch(900, FIXED, classify=lambda _now_s: NOBODY, answered=NOBODY, hears=lambda _now_s: seen("B1-B1"))
    starts_s = [at_s for at_s, seconds in watched.mover.holds if seconds]
    assert (len(starts_s), switches(watched)) == (3, [])
    assert sum(1 for at_s in starts_s if at_s < 300) == 1


def test_a_barred_answer_that_is_heard_again_is_no_news(watch: Callable[..., Watched]) -> None:
    hears = lambda now_s: seen("B1-C1" if now_s > 60 else "B0-C1")  # noqa: E731
    watched = watch(260, FIXED, classify=sees_bbr(), prepare=worse_with_bbr, answered=NOBODY, hears=hears)
    assert [look["why"] for look in watched.entries("look")] == ["the path changed", "the path changed"]


def test_a_classifier_that_fails_beside_the_data_is_asked_again_after_a_minute(watch: Callable[..., Watched]) -> None:
    asked_s: list[float] = []

    def hears(now_s: float) -> Background:
        asked_s.append(now_s)
        raise ClassifierAnswerError("too few requests were answered")

    watch(200, FIXED, classify=sees_bbr(1e9), answered=NOBODY, hears=hears)
    assert [round(later - earlier, -1) for earlier, later in pairwise(asked_s)] == [60.0, 60.0, 60.0]


def test_a_window_without_enough_answers_is_followed_by_the_next(watch: Callable[..., Watched]) -> None:
    def hears(now_s: float) -> Background:
        if now_s < 40:
            raise TraceError("too few requests were answered")
        return seen("B1-C1")

    watched = watch(100, FIXED, classify=lambda _now_s: seen("B1-C0"), answered=NOBODY, hears=hears)
    ((at_s, control),) = switches(watched)
    assert (control, 45 < at_s <= 65) == ("bbr", True)


def test_a_switch_is_judged_by_what_was_left_when_it_was_looked_at(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        def goodput_bps(_streams: int, control: str) -> float:
            # Pushed aside within five seconds, of which a look sees the middle.
            return 15e6 if control == "bbr" else max(5e6, 95e6 - 40e6 * max(0.0, clock.now_s - 60))

        mover.goodput_bps = goodput_bps

    watched = watch(120, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert [control for _, control in switches(watched)] == ["bbr"]
    assert [entry["kept"] for entry in watched.entries("outcome")] == [True]


def worse_with_bbr(mover: ModelMover, clock: Clock) -> None:
    """Whoever comes after 60 s takes more from BBR at first, and after 200 s more from CUBIC."""

    def goodput_bps(_streams: int, control: str) -> float:
        if clock.now_s <= 60:
            return 95e6
        with_bbr, with_cubic = (10e6, 30e6) if clock.now_s <= 200 else (40e6, 8e6)
        return with_bbr if control == "bbr" else with_cubic

    mover.goodput_bps = goodput_bps


def test_what_a_barred_answer_spoke_for_is_told_with_what_was_measured_of_it(watch: Callable[..., Watched]) -> None:
    watched = watch(260, FIXED, classify=sees_bbr(), prepare=worse_with_bbr, answered=NOBODY)
    assert [control for _, control in switches(watched)] == ["bbr", "cubic"]
    assert [(look["sure"], look["news"]) for look in watched.entries("look")] == [(True, True), (True, False)]
    decision = published(watched)
    (rejected,) = decision.rejected
    assert decision.congestion_control == "cubic" and "it stays for now instead of bbr after a quiet look" in decision.message
    assert (rejected.congestion_control, rejected.why_not) == ("bbr", "barred for a while: bbr brought 33% of the goodput before it")


def test_a_barred_answer_is_asked_for_again_when_the_bar_ends_though_nothing_changes_any_more(watch: Callable[..., Watched]) -> None:
    watched = watch(460, FIXED, classify=sees_bbr(), prepare=worse_with_bbr, answered=NOBODY)
    (_, (undone_s, _), (again_s, control)) = switches(watched)
    looks = watched.entries("look")
    retried = "the last answer could not be followed"
    assert [(look["why"], look["news"]) for look in looks[1:]] == [("the path changed", False), (retried, True)]
    assert (control, undone_s + 300 <= again_s <= undone_s + 320) == ("bbr", True)
    decision = published(watched)
    assert [other.congestion_control for other in decision.rejected] == ["cubic"]


def test_a_barred_answer_is_asked_for_again_though_no_step_ever_came_during_the_bar(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, control: 95e6 if clock.now_s <= 60 else 10e6 if control == "bbr" else 30e6

    watched = watch(460, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert [look["why"] for look in watched.entries("look")] == ["the path changed", "the last answer could not be followed"]
    (_, (undone_s, _), (again_s, control), *_) = switches(watched)
    assert (control, undone_s + 300 <= again_s <= undone_s + 330) == ("bbr", True)


def test_an_answer_that_is_followed_after_all_leaves_nothing_to_ask_for(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        # Whoever comes pushes CUBIC aside only while BBR is on trial, so that BBR returns.
        with_cubic_bps = lambda: 60e6 if clock.now_s < 85 else 5e6  # noqa: E731
        mover.goodput_bps = lambda _n, control: 95e6 if clock.now_s <= 60 else 48e6 if control == "bbr" else with_cubic_bps()

    watched = watch(700, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert [control for _, control in switches(watched)] == ["bbr", "cubic", "bbr"]
    assert [look["why"] for look in watched.entries("look")] == ["the path changed"]


def test_a_switch_that_made_things_worse_is_undone(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, control: 95e6 if clock.now_s <= 60 else 10e6 if control == "bbr" else 30e6

    watched = watch(250, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert [control for _, control in switches(watched)] == ["bbr", "cubic"]
    assert published(watched).congestion_control == watched.mover.control == "cubic"
    decision = published(watched)
    assert "bbr brought 33% of the goodput before it" in decision.message
    (rejected,) = decision.rejected
    assert (rejected.congestion_control, rejected.why_not) == ("bbr", "bbr brought 33% of the goodput before it")
    assert rejected.utility is not None and decision.utility is not None and decision.utility < rejected.utility, "each has its own"
    told = explain(read_record(watched.record))
    assert ("  rejected   bbr: bbr brought 33%" in told, "rejected   cubic" in told) == (True, False)
    assert [entry["undo"] for entry in watched.entries("switch")] == [False, True]
    assert [entry["kept"] for entry in watched.entries("outcome")] == [False]


def test_what_is_published_without_a_measurement_keeps_the_time_of_the_one_it_rests_on(watch: Callable[..., Watched]) -> None:
    watched = watch(150, FIXED, classify=sees_bbr(), prepare=worse_with_bbr, answered=NOBODY)
    first, looked, undone = watched.entries("decision")
    decided_at = [entry["decision"]["decided_at"] for entry in (first, looked, undone)]  # type: ignore[index]
    assert decided_at == [first["at"], looked["at"], looked["at"]]
    assert undone["at"] != looked["at"]


@pytest.mark.parametrize(
    ("limits", "classify", "can_hold"),
    [
        pytest.param(FIXED, lambda _now_s: UNSURE, True, id="unsure"),
        pytest.param(TransportLimits(4, 4, congestion_control="cubic"), sees_bbr(), True, id="the user's choice"),
        pytest.param(FIXED, sees_bbr(), False, id="a mover that cannot hold its data back"),
        pytest.param(FIXED, None, True, id="no model"),
    ],
)
def test_the_congestion_control_stays(
    watch: Callable[..., Watched], limits: TransportLimits, classify: Callable[[float], Background] | None, can_hold: bool
) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.can_hold = can_hold

    watched = watch(200, limits, classify=classify, prepare=prepare, answered=None if classify is None else NOBODY)
    assert watched.mover.patches == []
    looks = classify is not None and limits is FIXED and can_hold
    assert bool(watched.mover.holds) is looks


def fails(_now_s: float) -> Background:
    raise ClassifierAnswerError("not a number")


@pytest.mark.parametrize(
    ("classify", "refusal", "drains", "failure"),
    [
        pytest.param(fails, None, True, "the classifier failed: not a number", id="the classifier raises"),
        pytest.param(sees_bbr(), None, False, "the transfer's own data were still arriving", id="the data do not drain"),
        pytest.param(sees_bbr(), MoverUnavailableError("no answer in time"), True, "no answer in time", id="the mover hangs"),
        pytest.param(sees_bbr(), TransportRefusedError("quiet_for_ms", "OutOfRange", "not now"), True, "not now", id="the mover refuses"),
    ],
)
def test_a_look_that_fails_is_told_ends_the_quiet_and_is_not_repeated_soon(
    watch: Callable[..., Watched], classify: Callable[[float], Background], refusal: AdvisorError | None, drains: bool, failure: str
) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.refusal, mover.drains = refusal, drains

    watched = watch(120, FIXED, classify=classify, prepare=prepare, answered=NOBODY)
    looks = watched.entries("look")
    assert failure in str(looks[0]["failure"])
    assert len(looks) <= 2
    released = [0, 0] if isinstance(refusal, MoverUnavailableError) else [0]
    assert [seconds for _, seconds in watched.mover.holds] == [15.0, *released] * len(looks)
    assert watched.mover.patches == []
    assert published(watched).message == "as told"


@pytest.mark.parametrize("failure", ["refused", "does not drain"])
def test_bbr_that_came_is_asked_for_again_after_a_look_that_gave_no_answer(watch: Callable[..., Watched], failure: str) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.refusal = MoverUnavailableError("no answer in time") if failure == "refused" else None
        mover.drains = failure == "refused"
        clock.events += [(100.0, lambda: setattr(mover, "refusal", None)), (100.0, lambda: setattr(mover, "drains", True))]

    watched = watch(450, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    ((at_s, control),) = switches(watched)
    assert (control, 350 <= at_s <= 380) == ("bbr", True)
    assert watched.entries("look")[-1]["why"] == "what changed before is still not known"


def test_two_unsure_answers_of_one_scene_are_judged_together_and_only_when_earned(watch: Callable[..., Watched]) -> None:
    watched = watch(400, FIXED, classify=lambda _now_s: seen("B0-C0", 0.9), answered=UNSURE)
    (look, *_) = watched.entries("look")
    assert look["why"] == "the last answer was unsure"
    assert watched.mover.holds[0][0] >= 350
    probability = look["any_bbr"]
    assert isinstance(probability, float)
    assert 0.1 < probability < 0.6, "neither the first answer nor the second alone"


def test_started_in_mid_transfer_it_looks_once_to_know_anything(watch: Callable[..., Watched]) -> None:
    watched = watch(200, FIXED, classify=lambda _now_s: seen("B1-C0"))
    (look,) = watched.entries("look")
    assert (look["why"], look["news"]) == ("nothing is known of the background yet", True)
    assert [control for _, control in switches(watched)] == ["bbr"]


def recalled(background: Background, age_s: float) -> Background:
    return replace(background, measured_at=EPOCH - timedelta(seconds=age_s))


def test_what_an_earlier_transfer_saw_long_ago_is_looked_at_soon_without_any_step(watch: Callable[..., Watched]) -> None:
    watched = watch(100, FIXED, classify=lambda _now_s: seen("B1-C0"), answered=recalled(NOBODY, 600))
    (look,) = watched.entries("look")
    assert (look["why"], look["news"]) == ("what is known of the background is old", True)
    ((at_s, control),) = switches(watched)
    assert (control, at_s < 25) == ("bbr", True)
    assert watched.mover.holds[0][0] >= 12, "what the switch is compared with has been seen for a while"
    assert published(watched).reason is DecisionReason.CLASSIFIED


@pytest.mark.parametrize("answered", [NOBODY, recalled(NOBODY, 60)], ids=["by itself", "known"])
def test_what_was_measured_long_before_the_first_byte_is_looked_at_soon(watch: Callable[..., Watched], answered: Background) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.stage = "Listing"
        clock.events.append((3600.0, lambda: setattr(mover, "stage", "Transferring")))

    watched = watch(3700, FIXED, classify=lambda _now_s: seen("B1-C0"), prepare=prepare, answered=answered)
    (look,) = watched.entries("look")
    assert (look["why"], look["news"]) == ("what is known of the background is old", True)
    assert 3610 <= watched.mover.holds[0][0] <= 3620


def test_nothing_is_earned_for_paused_probes_before_data_flow(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.stage = "Listing"
        clock.events.append((280.0, lambda: setattr(mover, "stage", "Transferring")))

    watched = watch(600, FIXED, classify=lambda _now_s: UNSURE, prepare=prepare, answered=UNSURE)
    assert watched.entries("look") == []


def test_what_an_earlier_transfer_saw_a_moment_ago_counts_as_sure(watch: Callable[..., Watched]) -> None:
    watched = watch(400, FIXED, classify=lambda _now_s: seen("B1-C0"), answered=recalled(NOBODY, 240))
    assert (watched.mover.holds, watched.mover.patches) == ([], [])


@pytest.mark.parametrize("in_force", ["cubic", "bbr"])
def test_doubt_takes_the_place_of_what_an_earlier_transfer_was_sure_of(watch: Callable[..., Watched], in_force: str) -> None:
    watched = watch(100, FIXED, classify=lambda _now_s: UNSURE, in_force=in_force, answered=recalled(NOBODY, 600))
    decision = published(watched)
    assert (decision.congestion_control, decision.reason, watched.mover.patches) == (in_force, DecisionReason.UNSURE, [])
    assert decision.background is not None and decision.background.measured_at is None and decision.background.abstained
    assert len(watched.entries("decision")) == 2
    assert f"{in_force}: it stays after a quiet look that left doubt" in decision.message
    assert [other.congestion_control for other in decision.rejected] == ["bbr" if in_force == "cubic" else "cubic"]


def test_a_switch_that_the_mover_does_not_take_is_as_if_not_decided(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.deaf = True

    watched = watch(110, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    decision = published(watched)
    assert (decision.congestion_control, watched.entries("switch")) == ("cubic", [])
    assert [(other.congestion_control, other.why_not) for other in decision.rejected] == [("bbr", "the mover did not take it")]


@pytest.mark.parametrize(
    ("refusal", "tries"),
    [(MoverUnavailableError("no answer in time"), 2), (TransportRefusedError("congestion_control", "Unavailable", "not here"), 1)],
    ids=["it did not answer", "it refuses for good"],
)
def test_a_switch_that_may_succeed_later_is_asked_for_again_when_that_is_earned(
    watch: Callable[..., Watched], refusal: AdvisorError, tries: int
) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        bbr_between(mover, clock)
        mover.switch_refusal = refusal
        clock.events.append((100.0, lambda: setattr(mover, "switch_refusal", None)))

    watched = watch(450, FIXED, classify=sees_bbr(), prepare=prepare, answered=NOBODY)
    assert len(switches(watched)) == tries
    assert published(watched).congestion_control == ("bbr" if tries == 2 else "cubic")


def test_no_stream_is_tried_while_a_switch_is_on_trial_or_a_look_is_taken(watch: Callable[..., Watched]) -> None:
    watched = watch(200, TransportLimits(1, 32), classify=sees_bbr(), prepare=bbr_between, answered=NOBODY)
    ((switched_s, _),) = switches(watched)
    began_s = watched.mover.holds[0][0]
    assert (60 < began_s < 70, switched_s <= 80) == (True, True)
    meanwhile = [wanted.streams for at_s, wanted in watched.mover.patches if began_s <= at_s < switched_s + 20 and wanted.streams]
    assert meanwhile in ([], [4]), "no more than the end of a trial that was under way"


def test_the_mean_goodput_counts_the_quiet_time(watch: Callable[..., Watched]) -> None:
    watched = watch(200, FIXED, classify=sees_bbr(), prepare=bbr_between, answered=NOBODY)
    (end,) = watched.entries("end")
    assert isinstance(end["seconds"], float) and end["seconds"] > 195
    assert isinstance(end["goodput_bps"], int)
    before_bits, since_bits = 60 * 95e6, 130 * 48e6
    assert end["goodput_bps"] < (before_bits + since_bits) / 195


def test_a_trial_of_our_own_is_not_taken_for_a_change_of_the_path(watch: Callable[..., Watched]) -> None:
    prepare = lambda mover, _clock: setattr(mover, "goodput_bps", lambda n, _c: 12e6 * min(n, 8))  # noqa: E731
    watched = watch(300, TransportLimits(1, 32), classify=lambda _now_s: NOBODY, prepare=prepare, answered=NOBODY)
    assert watched.mover.streams >= 8
    assert watched.mover.holds == []
