"""Takes a job's measurement into what is known of its path. Taking in the same one again changes nothing, and the result is bounded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.networkpath.status import (
    MOST_ENGINE_POINTS,
    MOST_NAMESPACES,
    MOST_POINTS,
    EnginePoint,
    NamespaceKnowledge,
    PathBackground,
    PathKnowledge,
    ProfilePoint,
)
from fairlead.api.shared.quantity import RateError, format_milliseconds, format_rate_rounded, format_ratio, parse_milliseconds, parse_rate
from fairlead.core.paths.model import EngineResult, KnownBackground, Measurement, PathProbe, PathTransfer
from fairlead.core.paths.others import beside_any, strangers

DAY = timedelta(days=1)

MOST_PENDING = 64
"""Measurements of one path that wait to be written; the oldest of the namespace that has most are dropped first."""

COEFFICIENT_HALF_LIFE = timedelta(days=1)
_MEGA = 1e6
_OTHER_ROUTE = 1.25
"""A least RTT this much above the one that was is that of another route."""


_K = TypeVar("_K", bound=PathKnowledge)


def merge(status: NetworkPathStatus, measurement: Measurement) -> NetworkPathStatus:
    """What is known with `measurement`, in all and by namespace. Of two measurements of the same thing the newer counts, in whichever
    order they come."""
    status = _with(status, measurement)
    if not measurement.namespace:
        return status
    by_namespace = {known.namespace: known for known in status.namespaces}
    own = by_namespace.get(measurement.namespace) or NamespaceKnowledge(namespace=measurement.namespace)
    by_namespace[measurement.namespace] = _with(own, measurement)
    if len(by_namespace) > MOST_NAMESPACES:
        del by_namespace[min(by_namespace, key=lambda name: (newest_time(by_namespace[name]), name))]
    return status.model_copy(update={"namespaces": tuple(by_namespace[name] for name in sorted(by_namespace))})


def newest_time(known: PathKnowledge) -> float:
    """When the newest part was measured, in Unix time; 0 without any."""
    times = [known.last_measured_time] if known.last_measured_time else []
    times += [known.background.measured_time] if known.background else []
    times += [point.time for point in known.profile]
    times += [point.time for point in known.engines]
    return max(times).timestamp() if times else 0.0


def _with(known: _K, measurement: Measurement) -> _K:
    if measurement.probe is not None:
        known = _with_probe(known, measurement.probe)
    if measurement.background is not None:
        known = _with_background(known, measurement.background)
    if measurement.transfer is not None:
        known = _with_point(known, _point(measurement, measurement.transfer))
    if measurement.engine is not None:
        known = _with_engine(known, _engine_point(measurement, measurement.engine))
    return known


def _with_probe(status: _K, probe: PathProbe) -> _K:
    last = status.last_measured_time
    if last is not None and probe.at < last:
        return status
    known = parse_milliseconds(status.rtt_minimum or "")
    minimum = probe.rtt_minimum_seconds
    if known is not None and last is not None and probe.at - last <= DAY:
        # Beside our own transfers a higher RTT is their queue; and what has been taken in before stays, whoever runs there by now.
        same_route = probe.beside_own or probe.at == last or minimum <= _OTHER_ROUTE * known
        minimum = min(minimum, known) if same_route else minimum
    return status.model_copy(
        update={
            "rtt": format_milliseconds(probe.rtt_seconds, decimals=3),
            "rtt_minimum": format_milliseconds(minimum, decimals=3),
            "loss": None if probe.loss_ratio is None else format_ratio(probe.loss_ratio),
            "last_measured_time": probe.at,
        }
    )


def _with_background(status: _K, background: KnownBackground) -> _K:
    known = status.background
    if known is not None and background.measured_at < known.measured_time:
        return status
    # One that has been taken in was seen beside the jobs that flowed then: who has come or gone since is not to be taken off it.
    if known is not None and background.measured_at == known.measured_time and known in map(_stored, beside_any(background)):
        return status
    return status.model_copy(update={"background": _stored(strangers(background))})


def _stored(background: KnownBackground) -> PathBackground:
    return PathBackground(
        class_=background.class_name,
        probability=format_ratio(background.probability),
        probabilities={name: format_ratio(value) for name, value in sorted(background.probabilities.items())},
        any_bbr=format_ratio(background.any_bbr),
        confidence=format_ratio(background.confidence),
        abstained=background.abstained,
        model=background.model,
        measured_time=background.measured_at,
    )


def _point(measurement: Measurement, transfer: PathTransfer) -> ProfilePoint:
    coefficient = transfer.stream_coefficient
    return ProfilePoint(
        job=measurement.job,
        attempt=measurement.attempt,
        congestion_control=transfer.congestion_control,
        streams=transfer.streams,
        rate=format_rate_rounded(transfer.rate_bps),
        stream_coefficient=None if coefficient is None else format_coefficient(coefficient),
        time=transfer.at,
    )


def _with_point(status: _K, point: ProfilePoint) -> _K:
    others = [known for known in status.profile if (known.job, known.attempt) != (point.job, point.attempt)]
    newest_first = sorted([*others, point], key=lambda known: (-known.time.timestamp(), known.job, known.attempt))
    profile = tuple(newest_first[:MOST_POINTS])
    return status.model_copy(
        update={"profile": profile, "capacity": _capacity(profile), "stream_coefficient": _coefficient(profile)},
    )


def _engine_point(measurement: Measurement, result: EngineResult) -> EnginePoint:
    resent, cost = result.resent_ratio, result.cpu_seconds_per_gb
    return EnginePoint(
        job=measurement.job,
        attempt=measurement.attempt,
        protocol=result.protocol,
        goodput=None if result.goodput_bps is None else format_rate_rounded(result.goodput_bps),
        at_cap=result.at_cap,
        resent=None if resent is None else format_ratio(resent),
        cpu_seconds_per_gigabyte=None if cost is None else format_ratio(cost),
        time=result.at,
    )


def _with_engine(status: _K, point: EnginePoint) -> _K:
    others = [known for known in status.engines if (known.job, known.attempt) != (point.job, point.attempt)]
    newest_first = sorted([*others, point], key=lambda known: (-known.time.timestamp(), known.job, known.attempt))
    by_protocol = [[known for known in newest_first if known.protocol == protocol] for protocol in {each.protocol for each in newest_first}]
    kept = {(each.job, each.attempt) for points in by_protocol for each in points[:MOST_ENGINE_POINTS]}
    return status.model_copy(update={"engines": tuple(each for each in newest_first if (each.job, each.attempt) in kept)})


def _capacity(profile: tuple[ProfilePoint, ...]) -> str | None:
    """The most that one transfer got: others may have been held back by disks or by what else was on the path."""
    rates_bps = [_rate_bps(point) for point in profile if profile[0].time - point.time <= DAY]
    return format_rate_rounded(max(rates_bps)) if rates_bps else None


def _rate_bps(point: ProfilePoint) -> int:
    try:
        return parse_rate(point.rate)
    except RateError:
        return 0


def _coefficient(profile: tuple[ProfilePoint, ...]) -> str | None:
    """a as the mean of what the transfers found [Huang 2018, section 6.2.2], each counting half as much a day later."""
    found = [(point, value) for point in profile if (value := parse_coefficient(point.stream_coefficient)) is not None]
    if not found:
        return None
    newest = found[0][0].time
    weights = [0.5 ** ((newest - point.time) / COEFFICIENT_HALF_LIFE) for point, _ in found]
    mean = math.fsum(weight * value for weight, (_, value) in zip(weights, found, strict=True)) / math.fsum(weights)
    return format_coefficient(mean)


def format_coefficient(per_bit: float) -> str:
    """Streams per megabit, without an exponent, for a coefficient in 1/bit."""
    text = f"{per_bit * _MEGA:.6f}".rstrip("0").rstrip(".")
    return text or "0"


def parse_coefficient(text: str | None) -> float | None:
    """The coefficient in 1/bit of what `format_coefficient` wrote; None for anything else, and for none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value / _MEGA if math.isfinite(value) and value > 0 else None


