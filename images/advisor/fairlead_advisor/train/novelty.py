"""How far a window is from those seen in training: Mahalanobis distance to the nearest class [Lee 2018, eq. 2] over whitened features."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# One extreme feature counts for so much and no more: the distance is to measure the whole vector.
CLIP = 6.0
_KEPT_VARIANCE = 0.95


@dataclass(frozen=True, slots=True)
class Novelty:
    """Features are shifted and scaled, clipped at CLIP, projected (f, k), and compared with the class centres (c, k)."""

    centre: Floats
    scale: Floats
    projection: Floats
    class_centres: Floats

    def score(self, features: npt.NDArray[np.float32]) -> Floats:
        """The mean squared distance per dimension to the nearest class, shape (n,), for features of shape (n, f)."""
        standard = np.clip((features - self.centre) / self.scale, -CLIP, CLIP)
        apart = (standard @ self.projection)[:, None, :] - self.class_centres[None]
        return np.asarray((apart**2).mean(axis=2).min(axis=1))


def fit_novelty(features: npt.NDArray[np.float32], truth: npt.NDArray[np.intp]) -> Novelty:
    """The distance for these rows and their classes; the same for the same rows."""
    centre = features.mean(axis=0, dtype=np.float64)
    scale = np.maximum(features.std(axis=0, dtype=np.float64), 1e-6)
    standard = np.clip((features - centre) / scale, -CLIP, CLIP)
    classes = np.unique(truth)
    means = np.stack([standard[truth == number].mean(axis=0) for number in classes])
    within = standard - means[np.searchsorted(classes, truth)]
    variances, axes = np.linalg.eigh(within.T @ within / len(within))
    order = np.argsort(-variances, kind="stable")
    kept = int(np.searchsorted(np.cumsum(variances[order]) / variances.sum(), _KEPT_VARIANCE)) + 1
    chosen = order[:kept]
    projection = axes[:, chosen] / np.sqrt(variances[chosen])
    return Novelty(centre, scale, projection, means @ projection)
