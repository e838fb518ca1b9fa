"""Echo requests that were lost: a full drop-tail queue takes its share of the probe's packets too."""

import numpy as np

from fairlead_advisor.features.series import Series


def describe(series: Series) -> dict[str, float]:
    """The share of lost requests and how they come together."""
    lost = series.lost
    if not lost.any():
        return {"loss_ratio": 0.0, "loss_events_per_s": 0.0, "loss_longest": 0.0}
    edges = np.diff(np.concatenate(([0], lost.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return {
        "loss_ratio": float(lost.mean()),
        "loss_events_per_s": len(starts) / series.seconds,
        "loss_longest": float((ends - starts).max() / len(lost)),
    }
