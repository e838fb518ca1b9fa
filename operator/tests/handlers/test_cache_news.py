"""Whoever keeps passes in step with what is known: nothing new is without a pass, and nothing that is known already has another."""

from __future__ import annotations

import asyncio

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, pod_body
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.queue import WorkQueue

KEY = ObjectKey("lab", "job")
UIDS = ("old-uid", "new-uid")
POD_UIDS = ("pod-1", "pod-2")

_VERSIONS = st.integers(1, 9).map(str)
_RECORDED = st.lists(st.sampled_from(POD_UIDS), unique=True)
_STEPS = st.one_of(
    st.tuples(st.just("job"), st.sampled_from(UIDS), _VERSIONS, _RECORDED),
    st.tuples(st.just("job is gone"), st.sampled_from(UIDS), _VERSIONS, st.none()),
    st.tuples(st.just("pod"), st.sampled_from(POD_UIDS), _VERSIONS, st.sampled_from(UIDS)),
    st.tuples(st.just("pod was created"), st.sampled_from(POD_UIDS), _VERSIONS, st.sampled_from(UIDS)),
    st.tuples(st.just("pod is gone"), st.sampled_from(POD_UIDS), _VERSIONS, st.none()),
    st.tuples(st.just("pass begins"), st.none(), st.none(), st.none()),
    st.tuples(st.just("pass ends"), st.none(), st.none(), st.none()),
)


def _pod(uid: str, version: str, job_uid: str) -> dict[str, object]:
    return pod_body("receiver" if uid == "pod-1" else "sender", uid=uid, version=version, job_uid=job_uid)


def _take_in(cache: Cache, step: str, uid: str, version: str, more: object) -> None:
    match step:
        case "job":
            assert isinstance(more, list)
            cache.put_job(job_body(uid=uid, version=version, pods=more))
        case "job is gone":
            cache.drop_job(KEY, uid, version)
        case "pod":
            cache.put_pod(_pod(uid, version, str(more)))
        case "pod was created":
            cache.put_created_pod(_pod(uid, version, str(more)))
        case "pod is gone":
            for key, owned in list(cache.pods.items()):
                if owned.pod.uid == uid:
                    cache.drop_pod(key, uid, version)


def _known(cache: Cache) -> object:
    """What a pass over the job decides by."""
    job = cache.job(KEY)
    seen = None if job is None else (job["metadata"]["uid"], job["metadata"]["resourceVersion"])
    return seen, [{pod.uid: pod.resource_version for pod in cache.pods_of(JobUid("lab", uid))} for uid in UIDS]


@settings(max_examples=500)
@given(st.lists(_STEPS, max_size=40))
def test_the_last_pass_over_a_job_saw_all_that_is_known_of_it(steps: list[tuple[str, str, str, object]]) -> None:
    asyncio.run(_run_steps(steps))


async def _run_steps(steps: list[tuple[str, str, str, object]]) -> None:
    queue: WorkQueue[ObjectKey] = WorkQueue(FakeTimers())
    cache = Cache(queue.add)
    seen, is_working = _known(cache), False
    for step, uid, version, more in steps:
        if step == "pass begins" and queue.depth and not is_working:
            await queue.get()
            seen, is_working = _known(cache), True
        elif step == "pass ends" and is_working:
            queue.done(KEY)
            is_working = False
        elif not step.startswith("pass"):
            # In the middle of a pass this is what its own writes are answered.
            _take_in(cache, step, uid, version, more)
    if is_working:
        queue.done(KEY)
    if queue.depth:
        assert await queue.get() == KEY
    else:
        assert seen == _known(cache)


@pytest.mark.parametrize(
    ("step", "uid", "more"), [("job", "old-uid", ["pod-1"]), ("pod", "pod-1", "old-uid"), ("pod is gone", "pod-1", None)]
)
def test_what_is_shown_once_more_is_no_news(step: str, uid: str, more: object) -> None:
    news: list[ObjectKey] = []
    cache = Cache(news.append)
    cache.put_job(job_body(uid="old-uid", version="3", pods=["pod-1"]))
    cache.put_created_pod(_pod("pod-1", "3", "old-uid"))
    _take_in(cache, step, uid, "4", more)
    assert KEY in news
    news.clear()
    for version in ("4", "3"):
        _take_in(cache, step, uid, version, more)
    assert news == []


def test_a_pod_that_the_watch_showed_before_its_creation_was_answered_is_news_once_it_is_known_to_be_the_jobs_own() -> None:
    news: list[ObjectKey] = []
    cache = Cache(news.append)
    cache.put_pod(_pod("pod-1", "3", "old-uid"))
    assert news == []
    cache.put_created_pod(_pod("pod-1", "3", "old-uid"))
    assert news == [KEY]
