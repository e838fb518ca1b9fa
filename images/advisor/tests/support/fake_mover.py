"""The sending mover's control socket, as the contract has it, with faults on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.echo_server import KEY


@dataclass
class FakeMover:
    """`peer` None answers 503; a congestion control outside `permitted` is refused with 422, though it may be `available`."""

    peer: Any = None
    available: list[str] = field(default_factory=lambda: ["reno", "bbr", "cubic"])
    permitted: set[str] = field(default_factory=lambda: {"reno", "bbr", "cubic"})
    streams_maximum: int = 64
    unavailable_patches: int = 0
    in_force: dict[str, Any] = field(default_factory=lambda: {"congestion_control": "cubic", "streams": 2})
    patches: list[dict[str, Any]] = field(default_factory=list)
    peer_asked: asyncio.Event = field(default_factory=asyncio.Event)
    stats_asked: asyncio.Event = field(default_factory=asyncio.Event)

    def meet(self, echo_port: int) -> None:
        """The peer is authenticated."""
        self.peer = {"address": "127.0.0.1", "source_address": "127.0.0.2", "echo_port": echo_port, "echo_key": KEY.hex()}

    async def get_peer(self, _request: web.Request) -> web.Response:
        self.peer_asked.set()
        return web.json_response(self.peer) if self.peer is not None else web.Response(status=503)

    async def get_stats(self, _request: web.Request) -> web.Response:
        self.stats_asked.set()
        stream = {"rtt_seconds": 0.25, "bytes_sent": 1, "congestion_control": self.in_force["congestion_control"]}
        streams = [{"id": number} | stream for number in range(self.in_force["streams"])]
        return web.json_response({"stage": "Transferring", "available_congestion_controls": self.available, "streams": streams})

    async def patch_transport(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        self.patches.append(wanted)
        if self.unavailable_patches > 0:
            self.unavailable_patches -= 1
            return web.Response(status=503)
        if wanted["congestion_control"] not in self.permitted:
            return self._refused("congestion_control", "CongestionControlUnavailable", f"{wanted['congestion_control']} is not permitted")
        if wanted.get("streams", 0) > self.streams_maximum:
            return self._refused("streams", "TooManyStreams", f"at most {self.streams_maximum}")
        self.in_force.update(wanted)
        return web.json_response(self.in_force)

    @staticmethod
    def _refused(name: str, reason: str, message: str) -> web.Response:
        return web.json_response({"field": name, "reason": reason, "message": message}, status=422)


@asynccontextmanager
async def serving_mover(mover: FakeMover, control_socket: Path) -> AsyncIterator[FakeMover]:
    app = web.Application()
    app.router.add_get("/v1/peer", mover.get_peer)
    app.router.add_get("/v1/stats", mover.get_stats)
    app.router.add_patch("/v1/transport", mover.patch_transport)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(control_socket)).start()
    try:
        yield mover
    finally:
        await runner.cleanup()
