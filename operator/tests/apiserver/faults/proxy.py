"""Stands between an operator and its API server, keeps a record of what the operator does and sees, and brings about one fault."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from aiohttp import web

from faults.plans import Fault, Plan

LATE_SECONDS = 1.2
"""How long what comes late is held back: longer than the operator takes for anything that it does not wait with."""
DENIED_SECONDS = 2.0
"""How long a right is gone."""
CLOCK_OFF_SECONDS = {Fault.AHEAD: 3600.0, Fault.BEHIND: -3600.0}
"""By how much the clock of the operator is wrong that is started after these."""
_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade", "accept-encoding", "content-encoding"}
_CHILD = re.compile(r"-[0-9a-f]{8}-(receiver|sender|cleaner|credentials)")
_EVENT_NAME = re.compile(r"\.[0-9a-f]{12,}$")
_VERBS = {"POST": "CREATE", "PUT": "UPDATE"}
WRITES = ("CREATE", "UPDATE", "PATCH", "DELETE")
_UNCOUNTED = "leases"
"""Renewed for as long as an operator runs, and no part of any workload."""
_REASONS = {
    Fault.UNAUTHORIZED: (401, "Unauthorized"),
    Fault.FORBIDDEN: (403, "Forbidden"),
    Fault.CONFLICT: (409, "Conflict"),
    Fault.THROTTLED: (429, "TooManyRequests"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.APPLIED_BUT_504: (504, "Timeout"),
}
_NOT_FORWARDED = (
    *(Fault.KILLED_BEFORE, Fault.CLOSED_BEFORE, Fault.STALLED),
    *(fault for fault in _REASONS if fault is not Fault.APPLIED_BUT_504),
)
_KILLED_BEHIND = (Fault.KILLED_UNANSWERED, Fault.STALE, *CLOCK_OFF_SECONDS)
"""The request is carried out, and the operator is killed before it knows."""


_Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write that the API server carried out. `sent_s` and `answered_s` are of a clock that never jumps."""

    what: str
    verb: str
    resource: str
    subresource: str
    sent_s: float
    answered_s: float
    body: dict[str, Any]
    """The object as the answer shows it."""
    request: dict[str, Any]
    """What was asked for: the object, the patch, or the options of a deletion."""
    is_late: bool = False
    """Whether it was sent before another operator led, and carried out after that."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about."""

    verb: str
    resource: str
    name: str
    subresource: str

    @property
    def what(self) -> str:
        """In words, the same in every run: without what is drawn at random in names."""
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {kind} {general_name(self.name)}".rstrip()


def general_name(name: str) -> str:
    """A name without the part of it that is another one in every run."""
    return _EVENT_NAME.sub("", _CHILD.sub(r"-\1", name))


def target_of(method: str, path: str, query: str, body: bytes) -> Target:
    """What a request is about, by its path and for creations by its body."""
    words = [word for word in path.split("/") if word]
    # api/v1 or apis/GROUP/VERSION
    words = words[2:] if words[:1] == ["api"] else words[3:]
    if words[:1] == ["namespaces"] and len(words) > 2:
        words = words[2:]
    resource, name, subresource = (*words, "", "", "")[:3]
    verb = _VERBS.get(method, method)
    if method == "GET":
        verb = "WATCH" if "watch=true" in query else "GET" if name or not resource else "LIST"
    if method == "POST" and not name:
        with suppress(ValueError, KeyError, TypeError):
            name = str(json.loads(body)["metadata"]["name"])
    return Target(verb, resource, name, subresource)


class Operators(Protocol):
    """What the proxy can do to the operators of a run."""

    async def kill(self, clock_off_seconds: float = 0.0) -> None:
        """Ends the one that leads at once; the next one's clock is wrong by so much."""

    async def freeze(self) -> None:
        """Stops the one that leads, and returns when another one does."""

    def thaw(self) -> None:
        """Lets the one that was stopped go on."""


