import dataclasses
import math

import pytest

from fairlead_dev.bench.shares.figures import (
    Outcome,
    back_on_cubic_s,
    complete,
    gives_way_s,
    interval,
    jain_of_share,
    jain_own,
    rows,
    share,
    takes_over_s,
    went_to_bbr,
)
from fairlead_dev.bench.shares.plan import (
    ARRIVAL_S,
    DEPARTURE_S,
    FIXED,
    OWN_APART_S,
    OWN_BACK_S,
    OWN_SETTLE_S,
    OWN_SHARES_S,
    SCENES,
    VISITOR_S,
    SceneName,
    choices,
    draw_paths,
    plan,
)

PAYLOAD = 1448 / 1500


def outcome(scene: SceneName, who: str, own: list[float], capacity: float = 40.0, path: str = "p", number: int = 0) -> Outcome:
    """One sample a second; what ours leaves of the path is the other's."""
    samples = tuple(
        {"time_s": second + 1.0, "own_mbps": rate, "all_mbps": capacity / PAYLOAD, "jobs": []} for second, rate in enumerate(own)
    )
    return Outcome(path, scene, who, number, samples, 100.0, capacity / PAYLOAD)


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
    assert gives_way_s(visit(yields_s, returns_s)) == pytest.approx(max(yields_s, 1) + 3, abs=2)
    assert takes_over_s(visit(yields_s, returns_s)) == pytest.approx(returns_s + 3, abs=1)


def with_rates(*stretches: tuple[float, float, float]) -> Outcome:
    """A visit with ours at 40, but for stretches from, to and at."""
    own = [40.0] * int(SCENES["visit"].seconds)
    for from_s, to_s, rate in stretches:
        own[int(from_s) : int(to_s)] = [rate] * int(to_s - from_s)
    return outcome("visit", "ours", own)


def test_a_moment_of_giving_way_is_none() -> None:
    # Eight seconds at a half, then the whole path again, and from 20 s on a half for good.
    assert gives_way_s(with_rates((45, 53, 20), (65, 90, 20))) == pytest.approx(23, abs=2)
    assert gives_way_s(with_rates((45, 53, 20), (84, 90, 20))) == DEPARTURE_S - ARRIVAL_S


def test_the_whole_path_is_what_it_can_carry_and_not_what_ours_had_before() -> None:
    slow_before = with_rates((0, 90, 10), (90, 100, 12))
    assert takes_over_s(slow_before) == pytest.approx(13, abs=1)


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


@pytest.mark.parametrize(("scene", "rival"), [("cubic", "1-cubic"), ("bbr", "1-bbr"), ("apart", "1-cubic")])
def test_beside_a_flow_the_index_and_the_run_furthest_off_are_judged(scene: SceneName, rival: str) -> None:
    runs = [outcome(scene, "ours", [32.0] * 90), outcome(scene, "ours", [20.0] * 90, path="q"), outcome(scene, rival, [20.0] * 90)]
    found = {row.name: row for row in rows(runs)}
    assert found[f"jain_ours_default_{scene}"].ok is False
    assert (found[f"share_vs_allowed_{scene}_worst"].value, found[f"share_vs_allowed_{scene}_worst"].ok) == (pytest.approx(1.6), False)


def test_rows_compare_with_the_rival_and_with_the_best_fixed_choice() -> None:
    runs = [outcome("cubic", "ours", [20.0] * 90), outcome("cubic", "1-cubic", [10.0] * 90)]
    runs += [outcome("clean", who, [rate] * 90) for who, rate in (("ours", 36.0), ("1-cubic", 40.0), ("4-cubic", 30.0))]
    found = {row.name: row for row in rows(runs)}
    assert found["jain_ours_default_cubic"].ok and found["share_vs_allowed_cubic"].ratio == pytest.approx(2.0)
    assert found["clean_vs_best_fixed"].value == pytest.approx(0.9) and found["clean_vs_best_fixed"].ok is False


def test_probing_before_the_first_byte_counts_against_us() -> None:
    runs = [outcome("clean", "ours", [0.0] * 10 + [40.0] * 90), outcome("clean", "4-cubic", [40.0] * 100)]
    found = {row.name: row.value for row in rows(runs)}
    assert (found["clean_vs_best_fixed"], found["clean_vs_best_fixed_from_the_first_byte"]) == (pytest.approx(0.9), pytest.approx(1.0))


@pytest.mark.parametrize(("shares", "worst", "ok"), [([20, 22, 24], 1.2, True), ([20, 15, 24], 0.75, False), ([20, 26, 17], 1.3, False)])
def test_the_share_is_judged_by_the_run_that_is_furthest_off(shares: list[float], worst: float, ok: bool) -> None:
    runs = [outcome("cubic", "ours", [float(own)] * 90, number=number) for number, own in enumerate(shares)]
    found = {row.name: row for row in rows(runs)}
    assert found["share_vs_allowed_cubic_worst"].value == pytest.approx(worst) and found["share_vs_allowed_cubic_worst"].ok is ok
    assert found["share_vs_allowed_cubic"].ok is None


def test_times_are_judged_by_the_worst_run() -> None:
    found = {row.name: row for row in rows([visit(5, 8), dataclasses.replace(visit(30, 3), number=1)])}
    assert found["gives_way_s"].ok is None and found["gives_way_s_worst"].ok is False
    assert found["gives_way_s_worst"].value == pytest.approx(33, abs=1) and found["takes_over_s_worst"].ok


