"""What is on a path beside our own jobs."""

from __future__ import annotations

import pytest
from path_builders import CLASSES, NOW, a_background, measured

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.core.paths.merge import merge, with_pending
from fairlead.core.paths.others import strangers


@pytest.mark.parametrize(
    ("seen", "own", "left"),
    [
        ("B0-C1", ("cubic",), "B0-C0"),
        ("C1-C1", ("cubic",), "B0-C1"),
        ("B1-C1", ("cubic",), "B1-C0"),
        ("B1-C0", ("cubic",), "B1-C0"),
        ("B1-C0", ("bbr",), "B0-C0"),
        ("B1-B1", ("bbr",), "B1-C0"),
        ("B1-C1", ("bbr",), "B0-C1"),
        ("B1-C1", ("bbr", "cubic"), "B0-C0"),
        ("C1-C1", ("cubic", "reno", "cubic"), "B0-C0"),
        ("B0-C0", ("cubic",), "B0-C0"),
        ("B1-C0", (), "B1-C0"),
        ("B0-C1", ("ledbat++",), "B0-C1"),
        ("C1-C1", ("lp", "cubic"), "B0-C1"),
    ],
)
def test_own_jobs_are_taken_off_what_was_seen(seen: str, own: tuple[str, ...], left: str) -> None:
    found = strangers(a_background(name=seen, probability=1.0, any_bbr=float(seen.startswith("B1")), confidence=1.0, own=own))
    assert found.class_name == left
    assert (found.any_bbr, found.confidence) == (float(left.startswith("B1")), 1.0)
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.probabilities.keys() == set(CLASSES)
    assert not found.abstained


def test_doubt_stays_doubt() -> None:
    found = strangers(a_background(name="B1-B1", probability=0.5, own=("bbr",)))
    # B1-C0 and B1-C1 had a tenth each, and so have BBR no more.
    assert found.probabilities["B1-C0"] == pytest.approx(0.5)
    assert found.any_bbr == pytest.approx(0.5)
    assert found.confidence == pytest.approx(0.5)


def test_beside_two_of_ours_with_bbr_nobody_can_tell() -> None:
    assert strangers(a_background(name="B1-B1", probability=1.0, own=("bbr", "bbr"))).abstained


def test_classes_of_another_model_are_left_as_they_are() -> None:
    odd = a_background(probabilities={"B1-C0": 0.5, "V1": 0.5}, own=("cubic",))
    assert strangers(odd) == odd


def test_what_is_kept_of_a_path_is_strangers_traffic() -> None:
    pending = with_pending({}, measured(background=a_background(name="B1-C0", probability=1.0)), beside_own=True, own=("bbr",))
    known = merge(NetworkPathStatus(), pending["job-1", 1]).background
    assert known is not None
    assert (known.class_, known.any_bbr, known.measured_time) == ("B0-C0", "0", NOW)


def test_who_has_left_or_come_since_changes_nothing_of_what_was_seen() -> None:
    seen = measured(background=a_background(name="B1-C0", probability=1.0))
    beside = with_pending({}, seen, beside_own=True, own=("bbr",))
    alone = with_pending(beside, seen, beside_own=False)
    assert alone["job-1", 1].background == beside["job-1", 1].background
    status = merge(NetworkPathStatus(), beside["job-1", 1])
    # Written meanwhile, and reported once more by a job that is still there.
    again = with_pending({}, seen, beside_own=False)
    assert merge(status, again["job-1", 1]) == status


def test_what_another_job_found_within_the_same_second_is_news() -> None:
    first = merge(NetworkPathStatus(), measured(background=a_background(name="B1-C0", probability=0.9)))
    other = merge(first, measured("job-2", background=a_background(name="B0-C1", probability=0.9, any_bbr=0.03)))
    assert other.background is not None
    assert other.background.class_ == "B0-C1"
