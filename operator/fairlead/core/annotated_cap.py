"""The cap that a running sender paces by, as its pod's annotations have it."""

from __future__ import annotations

import math

from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.core.network import traits_of
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.verdicts import is_live


def watches_egress_cap(observed: Observed, sender: MoverPod) -> bool:
    """Whether the mover paces by the annotation that plugins know: on the nodes' network, and with an attachment if an earlier version
    began it, which is told by its having that annotation alone."""
    traits = traits_of(observed.job)
    began_earlier = traits.needs_attachment and sender.egress_cap is not None and sender.pacing_cap is None
    return traits.uses_node_interfaces or began_earlier


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
