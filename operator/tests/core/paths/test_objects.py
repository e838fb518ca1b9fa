"""Which NetworkPath stands for which ends, what its status says, and when it is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from path_builders import ENDS, NOW, a_path, a_probe, a_transfer, measured

from fairlead.api.networkpath import NetworkPath, NetworkPathStatus
from fairlead.core.paths.model import Lease, PathEnds
from fairlead.core.paths.objects import REFRESH, choose, ends_of_spec, refused_status, spec_of, status_after, twins, write_after

ANY = PathEnds("dtn-a", None, "dtn-b", None)
LEASE = Lease("job-1", 1, NOW + timedelta(seconds=40))


def _named(name: str | None, *paths: NetworkPath) -> None:
    chosen = choose(paths, ENDS)
    assert (None if chosen is None else chosen.metadata.name) == name


def test_the_path_that_names_most_interfaces_stands_for_the_ends_and_of_equals_the_oldest() -> None:
    exact, loose = a_path("exact"), a_path("loose", ends=ANY)
    _named(None)
    _named("exact", loose, exact)
    _named(
        "loose",
        loose,
        a_path("other", ends=replace(ENDS, source_interface="data1")),
        a_path("back", ends=PathEnds("dtn-b", None, "dtn-a", None)),
    )
    _named("old", a_path("young", created="2026-01-01T00:00:01Z"), a_path("old"))
    _named("a", a_path("b"), a_path("a"))


def test_ends_whose_interface_is_not_known_yet_find_the_path() -> None:
    path = a_path()
    assert choose([path], replace(ENDS, source_interface=None)) is path
    assert choose([path], replace(ENDS, source_interface="data1")) is None


def test_a_spec_says_the_ends_it_was_made_from() -> None:
    assert ends_of_spec(spec_of(ENDS)) == ENDS


def test_the_younger_of_two_paths_with_the_same_ends_is_told_of_the_older() -> None:
    young, old = a_path("young", created="2026-01-01T00:00:01Z"), a_path("old")
    assert twins([young, old, a_path("loose", ends=ANY)]) == [(young, old)]
    condition = refused_status(young, old, NOW).conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("Accepted", "False", "OtherPathInUse")
    assert "old" in condition.message


def test_the_status_has_what_was_measured_and_who_probes() -> None:
    status = status_after(a_path(), [measured(probe=a_probe())], LEASE, NOW)
    assert {condition.type: condition.status for condition in status.conditions} == {"Accepted": "True", "Measured": "True"}
    assert status.lease is not None
    assert (status.lease.job, status.lease.expiration_time) == ("job-1", LEASE.expires_at)
    assert status.observed_generation == 1


def test_a_path_that_nobody_has_measured_says_so() -> None:
    status = status_after(a_path(), [], LEASE, NOW)
    assert [(condition.type, condition.reason) for condition in status.conditions] == [("Accepted", "InUse"), ("Measured", "NotMeasured")]


def test_an_expired_lease_is_not_shown() -> None:
    assert status_after(a_path(), [], replace(LEASE, expires_at=NOW), NOW).lease is None


def test_a_lease_whose_end_is_seen_a_little_later_is_still_the_same() -> None:
    held = status_after(a_path(), [], LEASE, NOW)
    stored = a_path(status=held.to_object())
    again = status_after(stored, [], replace(LEASE, expires_at=LEASE.expires_at + timedelta(seconds=1)), NOW)
    assert again == held


EMPTY = NetworkPathStatus()
LEASED = status_after(a_path(), [], LEASE, NOW)
OTHERS = status_after(a_path(), [], replace(LEASE, job="job-2"), NOW)
FREE = status_after(a_path(), [measured(probe=a_probe(), transfer=a_transfer())], None, NOW)


@pytest.mark.parametrize(
    ("before", "after", "since", "busy", "expected"),
    [
        pytest.param(FREE, FREE, None, False, None, id="nothing new"),
        pytest.param(EMPTY, LEASED, timedelta(seconds=1), True, timedelta(), id="a probe begins"),
        pytest.param(LEASED, OTHERS, timedelta(seconds=1), True, timedelta(), id="another probe begins"),
        pytest.param(LEASED, FREE, timedelta(seconds=10), True, REFRESH - timedelta(seconds=10), id="it has ended, and data flows"),
        pytest.param(LEASED, FREE, REFRESH, True, timedelta(), id="data has flowed for long"),
        pytest.param(LEASED, FREE, timedelta(seconds=10), False, timedelta(), id="the last transfer has ended"),
        pytest.param(EMPTY, FREE, None, True, timedelta(), id="nothing was written since the start"),
    ],
)
def test_when_a_status_is_written(
    before: NetworkPathStatus, after: NetworkPathStatus, since: timedelta | None, busy: bool, expected: timedelta | None
) -> None:
    assert write_after(before, after, since, busy=busy) == expected
