import statistics

import pytest

from fairlead_advisor.decide.monitor import change_detector
from fairlead_advisor.decide.monitor.change_detector import LEAST_REFERENCE_S, SETTLE_S, PathSample
from fairlead_advisor.decide.monitor.probe_budget import awaited
from tests.decide.monitor.transfers import (
    ALONE,
    BBR_ALONE,
    BBR_ARRIVED,
    BBR_BESIDE_BBR,
    BESIDE_CUBIC,
    FLOOR_S,
    Level,
    Watched,
    always,
    step,
)

KNOWN_S = SETTLE_S + LEAST_REFERENCE_S


def seen(
    levels: list[dict[str, float]], seconds: float = 1.0, awaited: frozenset[change_detector.Step] = change_detector.ANY_STEP
) -> change_detector.ChangeDetector:
    """Twenty seconds as usual, after settling, and then `levels`, one sight each."""
    usual = {"goodput_bps": 80e6, "loss_ratio": 0.0, "rtt_low_s": 0.08, "rtt_high_s": 0.1}
    state, now_s = change_detector.begin(0.0, FLOOR_S, awaited), SETTLE_S
    for level in [{}] * 20 + levels:
        now_s += seconds
        state = change_detector.add_sample(state, PathSample(at_s=now_s, seconds=seconds, **{**usual, **level}))
    return state


@pytest.mark.parametrize(
    ("level", "told"),
    [
        pytest.param({}, None, id="as usual"),
        pytest.param({"goodput_bps": 72e6}, None, id="a tenth less"),
        pytest.param({"goodput_bps": 40e6}, "the goodput fell (40.0 Mb/s, before 80.0)", id="half"),
        pytest.param({"goodput_bps": 120e6}, "the goodput rose", id="half more"),
        pytest.param({"goodput_bps": 0.0}, "the goodput fell", id="a stall"),
        pytest.param({"rtt_low_s": 0.083, "rtt_high_s": 0.103}, None, id="a little more queue"),
        pytest.param({"rtt_low_s": 0.065}, "the least RTT fell", id="the queue drains at times"),
        pytest.param({"rtt_high_s": 0.13}, "the highest RTT rose", id="a deeper queue"),
        pytest.param({"loss_ratio": 0.005}, None, id="some loss"),
        pytest.param({"loss_ratio": 0.03}, "the loss rose", id="much loss"),
    ],
)
def test_a_lasting_step_is_a_change_and_says_which(level: dict[str, float], told: str | None) -> None:
    change = seen([level] * 5).change
    assert (change.description if change else None) == told or (
        change is not None and told is not None and change.description.startswith(told)
    )


@pytest.mark.parametrize(
    ("in_force", "level", "counts"),
    [
        pytest.param("cubic", {"goodput_bps": 40e6}, True, id="somebody takes from CUBIC"),
        pytest.param("cubic", {"goodput_bps": 120e6}, False, id="CUBIC still grows, or somebody left"),
        pytest.param("cubic", {"rtt_low_s": 0.065, "rtt_high_s": 0.07}, False, id="a sawtooth that has not filled the queue again"),
        pytest.param("cubic", {"goodput_bps": 40e6, "rtt_high_s": 0.07}, True, id="the queue is kept low at our cost"),
        pytest.param("bbr", {"goodput_bps": 120e6}, True, id="somebody left BBR more"),
        pytest.param("bbr", {"goodput_bps": 40e6}, False, id="one more beside BBR"),
        pytest.param("bbr", {"loss_ratio": 0.03}, False, id="BBR's own probing"),
        pytest.param("bbr", {"rtt_low_s": 0.065}, True, id="a queue is gone"),
    ],
)
def test_only_steps_that_may_mean_another_choice_count(in_force: str, level: dict[str, float], counts: bool) -> None:
    assert (seen([level] * 5, awaited=awaited(in_force)).change is not None) is counts


@pytest.mark.parametrize("in_force", ["cubic", "bbr"])
@pytest.mark.parametrize("level", [{"goodput_bps": 40e6}, {"goodput_bps": 120e6}])
def test_where_either_way_matters_those_who_come_and_those_who_leave_count(in_force: str, level: dict[str, float]) -> None:
    assert seen([level] * 5, awaited=awaited(in_force, either_way=True)).change is not None


def test_a_step_is_one_only_when_it_lasts_and_a_hint_at_once() -> None:
    lower = {"goodput_bps": 50e6}
    assert (seen([lower]).change, seen([lower]).hint) == (None, True)
    assert seen([lower] * 4).change is not None
    back = seen([lower, {}, {}, {}, {}])
    assert (back.change, back.hint) == (None, False)


