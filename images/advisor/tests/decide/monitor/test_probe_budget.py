import math
from dataclasses import replace

import pytest

from fairlead_advisor.decide.monitor.change_detector import PathChange
from fairlead_advisor.decide.monitor.probe_budget import (
    DWELL_S,
    EXPECTED_S,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SHARE,
    UNBELIEVED_S,
    ProbeBudget,
    ProbeReason,
    awaited,
    due,
    price_s,
    probed,
)
from tests.decide.monitor.transfers import (
    ALONE,
    BBR_ALONE,
    BBR_ARRIVED,
    BBR_BESIDE_BBR,
    BESIDE_CUBIC,
    Background,
    Level,
    Watched,
    always,
    step,
)

SURE = ProbeBudget(0.0, None)
BARRED = ProbeBudget(0.0, ProbeReason.BARRED, doubts_from_s=400.0)
SPENT = replace(SURE, free=False, spent_s=10.0)
EARNED_S = (10.0 + EXPECTED_S) / SHARE
MILD, STRONG, COLLAPSE = PathChange(1.2, 1.0, "mild"), PathChange(2.5, 1.0, "strong"), PathChange(3.0, 0.2, "collapse")


@pytest.mark.parametrize(
    ("account", "now_s", "change", "why"),
    [
        pytest.param(SURE, 500.0, None, None, id="sure, and nothing changed"),
        pytest.param(SURE, 30.0, MILD, ProbeReason.CHANGED, id="the first look is free"),
        pytest.param(replace(SURE, rests_until_s=40.0), 30.0, COLLAPSE, None, id="not so soon after the one before"),
        pytest.param(SPENT, 60.0, MILD, None, id="too dear for what was earned"),
        pytest.param(SPENT, EARNED_S, MILD, ProbeReason.CHANGED, id="earned"),
        pytest.param(replace(SPENT, not_before_s=2 * EARNED_S), EARNED_S, MILD, None, id="earned, but the last one was in vain"),
        pytest.param(
            replace(SPENT, spent_s=0.0, not_before_s=200.0), 60.0, STRONG, ProbeReason.CHANGED, id="a strong change does not wait"
        ),
        pytest.param(SPENT, 60.0, STRONG, None, id="a strong change may borrow, but not twice"),
        pytest.param(
            replace(SPENT, spent_s=6.0), 60.0, COLLAPSE, ProbeReason.CHANGED, id="a transfer pushed aside loses little by waiting"
        ),
        pytest.param(ProbeBudget(0.0, ProbeReason.UNKNOWN), 1.0, None, ProbeReason.UNKNOWN, id="nothing is known"),
        pytest.param(
            ProbeBudget(0.0, ProbeReason.UNKNOWN, free=False), 1.0, None, None, id="nothing is known, and the free look gave no answer"
        ),
        pytest.param(ProbeBudget(0.0, ProbeReason.OLD), 1.0, None, ProbeReason.OLD, id="only what was long ago is known"),
        pytest.param(ProbeBudget(0.0, ProbeReason.UNSURE), 60.0, None, None, id="unsure, but nothing earned yet"),
        pytest.param(ProbeBudget(0.0, ProbeReason.UNSURE), EXPECTED_S / SHARE, None, ProbeReason.UNSURE, id="unsure, and earned"),
        pytest.param(BARRED, 399.0, None, None, id="a sure answer that is still barred"),
        pytest.param(BARRED, 400.0, None, ProbeReason.BARRED, id="no longer barred, and earned"),
        pytest.param(replace(BARRED, spent_s=2.0), 400.0, None, None, id="no longer barred, but not earned: there is no free look for it"),
        pytest.param(BARRED, 100.0, MILD, ProbeReason.CHANGED, id="a change does not wait for the end of the bar"),
    ],
)
def test_a_look_is_due_when_it_is_worth_its_price(
    account: ProbeBudget, now_s: float, change: PathChange | None, why: ProbeReason | None
) -> None:
    assert due(account, now_s, change) is why


