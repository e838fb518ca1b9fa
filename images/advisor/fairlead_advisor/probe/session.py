"""One probe without its effects: takes times and datagrams, gives requests and samples."""

from array import array
from dataclasses import dataclass
from enum import Enum
from math import nan

from fairlead_advisor.errors import WireError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.probe.wire import Codec, Echo, Kind

REPLY_TIMEOUT_NS = 2_000_000_000

_NS_PER_S = 1e9
_NS_PER_MS = 1e6


class Verdict(Enum):
    """What a received datagram was."""

    SAMPLE = "sample"
    FOREIGN = "foreign"
    DUPLICATE = "duplicate"
    LATE = "late"


@dataclass(slots=True)
class Counters:
    """Datagrams and events that are no samples. `refused`: the peer's host said that nothing listens on the port."""

    foreign: int = 0
    duplicate: int = 0
    late: int = 0
    skipped: int = 0
    unsent: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Request:
    sent_ns: int
    rtt_ns: int | None = None
    answered: bool = False


class Session:
    """Numbers requests, matches replies to them and keeps the samples. All times are ns on one monotonic clock."""

    def __init__(self, codec: Codec, reply_timeout_ns: int = REPLY_TIMEOUT_NS) -> None:
        self._codec = codec
        self._reply_timeout_ns = reply_timeout_ns
        self._requests: list[_Request] = []
        self.counters = Counters()

    def request(self, now_ns: int) -> bytes:
        """The next datagram to send, counted as sent at `now_ns`."""
        sequence = len(self._requests)
        self._requests.append(_Request(now_ns))
        return self._codec.encode(Echo(Kind.REQUEST, sequence, now_ns))

    def withdraw(self) -> None:
        """Forgets the newest request: it never left this host, so that it says nothing about the path."""
        self._requests.pop()

    def receive(self, datagram: bytes, received_ns: int) -> Verdict:
        """Takes a datagram that arrived at `received_ns` and says what it was; only a SAMPLE changes the trace."""
        verdict = self._judge(datagram, received_ns)
        match verdict:
            case Verdict.FOREIGN:
                self.counters.foreign += 1
            case Verdict.DUPLICATE:
                self.counters.duplicate += 1
            case Verdict.LATE:
                self.counters.late += 1
            case Verdict.SAMPLE:
                pass
        return verdict

    def _judge(self, datagram: bytes, received_ns: int) -> Verdict:
        try:
            echo = self._codec.decode(datagram)
        except WireError:
            return Verdict.FOREIGN
        if echo.kind is not Kind.REPLY or echo.sequence >= len(self._requests):
            return Verdict.FOREIGN
        request = self._requests[echo.sequence]
        rtt_ns = received_ns - request.sent_ns
        if echo.stamp_ns != request.sent_ns or rtt_ns < 0:
            return Verdict.FOREIGN
        if request.answered:
            return Verdict.DUPLICATE
        request.answered = True
        # Every request gets the same patience, however early in the probe it was sent: otherwise losses would depend on the position.
        if rtt_ns > self._reply_timeout_ns:
            return Verdict.LATE
        request.rtt_ns = rtt_ns
        return Verdict.SAMPLE

    @property
    def deadline_ns(self) -> int | None:
        """When the newest request without an answer counts as lost; None if all are answered."""
        newest_open = next((request for request in reversed(self._requests) if not request.answered), None)
        return None if newest_open is None else newest_open.sent_ns + self._reply_timeout_ns

    def trace(self) -> Trace:
        """The samples so far, with times counted from the first request."""
        if not self._requests:
            return Trace(array("d"), array("d"))
        start_ns = self._requests[0].sent_ns
        return Trace(
            array("d", ((request.sent_ns - start_ns) / _NS_PER_S for request in self._requests)),
            array("d", (nan if request.rtt_ns is None else request.rtt_ns / _NS_PER_MS for request in self._requests)),
        )
