"""The paths that several parts of the bench share, and how much is moved over them."""

from __future__ import annotations

from fairlead_dev.bench.transports.measure import LinkShape

SCAVENGED = {"": LinkShape(100, 20, "3BDP"), "_short_queue": LinkShape(100, 20, "1BDP")}
"""A queue of 120 ms, twice the scavenger's target, and one of 40 ms, which never reaches it."""
LOSSY = LinkShape(200, 50, "1BDP", loss=0.001)
LOSSES = f"{LOSSY.rate_mbps} Mb/s, {2 * LOSSY.one_way_ms} ms, {LOSSY.loss:.1%} of packets lost"
"""The path with losses in words."""
LOSSY_S, QUICK_LOSSY_S = 8.0, 2.0
"""At the link's rate."""
