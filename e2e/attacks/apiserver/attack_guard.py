"""A mover that was taken over sends past its cap on a node with the guard."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from e2e.attacks.lib.guarded import HELD_RATIO, OTHER_PORT, RECEIVER_V6, SECOND_SOURCE, GuardedSender, guarded_sender
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site


def _conclude(judge: Judge, rate: float) -> None:
    judge(rate < HELD_RATIO, f"on the wire {rate:.2f} of the cap")


@gains("sends past its cap and takes the link from others")
async def attack_by_udp(site: Site, judge: Judge) -> None:
    """The sender floods by UDP."""
    async with guarded_sender(site) as sender:
        _conclude(judge, await sender.flood("udp"))


@gains("sends past its cap and takes the link from others")
async def attack_to_another_port(site: Site, judge: Judge) -> None:
    """The sender sends to another port of its receiver's host."""
    async with guarded_sender(site) as sender:
        _conclude(judge, await sender.flood("tcp", port=OTHER_PORT))


@gains("sends past its cap and takes the link from others")
async def attack_to_another_address(site: Site, judge: Judge) -> None:
    """The sender sends to another address of its receiver's host, by IPv6."""
    async with guarded_sender(site) as sender:
        _conclude(judge, await sender.flood("tcp", address=RECEIVER_V6))


@gains("sends past its cap and takes the link from others")
async def attack_from_another_source_address(site: Site, judge: Judge) -> None:
    """The sender binds another address of its node and floods by UDP from it."""
    async with guarded_sender(site) as sender:
        _conclude(judge, await sender.flood("udp", source=SECOND_SOURCE))


@gains("sends past its cap and takes the link from others")
async def attack_from_a_second_container(site: Site, judge: Judge) -> None:
    """Another process of the pod sends to another port while the mover keeps to its cap."""
    async with guarded_sender(site) as sender:
        _conclude(judge, await sender.flood("tcp", port=OTHER_PORT, container="second-container"))


@gains("sends past its cap and takes the link from others")
async def attack_by_rewriting_the_annotation(site: Site, judge: Judge) -> None:
    """Somebody who may patch pods rewrites the cap's annotation several times a second while the sender floods its receiver."""
    async with guarded_sender(site) as sender, _rewriting(sender):
        _conclude(judge, await sender.flood("tcp"))


@gains("sends past its cap and takes the link from others")
async def attack_while_the_guard_restarts(site: Site, judge: Judge) -> None:
    """The guard's pod is deleted in mid flight, and the sender floods its receiver until the next one is there, and on."""
    async with guarded_sender(site) as sender:
        await sender.stop_guard()
        _conclude(judge, await sender.flood("tcp"))
        await sender.start_guard()
        _conclude(judge, await sender.flood("tcp"))


@gains("ends the guard, and with it the caps of all senders on the node")
async def attack_with_an_endpoint_that_nft_refuses(site: Site, judge: Judge) -> None:
    """Another sender of the node was given a scoped IPv6 address by its receiver, which is no rule for nft."""
    async with guarded_sender(site) as sender:
        await sender.make_pod(2, "[fe80::1%5]:24000")
        _conclude(judge, await sender.flood("tcp"))


@gains("writes rules of its own into the node's packet filter, or ends the guard")
async def attack_with_nft_syntax_in_pods(site: Site, judge: Judge) -> None:
    """Other senders of the node have the syntax of nft in their receiver's address and in their annotation."""
    async with guarded_sender(site) as sender:
        await sender.make_pod(2, "1.2.3.4 accept; add chain inet x:24000")
        await sender.make_pod(3, "198.18.9.3:24000", annotation='1M; flush ruleset; include "/etc/passwd"')
        _conclude(judge, await sender.flood("tcp"))


@contextlib.asynccontextmanager
async def _rewriting(sender: GuardedSender) -> AsyncIterator[None]:
    async def rewrite() -> None:
        for cap in itertools.cycle(("100G", None, "200G", "1G")):
            await sender.annotate(cap)
            await asyncio.sleep(0.3)

    task = asyncio.create_task(rewrite())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
