"""The models that compete. Each takes float32 features and gives probabilities; all are small enough for an ONNX file of 2 MB."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# A probability of nought would rule a class out for ever in a blend of logarithms.
SMALLEST_PROBABILITY = 1e-6

Candidates: TypeAlias = Mapping[str, Callable[[int], Any]]


def boosting(seed: int) -> Any:
    """Gradient boosting over histograms; each split sees a third of the features, which keeps paths from being learnt by heart.

    LightGBM, because its fits take a third of the processor time of scikit-learn's and are the same bit for bit when asked to be.
    """
    return LGBMClassifier(
        learning_rate=0.06,
        n_estimators=240,
        num_leaves=20,
        min_child_samples=20,
        reg_lambda=5.0,
        feature_fraction_bynode=0.3,
        deterministic=True,
        force_col_wise=True,
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )


def network(seed: int) -> Any:
    """A small network over standardised features."""
    return make_pipeline(
        StandardScaler(), MLPClassifier((64, 32), alpha=0.3, batch_size=128, learning_rate_init=2e-3, max_iter=40, random_state=seed)
    )


def linear(seed: int) -> Any:
    """Multinomial logistic regression: what the features alone are worth."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500, random_state=seed))


CANDIDATES: Candidates = MappingProxyType({"boosting": boosting, "network": network, "linear": linear})


def blend(parts: Mapping[str, npt.NDArray[np.float64]], weights: Mapping[str, float], temperature: float) -> npt.NDArray[np.float64]:
    """Probabilities of shape (n, 6): the weighted geometric mean of those in `parts`, made softer (above 1) or sharper by `temperature`."""
    logits = sum(weight * np.log(np.maximum(parts[name], SMALLEST_PROBABILITY)) for name, weight in weights.items() if weight)
    scaled = np.asarray(logits) / temperature
    raised = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
