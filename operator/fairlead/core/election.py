"""Which of several operators may write: the one that holds a Lease, by client-go's rules (k8s.io/client-go/tools/leaderelection).

No clocks of two machines are compared. Who waits takes the Lease over once it has seen no renewal for `LEASE_SECONDS`, by its own clock;
who leads stops writing `LEADS_SECONDS` after its last renewal was sent. In between is time for requests that are under way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto

LEASE_SECONDS = 10.0
"""How long a holder that renews nothing is waited for."""
LEADS_SECONDS = 7.0
"""How long after a renewal its holder may write."""
RENEW_SECONDS = 2.0
LOOK_SECONDS = 1.0
"""How often who waits looks at the Lease."""


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """A Lease as the API server has it. `holder` is empty once it was released."""

    holder: str
    version: str
    seconds: float = LEASE_SECONDS


class Step(Enum):
    """What to do about the Lease now."""

    WAIT = auto()
    """Somebody else leads."""
    CREATE = auto()
    TAKE = auto()
    """Nobody leads any more."""
    RENEW = auto()
    LOST = auto()
    """Somebody else has led since: what this process remembers is worth nothing any more."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One operator's view. Times are those of a clock that never jumps and goes on while the machine sleeps, in seconds."""

    identity: str
    version: str = ""
    """Of the Lease, as last seen."""
    seen_at: float = -math.inf
    """When that version was seen first."""
    has_led: bool = False
    leads_until: float = -math.inf

    def may_write(self, now: float) -> bool:
        """Whether its last renewal still holds."""
        return now < self.leads_until

    def seeing(self, lease: LeaseFacts | None, now: float) -> Contender:
        """With what a look at the Lease showed."""
        version = "" if lease is None else lease.version
        return self if version == self.version else replace(self, version=version, seen_at=now)

    def holding(self, lease: LeaseFacts, sent_at: float) -> Contender:
        """After a write of the Lease that was sent at `sent_at` and succeeded."""
        return replace(self, version=lease.version, seen_at=sent_at, has_led=True, leads_until=sent_at + LEADS_SECONDS)

    def step(self, lease: LeaseFacts | None, now: float) -> Step:
        """What the Lease asks for that `seeing` was just given."""
        if lease is None:
            return Step.CREATE
        if lease.holder == self.identity:
            return Step.RENEW
        if self.has_led:
            return Step.LOST
        return Step.TAKE if not lease.holder or now >= self.seen_at + lease.seconds else Step.WAIT
