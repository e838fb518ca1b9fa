"""The cap that a running sender paces by, as its pod's annotations have it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairlead.api.shared.quantity import RateError, format_rate, parse_rate
from fairlead.core.network import traits_of
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.verdicts import is_live


def watches_egress_cap(observed: Observed, sender: MoverPod) -> bool:
    """Whether the mover paces by the annotation that plugins know: on the nodes' network, and with an attachment if an earlier version
    began it, which is told by its having that annotation alone."""
    traits = traits_of(observed.job)
    began_earlier = traits.needs_attachment and sender.egress_cap is not None and sender.pacing_cap is None
    return traits.uses_node_interfaces or began_earlier


def format_path_caps(caps_bps: Sequence[int | None]) -> str | None:
    """The caps of all paths as the annotation has them; None where no path has one."""
    if all(cap is None for cap in caps_bps):
        return None
    return ",".join("" if cap is None else format_rate(cap) for cap in caps_bps)


def path_caps_bps(text: str | None) -> tuple[int | None, ...] | None:
    """The caps of an annotation that has one for each path; None without it, and where it cannot be read."""
    try:
        return tuple(parse_rate(item) if item else None for item in text.split(",")) if text else None
    except RateError:
        return None


def annotated_path_caps_bps(observed: Observed, paths: int) -> tuple[float, ...] | None:
    """The caps by which the running sender paces each of its paths, infinite where there is none, None if no sender runs or nobody can
    tell. No path has more than all of them."""
    total_bps = annotated_cap_bps(observed)
    sender = observed.mover(Role.SENDER, observed.latest_attempt)
    if total_bps is None or sender is None:
        return None
    caps = path_caps_bps(sender.path_caps) or ((None,) * paths if not sender.path_caps else ())
    return tuple(total_bps if cap is None else min(cap, total_bps) for cap in caps) if len(caps) == paths else None


def annotated_cap_bps(observed: Observed) -> float | None:
    """The cap by which the running sender paces, infinite if its pod has none, None if no sender runs. A rate that cannot be read changes
    nothing at the mover, which keeps the cap that it had: what that is only the status can tell."""
    sender = observed.mover(Role.SENDER, observed.latest_attempt)
    if sender is None or not is_live(sender):
        return None
    annotated = sender.egress_cap if watches_egress_cap(observed, sender) else sender.pacing_cap
    try:
        return float(parse_rate(annotated)) if annotated else math.inf
    except RateError:
        return None
