"""What is run to validate the test bed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead_dev.testbed.scenario.model import Path, Scenario, TrafficFlow

OVERLAY_1 = Path(rate_bps=500_000_000, rtt_ms=128, buffer_bytes=6_291_456)
PATHS = {
    "20mbps-10ms-1bdp": Path(rate_bps=20_000_000, rtt_ms=10, buffer_bdp=1),
    "50mbps-40ms-0.5bdp": Path(rate_bps=50_000_000, rtt_ms=40, buffer_bdp=0.5),
    "50mbps-40ms-3bdp": Path(rate_bps=50_000_000, rtt_ms=40, buffer_bdp=3),
    "100mbps-100ms-1bdp": Path(rate_bps=100_000_000, rtt_ms=100, buffer_bdp=1),
}
OVERLAY_1_FIFTH = Path(rate_bps=100_000_000, rtt_ms=128, buffer_bytes=1_258_291)
"""The same shape at a fifth of the rate: several such runs go side by side."""
COEXISTENCE = (("cubic", "cubic"), ("bbr", "cubic"), ("cubic", "bbr"), ("bbr", "bbr"))
"""Background, foreground."""


def against_theory(seconds: float) -> Iterator[Scenario]:
    """Every path idle, full, overflowing and lossy."""
    for name, path in PATHS.items():
        offered = {"overflow": 1.5 * path.rate_bps, "half": 0.5 * path.rate_bps}
        for state in ("idle", "full", "overflow", "loss"):
            flows: list[dict[str, Any]] = []
            if state == "full":
                flows = [{"name": "cubic", "congestion_control": "cubic"}]
            elif state != "idle":
                rate_bps = round(offered["half" if state == "loss" else state])
                flows = [{"name": "udp", "protocol": "udp", "rate_bps": rate_bps}]
            lossy = path.model_copy(update={"loss_ratio": 0.01}) if state == "loss" else path
            yield Scenario(
                name=f"{name}-{state}",
                duration_s=seconds,
                warm_up_s=10 if state == "full" else 2,
                path=lossy,
                flows=tuple(TrafficFlow.model_validate(flow) for flow in flows),
            )


def coexistence(prefix: str, path: Path, seconds: float) -> Iterator[Scenario]:
    """Two greedy flows on `path`, the foreground 5 s behind the background, for every pair of congestion controls."""
    for background, foreground in COEXISTENCE:
        yield Scenario(
            name=f"{prefix}-{background}-{foreground}",
            duration_s=seconds,
            warm_up_s=5,
            path=path,
            flows=(
                TrafficFlow(name="background", congestion_control=background),
                TrafficFlow(name="foreground", role="foreground", congestion_control=foreground, start_s=0),
            ),
        )