@dataclass
class FaultProxy:
    """One proxy for one run. `on_write` gets every write that was carried out."""

    server: str
    ca: Path
    certificate: Path
    key: Path
    operators: Operators
    plan: Plan | None = None
    on_write: Callable[[Write], None] = lambda write: None
    stall_seconds: float = 30.0
    seen: list[str] = field(default_factory=list)
    """What the operator did and saw, one after the other."""
    triggered: bool = False
    last_write_s: float = field(default_factory=time.monotonic)
    under_way: int = 0
    """Writes that are not answered yet."""
    denied: list[str] = field(default_factory=list)
    """Writes that were refused as the right to them was gone."""
    watched: set[str] = field(default_factory=set)
    """Kinds that the operator has watched."""
    _counts: Counter[str] = field(default_factory=Counter)
    _denied: tuple[tuple[str, str, str], float] | None = None
    """What there is no right to, and until when."""
    _first_lists: dict[str, bytes] = field(default_factory=dict)
    """What was listed first, by path and query."""
    _past_lists: dict[str, bytes] = field(default_factory=dict)
    """What is listed as it was at the beginning, once."""
    _past_watches: set[str] = field(default_factory=set)
    """Paths whose next watch is late."""

    _writes: set[asyncio.Task[_Answer]] = field(default_factory=set)
    """Writes that were forwarded and are not recorded yet."""

    async def start(self, host: str, port: int) -> None:
        """Listens, without encryption."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.certificate, self.key)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True, timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, reuse_address=True).start()

    async def stop(self) -> None:
        """Ends every connection, once the API server has answered what was forwarded to it."""
        await self._runner.cleanup()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._session.close()

    def _due(self, what: str) -> Fault | None:
        """Notes what happens now; the fault that is planned for it."""
        self.seen.append(what)
        self._counts[what] += 1
        plan = self.plan
        if plan is None or self.triggered or plan.point.what != what or plan.point.number != self._counts[what]:
            return None
        self.triggered = True
        return plan.fault

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        target = target_of(request.method, request.path, request.query_string, body)
        if target.verb == "WATCH":
            return await self._watch(request, target)
        # What kopf asks of the API's kinds, and what is renewed for ever, is no part of any workload.
        counted = bool(target.resource) and target.resource != _UNCOUNTED
        fault = self._due(target.what) if counted else None
        is_write = target.verb in WRITES and counted
        kind = (target.verb, target.resource, target.subresource)
        if fault is Fault.DENIED:
            self._denied = (kind, time.monotonic() + DENIED_SECONDS)
        if self._denied is not None and self._denied[0] == kind and time.monotonic() < self._denied[1]:
            fault = Fault.FORBIDDEN
            if is_write:
                self.denied.append(target.what)
        if not is_write:
            return await self._answer(request, target, body, fault, is_write=False)
        with self._write_under_way():
            return await self._answer(request, target, body, fault, is_write=True)

    @contextmanager
    def _write_under_way(self) -> Iterator[None]:
        """Notes that something is written while the block runs."""
        self.last_write_s = time.monotonic()
        self.under_way += 1
        try:
            yield
        finally:
            self.last_write_s = time.monotonic()
            self.under_way -= 1

    async def _answer(
        self, request: web.Request, target: Target, body: bytes, fault: Fault | None, *, is_write: bool
    ) -> web.StreamResponse:
        if fault is Fault.KILLED_BEFORE:
            await self.operators.kill()
        if fault is Fault.FROZEN_BEFORE:
            await self.operators.freeze()
        if fault is Fault.STALLED:
            await asyncio.sleep(self.stall_seconds)
        if fault in (Fault.KILLED_BEFORE, Fault.CLOSED_BEFORE, Fault.STALLED):
            return self._broken(request)
        if fault in _NOT_FORWARDED:
            return _refusal(fault)
        is_late = fault is Fault.FROZEN_BEFORE
        status, headers, answer = await (self._write(request, target, body, is_late=is_late) if is_write else self._forward(request, body))
        if target.verb == "LIST" and status < 300:
            answer = self._list(request, answer)
        if fault is Fault.DELAYED:
            await asyncio.sleep(LATE_SECONDS)
        if fault is Fault.STALE:
            self._past_lists = dict(self._first_lists)
        if fault in _KILLED_BEHIND:
            await self.operators.kill(CLOCK_OFF_SECONDS.get(fault, 0.0))
        if fault in (*_KILLED_BEHIND, Fault.CLOSED_AFTER):
            return self._broken(request)
        if fault is Fault.FROZEN_AFTER:
            await self.operators.freeze()
        if fault in (Fault.FROZEN_BEFORE, Fault.FROZEN_AFTER):
            self.operators.thaw()
        if fault is Fault.APPLIED_BUT_504:
            return _refusal(fault)
        if fault is Fault.KILLED_AFTER:
            response = web.Response(status=status, body=answer, headers=headers)
            await response.prepare(request)
            await response.write_eof()
            await self.operators.kill()
            return response
        return web.Response(status=status, body=answer, headers=headers)

    async def _forward(self, request: web.Request, body: bytes) -> _Answer:
        """What the API server answers."""
        async with self._session.request(
            request.method, f"{self.server}{request.path_qs}", data=body or None, headers=_headers(request.headers)
        ) as upstream:
            return upstream.status, _headers(upstream.headers), await upstream.read()

    async def _write(self, request: web.Request, target: Target, body: bytes, *, is_late: bool) -> _Answer:
        """The same for a write, which is recorded whether or not anybody waits for the answer."""
        # A handler is cancelled when its client is gone; what it has forwarded is carried out all the same.
        task = asyncio.create_task(self._recorded(request, target, body, is_late=is_late))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)

    async def _recorded(self, request: web.Request, target: Target, body: bytes, *, is_late: bool) -> _Answer:
        with self._write_under_way():
            sent_s = time.monotonic()
            status, headers, answer = await self._forward(request, body)
            if status < 300:
                kind = (target.what, target.verb, target.resource, target.subresource)
                shown, asked = json.loads(answer or b"{}"), json.loads(body or b"{}")
                self.on_write(Write(*kind, sent_s, time.monotonic(), shown, asked, is_late=is_late))
            return status, headers, answer

    def _list(self, request: web.Request, answer: bytes) -> bytes:
        """What a list shows, where this is the answer."""
        self._first_lists.setdefault(request.path_qs, answer)
        past = self._past_lists.pop(request.path_qs, None)
        if past is None:
            return answer
        self._past_watches.add(request.path)
        return past

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        async with self._session.get(f"{self.server}{request.path_qs}", headers=_headers(request.headers)) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=_headers(upstream.headers))
            await response.prepare(request)
            self.watched.add(target.resource)
            if request.path in self._past_watches:
                self._past_watches.remove(request.path)
                await asyncio.sleep(LATE_SECONDS)
            buffer = b""
            async for piece in upstream.content.iter_any():
                buffer += piece
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if not await self._pass(request, response, target, line + b"\n"):
                        return response
            await response.write(buffer)
        return response

    async def _pass(self, request: web.Request, response: web.StreamResponse, target: Target, line: bytes) -> bool:
        """Passes an event on; False if the watch ends with it."""
        event = json.loads(line)
        kind, body = str(event.get("type")), event.get("object") or {}
        fault = None
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            fault = self._due(f"{kind} {target.resource} {general_name(str(body['metadata']['name']))}")
        match fault:
            case Fault.DROPPED:
                return True
            case Fault.REPEATED:
                await response.write(line)
            case Fault.LATE:
                await asyncio.sleep(LATE_SECONDS)
            case Fault.EXPIRED | Fault.FAILED:
                code, reason = (410, "Expired") if fault is Fault.EXPIRED else (500, "InternalError")
                await response.write(json.dumps({"type": "ERROR", "object": _status(code, reason)}).encode() + b"\n")
                return False
            case Fault.ENDED:
                return False
            case Fault.TRUNCATED:
                await response.write(line[: len(line) // 2])
                if request.transport is not None:
                    request.transport.close()
                return False
            case Fault.SILENT:
                await asyncio.sleep(3600.0)
        await response.write(line)
        return True

    @staticmethod
    def _broken(request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=499)


def _refusal(fault: Fault) -> web.Response:
    code, reason = _REASONS[fault]
    return web.json_response(_status(code, reason), status=code, headers={"Retry-After": "1"} if fault is Fault.THROTTLED else None)


def _status(code: int, reason: str) -> dict[str, Any]:
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return {**kind, "status": "Failure", "message": "planned", "reason": reason, "code": code}


def _headers(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}
