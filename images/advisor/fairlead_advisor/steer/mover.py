"""The mover's control socket: HTTP with JSON over a Unix socket."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from fairlead_advisor.decide.model import TCP, BufferLimits
from fairlead_advisor.decide.transfer import MoverStats, StreamStats, TransportSettings
from fairlead_advisor.errors import MoverAnswerError, MoverUnavailableError, TransportRefusedError, UsageError
from fairlead_advisor.probe.wire import parse_key

_TIMEOUT_S = 2.0
_MAXIMUM_ANSWER_BYTES = 1024 * 1024
# JSON as Python reads it has NaN, infinity and integers that no float holds.
_LARGEST_NUMBER = 1e15
_LARGEST_COUNT = 2**64 - 1
"""The kernel's counters have 64 bits."""
# The kernel's limit on the path of a Unix socket, without the closing zero byte.
MAXIMUM_SOCKET_PATH_BYTES = 107


@dataclass(frozen=True, slots=True)
class Peer:
    """The authenticated receiver, and this host's address towards it."""

    address: str
    source_address: str
    echo_port: int
    echo_key: bytes


class Mover:
    """A client of one mover; use as an async context manager."""

    def __init__(self, control_socket: Path) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=str(control_socket)),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            # The mover may go away between two requests; a kept connection would then fail the next one for nothing.
            headers={"Connection": "close"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.close()

    async def peer(self) -> Peer:
        """The peer; MoverUnavailableError until it is authenticated."""
        answer = _Answer("GET /v1/peer", await self._ask("GET", "/v1/peer"))
        try:
            echo_key = parse_key(answer.text("echo_key"))
        except UsageError:
            raise MoverAnswerError("GET /v1/peer: echo_key is not 32 hexadecimal digits") from None
        port = answer.integer("echo_port")
        if not 1 <= port <= 65535:
            raise MoverAnswerError(f"GET /v1/peer: echo_port is {port}, not a port")
        return Peer(answer.address("address"), answer.address("source_address"), port, echo_key)

    async def stats(self) -> MoverStats:
        """The state of the transfer's streams."""
        answer = _Answer("GET /v1/stats", await self._ask("GET", "/v1/stats"))
        quiet_ms = answer.number_or_none("quiet_for_ms")
        available = answer.items("available_congestion_controls")
        return MoverStats(
            stage=answer.text("stage"),
            available_congestion_controls=frozenset(name for name in available if isinstance(name, str)),
            streams=tuple(_stream(stream) for stream in answer.items("streams")),
            cap_bps=_cap_bps(answer.value.get("bandwidth")),
            quiet_s=None if quiet_ms is None else quiet_ms / 1000,
            buffers=_buffers(answer.value.get("socket_buffer")),
            protocol=answer.text_or_none("protocol") or TCP,
            read_at_s=answer.number_or_none("read_at_seconds"),
        )

    async def set_transport(self, wanted: TransportSettings) -> TransportSettings:
        """Applies `wanted` and returns what is in force; TransportRefusedError, and nothing changed, if the mover refuses."""
        asked = {
            "congestion_control": wanted.congestion_control,
            "streams": wanted.streams,
            "socket_buffer_bytes": wanted.socket_buffer_bytes,
        }
        change = {name: value for name, value in asked.items() if value is not None}
        answer = _Answer("PATCH /v1/transport", await self._ask("PATCH", "/v1/transport", change))
        return TransportSettings(answer.text("congestion_control"), answer.integer("streams"), answer.count_or_none("socket_buffer_bytes"))

    async def hold_data(self, seconds: float) -> None:
        """Has all data held back for `seconds`, after which they flow again; 0 ends that at once. Errors as for `set_transport`."""
        await self._ask("PATCH", "/v1/transport", {"quiet_for_ms": round(seconds * 1000)})

    async def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        where = f"{method} {path}"
        try:
            async with self._session.request(method, f"http://mover{path}", json=body, allow_redirects=False) as response:
                status = response.status
                raw = await response.content.read(_MAXIMUM_ANSWER_BYTES)
                whole = response.content.at_eof()
                while not whole and len(raw) < _MAXIMUM_ANSWER_BYTES:
                    raw += await response.content.read(_MAXIMUM_ANSWER_BYTES - len(raw))
                    whole = response.content.at_eof()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise MoverUnavailableError(f"{where}: {error or 'no answer in time'}") from None
        if status >= 500 or status in (408, 409, 425, 429):
            raise MoverUnavailableError(f"{where}: status {status}")
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            raise MoverAnswerError(f"{where}: status {status} with a body that is not JSON") from None
        if status == 422:
            refusal = _Answer(where, answer)
            raise TransportRefusedError(refusal.text("field"), refusal.text("reason"), refusal.text("message"))
        if status != 200:
            raise MoverAnswerError(f"{where}: status {status} is not in the contract")
        return answer


def _stream(value: object) -> StreamStats:
    stream = _Answer("GET /v1/stats: streams", value)
    return StreamStats(
        number=stream.integer("id"),
        bytes_sent=stream.count_or_none("bytes_sent"),
        retransmits=stream.count_or_none("retransmits"),
        rtt_s=stream.number_or_none("rtt_seconds"),
        rtt_minimum_s=stream.number_or_none("rtt_min_seconds"),
        congestion_control=stream.text_or_none("congestion_control"),
        busy_s=stream.number_or_none("busy_seconds"),
        send_buffer_limited_s=stream.number_or_none("send_buffer_limited_seconds"),
        receive_window_limited_s=stream.number_or_none("receive_window_limited_seconds"),
        path=stream.count_or_none("path") or 0,
    )


def _buffers(value: object) -> BufferLimits | None:
    if value is None:
        return None
    body = _Answer("GET /v1/stats: socket_buffer", value)
    automatic, settable = body.count_or_none("automatic_bytes"), body.count_or_none("settable_bytes")
    if not automatic or not settable:
        # The kernel's limits are not known: nothing could be decided.
        return None
    return BufferLimits(automatic, settable, body.count_or_none("bytes"), set_by_user=body.text_or_none("set_by") == "User")


def _cap_bps(value: object) -> float | None:
    return None if value is None else _Answer("GET /v1/stats: bandwidth", value).number_or_none("asked_bps")


class _Answer:
    """A JSON object from the mover with typed access; every access raises MoverAnswerError naming the field."""

    def __init__(self, where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise MoverAnswerError(f"{where}: the answer is not a JSON object")
        self._where = where
        self.value = value

    def text(self, field: str) -> str:
        value = self.value.get(field)
        if not isinstance(value, str):
            raise self._wrong(field, "a string")
        return value

    def integer(self, field: str) -> int:
        value = self.value.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST_COUNT:
            raise self._wrong(field, "an integer of at most 64 bits")
        return value

    def text_or_none(self, field: str) -> str | None:
        return None if self.value.get(field) is None else self.text(field)

    def count_or_none(self, field: str) -> int | None:
        if self.value.get(field) is None:
            return None
        value = self.integer(field)
        if value < 0:
            raise self._wrong(field, "0 or more")
        return value

    def number_or_none(self, field: str) -> float | None:
        value = self.value.get(field)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _LARGEST_NUMBER:
            raise self._wrong(field, "a number of 0 or more")
        return float(value)

    def items(self, field: str) -> list[object]:
        value = self.value.get(field)
        if not isinstance(value, list):
            raise self._wrong(field, "a list")
        return value

    def address(self, field: str) -> str:
        value = self.text(field)
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            raise self._wrong(field, "an IP address") from None

    def _wrong(self, field: str, expected: str) -> MoverAnswerError:
        return MoverAnswerError(f"{self._where}: {field} is not {expected}")
