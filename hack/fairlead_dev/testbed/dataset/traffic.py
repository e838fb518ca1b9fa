"""The flows of a run: a class on a path, in the manner of a kind."""

from __future__ import annotations

import random

from fairlead_dev.testbed.dataset.classes import SIDES, BackgroundClass, TrafficKind
from fairlead_dev.testbed.scenario.model import OnOff, Path, TrafficFlow

ON_OFF_SECONDS = ((10.0, 10.0), (5.0, 5.0), (20.0, 5.0))
UDP_BURST_SECONDS = ((1.0, 2.0), (1.0, 5.0), (1.0, 10.0))
"""Burst and gap of Bursty-UDP(x, y) [Anvari 2021, section 3.3]."""
UDP_BURST_SHARE = (0.3, 0.9)
"""Of the path's rate; the paper does not give its own."""
MANY_FLOWS = (3, 4)
"""Flows of at least one side."""
LOSS_RATIO = (3e-4, 3e-3)
_START_SHARE = 0.4
"""Flows start within this share of the warm-up."""


def warm_up_s(path: Path) -> float:
    """Long enough for slow start to end and for two flows to meet: 30 round trips through a full queue, 8 to 20 s."""
    return round(min(20.0, max(8.0, 0.03 * (path.rtt_ms + path.full_queue_ms))), 1)


def path_of_kind(path: Path, kind: TrafficKind, generator: random.Random) -> Path:
    """The path that a run of `kind` has: with loss never trained on for LOSS, else as it is."""
    if kind is not TrafficKind.LOSS:
        return path
    low, high = LOSS_RATIO
    return path.model_copy(update={"loss_ratio": float(f"{low * (high / low) ** generator.random():.2g}")})


def flows_of(
    background: BackgroundClass, kind: TrafficKind, path: Path, *, most_per_side: int, duration_s: float, generator: random.Random
) -> tuple[TrafficFlow, ...]:
    """Every flow by itself, with its own start."""
    controls = SIDES[background].controls
    counts = _counts(len(controls), kind, most_per_side, generator)
    flows: list[TrafficFlow] = []
    warm_s = warm_up_s(path)
    on_off = generator.choice(ON_OFF_SECONDS)
    for side, (control, count) in enumerate(zip(controls, counts, strict=True)):
        for copy in range(count):
            start_s = round(-warm_s + generator.random() * _START_SHARE * warm_s, 3)
            # All flows of a side share the rhythm; sides alternate freely by their starts.
            pattern = {"pattern": OnOff(kind="on_off", on_s=on_off[0], off_s=on_off[1])} if kind is TrafficKind.ON_OFF else {}
            flows.append(
                TrafficFlow.model_validate(
                    {"name": f"{'ab'[side]}{copy + 1}-{control}", "congestion_control": control, "start_s": start_s, **pattern}
                )
            )
    if kind is TrafficKind.UDP_BURSTS:
        flows.append(_udp_bursts(path, warm_s, generator))
    if kind is TrafficKind.ACTIVE:
        flows += _active_profile(duration_s)
    return tuple(flows)


def _counts(sides: int, kind: TrafficKind, most_per_side: int, generator: random.Random) -> tuple[int, ...]:
    if kind is TrafficKind.MANY_FLOWS:
        many = generator.choice(MANY_FLOWS)
        counts = [many, generator.choice((1, many))]
        generator.shuffle(counts)
        return tuple(counts)
    # One source is one flow by the class's name: two CUBIC flows of one source are the same as C1-C1.
    if sides < 2 or most_per_side == 1 or generator.random() < 0.5:
        return (1,) * sides
    choices = [(one, other) for one in range(1, most_per_side + 1) for other in range(1, most_per_side + 1) if one + other > 2]
    return generator.choice(choices)


def _udp_bursts(path: Path, warm_s: float, generator: random.Random) -> TrafficFlow:
    on_s, off_s = generator.choice(UDP_BURST_SECONDS)
    low, high = UDP_BURST_SHARE
    return TrafficFlow(
        name="udp",
        protocol="udp",
        rate_bps=max(10_000, round((low + (high - low) * generator.random()) * path.rate_bps)),
        start_s=round(-warm_s + generator.random() * min(warm_s, on_s + off_s), 3),
        pattern=OnOff(kind="on_off", on_s=on_s, off_s=off_s),
    )


def _active_profile(duration_s: float) -> list[TrafficFlow]:
    """CUBIC 5 s, BBR 5 s, CUBIC 5 s, none 5 s, over and over; phase 0 is the start of the recording [Anvari 2021, section 5.2]."""
    waves = {"cubic": (0.0, OnOff(kind="on_off", on_s=5, off_s=5)), "bbr": (5.0, OnOff(kind="on_off", on_s=5, off_s=15))}
    return [
        TrafficFlow(name=f"active-{control}", role="foreground", congestion_control=control, start_s=start_s, pattern=wave)
        for control, (start_s, wave) in waves.items()
        if start_s < duration_s
    ]
