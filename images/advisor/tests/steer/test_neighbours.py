"""Advisors of one node on the loopback interface."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from fairlead_advisor.decide.model import TransportLimits
from fairlead_advisor.steer.effects import Neighbours, News
from fairlead_advisor.steer.neighbours import ADDRESS, CALLED_S, PRESENT_S, LoopbackNeighbours, loopback_neighbours
from fairlead_advisor.steer.paused_probe import TOGETHER_S
from tests.support.model_mover import PEER, CallingJob, Clock, ModelMover, Watched, seen

NOBODY = seen("B0-C0")
ELSEWHERE = replace(PEER, address="198.18.0.9")
NO_DATAGRAMS = (
    b"",
    b"\xff\xfe",
    b"pause",
    b"x" * 1000,
    f"fairlead-neighbours/2 pause somebody {PEER.address}".encode(),
    f"fairlead-neighbours/1 stop somebody {PEER.address}".encode(),
    f"fairlead-neighbours/1 pause somebody {PEER.address} again".encode(),
)


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def three(port: int) -> AsyncIterator[list[Neighbours]]:
    """Two whose transfers go to one peer, and one whose goes elsewhere."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(loopback_neighbours(peer, port)) for peer in (PEER, PEER, ELSEWHERE)]
        yield [one for one in found if one is not None]


async def until_heard(one: Neighbours, news: News) -> None:
    async with asyncio.timeout(10):
        while one.heard() != news:  # noqa: ASYNC110 - nothing is told of it
            await asyncio.sleep(0)


async def test_a_call_ends_the_rest_of_those_with_the_same_peer_and_of_nobody_else(port: int) -> None:
    async with three(port) as (caller, beside, elsewhere):
        caller.call()
        async with asyncio.timeout(10):
            await beside.rest(3600)
        assert beside.heard() == News(called=True)
        assert caller.heard() == elsewhere.heard() == News()


async def test_a_job_with_bbr_is_known_to_those_with_the_same_peer(port: int) -> None:
    async with three(port) as (one, beside, elsewhere):
        one.have_bbr()
        await until_heard(beside, News(has_bbr=True))
        assert one.heard() == elsewhere.heard() == News()


async def test_without_a_call_a_rest_lasts_its_time(port: int) -> None:
    async with three(port) as (one, *_):
        await one.rest(0.01)
        assert one.heard() == News()


async def test_what_is_no_such_datagram_is_passed_over(port: int) -> None:
    async with three(port) as (one, beside, _):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            for data in NO_DATAGRAMS:
                stranger.sendto(data, (ADDRESS, port))
        one.have_bbr()
        await until_heard(beside, News(has_bbr=True))


async def wakes(one: LoopbackNeighbours) -> bool:
    """Whether a rest ends at once."""
    rest = asyncio.create_task(one.rest(3600))
    await asyncio.sleep(0)
    ended = rest.done()
    rest.cancel()
    return ended


async def test_a_flood_of_calls_wakes_once_in_a_while() -> None:
    times = iter([100.0, 100.1, 100.9, 100.9, 101.1])
    one = LoopbackNeighbours(PEER, monotonic_s=lambda: next(times))
    call = f"fairlead-neighbours/1 pause somebody {PEER.address}".encode()
    one.datagram_received(call, None)
    assert await wakes(one)
    assert one.heard() == News(called=True)
    one.datagram_received(call, None)
    assert not await wakes(one)
    assert one.heard() == News(called=True)
    one.datagram_received(call, None)
    assert await wakes(one)


async def test_a_port_that_is_taken_leaves_the_advisor_without_neighbours(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((ADDRESS, port))
        async with loopback_neighbours(PEER, port) as neighbours:
            assert neighbours is None
    assert f"{ADDRESS} port {port}: Address already in use" in caplog.text


@pytest.mark.parametrize(
    ("word", "later_s", "news"),
    [
        ("pause", CALLED_S, News(called=True)),
        ("pause", CALLED_S + 0.1, News()),
        ("bbr", PRESENT_S, News(has_bbr=True)),
        ("bbr", PRESENT_S + 0.1, News()),
    ],
)
async def test_what_was_said_is_over_after_a_while(word: str, later_s: float, news: News) -> None:
    times = iter([100.0, 100.0 + later_s])
    one = LoopbackNeighbours(PEER, monotonic_s=lambda: next(times))
    one.datagram_received(f"fairlead-neighbours/1 {word} somebody {PEER.address}".encode(), None)
    assert one.heard() == news


def held_s(watched: Watched) -> list[float]:
    """For how long data were held back each time."""
    holds = watched.mover.holds
    return [end_s - began_s for (began_s, seconds), (end_s, _) in pairwise(holds) if seconds]


def test_a_job_that_is_called_pauses_at_that_moment_and_calls_nobody(watch: Callable[..., Watched]) -> None:
    jobs: list[CallingJob] = []

    def beside(clock: Clock) -> CallingJob:
        jobs.append(CallingJob(clock, calls_s=47.25))
        return jobs[-1]

    hears = lambda _now_s: seen("B1-B1")  # noqa: E731
    limits = TransportLimits(1, 1)
    watched = watch(
        70, limits, classify=lambda _now_s: NOBODY, in_force="bbr", streams=1, answered=seen("B1-C0"), hears=hears, beside=beside
    )
    assert next(at_s for at_s, seconds in watched.mover.holds if seconds) == pytest.approx(47.25, abs=0.1)
    assert watched.mover.control == "cubic"
    assert (jobs[0].called, jobs[0].knows_bbr) == (0, True)
    assert held_s(watched) == pytest.approx([TOGETHER_S], abs=0.1)


def test_a_job_that_probes_beside_another_one_with_bbr_calls_it(watch: Callable[..., Watched]) -> None:
    jobs: list[CallingJob] = []

    def beside(clock: Clock) -> CallingJob:
        jobs.append(CallingJob(clock))
        return jobs[-1]

    def prepare(mover: ModelMover, clock: Clock) -> None:
        mover.goodput_bps = lambda _n, _c: 30e6 if clock.now_s <= 40 else 60e6

    hears = lambda _now_s: seen("B1-B1")  # noqa: E731
    answers = {"classify": lambda _now_s: NOBODY, "answered": seen("B1-C0"), "hears": hears}
    watched = watch(59, TransportLimits(1, 1), in_force="bbr", streams=1, prepare=prepare, beside=beside, **answers)
    assert [look["why"] for look in watched.entries("look")] == ["the path changed"]
    assert jobs[0].called == 1
    assert watched.mover.control == "cubic"
    assert held_s(watched) == pytest.approx([TOGETHER_S], abs=0.1)
