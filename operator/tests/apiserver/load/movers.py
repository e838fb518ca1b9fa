"""Movers that answer from far away: each answer comes a round trip after its question, and thousands of them cost one process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from fairlead.api import names
from fairlead.core.ports import BLOCK
from fairlead.kube.client import KubeObject
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_DATA, PORT_HTTP

SERVED = (PORT_HTTP, PORT_ADVISOR)
HOUR_SECONDS = 3600.0
"""What a transfer would take that nobody ends: every 36 s there is a per cent of progress to write."""
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Mover:
    """One pod's mover, which moves `rate_bytes_per_second` from `begun_s` on."""

    role: str
    job_uid: str
    attempt: int
    address: str
    data_port: int
    begun_s: float
    decided_at: str
    rate_bytes_per_second: float = 1.25e6

    def answer(self, page: str, now_s: float) -> KubeObject | None:
        """What it says of a page of the contract; None where it has none."""
        total = int(HOUR_SECONDS * self.rate_bytes_per_second)
        moved = min(int((now_s - self.begun_s) * self.rate_bytes_per_second), total)
        match page:
            case "/v1/endpoint":
                return {"role": self.role, "interface": "data0", "address": self.address, "port": self.data_port, "numa_node": None}
            case "/v1/progress":
                return {
                    **{"role": self.role, "job": self.job_uid, "attempt": self.attempt, "stage": "Transferring"},
                    **{"bytes_total": total, "bytes_transferred": moved},
                    **{"files_total": 4, "files_transferred": 0, "bytes_skipped": 0, "files_skipped": 0},
                    **{"rate_bytes_per_second": self.rate_bytes_per_second, "seconds_since_progress": 0.1},
                    **{"streams": 4, "congestion_control": "cubic"},
                }
            case "/v1/decision" if self.role == "sender":
                choice = {"protocol": "TCP", "congestion_control": "cubic", "streams": 4, "background": None, "confidence": None}
                why = {"abstained": True, "model": None, "reason": "NoModel", "message": "no model", "decided_at": self.decided_at}
                path = {"rtt_seconds": 0.1, "rtt_minimum_seconds": 0.099, "loss_ratio": 0.0, "samples": 200}
                return {"version": 1, "path": path, "decision": choice | why, "applied": True}
        return None


class FarMovers:
    """All movers of a cluster whose nodes are addresses of this machine's loopback."""

    def __init__(self, ports: range, round_trip_seconds: float) -> None:
        self._ports = ports
        self._round_trip_seconds = round_trip_seconds
        self._at: dict[tuple[str, int], Mover] = {}
        self._of_pod: dict[str, tuple[Mover, list[tuple[str, int]]]] = {}
        self.answers = 0
        """How many were given."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Every port that movers serve answers on every address while the block runs."""
        loop = asyncio.get_running_loop()
        offsets = {OFFSETS[name] for name in SERVED}
        async with AsyncExitStack() as stack:
            for port in self._ports:
                if (port - self._ports.start) % BLOCK in offsets:
                    server = await loop.create_server(lambda: _Conversation(self._reply, self._round_trip_seconds), "0.0.0.0", port)
                    stack.callback(server.close)
            yield

    def begin(self, pod: KubeObject, node_address: str, data_address: str) -> None:
        """The pod's mover begins to answer at its node's address."""
        labels = pod["metadata"]["labels"]
        ports = {
            port["name"]: int(port["containerPort"])
            for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
            for port in container.get("ports", [])
        }
        mover = Mover(
            role=labels[names.LABEL_ROLE],
            job_uid=labels[names.LABEL_JOB_UID],
            attempt=int(labels[names.LABEL_ATTEMPT]),
            address=data_address,
            data_port=ports.get(PORT_DATA, 0),
            begun_s=asyncio.get_running_loop().time(),
            decided_at=datetime.now(UTC).isoformat(),
        )
        places = [(node_address, ports[name]) for name in SERVED if name in ports]
        self._of_pod[pod["metadata"]["uid"]] = mover, places
        for place in places:
            self._at[place] = mover

    def end(self, pod_uid: str) -> None:
        """The pod's mover answers no more."""
        mover, places = self._of_pod.pop(pod_uid, (None, []))
        for place in places:
            # The operator may have given the port to another pod by now, whose mover answers there.
            if self._at.get(place) is mover:
                del self._at[place]

    def _reply(self, place: tuple[str, int], page: str) -> bytes:
        mover = self._at.get(place)
        said = mover.answer(page, asyncio.get_running_loop().time()) if mover else None
        if said is None:
            return _NOT_FOUND
        self.answers += 1
        body = json.dumps(said).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + body


class _Conversation(asyncio.Protocol):
    """One question and its answer."""

    def __init__(self, reply: Callable[[tuple[str, int], str], bytes], delay_seconds: float) -> None:
        self._reply = reply
        self._delay_seconds = delay_seconds
        self._asked = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        if b"\r\n\r\n" in self._asked:
            asyncio.get_running_loop().call_later(self._delay_seconds, self._answer)

    def _answer(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        address, port = transport.get_extra_info("sockname")[:2]
        page = self._asked.split(b" ", 2)[1].decode("latin-1")
        transport.write(self._reply((address, port), page))
        transport.close()
