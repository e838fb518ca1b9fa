"""What workers and the fairness loop tell each other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.cap_excess import MEASURED_SECONDS, Arrived
from fairlead.core.fairness.meter import CounterReading
from fairlead.core.fairness.model import Admission, AnnotatedCap, Bound, InterfaceCount, JobShare, JobStage, Lane, Participant
from fairlead.core.paths.model import End
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.fairness.store import ShareStore

KEY = ObjectKey("lab", "job")
NOW = 1000.0
ADMITTED = JobShare(Admission.ADMITTED, cap_bps=10**8)


def make(**fields: Any) -> Participant:
    known: dict[str, Any] = {"uid": "uid", "namespace": "lab", "name": "job", "source": End("a", "x"), "destination": End("b", "x")}
    return Participant(**{**known, "stage": JobStage.FLOWING, **fields})


class Bench:
    def __init__(self) -> None:
        self.woken = 0
        self.store = ShareStore(self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def note(self, job: Participant | None, at: float = NOW) -> int:
        """How often the loop was woken by it."""
        before = self.woken
        self.store.note(KEY, job, at)
        return self.woken - before


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_cap_at_the_pod_is_known_since_it_was_seen_there_first(bench: Bench) -> None:
    for at, bps in ((0.0, 5e8), (3.0, 5e8), (6.0, 2e8), (9.0, 2e8)):
        bench.note(make(annotated=AnnotatedCap(bps, NOW + at)), NOW + at)
    assert bench.store.jobs()[KEY].annotated == AnnotatedCap(2e8, NOW + 6.0)


def lanes(*sent: int, at: float = NOW, caps: tuple[float, ...] = ()) -> tuple[Lane, ...]:
    """Lanes that have sent so many bytes by `at`, under these caps."""
    known = caps or (1e9,) * len(sent)
    return tuple(
        Lane(End("a", f"x{number}"), End("b", "x"), annotated=AnnotatedCap(known[number], at), sent=CounterReading(at, count))
        for number, count in enumerate(sent)
    )


def test_the_lanes_of_a_job_are_measured_one_by_one_and_leave_with_it(bench: Bench) -> None:
    assert bench.note(make(lanes=lanes(0, 0))) == 1
    later = lanes(3_000_000, 6_000_000, at=NOW + 6, caps=(1e9, 5e8))
    assert bench.note(make(lanes=later), NOW + 6) == 0, "neither bytes nor caps need a round of their own"
    assert [bench.store.meters()[f"uid#{number}"].rate_bps(4.0) for number in (0, 1)] == [4e6, 8e6]
    known = [lane.annotated for lane in bench.store.jobs()[KEY].lanes]
    assert known == [AnnotatedCap(1e9, NOW), AnnotatedCap(5e8, NOW + 6)]
    assert bench.note(make(lanes=later[:1]), NOW + 6) == 1
    assert list(bench.store.meters()) == ["uid#0"]
    bench.note(None)
    assert bench.store.meters() == {}


@pytest.mark.parametrize(
    ("after", "urgent"), [((10**8, 10**8), False), ((5 * 10**7, 2 * 10**8), True), ((2 * 10**8, 10**8), False), ((10**8, None), False)]
)
def test_a_path_that_has_less_than_before_is_urgent(bench: Bench, after: tuple[int | None, ...], urgent: bool) -> None:
    def share(caps: tuple[int | None, ...]) -> JobShare:
        return JobShare(Admission.ADMITTED, cap_bps=None if None in caps else sum(cap or 0 for cap in caps), path_caps_bps=caps)

    bench.store.publish({"uid": share((10**8, 10**8))})
    bench.store.publish({"uid": share(after)})
    assert bool(bench.store.urgent) is urgent


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        ({"sent": CounterReading(NOW, 5)}, 0),
        ({"cap_bps": 5.0}, 0),
        ({"weight": 7}, 1),
        ({"guarantee_bps": 7.0}, 1),
        ({"stage": JobStage.HOLDING}, 1),
        ({"source": End("a", "y")}, 1),
        ({"limit_bps": 5.0}, 1),
    ],
)
def test_the_loop_is_woken_by_what_changes_shares_alone(bench: Bench, change: dict[str, Any], woken: int) -> None:
    assert bench.note(make()) == 1
    assert bench.note(make(**change)) == woken


def test_arrival_and_departure_wake_the_loop_once(bench: Bench) -> None:
    assert bench.note(make()) == 1
    assert bench.note(None) == 1
    assert bench.note(None) == 0
    assert bench.store.jobs() == {}
    assert bench.store.seen() == {KEY}


def test_a_job_that_is_gone_leaves_nothing(bench: Bench) -> None:
    bench.note(make(sent=CounterReading(NOW, 5)))
    bench.store.drop(KEY, NOW)
    assert (bench.store.seen(), bench.store.jobs(), bench.store.meters()) == (frozenset(), {}, {})


def test_a_rate_follows_from_when_the_counters_of_one_attempt_were_read(bench: Bench) -> None:
    for at, moved in ((NOW, 0), (NOW + 3, 3_000_000), (NOW + 6, 6_000_000)):
        bench.note(make(sent=CounterReading(at, moved)), at + 0.9 * (at > NOW))
    assert bench.store.meters()["uid"].rate_bps(4.0) == 8e6
    bench.note(make(sent=CounterReading(NOW + 9, 9_000_000), attempt=2), NOW + 9)
    assert bench.store.meters()["uid"].rate_bps(4.0) is None


def test_interfaces_that_nobody_reports_any_more_are_forgotten(bench: Bench) -> None:
    bench.note(make(counts=(InterfaceCount("a", "x", "Transmit", CounterReading(NOW, 5)),)))
    assert list(bench.store.interfaces(NOW)) == [("a", "x", "Transmit")]
    bench.note(make(), NOW + 60)
    assert bench.store.interfaces(NOW + 60) == {}


def test_an_interface_that_is_read_once_in_minutes_keeps_its_readings_while_a_report_names_it(bench: Bench) -> None:
    for minute in range(3):
        at = NOW + 60 * minute
        bench.note(make(counts=(InterfaceCount("a", "x", "Transmit", CounterReading(at, 600_000_000 * minute)),)), at)
    [meter] = bench.store.interfaces(NOW + 170)["a", "x", "Transmit"].values()
    assert meter.rate_bps(4.0) == 80e6


def test_what_came_between_two_reports_is_judged_by_the_highest_cap_since_the_first(bench: Bench) -> None:
    for at, cap_bps, count_bytes in ((0, 8e6, 0), (50, 2e6, 0), (100, 2e6, 60_000_000)):
        bench.note(make(cap_bps=cap_bps, arrived=Arrived(NOW + (at if at != 50 else 0), count_bytes, 1)), NOW + at)
    excess = bench.store.excess("uid")
    assert excess is not None
    assert not excess.is_proven, "half of the time it might send four times as much"
    assert bench.store.asked_bps("uid", NOW + 100) == 2e6
    bench.note(make(cap_bps=2e6, arrived=Arrived(NOW + 200, 120_000_000, 1)), NOW + 200)
    excess = bench.store.excess("uid")
    assert excess is not None
    assert excess.is_proven


def test_jobs_compete_whose_rate_decides_what_others_get(bench: Bench) -> None:
    bounds = {"link": Bound("Link", "a", "out"), "tenant": Bound("TenantLimit", "a", "out"), "own": Bound("JobLimit", "a"), "none": None}
    bench.store.publish({uid: replace(ADMITTED, bound=bound) for uid, bound in bounds.items()})
    assert [uid for uid in (*bounds, "unknown") if bench.store.competes(uid)] == ["link", "tenant"]


def test_since_when_a_job_waits_is_not_forgotten_when_it_is_looked_at_again(bench: Bench) -> None:
    bench.note(make(asked_at=NOW))
    bench.note(make(asked_at=NOW + 60), NOW + 60)
    assert bench.store.jobs()[KEY].asked_at == NOW


def test_without_a_policy_nobody_has_a_standing(bench: Bench) -> None:
    assert bench.store.share("uid") is None
    bench.store.publish({"uid": ADMITTED})
    assert bench.store.share("uid") == ADMITTED
    bench.store.publish(None)
    assert bench.store.share("uid") is None


def test_with_a_policy_a_job_it_has_not_met_is_undecided_and_keeps_its_cap(bench: Bench) -> None:
    bench.store.publish({})
    share = bench.store.share("new")
    assert share is not None
    assert (share.admission, share.hold) == (Admission.UNDECIDED, True)


@pytest.mark.parametrize(("starts", "expected"), [(False, Admission.UNDECIDED), (True, Admission.ADMITTED)])
def test_frozen_known_standings_stay_and_others_hold(bench: Bench, starts: bool, expected: Admission) -> None:
    bench.store.publish({"uid": ADMITTED})
    bench.store.freeze(starts=starts)
    assert bench.store.share("uid") == ADMITTED
    unknown = bench.store.share("new")
    assert unknown is not None
    assert (unknown.admission, unknown.hold) == (expected, True)


def test_publishing_names_the_jobs_for_which_something_is_new(bench: Bench) -> None:
    assert bench.store.publish({"a": ADMITTED, "b": ADMITTED}) == {"a", "b"}
    assert bench.store.publish({"a": ADMITTED, "b": replace(ADMITTED, cap_bps=5)}) == {"b"}
    assert bench.store.publish(None) == {"a", "b"}


@pytest.mark.parametrize(
    ("before", "after", "is_urgent"),
    [
        (None, ADMITTED, True),
        (JobShare(Admission.WAITING), ADMITTED, True),
        (ADMITTED, replace(ADMITTED, cap_bps=10**7), True),
        (replace(ADMITTED, cap_bps=None), ADMITTED, True),
        (ADMITTED, replace(ADMITTED, cap_bps=10**9), False),
        (ADMITTED, replace(ADMITTED, cap_bps=None), False),
        (JobShare(Admission.WAITING), JobShare(Admission.WAITING, message="first in its queue"), False),
        (ADMITTED, None, False),
        (ADMITTED, ADMITTED, False),
    ],
)
def test_starts_and_falls_are_urgent_and_rises_are_not(
    bench: Bench, before: JobShare | None, after: JobShare | None, is_urgent: bool
) -> None:
    bench.store.publish({} if before is None else {"a": before})
    bench.store.publish({} if after is None else {"a": after})
    assert bench.store.urgent == ({"a"} if is_urgent else set())


def test_what_arrives_ahead_of_a_cap_is_added_up_until_the_job_goes(bench: Bench) -> None:
    assert bench.store.excess("uid") is None
    bench.note(make(cap_bps=1e7, arrived=Arrived(NOW, 0, 4)), NOW)
    assert bench.note(make(cap_bps=1e7, arrived=Arrived(NOW + 3, 60_000_000, 4)), NOW + 3) == 0, "no round is needed for that"
    bench.note(make(cap_bps=1e7), NOW + 6)
    excess = bench.store.excess("uid")
    assert excess is not None
    assert excess.is_proven
    bench.note(None)
    assert bench.store.excess("uid") is None


def test_a_cap_that_fell_counts_until_it_can_no_longer_show_in_the_measured_mean(bench: Bench) -> None:
    assert bench.store.asked_bps("uid", NOW) is None
    bench.note(make(cap_bps=5e8), NOW)
    bench.note(make(cap_bps=1e8), NOW + 10)
    assert bench.store.asked_bps("uid", NOW + 10 + MEASURED_SECONDS - 1) == 5e8
    assert bench.store.asked_bps("uid", NOW + 10 + MEASURED_SECONDS + 1) == 1e8
    bench.note(make(cap_bps=None), NOW + 40)
    assert bench.store.asked_bps("uid", NOW + 41) == math.inf