def test_a_change_stays_one_however_long_it_lasts() -> None:
    assert seen([{"goodput_bps": 40e6}] * 200).change is not None


def test_the_strength_grows_with_the_step_and_the_price_of_waiting_falls() -> None:
    half, tenth = seen([{"goodput_bps": 40e6}] * 5).change, seen([{"goodput_bps": 8e6}] * 5).change
    assert half is not None and tenth is not None
    assert tenth.strength > half.strength > 1
    assert (round(half.goodput_ratio, 2), round(tenth.goodput_ratio, 2)) == (0.5, 0.1)


def test_nothing_is_compared_before_the_transfer_has_settled_and_is_known() -> None:
    state = change_detector.begin(0.0, FLOOR_S, change_detector.ANY_STEP)
    for now_s in range(1, int(KNOWN_S)):
        state = change_detector.add_sample(state, PathSample(float(now_s), 1.0, 1e6 * now_s, 0.0))
        assert (state.change, state.hint) == (None, False)


def test_after_a_trial_of_our_own_the_same_is_still_the_usual() -> None:
    state = change_detector.pause(seen([]), 100.0)
    for now_s, goodput_bps in ((101.0, 10e6), (103.0, 10e6), (110.0, 80e6), (112.0, 80e6)):
        state = change_detector.add_sample(state, PathSample(now_s, 1.0, goodput_bps, 0.0, 0.08, 0.1))
        assert (state.change, state.hint) == (None, False)
    for now_s in (113.0, 114.0, 115.0, 116.0):
        state = change_detector.add_sample(state, PathSample(now_s, 1.0, 40e6, 0.0, 0.08, 0.1))
    assert state.change is not None


@pytest.mark.parametrize(
    ("goodput_bps", "changed"),
    [
        pytest.param(40e6, False, id="as when it was looked at"),
        pytest.param(32e6, False, id="windows that still grow"),
        pytest.param(12e6, True, id="somebody came meanwhile"),
    ],
)
def test_after_a_look_that_altered_nothing_the_path_is_held_against_what_it_was_then(goodput_bps: float, changed: bool) -> None:
    looked_at = seen([{"goodput_bps": 40e6}] * 5)
    assert looked_at.change is not None
    state = change_detector.resume(looked_at, 100.0, FLOOR_S)
    for second in range(1, int(KNOWN_S)):
        state = change_detector.add_sample(state, PathSample(100.0 + second, 1.0, goodput_bps, 0.0, 0.08, 0.1))
        assert state.change is None or second > SETTLE_S
    assert (state.change is not None) is changed
    if changed:
        assert state.change is not None and "the goodput fell (12.0 Mb/s, before" in state.change.description
        again = change_detector.resume(state, 200.0, FLOOR_S)
        for second in range(1, 60):
            again = change_detector.add_sample(again, PathSample(200.0 + second, 1.0, goodput_bps, 0.0, 0.08, 0.1))
            assert again.change is None, "looked at twice, it is the usual"


def test_without_echo_replies_the_goodput_still_tells() -> None:
    state = change_detector.begin(0.0, None, change_detector.ANY_STEP)
    for now_s in range(int(SETTLE_S) + 1, 60):
        state = change_detector.add_sample(state, PathSample(float(now_s), 1.0, 80e6 if now_s < 50 else 30e6, 0.0))
    assert state.change is not None


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("level", [ALONE, BESIDE_CUBIC, BBR_BESIDE_BBR, Level(0.8, 0.05, sawtooth=0.3)])
def test_a_sawtooth_is_no_change(level: Level, seed: int) -> None:
    assert Watched(always(level), seed).run(200).changes == []


@pytest.mark.parametrize(
    ("in_force", "before", "after"),
    [
        pytest.param("cubic", ALONE, BBR_ARRIVED, id="BBR arrives"),
        pytest.param("cubic", ALONE, Level(0.6, 0.06), id="BBR arrives beside many streams"),
        pytest.param("bbr", BBR_BESIDE_BBR, BBR_ALONE, id="BBR leaves"),
        pytest.param("bbr", BBR_BESIDE_BBR, Level(0.85, 0.055), id="CUBIC takes BBR's place"),
    ],
)
def test_what_would_alter_the_choice_is_seen_within_ten_seconds(in_force: str, before: Level, after: Level) -> None:
    delays_s = []
    for seed in range(5):
        changes = Watched(step(before, after, 60.0), seed, awaited(in_force), news=lambda _now_s: True).run(85).changes
        assert changes and changes[0][0] > 60
        delays_s.append(changes[0][0] - 60)
    assert statistics.median(delays_s) <= 8
    assert max(delays_s) <= 10
