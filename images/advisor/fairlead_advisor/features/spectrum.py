"""Periods in the queueing delay.

BBRv1 raises its rate for one RTT in eight [Cardwell 2016, "Steady-State Behavior"]; CUBIC's sawtooth takes seconds. Each frequency is
given in hertz and in cycles per base RTT: the second is a property of the algorithm on any path.
"""

import itertools

import numpy as np

from fairlead_advisor.features.series import Floats, Series

_HERTZ = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
_CYCLES_PER_RTT = (0.0, 1 / 64, 1 / 32, 1 / 16, 1 / 10.5, 1 / 6.5, 1 / 4, 1 / 2)
_LAGS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
_LAGS_RTT = (2, 4, 6, 8, 10, 12, 16, 24)
_BBR_CYCLE_RTT = 8


def describe(series: Series) -> dict[str, float]:
    """Shares of power in bands, the strongest line, and the autocorrelation at lags of seconds and of RTTs."""
    detrended = _detrend(series.level)
    power, hertz = _periodogram(detrended, series.rate_hz)
    base_s, median_s = series.base_ms / 1000, series.median_ms / 1000
    described: dict[str, float] = {}
    for low, high in itertools.pairwise(_HERTZ):
        described[f"power_{low:g}_{high:g}hz"] = _share(power, hertz, low, high)
    for low, high in itertools.pairwise(_CYCLES_PER_RTT):
        described[f"power_{low:.3f}_{high:.3f}_per_rtt"] = _share(power, hertz * base_s, low, high)
    strongest = int(power[1:].argmax()) + 1
    described["line_log_hz"] = float(np.log10(hertz[strongest]))
    described["line_log_per_rtt"] = float(np.log10(hertz[strongest] * base_s))
    described["line_share"] = float(power[max(strongest - 1, 0) : strongest + 2].sum())
    described["spectral_entropy"] = _entropy(power[1:])
    described["spectral_centroid_log_hz"] = float(np.log10(np.sum(power * hertz) + 1e-3))
    for name, rtt_s in (("base", base_s), ("median", median_s)):
        described[f"cycle_line_{name}"] = _line_excess(power, hertz * rtt_s * _BBR_CYCLE_RTT)
    described |= _autocorrelation(detrended, series, base_s, median_s)
    return described


def _autocorrelation(values: Floats, series: Series, base_s: float, median_s: float) -> dict[str, float]:
    spectrum = np.fft.rfft(values, 2 * len(values))
    products = np.fft.irfft(np.abs(spectrum) ** 2)[: len(values)]
    # Unbiased: a lag of half the window has half the pairs.
    correlation = products / np.arange(len(values), 0, -1) * (len(values) / max(products[0], 1e-9))
    usable = correlation[: max(2, len(values) // 2)]
    at = np.arange(len(usable)) / series.rate_hz

    def read(lag_s: float) -> float:
        return float(np.clip(np.interp(lag_s, at, usable), -1, 1))

    described = {f"correlation_{lag:g}s": read(lag) for lag in _LAGS_S}
    described |= {f"correlation_{lag}rtt": read(lag * base_s) for lag in _LAGS_RTT}
    for name, rtt_s in (("base", base_s), ("median", median_s)):
        cycle = read(_BBR_CYCLE_RTT * rtt_s)
        described[f"cycle_contrast_{name}"] = cycle - 0.5 * (read(5 * rtt_s) + read(11 * rtt_s))
    first_zero = int(np.argmax(usable <= 0)) if (usable <= 0).any() else len(usable)
    described["decorrelation_log_s"] = float(np.log10(max(first_zero, 1) / series.rate_hz))
    described["decorrelation_log_rtt"] = float(np.log10(max(first_zero, 1) / max(series.base_samples, 1e-3)))
    beyond = usable[first_zero:]
    peak = int(beyond.argmax()) + first_zero if len(beyond) else first_zero
    described["period_correlation"] = float(np.clip(beyond.max(), -1, 1)) if len(beyond) else 0.0
    described["period_log_s"] = float(np.log10(max(peak, 1) / series.rate_hz))
    described["period_log_rtt"] = float(np.log10(max(peak, 1) / max(series.base_samples, 1e-3)))
    return described


def _detrend(values: Floats) -> Floats:
    time = np.arange(len(values)) * (2 / (len(values) - 1)) - 1
    return np.asarray(values - values.mean() - time * (np.dot(time, values) / np.dot(time, time)))


def _periodogram(values: Floats, rate_hz: float) -> tuple[Floats, Floats]:
    power = np.abs(np.fft.rfft(values * np.hanning(len(values)))) ** 2
    return power / max(float(power.sum()), 1e-12), np.asarray(np.fft.rfftfreq(len(values), 1 / rate_hz), dtype=np.float64)


def _share(power: Floats, frequency: Floats, low: float, high: float) -> float:
    return float(power[(frequency >= low) & (frequency < high)].sum())


def _line_excess(power: Floats, cycles: Floats) -> float:
    """How far the power around one cycle stands out of that beside it; `cycles` are cycles per BBR gain cycle."""
    inside, around = (cycles > 0.8) & (cycles < 1.25), (cycles > 0.4) & (cycles < 1.9)
    beside = around & ~inside
    if not inside.any() or not beside.any():
        return 0.0
    return float(np.log10((power[inside].mean() + 1e-6) / (power[beside].mean() + 1e-6)))


def _entropy(power: Floats) -> float:
    shares = power / max(float(power.sum()), 1e-12)
    positive = shares[shares > 0]
    return float(-np.sum(positive * np.log(positive)) / np.log(len(shares)))
