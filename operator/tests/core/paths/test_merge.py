"""What is known of a path grows by measurements: the newest counts, nothing counts twice, and it stays small."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_builders import CLASSES, NOW, a_background, a_probe, a_transfer, ago, measured

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.networkpath.status import MOST_ENGINE_POINTS, MOST_NAMESPACES, MOST_POINTS
from fairlead.core.paths.merge import COEFFICIENT_HALF_LIFE, MOST_PENDING, format_coefficient, merge, parse_coefficient, with_pending
from fairlead.core.paths.model import EngineResult, Measurement

EMPTY = NetworkPathStatus()


def _after(*measurements: Measurement) -> NetworkPathStatus:
    status = EMPTY
    for measurement in measurements:
        status = merge(status, measurement)
    return status


def test_a_probe_tells_rtt_loss_and_time() -> None:
    status = _after(measured(probe=a_probe()))
    assert (status.rtt, status.rtt_minimum, status.loss, status.last_measured_time) == ("60.200ms", "60.000ms", "0.001", NOW)


def test_an_older_probe_that_comes_late_changes_nothing() -> None:
    newer = _after(measured("new", probe=a_probe()))
    assert merge(newer, measured("old", probe=a_probe(ago(minutes=3), rtt=0.09))) == newer


@pytest.mark.parametrize(
    ("before", "hours", "after", "expected"),
    [
        (0.060, 1, 0.061, "60.000ms"),
        (0.060, 1, 0.058, "58.000ms"),
        (0.060, 25, 0.061, "61.000ms"),
        (0.060, 1, 0.090, "90.000ms"),
    ],
    ids=["the least of a day", "a new least", "a day later", "another route"],
)
def test_the_least_rtt_is_kept_for_a_day_unless_the_route_changed(before: float, hours: float, after: float, expected: str) -> None:
    status = _after(measured("1", probe=a_probe(ago(hours=hours), minimum=before)), measured("2", probe=a_probe(minimum=after)))
    assert status.rtt_minimum == expected


def test_a_higher_rtt_beside_our_own_transfers_is_their_queue_and_no_other_route() -> None:
    idle, loaded = a_probe(ago(hours=1)), replace(a_probe(rtt=0.11, minimum=0.1), beside_own=True)
    status = _after(measured("1", probe=idle), measured("2", probe=loaded))
    assert (status.rtt, status.rtt_minimum) == ("110.000ms", "60.000ms")
    heard_again = merge(status, measured("2", probe=replace(loaded, beside_own=False)))
    assert heard_again == status, "the others have ended since, the probe is the same"
    lower = replace(a_probe(NOW + timedelta(seconds=1), minimum=0.05), beside_own=True)
    assert merge(status, measured("3", probe=lower)).rtt_minimum == "50.000ms"


def test_the_background_is_the_newest_one_with_all_its_probabilities() -> None:
    old, new = a_background(ago(minutes=5), "B0-C0"), a_background(NOW, "B1-C0")
    for order in ((old, new), (new, old)):
        status = _after(*(measured(str(number), background=seen) for number, seen in enumerate(order)))
        assert status.background is not None
        assert (status.background.class_, status.background.probability, status.background.measured_time) == ("B1-C0", "0.9", NOW)
        assert status.background.probabilities.keys() == set(CLASSES)


def test_the_capacity_is_the_most_that_one_transfer_got_within_a_day() -> None:
    status = _after(
        measured("yesterday", transfer=a_transfer(ago(hours=30), 900e6)),
        measured("best", transfer=a_transfer(ago(hours=2), 500e6)),
        measured("slow disk", transfer=a_transfer(NOW, 100e6)),
    )
    assert (status.capacity, [point.job for point in status.profile]) == ("500M", ["slow disk", "best", "yesterday"])


def test_a_coefficient_counts_half_as_much_after_its_half_life() -> None:
    old = a_transfer(NOW - COEFFICIENT_HALF_LIFE, coefficient=4e-6)
    status = _after(
        measured("old", transfer=old), measured("new", transfer=a_transfer(coefficient=1e-6)), measured("none", transfer=a_transfer())
    )
    assert status.stream_coefficient == "2"


def test_an_attempt_that_is_heard_of_again_is_one_point() -> None:
    first, whole = a_transfer(), a_transfer(coefficient=1e-6)
    status = _after(measured(transfer=first), measured(transfer=whole), measured(attempt=2, transfer=first))
    assert [(point.attempt, point.stream_coefficient) for point in status.profile] == [(1, "1"), (2, None)]


@pytest.mark.parametrize(("per_bit", "text"), [(1.2e-6, "1.2"), (4.2e-7, "0.42"), (1.0, "1000000")])
def test_a_coefficient_is_written_per_megabit_without_an_exponent(per_bit: float, text: str) -> None:
    assert format_coefficient(per_bit) == text
    assert parse_coefficient(text) == pytest.approx(per_bit)


@pytest.mark.parametrize("text", [None, "", "many", "0", "-1", "nan", "inf"])
def test_what_is_no_coefficient_is_none(text: str | None) -> None:
    assert parse_coefficient(text) is None


def _made_up(job: int, quarter: int, parts: int, level: int) -> Measurement:
    at = NOW - timedelta(minutes=15 * quarter)
    return measured(
        f"job-{job // 2}",
        1 + job % 2,
        probe=a_probe(at, rtt=0.05 * (1 + level / 10), minimum=0.05 * (1 + level / 20)) if parts & 1 else None,
        background=a_background(at, CLASSES[level % 6], 0.5 + level / 200) if parts & 2 else None,
        transfer=a_transfer(at, 1e5 * 1.15**level, 1 + level % 64, 1e-8 * (1 + level) if parts & 8 else None) if parts & 4 else None,
    )


measurements = st.builds(_made_up, st.integers(0, 79), st.integers(0, 200), st.integers(0, 15), st.integers(0, 99))


@given(st.lists(measurements, max_size=40))
def test_taking_in_the_same_reports_again_changes_nothing(found: list[Measurement]) -> None:
    once = _after(*found)
    for measurement in found[-1:]:
        assert merge(once, measurement) == once
    by_attempt = {(measurement.job, measurement.attempt): measurement for measurement in found}
    settled = _after(*by_attempt.values())
    for measurement in by_attempt.values():
        again = merge(settled, measurement)
        assert (again.profile, again.background and again.background.measured_time) == (
            settled.profile,
            settled.background and settled.background.measured_time,
        )
        assert again.last_measured_time == settled.last_measured_time


@given(st.lists(measurements, max_size=60))
def test_what_is_known_stays_small_and_can_be_stored(found: list[Measurement]) -> None:
    status = _after(*found)
    assert len(status.profile) <= MOST_POINTS
    assert len({(point.job, point.attempt) for point in status.profile}) == len(status.profile)
    assert NetworkPathStatus.model_validate(status.to_object()) == status
    assert len(str(status.to_object())) < 8192


def test_each_namespace_keeps_what_its_own_jobs_measured_and_the_path_shows_the_newest_of_all() -> None:
    mine = measured("a", probe=a_probe(ago(minutes=5), minimum=0.06), background=a_background(ago(minutes=5)), namespace="mine")
    theirs = measured("b", probe=a_probe(NOW, minimum=0.0001), transfer=a_transfer(), namespace="theirs")
    status = merge(merge(NetworkPathStatus(), mine), theirs)
    assert merge(merge(status, mine), theirs) == status
    known = {each.namespace: each for each in status.namespaces}
    assert (known["mine"].rtt_minimum, known["theirs"].rtt_minimum, status.rtt_minimum) == ("60.000ms", "0.100ms", "0.100ms")
    assert (known["mine"].profile, known["theirs"].background) == ((), None)


def test_of_many_namespaces_the_one_that_measured_longest_ago_is_forgotten() -> None:
    status = NetworkPathStatus()
    for number in range(MOST_NAMESPACES + 3):
        status = merge(status, measured(f"job-{number}", probe=a_probe(ago(minutes=100 - number)), namespace=f"n{number:02}"))
    assert [each.namespace for each in status.namespaces] == [f"n{number:02}" for number in range(3, MOST_NAMESPACES + 3)]


def test_a_flood_of_measurements_of_one_namespace_pushes_out_its_own() -> None:
    pending = with_pending({}, measured("mine", probe=a_probe(ago(minutes=50)), namespace="mine"), beside_own=False)
    for number in range(3 * MOST_PENDING):
        pending = with_pending(pending, measured(f"job-{number}", probe=a_probe(), namespace="theirs"), beside_own=False)
    assert len(pending) == MOST_PENDING
    assert ("mine", 1) in pending


def test_of_each_protocol_the_latest_attempts_are_kept_and_none_counts_twice() -> None:
    quic = [measured(f"q{hours}", engine=EngineResult(ago(hours=hours), "QUIC", 8e8)) for hours in range(MOST_ENGINE_POINTS + 2)]
    tcp = measured("t", engine=EngineResult(ago(days=3), "TCP", 2e8, at_cap=True, resent_ratio=0.002, cpu_seconds_per_gb=4.25))
    status = _after(tcp, *quic, *reversed(quic), tcp)
    assert [point.job for point in status.engines] == [*(f"q{hours}" for hours in range(MOST_ENGINE_POINTS)), "t"]
    last = status.engines[-1]
    assert (last.protocol, last.goodput, last.at_cap, last.resent, last.cpu_seconds_per_gigabyte) == ("TCP", "200M", True, "0.002", "4.25")


def test_an_attempt_that_was_blocked_has_no_goodput_and_is_one_point_whatever_comes_later_of_it() -> None:
    blocked = measured("q", engine=EngineResult(NOW, "QUIC", None))
    status = _after(blocked, blocked)
    assert [(point.protocol, point.goodput) for point in status.engines] == [("QUIC", None)]
