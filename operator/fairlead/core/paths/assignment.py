"""What a new transfer is given of what is known of its path, and whether it may probe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from datetime import datetime, timedelta

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.networkpath.status import MOST_POINTS, PathBackground, PathKnowledge
from fairlead.api.shared.quantity import RateError, format_rate_rounded, parse_milliseconds, parse_rate
from fairlead.core.paths.merge import format_coefficient, parse_coefficient
from fairlead.core.paths.model import KnownBackground, KnownPath, Lease, ProbeAssignment, Probing

FRESH = timedelta(minutes=5)
"""How long a probe's result holds for a path on which no transfer of ours runs."""

FRESH_BESIDE_TRANSFERS = timedelta(hours=1)
"""How long it holds while one runs: a new probe would take that for background."""

BELIEVED = timedelta(days=7)
"""How long a measured rate, a coefficient or a least RTT is worth handing on."""

_ROUNDED = 0.01
_SEVERAL = 2
"""So many other namespaces must have measured the same thing."""


def knowledge_of(status: NetworkPathStatus, namespace: str, now: datetime) -> PathKnowledge:
    """What a job of this namespace is given of what is known: what its own namespace has measured.

    Of others it gets capacity and coefficient alone, which give the first stream count, and only where several of them have measured
    one and it has none of its own: then the lower median of theirs.
    """
    own = next(
        (PathKnowledge.model_validate(known, from_attributes=True) for known in status.namespaces if known.namespace == namespace), None
    )
    known = own or PathKnowledge()
    if _within(_latest_point(known), BELIEVED, now):
        return known
    others = [each for each in status.namespaces if each.namespace != namespace and _within(_latest_point(each), BELIEVED, now)]
    coefficients = sorted(filter(None, (parse_coefficient(each.stream_coefficient) for each in others)))
    capacities = sorted(bps for each in others if (bps := _rate_bps(each.capacity)) is not None)
    if min(len(coefficients), len(capacities)) < _SEVERAL:
        return known
    # The others' points only tell how old the hint is.
    hint = {
        "capacity": format_rate_rounded(statistics.median_low(capacities)),
        "stream_coefficient": format_coefficient(statistics.median_low(coefficients)),
        "profile": tuple(point for each in others for point in each.profile[:1])[:MOST_POINTS],
    }
    return known.model_copy(update=hint)


def assignment_of(
    status: PathKnowledge,
    declared_bps: int | None,
    leases: Iterable[Lease],
    *,
    busy: bool,
    now: datetime,
    beside_own: bool = False,
    competes: bool = False,
    shares: int = 1,
) -> ProbeAssignment:
    """How the job's sender starts, with `leases` by the other jobs on the path; they are `busy` once one has been decided upon, and the
    sender starts `beside_own` as soon as one of them runs. `competes`, `shares`: as in the path's spec."""
    fresh = FRESH_BESIDE_TRANSFERS if busy else FRESH
    background = _background(status.background) if status.background else None
    looked = [status.last_measured_time] if status.last_measured_time else []
    looked += [background.measured_at] if background else []
    known = KnownPath(
        rtt_minimum_seconds=parse_milliseconds(status.rtt_minimum or "") if _within(status.last_measured_time, BELIEVED, now) else None,
        capacity_bps=_capacity_bps(status, declared_bps, now),
        stream_coefficient=parse_coefficient(status.stream_coefficient) if _within(_latest_point(status), BELIEVED, now) else None,
        background=background if background and _within(background.measured_at, fresh, now) else None,
        beside_own=beside_own or busy,
        competes=competes,
        shares=shares,
    )
    if _within(max(looked, default=None), fresh, now):
        return ProbeAssignment(Probing.KNOWN, known)
    return ProbeAssignment(Probing.LEASED if any(lease.expires_at > now for lease in leases) else Probing.OWN, known)


def _within(moment: datetime | None, age: timedelta, now: datetime) -> bool:
    return moment is not None and now - moment <= age


def _latest_point(status: PathKnowledge) -> datetime | None:
    return max((point.time for point in status.profile), default=None)


def _capacity_bps(status: PathKnowledge, declared_bps: int | None, now: datetime) -> float | None:
    """What one transfer can get: what one got, and no more than is declared."""
    measured_bps = _rate_bps(status.capacity) if _within(_latest_point(status), BELIEVED, now) else None
    measured = [] if measured_bps is None else [measured_bps]
    declared = [] if declared_bps is None else [float(declared_bps)]
    return min([*measured, *declared], default=None)


def _rate_bps(text: str | None) -> float | None:
    try:
        return None if text is None else float(parse_rate(text))
    except RateError:
        return None


def _background(stored: PathBackground) -> KnownBackground | None:
    """The stored form as numbers; None if somebody wrote what is none: an advisor would put it aside, and probe without a lease."""
    try:
        probabilities = {name: _ratio(value) for name, value in stored.probabilities.items()}
        if abs(math.fsum(probabilities.values()) - 1) > _ROUNDED:
            raise ValueError("the probabilities do not add up to 1")
        return KnownBackground(
            class_name=stored.class_,
            probability=_ratio(stored.probability),
            probabilities=probabilities,
            any_bbr=_ratio(stored.any_bbr),
            confidence=_ratio(stored.confidence),
            abstained=stored.abstained,
            model=stored.model,
            measured_at=stored.measured_time,
        )
    except ValueError:
        return None


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is no ratio")
    return value
