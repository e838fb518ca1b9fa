"""The caps in force follow the pods and their jobs, and survive the API server's absence and the guard's own end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from guard_pods import make_pod

from fairlead.api import names
from fairlead.guard import loop
from fairlead.guard.holds import Holds
from fairlead.guard.loop import Change, Guard, Pod
from fairlead.guard.senders import JobRef, Sender

pytestmark = pytest.mark.asyncio


class RecordedHolds(Holds):
    """Remembers each set of caps that differs from the one before, by the ports of the senders' receivers."""

    def __init__(self) -> None:
        self.history: list[dict[int, int]] = []
        self.released: list[str] = []
        self.now = {}

    async def apply(self, caps: Sequence[tuple[Sender, int | None]]) -> None:
        held = {sender.receiver.port: cap_bps for sender, cap_bps in caps if sender.receiver is not None and cap_bps is not None}
        self.released += [sender.uid for sender, cap_bps in caps if cap_bps is None]
        if self.history[-1:] != [held]:
            self.history.append(held)

    def renew(self) -> None:
        return


class Node:
    """Lists of pods one after the other, each followed by changes; after the last the guard is stopped."""

    def __init__(self, *turns: tuple[list[Pod] | Exception, Sequence[Change | Exception | Mapping[str, Any]]]) -> None:
        self.turns = list(turns)
        self.holds = RecordedHolds()
        self.pauses: list[float] = []
        self.now: Sequence[Change | Exception | Mapping[str, Any]] = []
        self.jobs: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.holds_still = False
        """Whether a pause never ends: what waits for it has not happened yet."""
        self.guard = Guard(pods=self.pods, changes=self.changes, jobs=self.job, holds=self.holds, sleep=self.sleep)

    async def pods(self) -> list[Pod]:
        if not self.turns:
            raise asyncio.CancelledError
        found, self.now = self.turns.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def changes(self) -> AsyncIterator[Change]:
        for change in self.now:
            if isinstance(change, Exception):
                raise change
            if isinstance(change, Mapping):
                self.jobs.put_nowait(change)
                await asyncio.sleep(0.01)
                await self.jobs.join()
            else:
                yield change

    async def job(self, _: JobRef) -> AsyncIterator[Mapping[str, Any]]:
        while True:
            body = await self.jobs.get()
            yield body
            self.jobs.task_done()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.holds_still:
            await asyncio.Event().wait()

    async def run(self) -> list[dict[int, int]]:
        with pytest.raises(asyncio.CancelledError):
            await self.guard.run()
        return self.holds.history


def job(cap: str | None) -> dict[str, Any]:
    return {"metadata": {"uid": "job-uid"}, "status": {"bandwidth": {} if cap is None else {"allocated": cap}}}


async def test_caps_follow_arrivals_the_jobs_status_and_departures() -> None:
    late = make_pod(5000000, uid="two", port=24008)
    node = Node(([make_pod(2000000)], [("ADDED", late), job("6M"), ("DELETED", late)]))
    assert await node.run() == [{24000: 2000000}, {24000: 2000000, 24008: 5000000}, {24000: 6000000, 24008: 6000000}, {24000: 6000000}]


async def test_an_annotation_that_is_rewritten_changes_nothing() -> None:
    changes: list[Change] = [("MODIFIED", make_pod(10**10)), ("MODIFIED", make_pod(None)), ("MODIFIED", make_pod(10**9))]
    assert await Node(([make_pod(2000000)], changes)).run() == [{24000: 2000000}]
    assert await Node(([make_pod(2000000)], [job("3M"), *changes])).run() == [{24000: 2000000}, {24000: 3000000}]


async def test_what_an_earlier_guard_holds_is_let_go_when_the_jobs_status_has_no_cap_and_not_before() -> None:
    unknown = Node(([make_pod(None)], []))
    await unknown.run()
    assert unknown.holds.released == []
    known = Node(([make_pod(None)], [job(None)]))
    await known.run()
    assert set(known.holds.released) == {make_pod(None)["metadata"]["uid"]}


async def test_a_cap_that_falls_counts_once_the_mover_has_heard_of_it() -> None:
    node = Node(([make_pod(5000000)], [job("2M")]))
    node.holds_still = True
    assert await node.run() == [{24000: 5000000}]
    assert await Node(([make_pod(5000000)], [job("2M")])).run() == [{24000: 5000000}, {24000: 2000000}]


async def test_further_changes_do_not_put_off_a_fall() -> None:
    node = Node(([make_pod(9000000)], [job("2M"), job("3M"), job("1M")]))
    node.holds_still = True
    await node.run()
    assert node.pauses == [2.0]


async def test_a_cap_that_rises_before_a_fall_counts_forgets_the_fall() -> None:
    node = Node(([make_pod(5000000)], [job("2M"), job("8M")]))
    node.holds_still = True
    assert await node.run() == [{24000: 5000000}, {24000: 8000000}]


async def test_a_job_that_has_no_cap_any_more_is_let_go() -> None:
    assert await Node(([make_pod(5000000)], [job(None)])).run() == [{24000: 5000000}, {}]


async def test_a_sender_that_has_ended_is_let_go() -> None:
    assert await Node(([make_pod(2000000)], [("MODIFIED", make_pod(2000000, phase="Succeeded"))])).run() == [{24000: 2000000}, {}]


async def test_caps_stay_while_the_api_server_is_away_and_the_pauses_grow() -> None:
    gone = OSError("connection refused")
    node = Node(([make_pod(2000000)], [gone]), (gone, []), (gone, []), ([], []))
    assert await node.run() == [{24000: 2000000}, {}]
    assert node.pauses == [1.0, 2.0, 4.0]


async def test_caps_stay_in_force_when_the_guard_ends() -> None:
    node = Node(([make_pod(2000000)], []))
    assert await node.run() == [{24000: 2000000}]


async def test_a_pod_that_is_not_understood_leaves_the_others_held() -> None:
    broken = make_pod(2000000, uid="two")
    broken["metadata"]["creationTimestamp"] = "yesterday"
    assert await Node(([broken, make_pod(2000000)], [])).run() == [{24000: 2000000}]


async def test_nothing_is_synced_before_the_pods_are_known() -> None:
    node = Node((OSError("connection refused"), []))
    await node.run()
    assert not node.guard.is_synced
    node = Node(([], []))
    await node.run()
    assert node.guard.is_synced


async def test_lists_that_were_applied_make_the_next_pause_short_again() -> None:
    node = Node(*[([], [OSError("the connection was reset")])] * 3)
    await node.run()
    assert node.pauses == [1.0, 1.0, 1.0]


async def test_syntax_of_nft_in_a_pods_annotations_is_no_cap() -> None:
    pod = make_pod(2000000)
    pod["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] = '1M; add rule inet filter "x" accept'
    assert await Node(([pod], [job("3M")])).run() == [{}, {24000: 3000000}]


async def test_rules_of_an_earlier_guard_stay_while_the_nodes_pods_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(loop, "STARTING_SECONDS", 0.0)
    renewed = asyncio.Event()
    node = Node((ConnectionError("away"), []))
    node.holds_still = True
    node.holds.renew = renewed.set  # type: ignore[method-assign]
    running = asyncio.create_task(node.guard.run())
    for _ in range(2):
        await renewed.wait()
        renewed.clear()
    running.cancel()
    assert node.holds.history == []
