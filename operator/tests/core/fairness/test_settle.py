"""Which caps are written at once, and which wait until others have obeyed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from fairness_builders import G, M, make_job, make_rules
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.fairness.model import AnnotatedCap
from fairlead.core.fairness.round import RoundInput, RoundMemory, run_round
from fairlead.core.fairness.settle import OBEYED_SECONDS, REST_SECONDS, Cap, Room, rounded_down, settle

NOW = 1000.0
ROOM = Room({"a": ("l",), "b": ("l",)}, {"l": 100.0 * M}, {"a": M, "b": M})


class TestSettle:
    @pytest.mark.parametrize(
        ("cap", "goal", "age", "written"),
        [(50, 50, 100, False), (50, 48, 1, False), (50, 48, REST_SECONDS, True), (50, 47, 1, True), (50, 52, REST_SECONDS, True)],
    )
    def test_small_moves_wait_and_large_ones_do_not(self, cap: float, goal: float, age: float, written: bool) -> None:
        caps = {"a": Cap(cap * M, NOW - age), "b": Cap(10 * M, NOW)}
        settled = settle(caps, {"a": goal * M, "b": 10 * M}, ROOM, NOW)
        assert settled.changed == (frozenset({"a"}) if written else frozenset())

    def test_who_rises_waits_until_who_falls_has_obeyed(self) -> None:
        caps = {"a": Cap(90 * M, NOW - 60), "b": Cap(10 * M, NOW - 60)}
        first = settle(caps, {"a": 50 * M, "b": 50 * M}, ROOM, NOW)
        assert (first.caps["a"].bps, first.caps["b"].bps, first.unsettled) == (50 * M, 10 * M, True)
        later = NOW + OBEYED_SECONDS
        second = settle(first.caps, {"a": 50 * M, "b": 50 * M}, ROOM, later)
        assert (second.caps["a"].bps, second.caps["b"].bps, second.unsettled) == (50 * M, 50 * M, False)

    def test_who_rises_waits_while_the_pod_of_who_falls_has_the_higher_cap(self) -> None:
        caps, goals = {"a": Cap(90 * M, NOW - 60), "b": Cap(10 * M, NOW - 60)}, {"a": 50 * M, "b": 50 * M}
        caps, now = dict(settle(caps, goals, ROOM, NOW).caps), NOW
        refused = AnnotatedCap(90 * M, NOW - 60)
        for now in (NOW + 2.1, NOW + 60.0, NOW + 600.0):
            caps["a"] = caps["a"].seen(refused, now)
            caps = dict(settle(caps, goals, ROOM, now).caps)
            assert (caps["a"].in_force_bps(now), caps["b"].bps) == (90 * M, 10 * M)
        landed = AnnotatedCap(50 * M, now + 1.0)
        for later, b in ((1.5, 10 * M), (1.0 + OBEYED_SECONDS, 50 * M)):
            caps["a"] = caps["a"].seen(landed, now + later)
            caps = dict(settle(caps, goals, ROOM, now + later).caps)
            assert caps["b"].bps == b, later

    def test_a_sender_without_any_cap_may_send_all_there_is(self) -> None:
        assert Cap(50 * M, NOW - 60).seen(AnnotatedCap(math.inf, NOW - 60), NOW).in_force_bps(NOW) == math.inf

    @pytest.mark.parametrize("annotated", [None, AnnotatedCap(50 * M, NOW - 60), AnnotatedCap(20 * M, NOW)])
    def test_without_a_sender_or_with_its_cap_written_nothing_else_is_in_force(self, annotated: AnnotatedCap | None) -> None:
        cap = Cap(50 * M, NOW - 60)
        assert cap.seen(annotated, NOW) == cap

    def test_a_small_cut_does_not_wait_where_somebody_needs_the_room(self) -> None:
        room = Room(dict.fromkeys("abc", ("l",)), {"l": 100.0 * M}, dict.fromkeys("abc", M))
        caps = {"a": Cap(49 * M, NOW), "b": Cap(49 * M, NOW), "c": Cap(2 * M, NOW)}
        settled = settle(caps, {"a": 47 * M, "b": 47 * M, "c": 6 * M}, room, NOW + 5)
        assert (settled.caps["a"].bps, settled.caps["b"].bps) == (47 * M, 47 * M)

    def test_a_new_job_gets_its_least_even_from_a_full_link(self) -> None:
        settled = settle({"a": Cap(100 * M, NOW)}, {"a": 50 * M, "b": 50 * M}, ROOM, NOW)
        assert settled.caps["b"].bps == M

    @given(
        st.dictionaries(st.sampled_from("abcdef"), st.floats(1e6, 1e9), min_size=1),
        st.dictionaries(st.sampled_from("abcdef"), st.floats(1.0, 1e9), min_size=6),
        st.lists(st.floats(0.1, 12.0), min_size=1, max_size=6),
    )
    def test_caps_in_force_together_never_grow_beyond_the_link(
        self, begin: dict[str, float], goals: dict[str, float], waits: list[float]
    ) -> None:
        capacity = max(sum(begin.values()), 1e9)
        goals = {uid: bps * 1e9 / max(sum(goals.values()), 1e9) for uid, bps in goals.items()}
        room = Room(dict.fromkeys(goals, ("l",)), {"l": capacity}, dict.fromkeys(goals, 0.0))
        caps = {uid: Cap(bps, NOW - 60) for uid, bps in begin.items()}
        now = NOW
        for wait in waits:
            caps = dict(settle(caps, goals, room, now).caps)
            assert sum(cap.in_force_bps(now) for cap in caps.values()) <= capacity * (1 + 1e-5)
            now += wait

    @pytest.mark.parametrize(("bps", "expected"), [(123456789.0, 123400000.0), (999.9, 999.0), (0.0, 0.0), (64000.0, 64000.0)])
    def test_caps_are_rounded_down(self, bps: float, expected: float) -> None:
        assert rounded_down(bps) == expected


def test_in_a_round_a_job_whose_fall_the_api_server_refuses_keeps_its_room_from_others() -> None:
    memory, rules = RoundMemory(), make_rules()
    stuck = make_job("stuck", cap_bps=G, annotated=AnnotatedCap(G, NOW - 60))
    other = make_job("other", cap_bps=M, annotated=AnnotatedCap(M, NOW - 60))
    for step in range(20):
        now = NOW + 5.0 * step
        result = run_round(RoundInput(rules, (stuck, other), {}, {}), memory, now)
        memory = result.memory
        in_force_bps = G + (result.job_shares["other"].cap_bps or 0)
        assert in_force_bps <= 1.05 * G, step
    obeying = replace(stuck, annotated=AnnotatedCap(float(result.job_shares["stuck"].cap_bps or 0), now + 1.0))
    risen = run_round(RoundInput(rules, (obeying, other), {}, {}), memory, now + 5.0)
    assert (risen.job_shares["other"].cap_bps or 0) >= 0.45 * G


class TestAfterATakeover:
    """The operator before may have lowered a cap a moment ago: what its sender still sends at nobody knows."""

    def test_nobody_rises_until_a_cap_that_was_there_must_be_obeyed(self) -> None:
        fell = make_job("fell", cap_bps=250 * M, annotated=AnnotatedCap(250 * M, NOW))
        other = make_job("other", cap_bps=500 * M, annotated=AnnotatedCap(500 * M, NOW), weight=300)
        first = run_round(RoundInput(make_rules(), (fell, other), {}, {}), RoundMemory(), NOW + 0.3)
        assert first.job_shares["other"].cap_bps == 500 * M
        later = run_round(RoundInput(make_rules(), (fell, other), {}, {}), first.memory, NOW + OBEYED_SECONDS)
        assert later.job_shares["other"].cap_bps == 750 * M

    def test_a_cap_that_falls_at_once_is_waited_for_by_what_it_was(self) -> None:
        cap = Cap(100 * M, NOW, math.inf).written(50 * M, NOW + 1.0)
        assert cap.in_force_bps(NOW + 2.5) == math.inf
        refused = cap.seen(AnnotatedCap(100 * M, NOW), NOW + OBEYED_SECONDS)
        assert refused.in_force_bps(NOW + 3.0) == 100 * M
