"""A first step with the path's rate as a feature: trained with a data set's known rates, asked with the rates that trains measured."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead_advisor.train.candidates import boosting
from fairlead_advisor.train.data import DatasetRun
from fairlead_advisor.train.fit import balance
from fairlead_advisor.train.run import TRAINING_CUTTINGS
from fairlead_advisor.train.windows import Table, tabulate
from fairlead_dev.bench.classifier.active.bursts import WINDOW_S, BurstSamples
from fairlead_dev.bench.classifier.active.response import in_packets

Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


def with_rate(features: Features, seconds: Floats, rate_bps: Floats) -> Features:
    """`features` and what the rate makes of them, a row for each."""
    rows = [
        list(in_packets(row, float(length_s), float(rate)).values())
        for row, length_s, rate in zip(features, seconds, rate_bps, strict=True)
    ]
    return np.hstack([features, np.array(rows, dtype=np.float32)])


def answers(runs: Sequence[DatasetRun], looks: BurstSamples, seeds: Sequence[int], jobs: int = 1) -> tuple[list[Floats], list[Floats]]:
    """Probabilities for `looks` without and with the rate, for every seed, learnt from `runs`.

    Rates in training are blurred by what trains are off by, so that none is taken for exact. Where trains said nothing the median stands.
    """
    known_bps = np.where(np.isfinite(looks.rate_bps), looks.rate_bps, np.nanmedian(looks.rate_bps))
    relative_error = float(np.nanmedian(looks.rate_errors()))
    asked = with_rate(looks.passive, np.full(len(looks.passive), WINDOW_S), known_bps)
    table = tabulate(runs, TRAINING_CUTTINGS, jobs)
    weights = balance(table, [runs[number].path for number in table.run])
    without, rated = [], []
    for seed in seeds:
        blur = np.exp(relative_error * np.random.default_rng(seed).standard_normal(len(table)))
        known = with_rate(table.features, table.seconds, _rates(runs, table) * blur)
        without.append(_probabilities(boosting(seed).fit(table.features, table.truth, sample_weight=weights), looks.passive))
        rated.append(_probabilities(boosting(seed).fit(known, table.truth, sample_weight=weights), asked))
    return without, rated


def _rates(runs: Sequence[DatasetRun], table: Table) -> Floats:
    return np.array([runs[number].about["rate_bps"] for number in table.run], dtype=np.float64)


def _probabilities(fitted: object, features: Features) -> Floats:
    return np.asarray(fitted.predict_proba(features), dtype=np.float64)  # type: ignore[attr-defined]
