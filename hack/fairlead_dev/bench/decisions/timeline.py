"""A transfer second by second: what it carried, and which congestion control its sockets had. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class TransferSample:
    """The mover's sockets at `time_s` of the transfer's clock: payload acknowledged so far, and what most of them have in force.

    `control` is None while no socket is open.
    """

    time_s: float
    acknowledged_bytes: int
    control: str | None
    streams: int


@dataclass(frozen=True, slots=True)
class ControlSpan:
    """A congestion control in force from one moment to another, in s."""

    control: str
    from_s: float
    to_s: float


class Counting:
    """Adds up what streams have carried; a stream that was connected anew counts from zero again."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._total = 0

    def sample(self, time_s: float, stats: Mapping[str, Any] | None) -> TransferSample:
        """The next sample; `stats` is the mover's answer, None without one."""
        streams = stats["streams"] if stats else []
        now = {int(stream["id"]): int(stream["bytes_sent"] or 0) for stream in streams}
        self._total += sum(sent - before if sent >= (before := self._before.get(name, 0)) else sent for name, sent in now.items())
        # A stream that does not answer for a moment must not be counted twice when it does again.
        self._before |= now
        controls = Counter(stream["congestion_control"] for stream in streams if stream["congestion_control"])
        return TransferSample(time_s, self._total, controls.most_common(1)[0][0] if controls else None, len(now))


def goodput_bps(samples: Sequence[TransferSample], from_s: float = 0.0) -> float:
    """Payload acknowledged from `from_s` to the last sample, per second; what came before the first data counts as time."""
    if not samples or samples[-1].time_s <= from_s:
        return 0.0
    earlier = [sample for sample in samples if sample.time_s <= from_s]
    start_s, start_bytes = (earlier[-1].time_s, earlier[-1].acknowledged_bytes) if earlier else (from_s, 0)
    return (samples[-1].acknowledged_bytes - start_bytes) * 8 / (samples[-1].time_s - start_s)


def first_data_s(samples: Iterable[TransferSample]) -> float | None:
    """When the first payload was acknowledged, to a sampling period; None if none ever was."""
    return next((sample.time_s for sample in samples if sample.acknowledged_bytes), None)


def spans(samples: Sequence[TransferSample]) -> tuple[ControlSpan, ...]:
    """What was in force when; a moment without open sockets belongs to what was in force before."""
    found: list[ControlSpan] = []
    known = [sample for sample in samples if sample.control is not None]
    for sample in known:
        assert sample.control is not None
        if not found or found[-1].control != sample.control:
            if found:
                found[-1] = ControlSpan(found[-1].control, found[-1].from_s, sample.time_s)
            found.append(ControlSpan(sample.control, sample.time_s, sample.time_s))
    if found:
        found[-1] = ControlSpan(found[-1].control, found[-1].from_s, samples[-1].time_s)
    return tuple(found)


Rights = Sequence[tuple[float, str]]
"""The right choice from each moment on, the first from 0."""


def right_at(rights: Rights, moment_s: float) -> str:
    """The right choice at that moment."""
    return [right for since_s, right in rights if since_s <= moment_s][-1]


def needless_switches(in_force: Sequence[ControlSpan], rights: Rights) -> int:
    """Changes away from what was right at their moment. The way back is needed, and not counted again."""
    return sum(
        before.control == right_at(rights, after.from_s) and after.control != right_at(rights, after.from_s)
        for before, after in pairwise(in_force)
    )


def adaptations_s(in_force: Sequence[ControlSpan], rights: Rights, end_s: float) -> tuple[float, ...]:
    """For every change of what is right: s until it was in force; the whole time until the next change if it never was."""
    ends_s = [since_s for since_s, _ in rights[1:]] + [end_s]
    found = []
    for (since_s, right), until_s in list(zip(rights, ends_s, strict=True))[1:]:
        spells = [span for span in in_force if span.control == right and span.to_s > since_s and span.from_s < until_s]
        found.append(min((max(span.from_s, since_s) for span in spells), default=until_s) - since_s)
    return tuple(found)


def right_share(in_force: Sequence[ControlSpan], rights: Rights) -> float | None:
    """The share of the time with data during which the right choice was in force; None without any data."""
    edges_s = [since_s for since_s, _ in rights] + [float("inf")]
    total_s = sum(span.to_s - span.from_s for span in in_force)
    right_s = sum(
        max(0.0, min(span.to_s, until_s) - max(span.from_s, since_s))
        for (since_s, right), until_s in zip(rights, edges_s[1:], strict=True)
        for span in in_force
        if span.control == right
    )
    return right_s / total_s if total_s else None


def flow_goodputs_bps(rows: Iterable[Sequence[str]], from_s: float, to_s: float) -> dict[str, float]:
    """The mean goodput of each flow over a time, from the rows (time, flow, goodput, …) of the test bed's `flows.csv`."""
    sums: dict[str, list[float]] = {}
    for time, flow, rate, *_ in rows:
        if from_s < float(time) <= to_s:
            sums.setdefault(flow, []).append(float(rate))
    return {flow: sum(rates) / len(rates) for flow, rates in sums.items()}
