"""The optimizer on simple path models."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_advisor.decide.optimizer import LONGEST_WAIT_S, Observation, SearchPhase, resumed, start, step
from tests.decide.path_models import (
    CAPACITY_BPS,
    Load,
    PathModel,
    Transfer,
    best_fixed_bps,
    capped,
    capped_at,
    clean,
    fair_queue,
    lossy,
    shared,
    shared_sawtooth,
    unseen,
)

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("model", "first", "ratio"),
    [
        pytest.param(clean, 4, 0.99, id="clean"),
        pytest.param(clean, 32, 0.99, id="clean, far too many at first"),
        pytest.param(lossy(), 4, 0.94, id="lossy"),
        pytest.param(lossy(), 1, 0.9, id="lossy, too few at first"),
        pytest.param(lossy(12e6), 8, 0.85, id="so lossy that the last streams are not worth their cost"),
        pytest.param(capped(50e6), 8, 0.99, id="capped"),
        pytest.param(unseen(lossy()), 4, 0.94, id="lossy, without RTT samples"),
        pytest.param(unseen(clean), 4, 0.99, id="clean, without RTT samples"),
    ],
)
def test_after_twenty_seconds_the_goodput_is_near_the_best_fixed_count(model: PathModel, first: int, ratio: float, seed: int) -> None:
    transfer = Transfer(model, first, seed=seed).run(120)
    assert transfer.mean_bps(20, 120) >= ratio * best_fixed_bps(model)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_path_ends_with_the_safe_default_and_stays_there(seed: int) -> None:
    assert Transfer(clean, 16, seed=seed).run(180).state.streams <= 5
    assert Transfer(clean, 4, seed=seed).run(180).changes == []


@pytest.mark.parametrize("model", [shared(1), shared(4), shared_sawtooth(1), shared_sawtooth(4)])
@pytest.mark.parametrize("first", [1, 4, 8])
def test_on_a_full_path_more_streams_never_take_from_others(first: int, model: PathModel) -> None:
    transfer = Transfer(model, first, shares=first).run(300)
    assert max(transfer.counts) <= first
    assert transfer.mean_bps(20, 300) >= 0.9 * model(first).goodput_bps


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("model", "ratio"), [(shared(1), 0.9), (shared_sawtooth(1), 0.9), (shared(4), 0.8), (clean, 0.99)])
def test_where_others_need_not_be_spared_a_full_path_is_competed_for(model: PathModel, ratio: float, seed: int) -> None:
    transfer = Transfer(model, 4, seed=seed, shares=None).run(120)
    assert transfer.mean_bps(20, 120) >= ratio * best_fixed_bps(model)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("shares", "first"), [(1, 4), (1, 1), (1, 8), (2, 4), (4, 4), (8, 8)])
def test_on_a_full_path_only_its_shares_stay(shares: int, first: int, seed: int) -> None:
    for model in (clean, shared(1), shared(4), capped_at(50e6)):
        transfer = Transfer(model, first, shares=shares, seed=seed).run(120)
        assert transfer.state.streams == shares
        assert transfer.mean_bps(20, 120) >= 0.95 * model(shares).goodput_bps


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("shares", "first"), [(1, 1), (1, 4), (1, 16), (2, 4)])
@pytest.mark.parametrize("others", [0, 1, 4])
def test_where_the_bottleneck_gives_each_stream_a_share_only_the_jobs_shares_stay(others: int, shares: int, first: int, seed: int) -> None:
    transfer = Transfer(fair_queue(others), first, shares=shares, seed=seed).run(300)
    assert set(transfer.counts[40:]) == {shares}
    assert all("the bottleneck gives each stream a share" in outcome.why for outcome in transfer.outcomes if outcome.kept == shares)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fair_queue_that_one_stream_seldom_fills_is_not_forgotten(seed: int) -> None:
    seconds = itertools.count()
    model = lambda streams: replace(fair_queue(1)(streams), waits_apart=streams > 1 or next(seconds) % 20 == 0)  # noqa: E731
    assert set(Transfer(model, 4, shares=1, seed=seed).run(600).counts[40:]) == {1}


@pytest.mark.parametrize("seed", SEEDS)
def test_where_others_need_not_be_spared_a_fair_queue_is_competed_for(seed: int) -> None:
    transfer = Transfer(fair_queue(1), 4, shares=None, seed=seed).run(120)
    assert transfer.mean_bps(20, 120) >= 0.9 * best_fixed_bps(fair_queue(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_moment_in_which_own_packets_alone_waited_changes_nothing(seed: int) -> None:
    seconds = itertools.count()
    now_and_then = lambda streams: replace(lossy()(streams), waits_apart=next(seconds) % 40 < 2)  # noqa: E731
    assert Transfer(now_and_then, 4, seed=seed).run(240).counts == Transfer(lossy(), 4, seed=seed).run(240).counts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("first", [1, 4])
def test_a_path_that_one_stream_cannot_fill_has_as_many_as_it_takes(first: int, seed: int) -> None:
    transfer = Transfer(lossy(), first, shares=1, seed=seed).run(120)
    assert transfer.mean_bps(30, 120) >= 0.9 * best_fixed_bps(lossy())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("company", [False, True])
def test_who_joins_a_path_that_several_streams_used_alone_has_his_part_within_half_a_minute(company: bool, seed: int) -> None:
    transfer = Transfer(lossy(12e6), 4, shares=1, maximum=4, seed=seed).run(60)
    assert transfer.state.streams == 4
    transfer.state = replace(transfer.state, company=company)
    transfer.model = shared(1)
    transfer.run(30)
    assert transfer.open == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_what_others_leave_is_taken_at_once(seed: int) -> None:
    transfer = Transfer(shared(1), 1, shares=1, seed=seed).run(60)
    assert transfer.counts[-1] == 1
    transfer.model = lossy()
    transfer.run(20)
    assert transfer.open >= 4


def test_beside_others_a_gap_between_their_sawteeth_is_not_taken_for_room() -> None:
    gaps = lambda streams: replace(shared(1)(streams), busy_ratio=0.7)  # noqa: E731
    assert set(Transfer(gaps, 1, shares=1, company=True).run(120).counts) == {1}
    assert Transfer(gaps, 4, shares=1, company=True).run(120).state.streams == 1
    assert Transfer(gaps, 1, shares=1).run(120).state.streams > 1


def deep(streams: int) -> Load:
    """Two streams fill the path and its queue, one alone does neither."""
    return Load(CAPACITY_BPS * min(1.0, 0.5 * streams), 0.0, 1.0 if streams > 1 else 0.3, window=1.0)


def test_fewer_streams_that_leave_room_are_taken_back_and_alone_not_tried_again_for_minutes() -> None:
    transfer = Transfer(deep, 2, shares=1).run(240)
    assert transfer.state.streams == 2
    assert sum(count == 1 for count in transfer.counts) <= 10
    assert [outcome.why[:10] for outcome in transfer.outcomes] == ["back to 2:"]
    transfer.run(2400)
    assert 2 <= len(transfer.outcomes) <= 12


def filled_by_luck(streams: int) -> PathModel:
    """So many streams fill a path with random loss; with one less they do for thirty seconds of 45, as the losses fall."""
    seconds = itertools.count()

    def model(count: int) -> Load:
        lucky = next(seconds) % 45 < 30
        fills = count >= streams or (lucky and count == streams - 1)
        used = 1.0 if fills else 0.75 * count / (streams - 1)
        return Load(CAPACITY_BPS * used, 1e-3, 1.0 if fills else 0.3, window=1.0)

    return model


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("streams", "first"), [(3, 4), (3, 1), (12, 16), (12, 4)])
def test_where_losses_let_fewer_streams_fill_the_path_by_chance_alone_they_are_not_kept_again_for_minutes(
    streams: int, first: int, seed: int
) -> None:
    transfer = Transfer(filled_by_luck(streams), first, shares=1, seed=seed).run(300)
    assert sum(count < streams for count in transfer.counts[60:]) <= 36
    assert transfer.mean_bps(60, 300) >= 0.97 * CAPACITY_BPS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_count_that_filled_the_path_by_chance_and_then_has_a_little_less_is_given_up(seed: int) -> None:
    full = Load(CAPACITY_BPS, 1e-3, 1.0, window=1.0)
    transfer = Transfer(lambda _: full, 3, shares=2, seed=seed, noise=0.01, window=1.0).run(20)
    assert transfer.open == 2
    transfer.model = lambda streams: full if streams > 2 else replace(full, goodput_bps=0.93 * CAPACITY_BPS, busy_ratio=0.9)
    assert transfer.run(40).open == 3
    assert transfer.outcomes[-1].why.startswith("back to 3 streams: ")
    assert transfer.outcomes[-1].why.endswith("since the path does not stay full")
    assert min(transfer.run(120).counts[60:]) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_who_comes_to_a_path_that_fewer_streams_filled_by_chance_has_his_part(seed: int) -> None:
    transfer = Transfer(filled_by_luck(3), 4, shares=1, seed=seed).run(300)
    transfer.model = shared(1)
    assert transfer.run(60).open == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_who_comes_so_slowly_that_no_window_differs_from_the_one_before_has_his_part_all_the_same(seed: int) -> None:
    transfer = Transfer(deep, 2, shares=1, seed=seed).run(120)
    for left in (0.96, 0.92, 0.88, 0.84, 0.80, 0.76, 0.72, 0.67):
        transfer.model = lambda streams, left=left: Load(CAPACITY_BPS * (left if streams > 1 else left * 0.6), 0.0, 1.0)  # type: ignore[misc]
        transfer.run(3)
    transfer.run(20)
    assert transfer.open == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_of_many_streams_beside_others_only_the_shares_stay_within_fifteen_seconds(seed: int) -> None:
    transfer = Transfer(shared(1), 16, shares=1, company=True, seed=seed).run(15)
    assert transfer.open == 1


def test_where_others_do_not_fill_what_many_streams_leave_the_steps_become_smaller() -> None:
    needs_four = lambda streams: Load(CAPACITY_BPS * min(1.0, 0.25 * streams), 0.0, 1.0 if streams >= 4 else 0.1, window=1.0)  # noqa: E731
    transfer = Transfer(needs_four, 16, shares=1, company=True).run(120)
    assert 4 <= transfer.state.streams <= 5


def test_nothing_is_tried_while_the_goodput_still_grows_by_itself() -> None:
    transfer = Transfer(lossy(2e6), 4, window=0.02, noise=0.0)
    transfer.run(10)
    assert transfer.changes == []
    transfer.run(20)
    assert transfer.changes[0][1] == 8


@pytest.mark.parametrize("model", [clean, lossy(), capped(50e6), shared(1)])
def test_a_settled_count_stays(model: PathModel) -> None:
    transfer = Transfer(model, noise=0.01).run(1200)
    trials = sum(at_s >= 600 for at_s, _ in transfer.changes)
    assert trials <= 24, "some trials in ten minutes, each with its way back"
    assert max(transfer.counts[600:]) - min(transfer.counts[600:]) <= 8


def test_it_reacts_when_a_path_becomes_lossy_and_when_it_heals() -> None:
    transfer = Transfer(clean).run(120)
    assert transfer.state.streams == 4
    transfer.model = lossy(20e6)
    transfer.run(60)
    assert transfer.mean_bps(150, 180) >= 0.85 * best_fixed_bps(lossy(20e6))
    transfer.model = clean
    transfer.run(600)
    assert transfer.state.streams <= 8


def test_a_count_set_by_the_user_is_kept() -> None:
    transfer = Transfer(lossy(), 6, minimum=6, maximum=6).run(300)
    assert transfer.changes == []


@given(st.integers(1, 64), st.integers(0, 63), st.integers(0, 100), st.integers(0, 1000))
@settings(max_examples=60)
def test_every_count_is_within_the_limits(minimum: int, extra: int, first: int, seed: int) -> None:
    maximum = minimum + extra
    transfer = Transfer(lossy(), first, minimum, maximum, seed=seed, noise=0.2)
    transfer.open = transfer.state.streams
    transfer.run(90)
    assert all(minimum <= count <= maximum for _, count in transfer.changes)


def test_a_trial_that_the_mover_cannot_open_is_given_up() -> None:
    transfer = Transfer(lossy(), 4, opens=lambda wanted: min(wanted, 5)).run(60)
    (tried_s, tried), (back_s, back) = transfer.changes[:2]
    assert (tried, back) == (8, 4)
    assert LONGEST_WAIT_S <= back_s - tried_s <= LONGEST_WAIT_S + 3


def test_streams_that_ended_are_asked_for_again() -> None:
    transfer = Transfer(clean, 4, minimum=4)
    transfer.open = 3
    transfer.run(20)
    assert transfer.changes[0][1] == 4


def test_nothing_is_tried_while_nothing_flows() -> None:
    transfer = Transfer(capped(0.0)).run(60)
    assert transfer.changes == []
    assert transfer.state.phase is SearchPhase.BASE


@pytest.mark.parametrize("stalled_bps", [0.0, 5.0])
def test_a_stall_is_no_measurement(stalled_bps: float) -> None:
    transfer = Transfer(capped(stalled_bps)).run(15)
    assert transfer.changes == []
    transfer.model = lossy()
    transfer.run(17)
    assert transfer.changes[0][1] == 8
    transfer = Transfer(lossy())
    while not transfer.changes:
        transfer.run(1)
    transfer.model = capped(max(1.0, stalled_bps))
    transfer.run(5)
    assert [count for _, count in transfer.changes] == [8, 4]
    assert transfer.outcomes[-1].why == "back to 4: nothing flowed"


def test_a_path_that_lost_everything_ends_no_search_with_an_error() -> None:
    state = start(4, 1, 32, 0.0)
    for second in range(60):
        step_made = step(state, Observation(second + 1.0, 1.0, state.wanted, 1e6, loss_ratio=1.0, busy_ratio=None))
        state = step_made.state
    assert 1 <= state.streams <= 32


def test_a_long_path_gets_more_time_to_settle() -> None:
    assert start(4, 1, 32, 0.0, rtt_s=0.25).settle_s == 3.75
    assert start(4, 1, 32, 0.0, rtt_s=0.01).settle_s == 1.5


def test_each_outcome_says_what_was_compared() -> None:
    outcome = Transfer(lossy(), noise=0.0).run(20).outcomes[0]
    assert (outcome.base.streams, outcome.tried.streams, outcome.kept) == (4, 8, 8)
    assert outcome.why.startswith("kept 8: 8") and "against" in outcome.why


def test_after_data_stood_still_a_trial_is_given_up_and_nothing_is_judged_by_the_pause() -> None:
    transfer = Transfer(lossy(), 4)
    while transfer.state.trial is None:
        transfer.run(1)
    made = resumed(transfer.state, transfer.now_s)
    assert made.change is not None and made.change.streams == 4
    assert (made.state.phase, made.state.trial, made.state.streams) == (SearchPhase.REST, None, 4)
    again = resumed(made.state, transfer.now_s + 5)
    assert (again.change, again.state.phase) == (None, SearchPhase.REST)
    slow = Observation(transfer.now_s + 8, 3.0, 4, 0.0, 0.0, 0.0)
    assert step(again.state, slow).state.window.seconds == 0
