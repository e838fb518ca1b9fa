"""When requests are due: an absolute timetable, so that late wake-ups never add up to a drift."""

from dataclasses import dataclass

from fairlead_advisor.errors import UsageError

MINIMUM_RATE_HZ = 10.0
MAXIMUM_RATE_HZ = 200.0
MINIMUM_SECONDS = 1.0
MAXIMUM_SECONDS = 3600.0

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Timetable:
    """Requests at `rate_hz` for `seconds`. Raises UsageError outside what the echo service answers and a trace may hold."""

    rate_hz: float
    seconds: float

    def __post_init__(self) -> None:
        if not MINIMUM_RATE_HZ <= self.rate_hz <= MAXIMUM_RATE_HZ:
            raise UsageError(
                f"the rate must be {MINIMUM_RATE_HZ:g} to {MAXIMUM_RATE_HZ:g} requests a second, got {self.rate_hz:g}: "
                "a slower trace cannot be classified, a faster one is not answered"
            )
        if not MINIMUM_SECONDS <= self.seconds <= MAXIMUM_SECONDS:
            raise UsageError(f"the duration must be {MINIMUM_SECONDS:g} to {MAXIMUM_SECONDS:g} seconds, got {self.seconds:g}")

    @property
    def count(self) -> int:
        """How many requests are planned."""
        return round(self.seconds * self.rate_hz)

    def due_ns(self, index: int) -> int:
        """When request `index` is due, in ns after the start."""
        return round(index * _NS / self.rate_hz)

    def next_index(self, index: int, elapsed_ns: int) -> int:
        """The first request from `index` on that is not overdue by a whole period; `count` when none is left.

        Overdue requests are skipped, not sent in a burst: a burst would measure its own queue.
        """
        latest_started = int(elapsed_ns * self.rate_hz) // _NS
        # Rounding in due_ns may put the latest start one request off in either direction.
        while latest_started + 1 <= self.count and self.due_ns(latest_started + 1) <= elapsed_ns:
            latest_started += 1
        while latest_started > 0 and self.due_ns(latest_started) > elapsed_ns:
            latest_started -= 1
        return min(max(index, latest_started), self.count)