PendingMeasurements = Mapping[tuple[str, int], Measurement]
"""What is not written to a NetworkPath yet, by job UID and attempt."""


def with_pending(
    pending: PendingMeasurements, measurement: Measurement, *, beside_own: bool, own: tuple[str, ...] = ()
) -> dict[tuple[str, int], Measurement]:
    """`pending` with a measurement, at most MOST_PENDING. `beside_own`: other jobs' data flow on the path now, with `own` in force."""
    key = measurement.job, measurement.attempt
    earlier = pending.get(key)
    if measurement.background is not None:
        before = earlier.background if earlier is not None else None
        # As it was when it was first reported, as below.
        seen_before = before is not None and before.probabilities == measurement.background.probabilities
        there = before.own if before is not None and seen_before else own
        measurement = replace(measurement, background=replace(measurement.background, own=there))
    if measurement.probe is not None:
        known = earlier.probe if earlier is not None else None
        # As it was when the probe was first reported: whoever ran beside it may have ended since.
        same = known is not None and _found(known) == _found(measurement.probe)
        beside = known.beside_own if known is not None and same else beside_own
        measurement = replace(measurement, probe=replace(measurement.probe, beside_own=beside))
    after = {**pending, key: measurement if earlier is None else measurement.completed_by(earlier)}
    if len(after) > MOST_PENDING:
        counts = Counter(each.namespace for each in after.values())
        busiest = max(counts, key=lambda namespace: (counts[namespace], namespace))
        oldest = min((each for each in after.values() if each.namespace == busiest), key=age_of)
        del after[oldest.job, oldest.attempt]
    return after


def age_of(measurement: Measurement) -> tuple[float, str, int]:
    """Orders measurements from the oldest to the newest."""
    latest = measurement.latest
    return latest.timestamp() if latest else 0.0, measurement.job, measurement.attempt


def _found(probe: PathProbe) -> tuple[float, float, float | None]:
    """What a probe is known by: a decision that is published anew comes with the same measurement at another time."""
    return probe.rtt_seconds, probe.rtt_minimum_seconds, probe.loss_ratio