def test_the_interval_stands_in_the_table() -> None:
    runs = [outcome("cubic", "ours", [own] * 90, path=path) for path, own in (("p", 20.0), ("q", 24.0))]
    (jain,) = (row for row in rows(runs) if row.name == "jain_ours_default_cubic")
    assert "95 % of draws" in jain.note and jain.more["interval_95"][0] == pytest.approx(jain_of_share(0.6), abs=1e-4)


def test_the_same_seed_gives_the_same_runs_and_each_choice_as_often() -> None:
    runs = plan(1, 2, 3)
    assert runs == plan(1, 2, 3) != plan(2, 2, 3)
    assert len({run.name for run in runs}) == len(runs) == 2 * 3 * sum(1 + len(rivals) for rivals in FIXED.values())
    assert all(20 <= path.rate_mbps <= 100 and 20 <= path.rtt_ms <= 200 for path in draw_paths(5, 50))


def test_harm_is_what_a_cubic_flow_loses_where_the_job_does_most() -> None:
    def run(path: str, who: str, other: float) -> Outcome:
        return outcome("cubic", who, [40 - other if who != "nobody" else 0.0] * 90, capacity=40.0, path=path)

    runs = [run("p", "nobody", 40), run("p", "ours", 20), run("p", "1-cubic", 18)]
    runs += [run("q", "nobody", 40), run("q", "ours", 16), run("q", "1-cubic", 20)]
    found = {row.name: row for row in rows(runs)}
    worst = found["bystander_harm_worst"]
    assert (worst.value, worst.reference, worst.ok) == (pytest.approx(0.6), pytest.approx(0.5), False) and "on q" in worst.note
    assert found["bystander_harm_beyond_worst"].value == pytest.approx(0.1)
    assert "bystander_harm_worst" not in {row.name for row in rows(runs[1:3])}


def together(scene: SceneName, rates: list[float], *, bbr_s: tuple[float, float] | None = None, number: int = 0) -> Outcome:
    """Jobs that start one after the other and have these rates; the last one is on BBR from the visitor's arrival on, for so long."""
    from_s, to_s = bbr_s or (math.inf, math.inf)
    samples = []
    for second in range(int(SCENES[scene].seconds)):
        started = [rate for job, rate in enumerate(rates) if second >= job * OWN_APART_S]
        on_bbr = from_s <= second - SCENES[scene].arrives_s < to_s
        jobs = [{"mbps": rate, "controls": ["bbr" if on_bbr and rate == rates[-1] else "cubic"]} for rate in started]
        samples.append({"time_s": second + 1.0, "own_mbps": sum(started), "all_mbps": 41.4, "jobs": jobs})
    return Outcome("p", scene, "ours", number, tuple(samples), 100.0, 41.4)


@pytest.mark.parametrize(
    ("scene", "rates", "index"), [("two", [20.0, 20.0], 1.0), ("two", [30.0, 10.0], 0.8), ("four", [12, 8, 10, 10], 0.9804)]
)
def test_our_jobs_together_share_as_jains_index_has_it(scene: SceneName, rates: list[float], index: float) -> None:
    assert jain_own(together(scene, rates)) == pytest.approx(index, abs=1e-4)
    found = {row.name: row for row in rows([together(scene, rates)])}
    assert found[f"jain_own_{scene}"].ok is (index >= 0.98)


@pytest.mark.parametrize(
    ("bbr_s", "back_s", "ever"),
    [
        (None, 0.0, False),
        ((10.0, 50.0), 0.0, True),
        ((10.0, VISITOR_S + 30), 31.0, True),
        ((VISITOR_S + 5, VISITOR_S + 30), 31.0, False),
        ((10.0, math.inf), OWN_BACK_S, True),
    ],
)
def test_seconds_until_all_are_back_on_cubic(bbr_s: tuple[float, float] | None, back_s: float, ever: bool) -> None:
    one = together("four", [9.0, 10.0, 11.0, 12.0], bbr_s=bbr_s)
    assert (back_on_cubic_s(one), went_to_bbr(one)) == (back_s, ever)
    found = {row.name: row for row in rows([one])}
    assert found["back_on_cubic_s_four_worst"].ok is (back_s <= 60)


def test_scenes_of_our_own_jobs_have_time_for_all_of_it() -> None:
    for name, jobs in (("two", 2), ("four", 4)):
        scene, run = SCENES[name], next(run for run in plan(1, 1, 1) if run.scene == name)
        assert (run.who, run.jobs, run.advised) == ("ours", jobs, True)
        assert scene.arrives_s - OWN_SHARES_S >= (jobs - 1) * OWN_APART_S + OWN_SETTLE_S
        assert scene.seconds - scene.leaves_s == OWN_BACK_S > 60


def test_a_flow_alone_is_a_choice_of_its_own_without_any_sender_of_ours() -> None:
    (run,) = (run for run in plan(1, 1, 1) if run.who == "nobody")
    assert (run.scene, run.jobs, run.advised) == ("cubic", 0, False)
    assert choices()["cubic"] == {"ours", "1-cubic", "nobody"}
