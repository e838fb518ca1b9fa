"""When a probe sends bursts, and how large: what each is for, and what all of them cost."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES, Burst, Path

PASSIVE_S = 20.0
ACTIVE_S = 10.0
"""A recording is cycles of both, passive first."""

TRAINS_S = (0.2, 0.6, 1.0)
"""Into the active part. All packets of a train are handed on at once, are in the queue side by side, and leave it at the path's rate."""
TRAIN_PACKETS = 40
PUSHES_S = ((1.5, 1.0), (3.75, 0.25), (5.5, 1.0), (7.75, 0.25))
"""When, and at which share of the path's rate. A push lasts one round trip: a flow answers a loss a round trip later, so that it is made to
yield once at most, and what the queue does next tells who yielded. A quarter leaves most buffers room and only shows how they drain."""
SHORTEST_PUSH_S = 0.02
LONGEST_PUSH_S = 0.2


def bursts_of(path: Path, duration_s: float) -> tuple[Burst, ...]:
    """The bursts of a recording on `path`: at most 0.5 s of what it carries, and the trains, in every cycle."""
    cycle_s = PASSIVE_S + ACTIVE_S
    starts_s = [PASSIVE_S + cycle_s * cycle for cycle in range(int(duration_s // cycle_s))]
    return tuple(burst for start_s in starts_s for burst in _active_part(path, start_s))


def _active_part(path: Path, start_s: float) -> Iterator[Burst]:
    for offset_s in TRAINS_S:
        yield Burst(start_s=start_s + offset_s, packets=TRAIN_PACKETS)
    push_s = min(LONGEST_PUSH_S, max(SHORTEST_PUSH_S, path.rtt_ms / 1000))
    for offset_s, share in PUSHES_S:
        rate_bps = round(share * path.rate_bps)
        yield Burst(start_s=start_s + offset_s, packets=max(1, round(push_s * rate_bps / 8 / BURST_PACKET_BYTES)), rate_bps=rate_bps)
