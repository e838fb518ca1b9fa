"""The rules follow the pods, survive the API server's absence, and go with the guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from guard_pods import make_pod

from fairlead.guard.loop import Change, Guard, Pod, RulesRefusedError
from fairlead.guard.ruleset import HeldSender, no_rules, ruleset

pytestmark = pytest.mark.asyncio


def rules(*caps: tuple[int, int]) -> str:
    return ruleset(HeldSender("198.19.0.2", port, cap_bps) for port, cap_bps in caps)


class Node:
    """Lists of pods one after the other, each followed by changes; after the last the guard is stopped."""

    def __init__(self, *turns: tuple[list[Pod] | Exception, list[Change | Exception]]) -> None:
        self.turns = list(turns)
        self.scripts: list[str] = []
        self.pauses: list[float] = []
        self.now: list[Change | Exception] = []
        self.holds_still = False
        """Whether a pause never ends: what waits for it has not happened yet."""

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
            yield change

    async def install(self, script: str) -> None:
        self.scripts.append(script)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.holds_still:
            await asyncio.Event().wait()

    async def run(self) -> list[str]:
        guard = Guard(pods=self.pods, changes=self.changes, install=self.install, sleep=self.sleep)
        with pytest.raises(asyncio.CancelledError):
            await guard.run()
        return self.scripts


async def test_rules_follow_arrivals_changes_of_caps_and_departures() -> None:
    late = make_pod(5000000, uid="two", port=24008)
    changes: list[Change | Exception] = [("ADDED", late), ("MODIFIED", make_pod(3000000)), ("DELETED", late)]
    scripts = await Node(([make_pod(2000000)], changes)).run()
    expected = [rules((24000, 2000000)), rules((24000, 2000000), (24008, 5000000)), rules((24000, 3000000), (24008, 5000000))]
    assert scripts == [*expected, rules((24000, 3000000)), no_rules()]


async def test_a_cap_that_falls_counts_once_the_mover_has_heard_of_it() -> None:
    node = Node(([make_pod(5000000)], [("MODIFIED", make_pod(2000000))]))
    node.holds_still = True
    assert await node.run() == [rules((24000, 5000000)), no_rules()]
    guard = Guard(pods=node.pods, changes=node.changes, install=node.install, sleep=asyncio.sleep)
    guard._take("one", HeldSender("198.19.0.2", 24000, 5000000))
    guard._sleep = _at_once
    guard._take("one", HeldSender("198.19.0.2", 24000, 2000000))
    await asyncio.gather(*guard._falls.values())
    assert node.scripts[-1] == rules((24000, 2000000))


async def test_a_cap_that_rises_before_a_fall_counts_forgets_the_fall() -> None:
    node = Node(([make_pod(5000000)], [("MODIFIED", make_pod(2000000)), ("MODIFIED", make_pod(8000000))]))
    assert await node.run() == [rules((24000, 5000000)), rules((24000, 8000000)), no_rules()]


async def _at_once(_seconds: float) -> None:
    return


async def test_what_changes_nothing_is_not_given_to_the_kernel_again() -> None:
    same: Change = ("MODIFIED", make_pod(2000000))
    scripts = await Node(([make_pod(2000000)], [same, same]), ([make_pod(2000000)], [])).run()
    assert scripts == [rules((24000, 2000000)), no_rules()]


async def test_a_sender_that_has_ended_is_let_go() -> None:
    scripts = await Node(([make_pod(2000000)], [("MODIFIED", make_pod(2000000, phase="Succeeded"))])).run()
    assert scripts == [rules((24000, 2000000)), rules(), no_rules()]


async def test_rules_stay_while_the_api_server_is_away_and_the_pauses_grow() -> None:
    gone = OSError("connection refused")
    node = Node(([make_pod(2000000)], [gone]), (gone, []), (gone, []), ([], []))
    assert await node.run() == [rules((24000, 2000000)), rules(), no_rules()]
    assert node.pauses == [1.0, 2.0, 4.0]


async def test_a_kernel_that_takes_no_rules_ends_the_guard() -> None:
    node = Node(([make_pod(2000000)], []))

    async def refuse(script: str) -> None:
        node.scripts.append(script)
        if script != no_rules():
            raise RulesRefusedError("nft refused the rules: no such hook")

    guard = Guard(pods=node.pods, changes=node.changes, install=refuse, sleep=node.sleep)
    with pytest.raises(RulesRefusedError, match="no such hook"):
        await guard.run()
    assert node.scripts[-1] == no_rules()
