"""What a choice starts from, what jobs want and hold, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.api.reasons import Reason
from fairlead.api.shared.quantity import format_rate_rounded

SOURCE, DESTINATION = "source", "destination"
NODE_NAME = "metadata.name"
"""In the place of a label: the node's own name."""


@dataclass(frozen=True, slots=True)
class LabelRule:
    """One requirement of a volume's node affinity, as Kubernetes has it (`In`, `NotIn`, `Exists`, `DoesNotExist`)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and with these labels fulfils it. An operator that is not known here is fulfilled by nothing."""
        value = node if self.key == NODE_NAME else labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return False


Affinity = tuple[tuple[LabelRule, ...], ...]
"""A volume can be used from nodes that fulfil all rules of one of the terms."""


class EndWish(NamedTuple):
    """What a job says of one end, and quick to look up by. Without `node` it is one of the nodes that fulfil the rest."""

    node: str | None = None
    """The only node: the named one, or the one to which the volume is confined."""
    labels: tuple[tuple[str, str], ...] = ()
    site: str | None = None
    affinity: Affinity | None = None
    """Of the volume; None where it can be used from every node."""
    scheduler_may_choose: bool = False
    """The job asks for nothing and where the volume can be used is not known yet: its node is the scheduler's choice."""
    interfaces: tuple[str, ...] = ()
    """Those that the job names."""
    network: str | None = None
    """The network that the interface must reach."""
    disk_numa_node: int | None = None
    """NUMA node of the disk, None if unknown."""

    @property
    def asks_for_nodes(self) -> bool:
        """Whether the job says which nodes are to be chosen from."""
        return bool(self.labels) or self.site is not None


@dataclass(frozen=True, slots=True)
class Request:
    """A job that is about to start an attempt."""

    uid: str
    namespace: str
    source: EndWish
    destination: EndWish
    attempt: int = 1
    uses_interfaces: bool = True
    """Whether its movers use interfaces of their nodes."""
    rate_bps: float | None = None
    """The most that it sends; None for as much as it gets."""
    priority: int = 0
    asked_at: float = 0.0
    """Since when it waits, in seconds of Unix time."""
    avoid_nodes: frozenset[str] = frozenset()
    """Nodes on which the attempt before failed: taken only for want of others."""
    avoid_interfaces: frozenset[tuple[str, str]] = frozenset()
    """The same for interfaces, with their nodes."""
    unready_nodes: frozenset[str] = frozenset()
    """Nodes that are known not to take pods at the moment."""
    tentative: bool = False
    """It waits for something else as well: it is told its place, and takes none from others."""


class EndPlacement(NamedTuple):
    """What is chosen for one end. None and empty leave the choice to the scheduler and to the mover."""

    node: str | None = None
    interfaces: tuple[str, ...] = ()

    def __str__(self) -> str:
        node = self.node or "any node"
        return f"{node} {', '.join(self.interfaces)}" if self.interfaces else node


class Alternative(NamedTuple):
    """A pair of interfaces that was weighed as well."""

    source: str
    destination: str
    spare_bps: float


class Placement(NamedTuple):
    """Where an attempt runs. Rates are None where nothing tells them."""

    source: EndPlacement
    destination: EndPlacement
    attempt: int = 1
    spare_bps: float | None = None
    """What the job could get through the interfaces as it was placed."""
    capacity_bps: float | None = None
    """The lower of their rates."""
    alternative: Alternative | None = None
    note: str = ""

    @property
    def reason(self) -> str:
        """Why, in words."""
        parts = []
        if self.spare_bps is not None and self.capacity_bps is not None:
            parts.append(f"{rate_text(self.spare_bps)} spare of {rate_text(self.capacity_bps)}")
        if self.alternative is not None:
            other = self.alternative
            names = other.source if other.source == other.destination else f"{other.source} → {other.destination}"
            parts.append(f"{names} has {rate_text(other.spare_bps)}")
        if self.note:
            parts.append(self.note)
        where = f"{self.source} → {self.destination}"
        return f"{where}: {'; '.join(parts)}" if parts else where


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a job cannot be placed now. `needs_person`: waiting alone does not help."""

    reason: Reason
    message: str
    needs_person: bool = False


Answer = Placement | Waits


class Holding(NamedTuple):
    """What a job has while an attempt is under way: a slot on each node, and a part of each interface."""

    namespace: str
    ends: tuple[EndPlacement, ...] = ()
    rate_bps: float | None = None


def rate_text(rate_bps: float) -> str:
    """A rate for people, e.g. `9.4 Gb/s`."""
    text = format_rate_rounded(rate_bps)
    return f"{text[:-1]} {text[-1]}b/s" if text[-1].isalpha() else f"{text} b/s"
