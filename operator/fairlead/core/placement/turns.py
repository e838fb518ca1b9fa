"""One pass over all waiting jobs: whose turn it is, and who is kept a slot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fairlead.api.reasons import Reason
from fairlead.core.dtn import TransferNode
from fairlead.core.placement.board import Board
from fairlead.core.placement.model import Answer, Holding, Request, Waits

PATIENCE_SECONDS: Final = 600.0
"""A job that has waited so long for slots of two nodes is kept those that become free: others would take one of them in turn for ever."""
_SLOT_REASONS = (Reason.NO_SLOT_FREE, Reason.SLOT_SHARE_USED_UP)


def place_all(
    nodes: Mapping[str, TransferNode],
    holdings: Iterable[Holding],
    requests: Iterable[Request],
    now: float,
    open_bps: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> tuple[Board, dict[str, Answer]]:
    """The answers by UID at `now`, in seconds of Unix time, and the board with what was placed.

    `open_bps` is what shared links leave to jobs on an interface, by node and name.
    """
    holdings = tuple(holdings)
    board = Board(nodes, holdings, open_bps)
    answers: dict[str, Answer] = {}
    patient: set[str] = set()
    for request in in_turn(requests, holdings, now):
        answer = answers[request.uid] = board.place(request)
        waits_for_slot = isinstance(answer, Waits) and answer.reason in _SLOT_REASONS and not (answer.needs_person or request.tentative)
        if waits_for_slot and now - request.asked_at >= PATIENCE_SECONDS and request.namespace not in patient:
            # One of each namespace: a tenant must not keep slots from others by jobs that can never be placed.
            patient.add(request.namespace)
            board.reserve(request)
    return board, answers


def in_turn(requests: Iterable[Request], holdings: Iterable[Holding], now: float) -> Sequence[Request]:
    """Namespaces take turns, those that hold the least first; in each a minute of waiting counts as much as one of priority."""
    by_namespace: dict[str, list[tuple[float, str, Request]]] = defaultdict(list)
    for request in requests:
        rank = -(request.priority + (now - request.asked_at) / 60.0)
        by_namespace[request.namespace].append((rank, request.uid, request))
    held = Counter(holding.namespace for holding in holdings)
    turns: list[tuple[int, float, str, Request]] = []
    for namespace, queue in by_namespace.items():
        queue.sort()
        turns += [(count, rank, namespace, request) for count, (rank, _, request) in enumerate(queue, held[namespace])]
    turns.sort()
    return [turn[3] for turn in turns]
