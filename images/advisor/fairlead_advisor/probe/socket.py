"""The probe's effects: a UDP socket, the clock and the waiting."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fairlead_advisor.errors import ProbeError, UsageError
from fairlead_advisor.probe.schedule import MAXIMUM_SECONDS, Timetable
from fairlead_advisor.probe.session import Counters, ProbeSession
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.probe.wire import DATAGRAM_BYTES, Codec

# Linux's number on 64-bit machines; the socket module does not name it. Each control message is a timespec of the real-time clock.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_NS = 1_000_000_000

_DATAGRAMS_PER_WAKE_UP = 64

_SAME_MOMENT_NS = 50_000
_READINGS = 5


@dataclass(frozen=True, slots=True)
class EchoEndpoint:
    """Where to probe and from where. `source_address` and `interface` are left to the kernel's routing when None."""

    host: str
    port: int
    source_address: str | None = None
    interface: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The monotonic clock that samples are taken on, and the real-time clock of the kernel's receive timestamps."""

    monotonic_ns: Callable[[], int] = time.perf_counter_ns
    realtime_ns: Callable[[], int] = time.time_ns

    def now_ns(self) -> tuple[int, int]:
        """Both clocks at one moment, the monotonic one first.

        A process that is held up between two readings would shift one clock against the other: such a pair is read again. What is left
        makes a datagram seem younger than it is, so that no round-trip time comes out shorter than the path's.
        """
        for _ in range(_READINGS):
            before_ns = self.monotonic_ns()
            realtime_ns = self.realtime_ns()
            monotonic_ns = self.monotonic_ns()
            if monotonic_ns - before_ns <= _SAME_MOMENT_NS:
                break
        return monotonic_ns, realtime_ns


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe brought home."""

    trace: Trace
    counters: Counters


def received_at_ns(monotonic_ns: int, realtime_ns: int, kernel_ns: int | None) -> int:
    """When a datagram read at `monotonic_ns` reached this host, by the kernel's real-time stamp.

    A stamp from the future, or more than a second old, means that the real-time clock was set meanwhile: it is not used.
    """
    if kernel_ns is None:
        return monotonic_ns
    age_ns = realtime_ns - kernel_ns
    return monotonic_ns - age_ns if 0 <= age_ns < _NS else monotonic_ns


Enough = Callable[[Callable[[], Trace]], Awaitable[bool]]
"""Looks at the samples so far as often as it likes; returns whether they will do."""


async def probe(endpoint: EchoEndpoint, key: bytes, timetable: Timetable, clocks: Clocks, enough: Enough | None = None) -> ProbeResult:
    """Sends the requests of `timetable` and waits for stragglers. No reply at all is a result too: every sample is then a loss.

    Ends at once when `enough` returns True; what is under way then is left out. Raises UsageError for an endpoint that does not exist here,
    ProbeError if no socket can be had.
    """
    connection = await _connect(endpoint)
    with connection:
        return await _Prober(connection, ProbeSession(Codec(key)), timetable, clocks).run(enough)


async def keep_probing(endpoint: EchoEndpoint, session: ProbeSession, rate_hz: float, clocks: Clocks) -> None:
    """Sends `rate_hz` requests a second until cancelled; `session` bounds what is kept. Errors as for `probe`."""
    connection = await _connect(endpoint)
    with connection:
        await _Prober(connection, session, Timetable(rate_hz, MAXIMUM_SECONDS), clocks).run_for_ever()


class _Prober:
    def __init__(self, connection: socket.socket, session: ProbeSession, timetable: Timetable, clocks: Clocks) -> None:
        self._connection = connection
        self._session = session
        self._timetable = timetable
        self._clocks = clocks
        self._answered = asyncio.Event()

    async def run(self, enough: Enough | None) -> ProbeResult:
        with self._receiving():
            if await self._ended_early(enough):
                return ProbeResult(self._so_far(), self._session.counters)
            await self._await_stragglers()
        return ProbeResult(self._session.trace(), self._session.counters)

    async def _ended_early(self, enough: Enough | None) -> bool:
        """Sends everything, or less when that is enough."""
        if enough is None:
            await self._send_all()
            return False
        sending, looking = asyncio.ensure_future(self._send_all()), asyncio.ensure_future(enough(self._so_far))
        try:
            while not sending.done():
                await asyncio.wait({sending} if looking.done() else {sending, looking}, return_when=asyncio.FIRST_COMPLETED)
                if looking.done() and looking.result():
                    return True
            sending.result()
            return False
        finally:
            for task in (sending, looking):
                task.cancel()
            await asyncio.gather(sending, looking, return_exceptions=True)

    def _so_far(self) -> Trace:
        return self._session.recent(0, self._clocks.monotonic_ns())

    async def run_for_ever(self) -> None:
        with self._receiving():
            while True:
                await self._send_all()

    @contextlib.contextmanager
    def _receiving(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.fileno(), self._read)
        try:
            yield
        finally:
            loop.remove_reader(self._connection.fileno())

    async def _send_all(self) -> None:
        start_ns = self._clocks.monotonic_ns()
        index = 0
        while index < self._timetable.count:
            await self._sleep_until(start_ns + self._timetable.due_ns(index))
            due_index = self._timetable.next_index(index, self._clocks.monotonic_ns() - start_ns)
            self._session.counters.skipped += due_index - index
            if due_index < self._timetable.count:
                self._send()
            index = due_index + 1

    def _send(self) -> None:
        for _ in range(2):
            datagram = self._session.request(self._clocks.monotonic_ns())
            try:
                self._connection.send(datagram)
            except OSError as error:
                # Often an ICMP answer to an earlier request, which the kernel reports once and here: a second try shows it.
                self._session.counters.refused += isinstance(error, ConnectionRefusedError)
                self._session.withdraw()
            else:
                return
        self._session.counters.unsent += 1

    async def _await_stragglers(self) -> None:
        while (deadline_ns := self._session.deadline_ns) is not None:
            left_ns = deadline_ns - self._clocks.monotonic_ns()
            if left_ns <= 0:
                return
            self._answered.clear()
            try:
                async with asyncio.timeout(left_ns / _NS):
                    await self._answered.wait()
            except TimeoutError:
                return

    async def _sleep_until(self, due_ns: int) -> None:
        await asyncio.sleep(max(0, due_ns - self._clocks.monotonic_ns()) / _NS)

    def _read(self) -> None:
        # Bounded, so that a flood of foreign datagrams cannot hold up the requests.
        for _ in range(_DATAGRAMS_PER_WAKE_UP):
            try:
                datagram, ancillary, _flags, _sender = self._connection.recvmsg(DATAGRAM_BYTES + 1, socket.CMSG_SPACE(_TIMESPEC.size))
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionRefusedError:
                self._session.counters.refused += 1
                continue
            except OSError:
                break
            received_ns = received_at_ns(*self._clocks.now_ns(), _kernel_stamp_ns(ancillary))
            self._session.receive(datagram, received_ns)
        self._answered.set()


def _kernel_stamp_ns(ancillary: list[tuple[int, int, Any]]) -> int | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds * _NS + nanoseconds)
    return None


async def _connect(endpoint: EchoEndpoint) -> socket.socket:
    """A non-blocking socket that exchanges datagrams with `endpoint` only."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"the peer {endpoint.host!r} cannot be resolved ({error}): give its address") from None
    family, kind, protocol, _name, address = found[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        _prefer_kernel_stamps(connection)
        if endpoint.interface is not None:
            _bind_interface(connection, endpoint.interface)
        if endpoint.source_address is not None:
            _bind_address(connection, endpoint.source_address)
        try:
            connection.connect(address)
        except OSError as error:
            raise ProbeError(f"no route to {endpoint}: {error.strerror}: check this host's routes and the interface") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prefer_kernel_stamps(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        # Without them the reading time is used, which is right but noisier.
        return


def _bind_interface(connection: socket.socket, interface: str) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
    except OSError as error:
        raise UsageError(f"--interface {interface}: {error.strerror}: name an interface of this host, as `ip link` lists them") from None


def _bind_address(connection: socket.socket, source_address: str) -> None:
    try:
        connection.bind((source_address, 0))
    except OSError as error:
        raise ProbeError(f"cannot send from {source_address}: {error.strerror}: it must be an address of this host") from None
