"""What the mover reports of its sockets, and the settings that it takes."""

from collections import Counter
from dataclasses import dataclass

from fairlead_advisor.decide.model import TCP, BufferLimits


@dataclass(frozen=True, slots=True)
class StreamStats:
    """One open connection. What it has not measured yet is None; a stream that was connected anew counts from zero again."""

    number: int
    bytes_sent: int | None = None
    retransmits: int | None = None
    rtt_s: float | None = None
    rtt_minimum_s: float | None = None
    congestion_control: str | None = None
    busy_s: float | None = None
    send_buffer_limited_s: float | None = None
    receive_window_limited_s: float | None = None
    path: int = 0
    """The position of its path among those of the transfer."""


@dataclass(frozen=True, slots=True)
class MoverStats:
    """The mover's statistics. `cap_bps` bounds all streams together; None without a cap, and from a mover without caps.

    `quiet_s` is how long data are still held back, 0 if they are not; None from a mover that cannot hold them. `buffers` is None from
    one that leaves its send buffers as they are. `protocol` carries the data. `read_at_s` is when the figures were read, by the mover's
    own clock; None from a mover that does not say.
    """

    stage: str
    available_congestion_controls: frozenset[str]
    streams: tuple[StreamStats, ...]
    cap_bps: float | None = None
    quiet_s: float | None = None
    buffers: BufferLimits | None = None
    protocol: str = TCP
    read_at_s: float | None = None

    @property
    def streams_per_path(self) -> int:
        """Open streams on the path that has most: what is set is the same count for each."""
        return max(Counter(stream.path for stream in self.streams).values(), default=0)

    @property
    def has_several_paths(self) -> bool:
        """Whether its streams are on more than one path."""
        return len({stream.path for stream in self.streams}) > 1

    @property
    def is_quiet(self) -> bool:
        """Whether data are held back."""
        return self.quiet_s is not None and self.quiet_s > 0

    @property
    def congestion_controls(self) -> Counter[str]:
        """How many streams have which, of those that say."""
        return Counter(stream.congestion_control for stream in self.streams if stream.congestion_control)

    @property
    def rtts_s(self) -> tuple[float, ...]:
        """The smoothed RTT of each stream that has measured one."""
        return tuple(stream.rtt_s for stream in self.streams if stream.rtt_s)


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Settings in force, or to be set. None leaves a setting as it is; what is in force has the first two."""

    congestion_control: str | None
    streams: int | None
    socket_buffer_bytes: int | None = None
