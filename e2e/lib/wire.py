"""What the wide-area link carries, whatever the movers say."""

from __future__ import annotations

import time

from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE

from access.nodes import LocalCluster

WINDOW_S = 5.0


def rate_mbps(cluster: LocalCluster) -> float:
    """The mean rate towards the destination over a window of a few seconds, headers included."""
    start_s, start_bytes = time.monotonic(), cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE)
    time.sleep(WINDOW_S)
    end_s, end_bytes = time.monotonic(), cluster.bytes_carried(SOURCE_NODE, DESTINATION_NODE)
    return (end_bytes - start_bytes) * 8 / (end_s - start_s) / 1e6
