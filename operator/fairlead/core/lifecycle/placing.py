"""What a job that is about to start an attempt asks of placement, what it holds, and how its status keeps what was chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.api.names import CONTROLLER, LABEL_SITE
from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.spec import Side
from fairlead.api.transferjob.status import FailureStatus, PlacedEnd, PlacementStatus
from fairlead.core.conditions import shorten
from fairlead.core.lifecycle.admission import FOR_LINKS, obstacle_to_start
from fairlead.core.network import traits_of
from fairlead.core.observed import Observed, Role
from fairlead.core.placement.model import EndPlacement, EndWish, Holding, Placement, Request
from fairlead.core.settings import delay_after
from fairlead.core.verdicts import is_live, proven_success

_WAITS_FOR_PLACE: Final = frozenset(
    {Reason.NO_NODE_MATCHES, Reason.NO_SLOT_FREE, Reason.SLOT_SHARE_USED_UP, Reason.NO_INTERFACE_FITS, *FOR_LINKS}
)
_OF_INTERFACES: Final = frozenset(
    {
        MoverReason.INTERFACE_NOT_FOUND,
        MoverReason.INTERFACE_DOWN,
        MoverReason.ROUTE_MISSING,
        MoverReason.PATH_MTU_TOO_SMALL,
        MoverReason.PEER_UNREACHABLE,
        MoverReason.PEER_LOST,
        MoverReason.STALLED,
        MoverReason.ADDRESS_IN_USE,
    }
)
"""Reasons of failures after which other interfaces are tried first, if there are any to choose from."""
_OF_NODES: Final = frozenset({Reason.MOVER_DIED, Reason.RECEIVER_NOT_READY, Reason.SENDER_NOT_READY})
"""The same for nodes."""


def request_of(observed: Observed, now: datetime) -> Request | None:
    """What the job asks for, None unless it could start an attempt at `now` if it had a place."""
    job, status = observed.job, observed.job.status
    if job.spec.managed_by != CONTROLLER or job.deleting or status.finished or job.spec.suspend or observed.attempt_under_way:
        return None
    number, failure = observed.latest_attempt, status.last_failure
    receiver = observed.mover(Role.RECEIVER, number)
    if proven_success(receiver, job.metadata.uid) is not None or any(is_live(pod) or pod.deleting for pod in observed.movers):
        return None
    if failure is not None and failure.attempt == number and now < failure.time + pause_after(observed, status.failures, failure):
        return None
    obstacle = obstacle_to_start(observed)
    if obstacle is not None and obstacle.reason not in FOR_LINKS:
        return None
    uses_interfaces = traits_of(job).uses_node_interfaces
    avoid_nodes, avoid_interfaces = _avoided(status, number)
    return Request(
        uid=job.metadata.uid,
        namespace=job.metadata.namespace,
        source=_wish(observed, job.spec.source, uses_interfaces=uses_interfaces),
        destination=_wish(observed, job.spec.destination, uses_interfaces=uses_interfaces),
        attempt=number + 1,
        uses_interfaces=uses_interfaces,
        rate_bps=job.spec.bandwidth.limit_bps if job.spec.bandwidth else None,
        priority=job.spec.priority,
        asked_at=_asked_at(status, now),
        avoid_nodes=avoid_nodes,
        avoid_interfaces=avoid_interfaces,
        unready_nodes=frozenset(name for name, facts in observed.nodes.items() if not (facts.exists and facts.ready)),
        # While the API server refuses its movers, what the job could have is for others.
        tentative=obstacle is not None or bool(observed.refusal),
    )


def pause_after(observed: Observed, failures: int | None, failure: FailureStatus) -> timedelta:
    """How long the next attempt waits after the given number of failed ones, of which `failure` is the last."""
    pause = delay_after(failures or 1, first=observed.settings.backoff_first, most=observed.settings.backoff_most)
    if failure.reason != Reason.CREATION_REFUSED:
        return pause
    # Jobs whose receivers were in the way of each other's senders would be so again if they began again together.
    digest = hashlib.sha256(f"{observed.job.metadata.uid}/{failure.attempt}".encode()).digest()
    return timedelta(seconds=round(pause.total_seconds() * (1 + digest[0] / 255)))


def placed_of(observed: Observed, number: int) -> PlacementStatus | None:
    """What was chosen for attempt `number`, as the status keeps it; None where nothing was."""
    chosen = observed.placement
    if not isinstance(chosen, Placement) or chosen.attempt != number:
        return None
    return PlacementStatus(source=_placed(chosen.source), destination=_placed(chosen.destination), reason=shorten(chosen.reason))


def placed_end(status: TransferJobStatus, role: Role) -> PlacedEnd | None:
    """What was chosen for one end of the latest attempt, None where nothing was."""
    if status.placement is None:
        return None
    return status.placement.source if role is Role.SENDER else status.placement.destination


def labels_of(side: Side) -> tuple[tuple[str, str], ...]:
    """The labels that a node of this end must have where the scheduler chooses it."""
    site = () if side.site is None else ((LABEL_SITE, side.site),)
    return (*site, *sorted((side.node_selector or {}).items()))


def holding_of(body: Mapping[str, Any]) -> Holding | None:
    """What a job has while an attempt is under way, by its object; None if it has nothing.

    What an earlier version began has no placement: then it is where its movers were seen.
    """
    status, spec = body.get("status") or {}, body.get("spec") or {}
    if not status.get("attemptStartTime"):
        return None
    placed, seen = status.get("placement") or {}, status.get("endpoints") or {}
    ends = []
    for name in ("source", "destination"):
        chosen, end = placed.get(name) or {}, seen.get(name) or {}
        interfaces = tuple(chosen.get("interfaces") or ())
        if not interfaces and spec.get("network", "Host") == "Host" and end.get("interface"):
            interfaces = (str(end["interface"]),)
        ends.append(EndPlacement(chosen.get("node") or end.get("node") or (spec.get(name) or {}).get("node"), interfaces))
    return Holding(body["metadata"]["namespace"], tuple(ends), _rate_bps(spec))


def _rate_bps(spec: Mapping[str, Any]) -> float | None:
    limit = (spec.get("bandwidth") or {}).get("limit")
    try:
        return None if limit is None else float(parse_rate(str(limit)))
    except RateError:
        return None


def _wish(observed: Observed, side: Side, *, uses_interfaces: bool) -> EndWish:
    claim = observed.claims.get(side.claim_name)
    node = side.node or (claim.node if claim else None)
    asks = bool(side.node_selector) or side.site is not None
    return EndWish(
        node=node,
        labels=tuple(sorted((side.node_selector or {}).items())),
        site=side.site,
        affinity=claim.affinity if claim is not None and node is None else None,
        scheduler_may_choose=node is None and not asks and not (claim is not None and claim.bound),
        interfaces=side.named_interfaces if uses_interfaces else (),
        network=side.interface_network if uses_interfaces else None,
        disk_numa_node=claim.disk_numa_node if claim else None,
    )


def _asked_at(status: TransferJobStatus, now: datetime) -> float:
    scheduled = status.condition(ConditionType.SCHEDULED)
    waits = scheduled is not None and scheduled.status == "False" and scheduled.reason in _WAITS_FOR_PLACE
    return scheduled.last_transition_time.timestamp() if waits and scheduled else now.timestamp()


def _avoided(status: TransferJobStatus, number: int) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Nodes and interfaces of an attempt that failed by what may be their fault."""
    failure, placed = status.last_failure, status.placement
    if failure is None or placed is None or failure.attempt != number:
        return frozenset(), frozenset()
    ends = (placed.source, placed.destination)
    if failure.reason in _OF_NODES:
        return frozenset(end.node for end in ends if end.node is not None), frozenset()
    if failure.reason in _OF_INTERFACES:
        return frozenset(), frozenset((end.node, name) for end in ends if end.node is not None for name in end.interfaces or ())
    return frozenset(), frozenset()


def _placed(end: EndPlacement) -> PlacedEnd:
    return PlacedEnd(node=end.node, interfaces=end.interfaces or None)
