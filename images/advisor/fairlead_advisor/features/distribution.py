"""For how long the queue has which height, and how it moves from one moment to the next."""

import numpy as np

from fairlead_advisor.features.series import Floats, Series, median, quantiles

_QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
_BINS = 20
_SECONDS = (0.05, 0.25, 1.0)
_BASE_RTTS = (1, 2, 4)


def describe(series: Series) -> dict[str, float]:
    """Scale, quantiles, moments, time at the edges, and the steps over some lags."""
    level = series.level
    described = {
        "log_spread_ms": _log(series.spread_ms, 0.01),
        "log_spread_over_base": _log(series.spread_ms / series.base_ms, 1e-4),
        "log_median_queue_over_base": _log(series.median_ms / series.base_ms - 1, 1e-4),
        "log_median_queue_ms": _log(series.median_ms - series.base_ms, 0.01),
    }
    described |= {f"level_p{100 * share:g}": value for share, value in zip(_QUANTILES, quantiles(level, _QUANTILES), strict=True)}
    described |= _moments("level", level)
    for edge in (0.1, 0.25):
        described[f"time_low_{edge:g}"] = float(np.mean(level < edge))
        described[f"time_high_{edge:g}"] = float(np.mean(level > 1 - edge))
    counts = np.bincount(np.clip(level * _BINS, 0, _BINS - 1).astype(np.intp), minlength=_BINS) / len(level)
    described["level_entropy"] = _entropy(counts)
    described["level_mode_share"] = float(counts.max())
    described["level_mode"] = float((counts.argmax() + 0.5) / len(counts))
    for seconds in _SECONDS:
        described |= _steps(f"{seconds:g}s", level, round(seconds * series.rate_hz))
    for count in _BASE_RTTS:
        described |= _steps(f"{count}rtt", level, round(count * series.base_samples))
    noise_ms = median(np.abs(np.diff(series.queue_ms, 2)))
    described["log_noise_ms"] = _log(noise_ms, 0.005)
    described["noise_over_spread"] = noise_ms / max(series.spread_ms, 1e-3)
    return described


def _steps(name: str, level: Floats, lag: int) -> dict[str, float]:
    lag = min(max(lag, 1), len(level) // 2)
    step = level[lag:] - level[:-lag]
    low, high = quantiles(step, (0.02, 0.98))
    return {
        f"step_{name}_std": float(step.std()),
        f"step_{name}_fall": -low,
        f"step_{name}_rise": high,
        f"step_{name}_asymmetry": (-low - high) / (high - low + 1e-6),
        f"step_{name}_up_share": float(np.mean(step > 0)),
    }


def _moments(name: str, values: Floats) -> dict[str, float]:
    mean, std = float(values.mean()), float(values.std())
    scaled = (values - mean) / max(std, 1e-6)
    return {
        f"{name}_mean": mean,
        f"{name}_std": std,
        f"{name}_skewness": float(np.clip(np.mean(scaled**3), -20, 20)),
        f"{name}_log_kurtosis": _log(float(np.mean(scaled**4)), 0.1),
    }


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0]
    return float(-np.sum(positive * np.log(positive)) / np.log(len(shares)))


def _log(value: float, smallest: float) -> float:
    return float(np.log10(max(value, smallest)))
