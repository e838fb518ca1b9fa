"""Which of several jobs that write into one directory goes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.destinations import DestinationWriter, writer_before, writer_of

OWN = DestinationWriter("own", "uid-own", "2026-01-02T00:00:00Z", "scratch", ("a", "b"))
BEGUN = {"attempts": 1}
IN_USE = {"type": "Scheduled", "status": "False", "reason": "DestinationInUse"}
ACCEPTED = {"type": "Accepted", "status": "True"}
UNDER_WAY = {"attempts": 1, "attemptStartTime": "2026-01-02T00:00:00Z"}


def other(**fields: Any) -> DestinationWriter:
    known = {"name": "other", "uid": "uid-other", "created_at": "2026-01-03T00:00:00Z", "attempt_under_way": True}
    return replace(OWN, **{**known, **fields})


def body(status: dict[str, Any] | None = None, path: str = "a/b", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    destination = {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": path}
    own = {"name": "job", "uid": "uid", "creationTimestamp": "2026-01-01T00:00:00Z", **(metadata or {})}
    return {"metadata": own, "spec": {"destination": destination, **spec}, "status": status or {}}


@pytest.mark.parametrize(
    ("directory", "overlap"),
    [(("a", "b"), True), (("a",), True), ((), True), (("a", "b", "c"), True), (("a", "bc"), False), (("b",), False), (("b", "a"), False)],
)
def test_a_directory_the_one_above_and_the_one_below_overlap(directory: tuple[str, ...], overlap: bool) -> None:
    assert (writer_before(OWN, [other(directory=directory)]) is not None) is overlap


def test_another_volume_is_another_directory() -> None:
    assert writer_before(OWN, [other(claim="raw")]) is None


@pytest.mark.parametrize(
    ("own", "theirs", "waits"),
    [
        ({}, {}, True),
        ({"has_begun": True}, {}, True),
        ({}, {"attempt_under_way": False}, False),
        ({}, {"attempt_under_way": False, "has_begun": True}, True),
        ({"has_begun": True}, {"attempt_under_way": False, "has_begun": True}, False),
        ({"has_begun": True}, {"attempt_under_way": False, "has_begun": True, "created_at": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_an_attempt_under_way_and_a_job_that_has_begun_before_are_waited_for(
    own: dict[str, bool], theirs: dict[str, Any], waits: bool
) -> None:
    assert (writer_before(replace(OWN, **own), [other(**theirs)]) is not None) is waits


@pytest.mark.parametrize(
    ("own", "theirs", "waits"),
    [
        ({"created_at": "2026-01-04T00:00:00Z"}, {}, True),
        ({"created_at": "2026-01-04T00:00:00Z", "waits": True}, {}, True),
        ({"created_at": "2026-01-04T00:00:00Z"}, {"waits": False}, False),
        ({"created_at": "2026-01-04T00:00:00Z", "has_begun": True}, {}, False),
        ({}, {}, False),
        ({"created_at": "2026-01-03T00:00:00Z"}, {"name": "older"}, True),
        ({"created_at": "2026-01-03T00:00:00Z"}, {"name": "younger"}, False),
    ],
)
def test_nobody_passes_an_older_job_that_waits_for_the_directory_or_for_one_in_it(
    own: dict[str, Any], theirs: dict[str, Any], waits: bool
) -> None:
    waiting = other(**{"attempt_under_way": False, "waits": True, "directory": ("a",), **theirs})
    assert (writer_before(replace(OWN, **own), [waiting]) is not None) is waits


@pytest.mark.parametrize(
    ("job", "waits"),
    [
        (body({"conditions": [ACCEPTED, IN_USE]}), True),
        (body({"conditions": [ACCEPTED | {"status": "False"}, IN_USE]}), False),
        (body({"conditions": [IN_USE]}), False),
        (body({"conditions": [ACCEPTED, IN_USE | {"reason": "NoSlotFree"}]}), False),
        (body({"conditions": [ACCEPTED, IN_USE | {"status": "True"}]}), False),
        (body({"conditions": [ACCEPTED, IN_USE]}, suspend=True), False),
        (body({"conditions": [ACCEPTED, IN_USE]}, metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"}), False),
    ],
)
def test_only_a_job_that_waits_for_nothing_else_keeps_its_place(job: dict[str, Any], waits: bool) -> None:
    writer = writer_of(job)
    assert writer is not None
    assert writer.waits is waits


def test_of_two_jobs_between_attempts_exactly_one_goes_on() -> None:
    same_second = {"created_at": OWN.created_at, "attempt_under_way": False, "has_begun": True}
    one, two = replace(OWN, has_begun=True), other(**same_second)
    assert (writer_before(one, [two]) is None) is not (writer_before(two, [one]) is None)


def test_the_attempt_that_is_under_way_is_named_before_an_older_job() -> None:
    older = other(name="older", attempt_under_way=False, has_begun=True, created_at="2025-01-01T00:00:00Z")
    found = writer_before(OWN, [older, other(name="running")])
    assert found is not None
    assert found.name == "running"


@pytest.mark.parametrize(
    ("job", "under_way", "begun"),
    [
        (body(), False, False),
        (body(UNDER_WAY), True, True),
        (body(BEGUN), False, True),
        (body(BEGUN, suspend=True), False, False),
        (body(UNDER_WAY, suspend=True), True, False),
        (body(UNDER_WAY | {"conditions": [{"type": "Failed", "status": "True"}]}), False, False),
        (body(UNDER_WAY | {"conditions": [{"type": "Failed", "status": "False"}]}), True, True),
        (body(BEGUN, metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"}), False, False),
    ],
)
def test_what_a_job_does_follows_from_its_object(job: dict[str, Any], under_way: bool, begun: bool) -> None:
    writer = writer_of(job)
    assert writer is not None
    assert (writer.attempt_under_way, writer.has_begun) == (under_way, begun)


@pytest.mark.parametrize("spec", [{"preflightOnly": True}, {"managedBy": "kueue.x-k8s.io/multikueue"}])
def test_what_only_checks_and_what_others_manage_writes_nothing(spec: dict[str, Any]) -> None:
    assert writer_of(body(UNDER_WAY, **spec)) is None


def test_a_path_is_its_names() -> None:
    paths = {"": (), "a": ("a",), "a/": ("a",), "a/b/": ("a", "b")}
    found = {path: writer.directory for path in paths if (writer := writer_of(body(path=path))) is not None}
    assert found == paths
