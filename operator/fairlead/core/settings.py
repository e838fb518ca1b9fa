"""What an administrator sets for the whole operator; every value comes from the chart through the environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from fairlead.core.identities import Identities
from fairlead.core.ports import PortRange

_MOST_DOUBLINGS = 30
_OF_PASSES = timedelta(minutes=1)

GUARDED_MOST_BPS = 130 * 10**9
"""The highest cap that the guard on a node can hold: the kernel counts a second's bytes and the burst in nanoseconds of 64 bits."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Operator-wide settings. `host_network_namespaces` may hold `*` for every namespace."""

    host_network_namespaces: frozenset[str] = frozenset()
    identities: Identities = field(default_factory=Identities)
    """Whom the movers of each namespace may run as."""
    ports: PortRange = field(default_factory=lambda: PortRange(24000, 25999, namespace_percent=25))
    """For movers on the nodes' network."""
    probe_duration: timedelta = timedelta(seconds=10)
    probe_lease: timedelta = timedelta(seconds=60)
    """How long a probe may keep others from the path, from the creation of its pod: start, probe and decision."""
    probe_wait: timedelta = timedelta(seconds=30)
    """How long a job waits for another one's probe of its path before it starts without."""
    startup_timeout: timedelta = timedelta(seconds=120)
    """How long a mover pod may take to become ready, and then a receiver to answer once it is asked, before the attempt fails."""
    cleanup_timeout: timedelta = timedelta(seconds=300)
    """How long deletion waits for the partial files to be removed when the destination cannot be reached."""
    poll_interval: timedelta = timedelta(seconds=3)
    """How often the movers of a running job are asked where not too many run (`core.poll_wishes`), and how often a job is looked at whose
    movers cannot be asked yet."""
    status_interval: timedelta = timedelta(seconds=10)
    """The least time between two status writes that carry progress alone."""
    stage_interval: timedelta = timedelta(seconds=5)
    """How long a stage of an attempt that comes up has to last to be written for itself, with the second that the status cuts off."""
    recheck_interval: timedelta = timedelta(seconds=10)
    """How often something outside the job that keeps it waiting is read again."""
    backoff_first: timedelta = timedelta(seconds=10)
    backoff_most: timedelta = timedelta(minutes=5)
    node_guard: bool = False
    """Whether a guard on the nodes holds the caps of senders on their network, whatever the movers do."""
    mover_cpus: float | None = None
    """Processors that a mover is held to by the limit of its container; None without one."""
    kueue: bool = False
    """Whether Kueue decides when jobs run that name one of its queues."""

    @property
    def sender_wait(self) -> timedelta:
        """How long a receiver waits for its sender, which may wait for another job's probe, start until it has a node, and from then on
        again, each with a pass of the operator before it.
        """
        return self.probe_wait + 2 * self.startup_timeout + _OF_PASSES

    def allows_host_network(self, namespace: str) -> bool:
        """Whether mover pods of this namespace may use their node's network."""
        return "*" in self.host_network_namespaces or namespace in self.host_network_namespaces


def delay_after(failures: int, *, first: timedelta, most: timedelta) -> timedelta:
    """The pause after the given number of failed attempts (1 or more): doubles each time, up to `most`."""
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return min(first * (1 << doublings), most)
