"""The vector that models are trained on. A change of what is computed is a new `VERSION`: models of another one are refused."""

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features import distribution, loss, sawtooth, spectrum
from fairlead_advisor.features.series import GRID_HZ, SMALLEST_SPREAD_MS, Series, Window, resample

VERSION = 2


def extract(window: Window, rate_hz: float = GRID_HZ) -> npt.NDArray[np.float32]:
    """The features of `window` in the order of `NAMES`, finite float32 of shape (len(NAMES),).

    Raises TraceError if too few requests were answered. `rate_hz` is the grid's; only ablations change it.
    """
    described = describe(resample(window, rate_hz))
    return np.nan_to_num(np.fromiter(described.values(), dtype=np.float32, count=len(described)), nan=0.0, posinf=1e6, neginf=-1e6)


def describe(series: Series) -> dict[str, float]:
    """The features of `series` by name; the keys and their order are the same for every series."""
    return distribution.describe(series) | spectrum.describe(series) | sawtooth.describe(series) | loss.describe(series)


def _names() -> tuple[str, ...]:
    times_s = np.arange(round(5 * GRID_HZ)) / GRID_HZ
    ramp = Window(times_s, 10 + times_s, 5.0)
    return tuple(describe(resample(ramp)))


NAMES = _names()
_LOG_SPREAD_MS, _LEVEL_P95 = NAMES.index("log_spread_ms"), NAMES.index("level_p95")


def queue_range_ms(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How far (ms) the queue of each row's window rises from its 1st to its 95th percentile; `features` has shape (n, len(NAMES)).

    Spreads below SMALLEST_SPREAD_MS count as that.
    """
    return features[:, _LEVEL_P95] * np.maximum(10 ** features[:, _LOG_SPREAD_MS], np.float32(SMALLEST_SPREAD_MS))
