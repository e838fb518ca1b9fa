import math

import pytest

from fairlead_dev.bench.shares.figures import Outcome, complete, gives_way_s, interval, jain_of_share, rows, share, takes_over_s
from fairlead_dev.bench.shares.plan import ARRIVAL_S, DEPARTURE_S, FIXED, SCENES, draw_paths, plan

PAYLOAD = 1448 / 1500


def outcome(scene: str, who: str, own: list[float], capacity: float = 40.0, path: str = "p", number: int = 0) -> Outcome:
    """One sample a second; what ours leaves of the path is the other's."""
    samples = tuple(
        {"time_s": second + 1.0, "own_mbps": rate, "all_mbps": capacity / PAYLOAD, "streams": 1.0} for second, rate in enumerate(own)
    )
    return Outcome(path, scene, who, number, samples, 100.0)


@pytest.mark.parametrize(("part", "index"), [(0.5, 1.0), (0.0, 0.5), (1.0, 0.5), (0.8, 0.7353)])
def test_jain_of_two_flows(part: float, index: float) -> None:
    assert jain_of_share(part) == pytest.approx(index, abs=1e-4)


def test_our_share_leaves_headers_out() -> None:
    assert share(outcome("cubic", "ours", [20.0] * 90), 45.0) == pytest.approx(0.5)


def visit(yields_after_s: float, returns_after_s: float) -> Outcome:
    own = [
        20.0 if ARRIVAL_S + yields_after_s <= second < DEPARTURE_S + returns_after_s else 40.0
        for second in range(int(SCENES["visit"].seconds))
    ]
    return outcome("visit", "ours", own)


@pytest.mark.parametrize(("yields_s", "returns_s"), [(5, 8), (12, 3), (20, 20)])
def test_times_to_give_way_and_to_take_over(yields_s: float, returns_s: float) -> None:
    assert gives_way_s(visit(yields_s, returns_s)) == pytest.approx(yields_s + 3, abs=1)
    assert takes_over_s(visit(yields_s, returns_s)) == pytest.approx(returns_s + 3, abs=1)


def test_who_never_gives_way_counts_with_the_whole_visit() -> None:
    assert gives_way_s(visit(math.inf, 0)) == DEPARTURE_S - ARRIVAL_S


def test_an_interval_is_of_paths() -> None:
    assert interval({"a": [1.0, 1.0]}) is None
    low, high = interval({"a": [1.0], "b": [3.0]}) or (0.0, 0.0)
    assert (low, high) == (1.0, 3.0)


def test_only_complete_blocks_count_and_every_path_has_equally_many() -> None:
    runs = [outcome("cubic", who, [1.0], path=path, number=number) for path in "pq" for number in range(3) for who in ("ours", "1-cubic")]
    left = [one for one in runs if (one.path, one.who, one.number) not in {("p", "ours", 0), ("p", "1-cubic", 2)}]
    found = complete(left, {"cubic": frozenset({"ours", "1-cubic"})})
    assert {(one.path, one.number) for one in found} == {("p", 1), ("q", 0)} and len(found) == 4
    assert complete(left[:1], {"cubic": frozenset({"ours", "1-cubic"})}) == []


def test_rows_compare_with_the_rival_and_with_the_best_fixed_choice() -> None:
    runs = [outcome("cubic", "ours", [20.0] * 90), outcome("cubic", "1-cubic", [10.0] * 90)]
    runs += [outcome("clean", who, [rate] * 90) for who, rate in (("ours", 36.0), ("1-cubic", 40.0), ("4-cubic", 30.0))]
    found = {row.name: row for row in rows(runs)}
    assert found["jain_ours_default_cubic"].ok and found["share_vs_allowed_cubic"].ratio == pytest.approx(2.0)
    assert found["clean_vs_best_fixed"].value == pytest.approx(0.9) and found["clean_vs_best_fixed"].ok is False


def test_the_same_seed_gives_the_same_runs_and_each_choice_as_often() -> None:
    runs = plan(1, 2, 3)
    assert runs == plan(1, 2, 3) != plan(2, 2, 3)
    assert len({run.name for run in runs}) == len(runs) == 2 * 3 * sum(1 + len(rivals) for rivals in FIXED.values())
    assert all(20 <= path.rate_mbps <= 100 and 20 <= path.rtt_ms <= 200 for path in draw_paths(5, 50))
