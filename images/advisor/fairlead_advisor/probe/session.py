"""One probe without its effects: takes times and datagrams, gives requests and samples."""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import nan

from fairlead_advisor.errors import WireError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.probe.wire import Codec, Echo, EchoKind

REPLY_TIMEOUT_NS = 2_000_000_000

_NS_PER_S = 1e9
_NS_PER_MS = 1e6


class DatagramVerdict(Enum):
    """What a received datagram was."""

    SAMPLE = "sample"
    FOREIGN = "foreign"
    DUPLICATE = "duplicate"
    LATE = "late"


@dataclass(slots=True)
class Counters:
    """Datagrams and events that are no samples. `refused`: the peer's host reported that nothing listens on the port."""

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


class ProbeSession:
    """Numbers requests, matches replies to them and keeps the samples. All times are ns on one monotonic clock.

    With `capacity` only so many of the newest requests are kept, and the counters go on counting.
    """

    def __init__(self, codec: Codec, reply_timeout_ns: int = REPLY_TIMEOUT_NS, capacity: int | None = None) -> None:
        self._codec = codec
        self._reply_timeout_ns = reply_timeout_ns
        self._requests: deque[_Request] = deque(maxlen=capacity)
        self._next_sequence = 0
        self.counters = Counters()

    def request(self, now_ns: int) -> bytes:
        """The next datagram to send, counted as sent at `now_ns`."""
        sequence = self._next_sequence
        self._next_sequence += 1
        self._requests.append(_Request(now_ns))
        return self._codec.encode(Echo(EchoKind.REQUEST, sequence, now_ns))

    def withdraw(self) -> None:
        """Forgets the newest request: it never left this host, so that it measures nothing of the path."""
        self._requests.pop()
        self._next_sequence -= 1

    def receive(self, datagram: bytes, received_ns: int) -> DatagramVerdict:
        """Takes a datagram that arrived at `received_ns` and returns what it was; only a SAMPLE changes the trace."""
        verdict = self._judge(datagram, received_ns)
        match verdict:
            case DatagramVerdict.FOREIGN:
                self.counters.foreign += 1
            case DatagramVerdict.DUPLICATE:
                self.counters.duplicate += 1
            case DatagramVerdict.LATE:
                self.counters.late += 1
            case DatagramVerdict.SAMPLE:
                pass
        return verdict

    def _judge(self, datagram: bytes, received_ns: int) -> DatagramVerdict:
        try:
            echo = self._codec.decode(datagram)
        except WireError:
            return DatagramVerdict.FOREIGN
        if echo.kind is not EchoKind.REPLY or echo.sequence >= self._next_sequence:
            return DatagramVerdict.FOREIGN
        index = echo.sequence - self._next_sequence + len(self._requests)
        if index < 0:
            return DatagramVerdict.LATE
        request = self._requests[index]
        rtt_ns = received_ns - request.sent_ns
        if echo.stamp_ns != request.sent_ns or rtt_ns < 0:
            return DatagramVerdict.FOREIGN
        if request.answered:
            return DatagramVerdict.DUPLICATE
        request.answered = True
        # Every request gets the same patience, however early in the probe it was sent: otherwise losses would depend on the position.
        if rtt_ns > self._reply_timeout_ns:
            return DatagramVerdict.LATE
        request.rtt_ns = rtt_ns
        return DatagramVerdict.SAMPLE

    @property
    def deadline_ns(self) -> int | None:
        """When the newest request without an answer counts as lost; None if all are answered."""
        newest_open = next((request for request in reversed(self._requests) if not request.answered), None)
        return None if newest_open is None else newest_open.sent_ns + self._reply_timeout_ns

    def trace(self) -> Trace:
        """The samples so far, with times counted from the first request."""
        return _trace(self._requests)

    def recent(self, since_ns: int, now_ns: int) -> Trace:
        """The samples of requests sent from `since_ns` on whose fate is known at `now_ns`: answered, or past the time for it."""
        return _trace(self._known(since_ns, now_ns))

    def replied(self, after_ns: int, until_ns: int) -> list[int]:
        """The round-trip times in ns of the replies that came after `after_ns` and until `until_ns`, in the order of the requests."""
        rtts_ns: list[int] = []
        for request in reversed(self._requests):
            # Of an older request no reply counts that came since.
            if request.sent_ns < after_ns - self._reply_timeout_ns:
                break
            if request.rtt_ns is not None and after_ns < request.sent_ns + request.rtt_ns <= until_ns:
                rtts_ns.append(request.rtt_ns)
        return rtts_ns[::-1]

    def samples(self, now_ns: int) -> list[tuple[int, int | None]]:
        """All kept requests whose fate is known at `now_ns`: when they were sent, and their round-trip time in ns or None."""
        return [(request.sent_ns, request.rtt_ns) for request in self._known(0, now_ns)]

    def _known(self, since_ns: int, now_ns: int) -> list[_Request]:
        known: list[_Request] = []
        # The newest are at the end; a long history must not be walked through for a short window.
        for request in reversed(self._requests):
            if request.sent_ns < since_ns:
                break
            if request.answered or now_ns - request.sent_ns > self._reply_timeout_ns:
                known.append(request)
        return known[::-1]


def _trace(requests: Sequence[_Request]) -> Trace:
    if not requests:
        return Trace(array("d"), array("d"))
    start_ns = requests[0].sent_ns
    return Trace(
        array("d", ((request.sent_ns - start_ns) / _NS_PER_S for request in requests)),
        array("d", (nan if request.rtt_ns is None else request.rtt_ns / _NS_PER_MS for request in requests)),
    )