@pytest.mark.parametrize(
    ("account", "now_s", "why"),
    [
        pytest.param(SURE, 25.0, ProbeReason.CONTRADICTED, id="the first look is free"),
        pytest.param(replace(SURE, rests_until_s=40.0), 30.0, None, id="not so soon after the one before"),
        pytest.param(replace(SURE, not_before_s=100.0), 99.0, None, id="the last one was in vain"),
        pytest.param(replace(SURE, free=False), 60.0, ProbeReason.CONTRADICTED, id="on credit"),
        pytest.param(SPENT, 60.0, None, id="not in debt"),
        pytest.param(replace(BARRED, free=False), 100.0, ProbeReason.CONTRADICTED, id="it does not wait for the end of a bar"),
    ],
)
def test_what_is_heard_against_the_last_answer_is_looked_at_without_a_step(
    account: ProbeBudget, now_s: float, why: ProbeReason | None
) -> None:
    assert due(account, now_s, None, contradicted=True) is why


def test_looks_in_vain_become_rarer_and_news_makes_the_next_free() -> None:
    account, now_s, pauses = SURE, 100.0, []
    for _ in range(8):
        account = probed(account, ProbeReason.CHANGED, now_s, 7.0, news=False, sure=True)
        pauses.append(account.not_before_s - now_s)
        now_s += 1000
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert account.spent_s == 7 * 7.0
    account = probed(account, ProbeReason.CHANGED, now_s, 7.0, news=True, sure=True)
    assert (account.free, account.pause_s, account.spent_s, account.rests_until_s) == (True, FIRST_PAUSE_S, 49.0, now_s + DWELL_S)


def test_a_look_for_doubt_is_always_paid_and_leaves_the_free_one() -> None:
    account = probed(ProbeBudget(0.0, ProbeReason.UNSURE), ProbeReason.UNSURE, 400.0, 7.0, news=False, sure=False)
    assert (account.free, account.spent_s) == (True, 7.0)


def test_a_look_without_an_answer_leaves_an_older_doubt() -> None:
    assert probed(BARRED, ProbeReason.CHANGED, 10.0, 3.0, news=False, sure=None).doubts_from_s == 400.0
    assert probed(ProbeBudget(0.0, ProbeReason.UNKNOWN), ProbeReason.UNKNOWN, 10.0, 3.0, news=False, sure=None).doubt is ProbeReason.UNKNOWN


@pytest.mark.parametrize("why", [ProbeReason.CHANGED, ProbeReason.CONTRADICTED])
def test_a_change_whose_looks_never_answer_is_asked_for_again_ever_more_seldom_within_the_budget(why: ProbeReason) -> None:
    account = probed(SURE, why, 60.0, 4.0, news=False, sure=None)
    asked_s: list[float] = []
    for now_s in map(float, range(60, 36000)):
        if due(account, now_s, None) is ProbeReason.UNANSWERED:
            asked_s.append(now_s)
            account = probed(account, ProbeReason.UNANSWERED, now_s, 4.0, news=False, sure=None)
    assert asked_s[0] == EXPECTED_S / SHARE
    assert asked_s[-1] - asked_s[-2] == LONGEST_PAUSE_S
    assert 4.0 * len(asked_s) <= SHARE * 36000


def test_what_is_heard_beside_the_data_is_not_believed_for_minutes_after_a_sure_answer_denied_it() -> None:
    denied = replace(probed(SURE, ProbeReason.CONTRADICTED, 100.0, 7.0, news=False, sure=True), spent_s=0.0)
    assert due(denied, 100.0 + UNBELIEVED_S - 1, None, contradicted=True) is None
    assert due(denied, 100.0 + UNBELIEVED_S, None, contradicted=True) is ProbeReason.CONTRADICTED
    assert due(denied, 100.0 + FIRST_PAUSE_S, STRONG) is ProbeReason.CHANGED
    confirmed = probed(denied, ProbeReason.CHANGED, 200.0, 7.0, news=True, sure=True)
    assert due(confirmed, 200.0 + DWELL_S, None, contradicted=True) is ProbeReason.CONTRADICTED


