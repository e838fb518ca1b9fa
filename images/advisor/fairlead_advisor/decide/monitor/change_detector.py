"""Detects from a transfer's own samples that the traffic beside it changed: a lasting step in goodput, queue or loss.

It does not find out what changed. The last seconds are compared with equally long stretches before them, so that a sawtooth is no change.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

RECENT_S = 4.0
"""A step counts once it fills this; shorter ones are bursts."""
REFERENCE_S = 60.0
LEAST_REFERENCE_S = 15.0
SETTLE_S = 8.0
"""After data began or resumed, or the transport was changed: windows grow, and nothing is compared."""
TRIAL_SETTLE_S = 3.0
"""After a trial of our own that was taken back."""

# A fifth more or less goodput, a queue that moved by a tenth of the least RTT, one packet in a hundred: less would not alter a choice.
Step = tuple[str, str]
ANY_STEP: frozenset[Step] = frozenset((name, way) for name in ("goodput", "least RTT", "highest RTT", "loss") for way in ("rose", "fell"))

_GOODPUT_EFFECT = math.log(1.2)
_QUEUE_EFFECT = 0.1
_LEAST_QUEUE_EFFECT_S = 0.001
_LOSS_EFFECT = 0.01
# Stretches before the change differ among themselves: a step must stand out of that, the more the fewer of them there were.
_DEVIATIONS = 4.0
_WELL_KNOWN_S = 30.0
_ALL_ALONG = 0.5
# Windows may still grow after data stood still, and what was usual then rests on a few seconds.
_AFTER_A_LOOK = 1.5
_ROUNDING_S = 1e-6
# Half of what counts as a step of the goodput.
_USUAL_RATIO = 0.1
# A stalled transfer has no level: logarithms must not run away.
_LEAST_GOODPUT_BPS = 10e3


@dataclass(frozen=True, slots=True)
class PathSample:
    """A second or a few of the transfer, up to `at_s` on a monotonic clock. The RTTs are the 10th and 90th percentile; None unseen."""

    at_s: float
    seconds: float
    goodput_bps: float
    loss_ratio: float
    rtt_low_s: float | None = None
    rtt_high_s: float | None = None


@dataclass(frozen=True, slots=True)
class PathChange:
    """A step: `strength` is 1 at the threshold, `goodput_ratio` that of now to before."""

    strength: float
    goodput_ratio: float
    description: str


@dataclass(frozen=True, slots=True)
class ChangeDetector:
    """The samples from `opens_s` on: `reference` is what counts as usual, `recent` what is compared with it."""

    opens_s: float
    floor_s: float | None = None
    awaited: frozenset[Step] = ANY_STEP
    reference: tuple[PathSample, ...] = ()
    recent: tuple[PathSample, ...] = ()
    usual: tuple[PathSample, ...] = ()
    known: tuple[PathSample, ...] = ()
    """The last seconds ahead of a paused probe that altered nothing, and the reference of then: they are used until there is a new one."""
    change: PathChange | None = None
    hint: bool = False
    """Whether the latest sample alone is a step: worth sampling more often."""

    @property
    def goodput_bps(self) -> float | None:
        """The mean of the recent samples; None while there are none."""
        return _goodput(self.recent) if self.recent else None

    @property
    def knows_usual(self) -> bool:
        """Whether there is anything that a step can be told from."""
        return _is_known(self.reference) or bool(self.known)

    @property
    def settled(self) -> bool:
        """Whether the recent samples fill what a step must fill."""
        return sum(sample.seconds for sample in self.recent) >= RECENT_S


def begin(now_s: float, floor_s: float | None, awaited: frozenset[Step]) -> ChangeDetector:
    """A detector without samples; `floor_s` is the least RTT of the path, other steps than those `awaited` are no change."""
    return ChangeDetector(now_s + SETTLE_S, floor_s, awaited)


def pause(detector: ChangeDetector, now_s: float) -> ChangeDetector:
    """While we change something for a trial: what is usual stays known, and is compared with again after a while."""
    return replace(detector, opens_s=now_s + TRIAL_SETTLE_S, recent=(), change=None, hint=False)


def is_usual(detector: ChangeDetector, goodput_bps: float) -> bool:
    """Whether that is about what there has been so far, if there was anything."""
    usual_bps = _goodput(detector.reference)
    return usual_bps <= 0 or abs(goodput_bps / usual_bps - 1) < _USUAL_RATIO


def resume(detector: ChangeDetector, now_s: float, floor_s: float | None) -> ChangeDetector:
    """After a paused probe that altered nothing: the last samples before it are the usual. Otherwise whoever comes before there is a new
    reference would become a part of it."""
    known = detector.reference if _is_known(detector.reference) else detector.known
    return replace(begin(now_s, floor_s, detector.awaited), usual=detector.recent or detector.usual, known=known)


def add_sample(detector: ChangeDetector, sample: PathSample) -> ChangeDetector:
    """Takes a sample in; `change` is then the step to what was usual, if there is one. What is unusual never becomes the reference."""
    if sample.at_s - sample.seconds < detector.opens_s:
        return detector
    recent, passed = _trimmed((*detector.recent, sample))
    change = _compare(detector, detector.reference, recent)
    reference = detector.reference
    if change is None or change.strength < 1:
        reference = _last((*reference, *passed), REFERENCE_S)
    last = _compare(detector, reference, (sample,))
    lasts = False
    if change is not None and change.strength >= 1:
        # A burst at the end must not pull the mean over the threshold by itself.
        first = _compare(detector, reference, recent[:1])
        lasts = first is not None and first.strength >= _ALL_ALONG
    return replace(
        detector, reference=reference, recent=recent, change=change if lasts else None, hint=last is not None and last.strength >= 1
    )


def _trimmed(samples: tuple[PathSample, ...]) -> tuple[tuple[PathSample, ...], tuple[PathSample, ...]]:
    """The fewest of the newest that fill RECENT_S, and those before them."""
    seconds = 0.0
    for index in range(len(samples) - 1, -1, -1):
        seconds += samples[index].seconds
        if seconds >= RECENT_S:
            return samples[index:], samples[:index]
    return samples, ()


def _last(samples: tuple[PathSample, ...], seconds: float) -> tuple[PathSample, ...]:
    while len(samples) > 1 and sum(sample.seconds for sample in samples[1:]) >= seconds:
        samples = samples[1:]
    return samples


@dataclass(frozen=True, slots=True)
class _Channel:
    name: str
    effect: float
    levels: tuple[float | None, ...]


def _channels(samples: Sequence[PathSample], floor_s: float | None) -> list[_Channel]:
    queue_effect_s = max(_LEAST_QUEUE_EFFECT_S, _QUEUE_EFFECT * (floor_s or 0.0))
    return [
        _Channel("goodput", _GOODPUT_EFFECT, tuple(math.log(max(sample.goodput_bps, _LEAST_GOODPUT_BPS)) for sample in samples)),
        _Channel("least RTT", queue_effect_s, tuple(sample.rtt_low_s for sample in samples)),
        _Channel("highest RTT", queue_effect_s, tuple(sample.rtt_high_s for sample in samples)),
        _Channel("loss", _LOSS_EFFECT, tuple(sample.loss_ratio for sample in samples)),
    ]


def _is_known(reference: tuple[PathSample, ...]) -> bool:
    return sum(sample.seconds for sample in reference) >= LEAST_REFERENCE_S


def _compare(detector: ChangeDetector, reference: tuple[PathSample, ...], recent: tuple[PathSample, ...]) -> PathChange | None:
    """The strongest awaited step to `recent` from `reference`, or from ahead of the probe while that is short; None without either."""
    if _is_known(reference):
        return _step(detector, reference, reference, recent, 1.0)
    return _step(detector, detector.known, detector.usual, recent, _AFTER_A_LOOK)


def _step(
    detector: ChangeDetector, known: tuple[PathSample, ...], usual: tuple[PathSample, ...], recent: tuple[PathSample, ...], least: float
) -> PathChange | None:
    """From the level of `usual`, which differs from itself as much as `known` does; a strength of 1 is `least` thresholds."""
    if not (known and usual and recent):
        return None
    deviations = _DEVIATIONS * math.sqrt(max(1.0, _WELL_KNOWN_S / sum(sample.seconds for sample in known)))
    window_s = sum(sample.seconds for sample in recent)
    found: list[tuple[float, str]] = []
    channels = (_channels(samples, detector.floor_s) for samples in (known, usual, recent))
    for earlier, before, now in zip(*channels, strict=True):
        stretches = _stretches(known, earlier.levels, window_s)
        was, level = _mean(usual, before.levels), _mean(recent, now.levels)
        if was is None or level is None or len(stretches) < 2:
            continue
        threshold = least * max(before.effect, deviations * statistics.pstdev(stretches))
        way = "rose" if level > was else "fell"
        if (before.name, way) in detector.awaited:
            found.append((abs(level - was) / threshold, f"the {before.name} {way}"))
    if not found:
        return None
    strength, step = max(found)
    before_bps, now_bps = _goodput(usual), _goodput(recent)
    ratio = now_bps / before_bps if before_bps > 0 else 1.0
    return PathChange(strength, ratio, f"{step} ({now_bps / 1e6:.1f} Mb/s, before {before_bps / 1e6:.1f})")


def _stretches(samples: Sequence[PathSample], levels: Sequence[float | None], window_s: float) -> list[float]:
    """The means of all stretches that just fill `window_s`, which overlap."""
    means: list[float] = []
    seconds = known_s = total = 0.0
    first = 0
    for sample, level in zip(samples, levels, strict=True):
        seconds += sample.seconds
        if level is not None:
            known_s += sample.seconds
            total += level * sample.seconds
        # The oldest leaves as long as the rest still fills the window.
        while seconds - samples[first].seconds >= window_s - _ROUNDING_S:
            gone = levels[first]
            seconds -= samples[first].seconds
            if gone is not None:
                known_s -= samples[first].seconds
                total -= gone * samples[first].seconds
            first += 1
        if seconds >= window_s - _ROUNDING_S and known_s > _ROUNDING_S:
            means.append(total / known_s)
    return means


def _mean(samples: Sequence[PathSample], levels: Sequence[float | None]) -> float | None:
    known = [(sample.seconds, level) for sample, level in zip(samples, levels, strict=True) if level is not None]
    seconds = math.fsum(length for length, _ in known)
    return math.fsum(length * level for length, level in known) / seconds if seconds > 0 else None


def _goodput(samples: Sequence[PathSample]) -> float:
    seconds = math.fsum(sample.seconds for sample in samples)
    return math.fsum(sample.goodput_bps * sample.seconds for sample in samples) / seconds if seconds > 0 else 0.0
