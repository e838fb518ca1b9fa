"""Which job writes into a directory, by the watches and by what is being begun."""

from __future__ import annotations

from typing import Any

import pytest
from handler_objects import job_body, pod_body
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.destinations import writer_before, writer_of
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.port_ledger import JobUid

FIRST, LATE = JobUid("lab", "uid-first"), JobUid("lab", "uid-late")
UNDER_WAY = {"attempts": 1, "attemptStartTime": "2026-01-01T00:00:00Z"}
WAITS = {
    "conditions": [{"type": "Accepted", "status": "True"}, {"type": "Scheduled", "status": "False", "reason": "DestinationInUse"}],
}
FAILED = {"attempts": 1, "conditions": [{"type": "Failed", "status": "True"}]}


def cache_of(*, first: dict[str, Any] | None = None) -> Cache:
    cache = Cache()
    cache.put_job(job_body("first", FIRST.uid, "1") | {"status": first or {}})
    cache.put_job(job_body("late", LATE.uid, "1"))
    return cache


def test_a_job_waits_for_the_one_whose_attempt_is_under_way_until_that_has_ended() -> None:
    cache = cache_of(first=UNDER_WAY)
    assert cache.destinations.writer_before(LATE) == "first"
    assert cache.destinations.writer_before(FIRST) is None
    cache.put_job(job_body("first", FIRST.uid, "2") | {"status": FAILED})
    assert cache.destinations.writer_before(LATE) is None


def test_jobs_of_other_namespaces_have_volumes_of_their_own() -> None:
    cache = cache_of(first=UNDER_WAY)
    cache.put_job(job_body("elsewhere", "uid-elsewhere", "1", "field"))
    assert cache.destinations.writer_before(JobUid("field", "uid-elsewhere")) is None


def test_a_job_that_is_gone_is_waited_for_no_more() -> None:
    cache = cache_of(first=UNDER_WAY)
    cache.drop_job(ObjectKey("lab", "first"), FIRST.uid)
    assert cache.destinations.writer_before(LATE) is None


def test_a_receiver_that_still_runs_is_waited_for_although_its_job_has_ended() -> None:
    cache = cache_of(first=FAILED)
    running = pod_body(job="first", job_uid=FIRST.uid, version="1")
    cache.put_created_pod(running)
    assert cache.destinations.writer_before(LATE) == "first"
    cache.put_pod(pod_body(job="first", job_uid=FIRST.uid, version="2", phase="Failed"))
    assert cache.destinations.writer_before(LATE) is None


def test_a_directory_is_kept_for_a_job_while_its_beginning_is_written() -> None:
    cache = cache_of()
    with cache.destinations.starting(FIRST, begins=True):
        assert cache.destinations.writer_before(LATE) == "first"
    assert cache.destinations.writer_before(LATE) is None
    with cache.destinations.starting(FIRST, begins=False):
        assert cache.destinations.writer_before(LATE) is None


def created(name: str, time: str, status: dict[str, Any], path: str = "run42") -> dict[str, Any]:
    body = job_body(name, f"uid-{name}", "1")
    destination = body["spec"]["destination"] | {"path": path}
    return body | {
        "metadata": body["metadata"] | {"creationTimestamp": time},
        "spec": body["spec"] | {"destination": destination},
        "status": status,
    }


def test_when_a_job_ends_the_oldest_of_those_that_waited_is_next_and_then_the_one_after_it() -> None:
    cache = Cache()
    cache.put_job(created("first", "2026-01-01T00:00:00Z", UNDER_WAY))
    names = ("c", "a", "b")
    for day, name in enumerate(names, 2):
        cache.put_job(created(name, f"2026-01-0{day}T00:00:00Z", WAITS))
    jobs = {name: JobUid("lab", f"uid-{name}") for name in names}
    assert {name: cache.destinations.writer_before(job) for name, job in jobs.items()} == {"c": "first", "a": "first", "b": "first"}
    assert cache.destinations.take_next("lab", "first") == []
    cache.drop_job(ObjectKey("lab", "first"), FIRST.uid)
    assert cache.destinations.take_next("lab", "first") == ["c"]
    assert cache.destinations.take_next("lab", "first") == []
    assert cache.destinations.writer_before(jobs["c"]) is None
    cache.drop_job(ObjectKey("lab", "c"), "uid-c")
    assert cache.destinations.take_next("lab", "c") == ["a"]


def test_when_a_job_above_ends_all_are_next_that_do_not_wait_for_each_other() -> None:
    cache = Cache()
    cache.put_job(created("above", "2026-01-01T00:00:00Z", UNDER_WAY, path=""))
    for name, path in {"x": "x", "y": "y", "z": "y/z"}.items():
        cache.put_job(created(name, "2026-01-02T00:00:00Z", WAITS, path=path))
        assert cache.destinations.writer_before(JobUid("lab", f"uid-{name}")) == "above"
    cache.drop_job(ObjectKey("lab", "above"), "uid-above")
    assert cache.destinations.take_next("lab", "above") == ["x", "y"]


def test_a_suspended_job_keeps_none_of_those_back_that_waited_with_it() -> None:
    cache = cache_of(first=UNDER_WAY)
    cache.put_job(created("older", "2025-01-01T00:00:00Z", WAITS))
    assert [cache.destinations.writer_before(job) for job in (JobUid("lab", "uid-older"), LATE)] == ["first", "first"]
    suspended = created("older", "2025-01-01T00:00:00Z", WAITS)
    cache.put_job(suspended | {"spec": suspended["spec"] | {"suspend": True}})
    cache.drop_job(ObjectKey("lab", "first"), FIRST.uid)
    assert "late" in cache.destinations.take_next("lab", "first")


def test_after_a_write_that_failed_the_directory_is_kept_until_the_job_s_next_pass() -> None:
    cache = cache_of()
    with pytest.raises(ConnectionError), cache.destinations.starting(FIRST, begins=True):
        raise ConnectionError
    assert cache.destinations.writer_before(LATE) == "first"
    assert cache.destinations.writer_before(FIRST) is None
    assert cache.destinations.writer_before(LATE) is None


@given(st.lists(st.tuples(st.sampled_from(["", "a", "a/b", "a/b/c", "ab", "a-b", "b"]), st.booleans()), max_size=12), st.data())
def test_whom_a_job_waits_for_is_the_same_as_by_going_through_all(jobs: list[tuple[str, bool]], data: st.DataObject) -> None:
    cache, bodies = Cache(), {}
    for number, (path, runs) in enumerate(jobs):
        name = f"job{number}"
        bodies[name] = created(name, f"2026-01-{number + 1:02}T00:00:00Z", UNDER_WAY if runs else {}, path=path)
        cache.put_job(bodies[name])
    gone = data.draw(st.sets(st.sampled_from(sorted(bodies)))) if bodies else set()
    for name in gone:
        cache.drop_job(ObjectKey("lab", name), f"uid-{name}")
        del bodies[name]
    writers = {name: writer_of(body) for name, body in bodies.items()}
    for name, own in writers.items():
        assert own is not None
        others = [other for other in writers.values() if other is not None and other is not own]
        expected = writer_before(own, others)
        assert cache.destinations.writer_before(JobUid("lab", own.uid)) == (None if expected is None else expected.name), name