def test_a_sure_answer_that_is_barred_leaves_a_doubt_until_one_is_followed() -> None:
    barred = probed(SURE, ProbeReason.CHANGED, 100.0, 7.0, news=False, sure=True, barred_until_s=400.0)
    assert (barred.doubt, barred.doubts_from_s) == (ProbeReason.BARRED, 400.0)
    followed = probed(barred, ProbeReason.BARRED, 400.0, 7.0, news=True, sure=True)
    assert (followed.doubt, followed.doubts_from_s) == (None, 0.0)


def test_a_look_costs_what_the_transfer_would_have_moved() -> None:
    assert price_s(7.0, None) == price_s(7.0, MILD) == 7.0
    assert price_s(7.0, COLLAPSE) == pytest.approx(1.4)
    assert price_s(7.0, PathChange(2.0, 3.0, "rose")) == 7.0


def bursts(now_s: float) -> Level:
    """Somebody else comes and goes, which alters no choice."""
    return BESIDE_CUBIC if int(now_s / 40) % 2 else ALONE


@pytest.mark.parametrize(
    ("background", "sure"),
    [
        pytest.param(always(ALONE), True, id="alone"),
        pytest.param(always(BBR_BESIDE_BBR), True, id="beside BBR"),
        pytest.param(always(BESIDE_CUBIC), False, id="never sure"),
        pytest.param(bursts, True, id="others come and go"),
    ],
)
def test_in_vain_looks_take_at_most_two_per_cent_beside_the_first(background: Background, sure: bool) -> None:
    watched = Watched(background, sure=sure, period_s=30.0).run(900)
    dear_s = watched.quiet_s - watched.look_s * (1 if watched.looks else 0)
    assert dear_s <= SHARE * 900
    if background is bursts:
        assert watched.looks, "the simulation must give reasons to look"


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_bbr_that_arrives_and_leaves_is_looked_at_within_twelve_seconds_each_time(seed: int) -> None:
    def background(now_s: float) -> Level:
        if now_s < 60:
            return ALONE
        return (BBR_BESIDE_BBR if watched.looks else BBR_ARRIVED) if now_s < 120 else BBR_ALONE

    watched = Watched(background, seed, news=lambda _now_s: True)
    watched.run(160)
    starts_s = [at_s for at_s, _ in watched.looks]
    arrived = next(at_s for at_s in starts_s if at_s > 60)
    left = next(at_s for at_s in starts_s if at_s > 120)
    assert (arrived - 60 <= 12, left - 120 <= 12) == (True, True)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("after_s", [1.0, 8.0, 14.0, 20.0])
def test_who_comes_soon_after_a_look_in_vain_is_looked_at_when_the_next_look_may_be(after_s: float, seed: int) -> None:
    def arrives_s() -> float:
        return watched.looks[0][0] + watched.look_s + after_s if watched.looks else math.inf

    def background(now_s: float) -> Level:
        return ALONE if now_s < 60 else BBR_ARRIVED if now_s > arrives_s() else BESIDE_CUBIC

    watched = Watched(background, seed, awaited("cubic"), regrowth_s=5.0)
    watched.run(75)
    watched.run(arrives_s() + 60)
    second_s = next(at_s for at_s, _ in watched.looks[1:])
    assert arrives_s() < second_s <= max(watched.looks[0][0] + watched.look_s + DWELL_S, arrives_s()) + 10


@pytest.mark.parametrize("regrowth_s", [0.0, 5.0, 20.0])
@pytest.mark.parametrize(
    "background",
    [
        pytest.param(always(ALONE), id="alone"),
        pytest.param(step(ALONE, BESIDE_CUBIC, 60.0), id="somebody came"),
        pytest.param(bursts, id="others come and go"),
        pytest.param(lambda now_s: Level(0.6, 0.055) if int(now_s / 55) % 3 == 2 else ALONE, id="others take much for a while"),
    ],
)
def test_to_remember_what_was_usual_costs_no_further_look(background: Background, regrowth_s: float) -> None:
    looks = {
        remembers: sum(
            len(Watched(background, seed, awaited("cubic"), regrowth_s=regrowth_s, remembers=remembers).run(600).looks) for seed in range(3)
        )
        for remembers in (False, True)
    }
    assert looks[True] <= looks[False]
