"""The rounds of a run of chaos."""

from __future__ import annotations

from collections import Counter

from e2e.chaos.rounds import EARLIEST_SHARE, LATEST_SHARE, LONGEST_S, SHORTEST_S, drawn

NAMES = ["cut", "killed", "frozen"]


def test_a_seed_gives_the_same_rounds_and_a_longer_run_has_those_of_a_shorter_one_first() -> None:
    assert drawn(7, 30, NAMES)[:10] == drawn(7, 10, NAMES)
    assert drawn(7, 30, NAMES) == drawn(7, 30, list(reversed(NAMES)))
    assert drawn(7, 30, NAMES) != drawn(8, 30, NAMES)


def test_a_round_that_was_missed_is_drawn_anew_each_time_and_the_others_stay() -> None:
    first = drawn(7, 5, NAMES)
    missed = str(first[2])
    draws = [drawn(7, 5, NAMES, {missed: times}) for times in (0, 1, 2)]
    assert draws[0] == first
    assert len({each[2].begins_at_share for each in draws}) == 3
    assert {str(each[2]) for each in draws} == {missed}
    assert all([*each[:2], *each[3:]] == [*first[:2], *first[3:]] for each in draws)


def test_each_disturbance_comes_equally_often_but_for_one() -> None:
    counts = Counter(each.disturbance for each in drawn(7, 31, NAMES))
    assert set(counts) == {*NAMES}
    assert max(counts.values()) - min(counts.values()) == 1


def test_rounds_begin_within_the_data_and_last_within_their_bounds() -> None:
    for each in drawn(7, 200, NAMES):
        assert EARLIEST_SHARE <= each.begins_at_share <= LATEST_SHARE
        assert SHORTEST_S <= each.seconds <= LONGEST_S
