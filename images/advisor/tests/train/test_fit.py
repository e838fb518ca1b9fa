import hashlib

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairlead_advisor.errors import DataError
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.metadata import ModelMetadata
from fairlead_advisor.models.model import load
from fairlead_advisor.train.candidates import CANDIDATES, blend
from fairlead_advisor.train.fit import Fitted, balance, fit
from fairlead_advisor.train.novelty import fit_novelty
from fairlead_advisor.train.onnx_graph import build, largest_difference, versions
from fairlead_advisor.train.windows import Table

SMALL = {
    "boosting": lambda seed: LGBMClassifier(
        n_estimators=8, min_child_samples=5, random_state=seed, n_jobs=1, deterministic=True, verbose=-1
    ),
    "linear": CANDIDATES["linear"],
}


def table(rows: int = 360, seed: int = 0) -> Table:
    chance = np.random.default_rng(seed)
    truth = np.arange(rows) % 6
    features = chance.normal(size=(rows, len(NAMES)))
    features[:, :6] += 2.5 * np.eye(6)[truth]
    # Neighbours among the float32, so that the threshold between them is one of neither: to round it is to lose the difference.
    lower = np.float32(0.1) + np.arange(6) * np.float32(2**-27)
    upper = np.nextafter(lower.astype(np.float32), np.float32(1))
    features[:, 6:12] = np.where(np.eye(6)[truth] + chance.random((rows, 6)) > 0.8, upper, lower.astype(np.float32))
    return Table(features.astype(np.float32), truth.astype(np.intp), np.arange(rows), np.full(rows, 10.0))


def groups(rows: int = 360) -> list[str]:
    return [f"path{row % 7}" for row in range(rows)]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit(table(), groups(), 1, lambda _line: None, SMALL)


def test_a_fit_does_not_depend_on_the_number_of_processes() -> None:
    quick = {name: CANDIDATES[name] for name in ("linear", "network")}
    alone, together = (fit(table(), groups(), 1, lambda _line: None, quick, jobs=jobs) for jobs in (1, 2))
    assert together.validation == alone.validation
    assert np.array_equal(together.predict(table().features)[0], alone.predict(table().features)[0])


def exported(found: Fitted) -> bytes:
    metadata = ModelMetadata("background", "0.0.0", (10.0,), found.minimum_confidence, found.maximum_novelty, "ab", versions())
    return build(found.estimators, found.weights, found.temperature, found.novelty, metadata)


def test_what_was_learnt_holds_for_other_rows_and_is_calibrated(fitted: Fitted) -> None:
    other = table(seed=1)
    probabilities, _ = fitted.predict(other.features)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(360))
    right = probabilities.argmax(axis=1) == other.truth
    assert right.mean() > 0.75
    assert probabilities.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.1)
    assert 0.6 <= fitted.minimum_confidence <= 0.95


@pytest.mark.parametrize(
    "weights", [{"boosting": 1.0}, {"network": 1.0}, {"linear": 1.0}, {"boosting": 0.5, "network": 0.25, "linear": 0.25}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_candidate_says_the_same_in_onnx(weights: dict[str, float]) -> None:
    rows = table()
    makers = SMALL | {"network": CANDIDATES["network"]}
    estimators = {name: makers[name](1).fit(rows.features, rows.truth) for name in weights}
    novelty = fit_novelty(rows.features, rows.truth)
    metadata = ModelMetadata("background", "0.0.0", (10.0,), 0.6, 4.0, "ab", versions())
    content = build(estimators, weights, 1.4, novelty, metadata)
    model = load(content, hashlib.sha256(content).hexdigest())
    assert model.metadata == metadata
    trials = np.concatenate([rows.features, table(seed=2).features, 3 * table(seed=3).features])
    probabilities, score = model.predict(trials)
    expected = blend({name: estimator.predict_proba(trials) for name, estimator in estimators.items()}, weights, 1.4)
    assert largest_difference(probabilities, expected) < 1e-5
    np.testing.assert_allclose(score, novelty.score(trials), rtol=1e-4, atol=1e-5)


def test_the_same_data_and_seed_give_the_same_model_bit_for_bit(fitted: Fitted) -> None:
    assert exported(fit(table(), groups(), 1, lambda _line: None, SMALL)) == exported(fitted)


def test_what_is_far_from_everything_seen_is_novel(fitted: Fitted) -> None:
    rows = table(seed=4).features
    _, near = fitted.predict(rows)
    _, far = fitted.predict(rows + 4)
    assert np.mean(near <= fitted.maximum_novelty) > 0.95
    assert np.mean(far <= fitted.maximum_novelty) < 0.05


def test_the_weights_give_each_group_and_class_the_same_say() -> None:
    rows = table(60).where(np.arange(40))
    names = ["long"] * 30 + ["short"] * 10
    weights = balance(rows, names)
    long, short = weights[:30].sum(), weights[30:].sum()
    assert long / short == pytest.approx(6 / 6, rel=0.01)


def test_a_missing_class_or_length_is_refused() -> None:
    rows = table()
    with pytest.raises(DataError, match=r"no usable window of the class\(es\) B1-C0, C1-C1"):
        fit(rows.where(~np.isin(rows.truth, (2, 5))), groups(), 1, lambda _line: None, SMALL)
    short = Table(rows.features, rows.truth, rows.run, np.full(len(rows), 5.0))
    with pytest.raises(DataError, match="no usable window of 10 s"):
        fit(short, groups(), 1, lambda _line: None, SMALL)
    # Each class on a path of its own: no fold could be trained on all classes.
    with pytest.raises(DataError, match=r"the class\(es\) B.* were recorded on too few paths"):
        fit(rows, [f"path{number}" for number in rows.truth], 1, lambda _line: None, SMALL)
