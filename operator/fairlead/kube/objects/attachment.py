"""The annotation by which Multus gives a mover's pod the interfaces that carry the data."""

from __future__ import annotations

import json

from fairlead.api import names
from fairlead.api.transferjob.spec import Side
from fairlead.core.attachments import FASTEST_BUCKET_BPS
from fairlead.core.observed import Role
from fairlead.kube.client import KubeObject

_DIRECTIONS = {Role.SENDER: "egress", Role.RECEIVER: "ingress"}
_ABOVE_CAP_NUMERATOR, _ABOVE_CAP_DENOMINATOR = 21, 20
"""A cap counts IP packets and the bucket link headers too: at the cap itself it would drop packets of a mover that obeys."""
_BURSTS_PER_SECOND = 10
"""A tenth of a second lets the clumps of a paced sender, and what a path's jitter makes of them, pass without waiting; in the 10 s over
which a cap is judged it is one per cent."""
_LEAST_BURST_BITS = (256 << 10) * 8
"""Packets leave a host in bundles of up to 64 KiB: below a few of them a bucket would hold back or drop whole bundles."""
_MOST_BURST_BITS = (512 << 20) * 8


def networks_annotation(side: Side, namespace: str, role: Role, cap_bps: int | None) -> dict[str, str]:
    """The annotation of a sender or receiver at this end, in the form of the multi-net-spec, section 4.1.2.

    With a cap, in bits per second, `bandwidth` asks the CNI bandwidth plugin for a token bucket in the direction of the data; that plugin
    acts when the pod is created and only where the definition lists it with the capability `bandwidth`. `ips` are the addresses asked for.
    """
    elements: list[KubeObject] = []
    for index, definition in enumerate(side.named_attachments):
        element: KubeObject = {"name": definition, "namespace": namespace, "interface": names.attachment_interface(index)}
        if side.attachment_addresses is not None:
            element["ips"] = [side.attachment_addresses[index]]
        if cap_bps is not None and cap_bps <= FASTEST_BUCKET_BPS:
            element["bandwidth"] = _bucket(_DIRECTIONS[role], cap_bps)
        elements.append(element)
    return {names.ANNOTATION_NETWORKS: json.dumps(elements, separators=(",", ":"))}


def _bucket(direction: str, cap_bps: int) -> dict[str, int]:
    rate_bps = cap_bps * _ABOVE_CAP_NUMERATOR // _ABOVE_CAP_DENOMINATOR
    burst_bits = min(max(rate_bps // _BURSTS_PER_SECOND, _LEAST_BURST_BITS), _MOST_BURST_BITS)
    return {f"{direction}Rate": rate_bps, f"{direction}Burst": burst_bits}
