"""Where a cap comes from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from fairlead.guard.caps import JobCaps, StatedCap, stated_cap
from fairlead.guard.senders import JobRef

JOB = JobRef("physics", "run42", "job-uid")


def job(allocated: str | None, uid: str = "job-uid") -> dict[str, Any]:
    bandwidth: dict[str, Any] = {"enforcedBy": "Pacing"} | ({"allocated": allocated} if allocated is not None else {})
    return {"metadata": {"name": "run42", "uid": uid}, "status": {"bandwidth": bandwidth}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (job("80M"), StatedCap(80_000_000)),
        (job(None), StatedCap(None)),
        (job("fast"), None),
        ({"metadata": {}}, None),
        ({"metadata": {}, "status": {"phase": "Pending"}}, None),
    ],
    ids=["a cap", "none", "no rate", "no status", "nothing of bandwidth yet"],
)
def test_a_jobs_status_states_its_cap(body: Mapping[str, Any], expected: StatedCap | None) -> None:
    assert stated_cap(body) == expected


END: Mapping[str, Any] = {}
"""Instead of a version: the watch ends without an error."""


class Follower:
    """`JobCaps` over versions of a job that the test gives."""

    def __init__(self, *versions: Mapping[str, Any] | Exception) -> None:
        self.versions = list(versions)
        self.seen: list[StatedCap | None] = []
        self.caps = JobCaps(versions=self.watch, changed=self.changed, sleep=self.sleep)
        self.done = asyncio.Event()
        self.pauses = 0

    async def watch(self, _: JobRef) -> AsyncIterator[Mapping[str, Any]]:
        while self.versions:
            version = self.versions.pop(0)
            if version is END:
                return
            if isinstance(version, Exception):
                raise version
            yield version
        self.done.set()
        await asyncio.Event().wait()

    async def changed(self) -> None:
        self.seen.append(self.caps.stated(JOB))

    async def sleep(self, _seconds: float) -> None:
        self.pauses += 1

    async def run(self) -> list[StatedCap | None]:
        self.caps.follow({JOB})
        await self.done.wait()
        return self.seen


@pytest.mark.asyncio
async def test_each_change_of_the_cap_is_followed_once() -> None:
    assert await Follower(job("80M"), job("80M"), job("40M")).run() == [StatedCap(80_000_000), StatedCap(40_000_000)]


@pytest.mark.asyncio
async def test_the_cap_stays_while_the_api_server_is_away() -> None:
    follower = Follower(job("80M"), OSError("connection refused"), job("40M"))
    assert await follower.run() == [StatedCap(80_000_000), StatedCap(40_000_000)]


@pytest.mark.asyncio
async def test_watches_that_end_at_once_are_not_begun_again_without_a_pause() -> None:
    follower = Follower(job("80M"), END, END, job("40M"))
    assert await follower.run() == [StatedCap(80_000_000), StatedCap(40_000_000)]
    assert follower.pauses == 2


@pytest.mark.asyncio
async def test_another_job_of_the_same_name_states_nothing() -> None:
    assert await Follower(job("80M", uid="another")).run() == []


@pytest.mark.asyncio
async def test_a_job_without_senders_is_forgotten() -> None:
    follower = Follower(job("80M"))
    await follower.run()
    follower.caps.follow(set())
    assert follower.caps.stated(JOB) is None
