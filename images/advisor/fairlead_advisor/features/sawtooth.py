"""Events: falls after a loss (CUBIC), short dips to an empty queue (BBR's ProbeRTT, 200 ms every 10 s), pulses of BBR's probing."""

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.series import Floats, Series, median, quantiles

_FALL = 0.2
_DIP = 0.2
_BEFORE_DIP = 0.4


def describe(series: Series) -> dict[str, float]:
    """Falls with their spacing and levels, the rise between them, dips, and runs above and below the middle."""
    smooth = _median_of_three(series.level)
    return _falls(smooth, series) | _dips(smooth, series) | _runs(smooth, series)


def _falls(level: Floats, series: Series) -> dict[str, float]:
    lag = int(np.clip(round(1.5 * series.base_samples), 2, len(level) // 4))
    falls = level[:-lag] - level[lag:]
    starts = _peaks(falls, _FALL, lag)
    depths = falls[starts]
    gaps = np.diff(starts) / series.rate_hz
    per_second = len(starts) / series.seconds
    largest_rise, largest_fall = quantiles(falls, (0.02, 0.98))
    described = {
        "falls_per_s": per_second,
        "falls_log_per_rtt": float(np.log10(per_second * series.base_ms / 1000 + 1e-3)),
        "fall_depth_median": median(depths) if len(starts) else 0.0,
        "fall_depth_maximum": float(falls.max()),
        "fall_over_rise": float(np.log10((max(largest_fall, 0.0) + 0.02) / (max(-largest_rise, 0.0) + 0.02))),
        "fall_from_mean": float(level[starts].mean()) if len(starts) else 0.0,
        "fall_from_std": float(level[starts].std()) if len(starts) > 1 else 0.5,
        "fall_to_mean": float(level[starts + lag].mean()) if len(starts) else 0.0,
        "fall_gap_variation": float(gaps.std() / gaps.mean()) if len(gaps) > 1 else -0.5,
        "fall_gap_log_s": float(np.log10(median(gaps))) if len(gaps) else 1.5,
        "fall_gap_log_rtt": float(np.log10(median(gaps) / (series.base_ms / 1000))) if len(gaps) else 4.0,
    }
    edges = np.concatenate(([0], starts + lag, [len(level)]))
    longest = int(np.argmax(np.diff(edges)))
    return described | _rise(level[edges[longest] : edges[longest + 1]], len(level))


def _rise(segment: Floats, length: int) -> dict[str, float]:
    """A parabola through the longest stretch without a fall: CUBIC's is smooth and bent, BBR's flat and rough."""
    if len(segment) < 8:
        return {"rise_share": len(segment) / length, "rise_slope": 0.0, "rise_bend": 0.0, "rise_roughness": 0.0}
    time = np.arange(len(segment)) * (2 / (len(segment) - 1)) - 1
    # Orthogonal on these points, so that each coefficient is a projection of its own.
    square = time**2
    square -= square.mean()
    slope, bend = float(time @ segment / (time @ time)), float(square @ segment / (square @ square))
    return {
        "rise_share": len(segment) / length,
        "rise_slope": slope,
        "rise_bend": bend,
        "rise_roughness": float((segment - slope * time - bend * square).std()),
    }


def _dips(level: Floats, series: Series) -> dict[str, float]:
    lengths, starts = _runs_of(level < _DIP)
    shortest, longest = 0.1 * series.rate_hz, (1.0 + 2 * series.base_ms / 1000) * series.rate_hz
    reach = max(2, round((0.5 + series.base_ms / 1000) * series.rate_hz))
    found: list[tuple[float, float, float]] = []
    for start, length in zip(starts, lengths, strict=True):
        before, after = level[max(0, start - reach) : start], level[start + length : start + length + reach]
        inside_window = len(before) and len(after)
        if inside_window and shortest <= length <= longest and before.max() > _BEFORE_DIP and after.max() > _BEFORE_DIP:
            found.append((length / series.rate_hz, median(before), float(before.max())))
    return {
        "dips": float(len(found)),
        "dips_per_s": len(found) / series.seconds,
        "dip_s": max((length for length, _, _ in found), default=0.0),
        "dip_from": max((median for _, median, _ in found), default=0.0),
        "time_low_in_dips": sum(length for length, _, _ in found) / max(float(np.mean(level < _DIP)) * series.seconds, 0.05),
    }


def _runs(level: Floats, series: Series) -> dict[str, float]:
    middle = 0.5 * sum(quantiles(level, (0.05, 0.95)))
    described: dict[str, float] = {}
    base_samples = max(series.base_samples, 1e-3)
    for name, flags in (("above", level > middle), ("below", level <= middle)):
        lengths, starts = _runs_of(flags)
        gaps = np.diff(starts)
        described[f"runs_{name}_per_s"] = len(lengths) / series.seconds
        described[f"run_{name}_log_rtt"] = float(np.log10(median(lengths.astype(np.float64)) / base_samples)) if len(lengths) else 0.0
        described[f"run_{name}_longest_share"] = float(lengths.max() / len(level)) if len(lengths) else 0.0
        described[f"run_{name}_gap_log_rtt"] = float(np.log10(median(gaps.astype(np.float64)) / base_samples)) if len(gaps) else 4.0
        described[f"run_{name}_gap_variation"] = float(gaps.std() / gaps.mean()) if len(gaps) > 1 else -0.5
    return described


def _peaks(values: Floats, threshold: float, apart: int) -> npt.NDArray[np.intp]:
    """Where `values` exceed `threshold`, the largest first, no two closer than `apart`."""
    taken = np.zeros(len(values), dtype=bool)
    chosen = []
    candidates = np.flatnonzero(values > threshold)
    for index in candidates[np.argsort(-values[candidates], kind="stable")]:
        if not taken[index]:
            chosen.append(index)
            taken[max(0, index - apart) : index + apart + 1] = True
    return np.array(sorted(chosen), dtype=np.intp)


def _runs_of(flags: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Lengths and starts of the runs of True."""
    edges = np.diff(np.concatenate(([0], flags.astype(np.int8), [0])))
    starts = np.flatnonzero(edges == 1)
    return np.flatnonzero(edges == -1) - starts, starts


def _median_of_three(values: Floats) -> Floats:
    padded = np.concatenate((values[:1], values, values[-1:]))
    first, second, third = padded[:-2], padded[1:-1], padded[2:]
    return np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third))
