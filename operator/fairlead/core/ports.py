"""Which block of its node's ports a mover on the nodes' network gets, and how many of them one namespace may hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

BLOCK = 4
"""Ports of one block: a pod uses the first three (docs/contracts.md, "Ports of a mover pod")."""

NOT_PLACED = ""
"""In the place of a node's name: for pods that the scheduler has not placed."""

_LEAST_SHARE_BLOCKS = 2
"""A sender and a receiver on one node, however small the range and the share."""


@dataclass(frozen=True, slots=True)
class PortsInUse:
    """Blocks of ports that movers hold, by node and first port. A view of the present moment."""

    placed: Mapping[str, Set[int]] = field(default_factory=dict)
    """Blocks of other jobs' pods that are on a node, or that are being created for it: nobody else can have them there."""
    awaited: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """How many of other jobs' pods ask for a block on a node, or on any (`NOT_PLACED`), and are on none. They keep nobody from it."""
    of_namespace: Mapping[str, int] = field(default_factory=dict)
    """Blocks that pods of the job's own namespace hold or ask for, by node; `NOT_PLACED` for any."""


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports for movers on each node, first to last, and how much of them one namespace may hold."""

    first: int
    last: int
    namespace_percent: int = 100

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return max(0, (self.last - self.first + 1) // BLOCK)

    @property
    def most_of_namespace(self) -> int:
        """Most blocks of one node that one namespace may hold."""
        return min(self.blocks, max(_LEAST_SHARE_BLOCKS, self.blocks * self.namespace_percent // 100))


def is_share_used_up(node: str | None, in_use: PortsInUse, ports: PortRange, leaves_blocks: int = 0) -> bool:
    """Whether the namespace holds or asks for as many blocks on `node` as it may have, apart from `leaves_blocks` for other pods.

    A pod for any node may come to each of them, so it counts on all, and all count for it.
    Nothing is left where the share is the whole range.
    """
    anywhere = in_use.of_namespace.get(NOT_PLACED, 0)
    named = (name for name in in_use.of_namespace if name != NOT_PLACED)
    most = max((in_use.of_namespace.get(name, 0) for name in (named if node is None else [node])), default=0)
    return anywhere + most >= ports.most_of_namespace - (leaves_blocks if ports.most_of_namespace < ports.blocks else 0)


def choose_port_base(
    seed: str,
    node: str | None,
    in_use: PortsInUse,
    own: Set[int],
    ports: PortRange,
    *,
    by_strangers: Set[int] = frozenset(),
    leaves_last: bool = False,
) -> int | None:
    """The first port of a block for a new pod of a job that has the blocks `own`; None if all on `node` are taken.

    The blocks `by_strangers`, in which no mover but something else had a port before, are chosen only for want of others.

    With `leaves_last` the range's last block is left to others, unless it is the only one. Receivers leave it to senders: if receivers
    of several namespaces held all blocks of two nodes, each could wait for a sender that gets no block because of the others.
    A block that no other pod asks for comes first. Where a pod may come to any node, none is taken: the scheduler finds a node where the
    chosen one is free. The search starts at a place that `seed` determines, so that a repeated pass chooses the same and two jobs seldom
    collide.
    """
    taken = own | (in_use.placed.get(node, frozenset()) if node is not None else frozenset())
    if leaves_last and ports.blocks > 1:
        taken |= {ports.first + BLOCK * (ports.blocks - 1)}
    wanted = _wanted(node, in_use)
    free = (base for base in _blocks(seed, ports) if base not in taken)
    if not wanted and not by_strangers:
        # As nearly always, and then the first one that is free is the best.
        return next(free, None)
    return min(free, key=lambda base: (base in by_strangers, wanted[base]), default=None)


def _wanted(node: str | None, in_use: PortsInUse) -> Counter[int]:
    """How many pods that may get in each other's way have or ask for a block."""
    wanted: Counter[int] = Counter()
    for name in {*in_use.awaited, NOT_PLACED} if node is None else (node, NOT_PLACED):
        wanted.update(in_use.awaited.get(name, {}))
    if node is None:
        for bases in in_use.placed.values():
            wanted.update(bases)
    return wanted


def _blocks(seed: str, ports: PortRange) -> Iterator[int]:
    if ports.blocks:
        start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % ports.blocks
        for step in range(ports.blocks):
            yield ports.first + BLOCK * ((start + step) % ports.blocks)
