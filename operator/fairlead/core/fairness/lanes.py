"""A job with several paths as what it is on the links: a participant for each path, its *lane*, and the job again from its lanes.

A lane counts on the links of its own path, has a cap of its own, and is measured by itself. Who starts is decided for the job: with all of
its lanes or not at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.rules import PolicyRules

_MARK = "#"
"""No UID of Kubernetes has it."""


def lane_uid(job_uid: str, number: int) -> str:
    """What a lane is known by."""
    return f"{job_uid}{_MARK}{number}"


def job_uid(uid: str) -> str:
    """The UID of the job that a participant is, or is a lane of."""
    return uid.partition(_MARK)[0]


def spread(rules: PolicyRules, job: Participant) -> tuple[Participant, ...]:
    """The lanes of a job in the order of its paths; the job itself where it has none.

    Lanes that share a link divide the job's weight, so that it counts there once. Its guarantee goes to them in proportion to the
    narrowest link of each; its limit is that of each lane, and bounds their sum in `shares.fair_shares`.
    """
    if not job.lanes:
        return (job,)
    lanes = [
        replace(
            job,
            uid=lane_uid(job.uid, number),
            source=lane.source,
            destination=lane.destination,
            cap_bps=lane.cap_bps,
            annotated=lane.annotated,
            sent=lane.sent,
            counts=(),
            lanes=(),
        )
        for number, lane in enumerate(job.lanes)
    ]
    routes = [rules.links_of(lane) for lane in lanes]
    crossing = Counter(link for route in routes for link in route)
    parts = [max((crossing[link] for link in route), default=1) for route in routes]
    narrowest = [min((rules.links[link].available_bps for link in route), default=0.0) for route in routes]
    # Where no lane crosses a link there is nothing to promise.
    whole_bps = sum(narrowest) or 1.0
    return tuple(
        replace(lane, parts=number, weight=job.weight / number, guarantee_bps=job.guarantee_bps * (bps / whole_bps))
        for lane, number, bps in zip(lanes, parts, narrowest, strict=True)
    )


def gather(values: Mapping[str, float], participants: Iterable[Participant]) -> dict[str, float]:
    """The sum of what the lanes of each job have, by the job's UID; jobs of which nothing is known are left out."""
    sums: dict[str, float] = defaultdict(float)
    for each in participants:
        if each.uid in values:
            sums[job_uid(each.uid)] += values[each.uid]
    return dict(sums)
