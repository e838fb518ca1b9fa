"""The sending mover's control socket, as the contract has it, with faults on demand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
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
    stage: str = "AwaitingTransport"
    rate_of: Callable[[int, str], float] = lambda streams, _control: 1e6 * streams
    """Bytes per second of all streams together, by their count and congestion control."""
    in_force: dict[str, Any] = field(default_factory=lambda: {"congestion_control": "cubic", "streams": 2})
    socket_buffer: dict[str, Any] | None = None
    """What the statistics tell of send buffers; None: a mover of before that."""
    refuses_buffers: bool = False
    can_hold: bool = True
    """False: a mover of before quiet periods."""
    quiet_until_s: float = 0.0
    bytes_sent: dict[int, float] = field(default_factory=dict)
    moved_s: float | None = None
    garbage: Any = None
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
        self._move()
        if self.garbage is not None:
            return web.json_response(self.garbage)
        stream = {"rtt_seconds": 0.25, "rtt_min_seconds": 0.2, "retransmits": 0, "congestion_control": self.in_force["congestion_control"]}
        open_now = range(0 if self.stage == "AwaitingTransport" else self.in_force["streams"])
        streams = [{"id": number, "bytes_sent": int(self.bytes_sent.get(number, 0))} | stream for number in open_now]
        told = {"stage": self.stage, "read_at_seconds": self.moved_s, "available_congestion_controls": self.available, "streams": streams}
        if self.socket_buffer is not None:
            told["socket_buffer"] = self.socket_buffer
        return web.json_response(told | ({"quiet_for_ms": self._quiet_for_ms()} if self.can_hold else {}))

    def _quiet_for_ms(self) -> int:
        return round(max(0.0, self.quiet_until_s - time.monotonic()) * 1000)

    def _move(self) -> None:
        now_s = time.monotonic()
        if self.stage == "Transferring" and self.moved_s is not None and not self._quiet_for_ms():
            count = self.in_force["streams"]
            moved = self.rate_of(count, self.in_force["congestion_control"]) * (now_s - max(self.moved_s, self.quiet_until_s))
            self.bytes_sent = {number: self.bytes_sent.get(number, 0.0) + moved / count for number in range(count)}
        self.moved_s = now_s

    async def patch_transport(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        await asyncio.sleep(0.01)
        if request.transport is None:
            # Whoever asked has given up, as this process stood still, and will ask again.
            return web.Response(status=503)
        self.patches.append(wanted)
        if self.unavailable_patches > 0:
            self.unavailable_patches -= 1
            return web.Response(status=503)
        control = wanted.get("congestion_control")
        if control is not None and control not in self.permitted:
            return self._refused("congestion_control", "CongestionControlUnavailable", f"{control} is not permitted")
        if wanted.get("streams", 0) > self.streams_maximum:
            return self._refused("streams", "TooManyStreams", f"at most {self.streams_maximum}")
        if "socket_buffer_bytes" in wanted and (self.socket_buffer is None or self.refuses_buffers):
            return self._refused("socket_buffer_bytes", "UserChoice", "it stays")
        self._move()
        self.quiet_until_s = time.monotonic() + wanted["quiet_for_ms"] / 1000 if "quiet_for_ms" in wanted else self.quiet_until_s
        self.in_force.update({name: value for name, value in wanted.items() if name != "quiet_for_ms"})
        if "socket_buffer_bytes" in wanted:
            self.socket_buffer = {**(self.socket_buffer or {}), "bytes": wanted["socket_buffer_bytes"], "set_by": "Advisor"}
        if self.stage == "AwaitingTransport":
            self.stage = "Transferring"
        return web.json_response(self.in_force | ({"quiet_for_ms": self._quiet_for_ms()} if self.can_hold else {}))

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
