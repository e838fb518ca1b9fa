import asyncio
from collections.abc import Awaitable

from fairlead_advisor.probe.monitor import Monitor
from fairlead_advisor.probe.socket import Clocks, EchoEndpoint
from tests.support.echo_server import KEY, echo_server

PATIENCE_S = 120
"""Longer than anything here takes on a busy machine."""


def soon(_seconds: float) -> Awaitable[None]:
    return asyncio.sleep(0.01)


async def test_sampling_goes_on_where_the_peer_is_after_it_has_moved_to_another_path() -> None:
    async with echo_server() as first, echo_server() as second:
        servers = [EchoEndpoint("127.0.0.1", server.port) for server in (first, second)]

        async def follow() -> EchoEndpoint:
            return servers[first.asked.is_set()]

        monitor = Monitor(servers[0], KEY, 100, Clocks(), soon, follow=follow)
        sampling = asyncio.ensure_future(monitor.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await second.asked.wait()
                while all(rtt_ms is None for _, rtt_ms in monitor.samples()):
                    await soon(0)
            assert not sampling.done()
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)


async def test_a_peer_that_stays_is_asked_by_one_socket() -> None:
    async with echo_server() as server:
        place = EchoEndpoint("127.0.0.1", server.port)

        async def follow() -> EchoEndpoint:
            return place

        sampling = asyncio.ensure_future(Monitor(place, KEY, 100, Clocks(), soon, follow=follow).run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(server.requests) < 5:
                    await soon(0)
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
        assert len(server.senders) == 1
