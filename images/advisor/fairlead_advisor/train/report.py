"""The report of a model: figures as JSON, and the card made of them."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_advisor.assess.metrics import Scores, report, scores_of_answers
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.classifier import answers_of
from fairlead_advisor.models.model import Model
from fairlead_advisor.train.data import Dataset, DatasetRun
from fairlead_advisor.train.fit import REFERENCE_WINDOW_S, Fitted
from fairlead_advisor.train.windows import Table

HEADLINE = ("macro_f1", "accuracy", "any_bbr_accuracy", "any_bbr_accuracy_at_80_percent", "expected_calibration_error", "coverage")

# Regions of the path by the index of a test bed; one's own traces have none.
_REGIONS = {"rtt_ms": (0, 20, 50, 100, 1000), "rate_bps": (0, 50e6, 120e6, 300e6, 1e12), "queue_bdp": (0, 0.5, 1, 2, 100)}

_PURPOSE = (
    "## What it is for",
    "Tells from 10 s of echo round-trip times (5 s or more, 10 Hz or more) which of six kinds of background traffic shares",
    "a path's bottleneck, so that a bulk transfer can choose a congestion control that is fast and fair there. It is not for",
    "accounting, policing, or telling who sends. It abstains when it is unsure or when a path is unlike those it was trained on;",
    "no decision must rest on an abstained answer.",
)
_LIMITS = (
    "## Limits",
    "- It was measured on the paths and kinds of traffic named above. Other algorithms (BBRv2 and v3, LEDBAT, QUIC stacks of their",
    "  own), active queue management, several bottlenecks in a row, links whose rate changes (radio) and the transfer's own load",
    "  are not among them.",
    "- The base RTT is the window's own minimum: where the queue never empties within the window, it is taken for longer than it is.",
    "- Novelty is a distance in feature space. It finds what is far from everything seen, not everything that is different.",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """All that a report is made of."""

    dataset: Dataset
    groups: str
    windows: int
    fitted: Fitted
    model: Model
    tests: Mapping[str, tuple[Sequence[DatasetRun], Table]]
    difference: float
    seed: int


def as_json(figures: Figures) -> dict[str, Any]:
    """The report; no clock and no machine in it, so that the same data and seed give the same text."""
    metadata, fitted = figures.model.metadata, figures.fitted
    return {
        "version": 1,
        "model": {
            "name": metadata.name,
            "version": metadata.version,
            "sha256": figures.model.sha256,
            "bytes": figures.model.bytes,
            "opsets": {domain or "ai.onnx": version for domain, version in figures.model.opsets.items()},
            "made_with": metadata.made_with,
            "feature_version": metadata.feature_version,
            "blend": dict(fitted.weights),
            "temperature": fitted.temperature,
            "minimum_confidence": metadata.minimum_confidence,
            "maximum_novelty": metadata.maximum_novelty,
            "largest_difference_to_framework": figures.difference,
            "seed": figures.seed,
        },
        "data": {
            "sha256": figures.dataset.sha256,
            "training_windows": figures.windows,
            "runs": dict(Counter(run.split for run in figures.dataset.runs)),
            "paths": {
                split: len({run.path for run in figures.dataset.runs if run.split == split})
                for split in sorted({run.split for run in figures.dataset.runs})
            },
        },
        "window_s": REFERENCE_WINDOW_S,
        "held_out_by": figures.groups,
        "validation": fitted.validation,
        "tests": {name: score(figures.model, table) for name, (_, table) in figures.tests.items()},
        "regions": {name: _by_region(figures.model, runs, table) for name, (runs, table) in figures.tests.items()},
        "importances": _importances(fitted),
    }


def score(model: Model, table: Table) -> dict[str, object]:
    """The figures of `model`, with its own limits, over a table."""
    return report(scores_of(model, table))


def scores_of(model: Model, table: Table) -> Scores:
    """What `model` answers for each row of a table."""
    return scores_of_answers(answers_of(model, table.features), table.truth)


def headline(figures: Any) -> dict[str, Any]:
    """The figures that fit on a line."""
    return {name: figures[name] for name in HEADLINE}


def sha256_of(content: bytes) -> str:
    """The digest of a model."""
    return hashlib.sha256(content).hexdigest()


def _by_region(model: Model, runs: Sequence[DatasetRun], table: Table) -> dict[str, dict[str, Any]]:
    body: dict[str, dict[str, Any]] = {}
    scores = scores_of(model, table)
    for name, edges in _REGIONS.items():
        values = _values(runs, name)
        if values is None:
            continue
        body[name] = {}
        for low, high in itertools.pairwise(edges):
            here = ((values >= low) & (values < high))[table.run]
            if here.any():
                part = report(Scores(scores.probabilities[here], scores.truth[here], scores.relied_on[here]))
                body[name][f"{low:g}-{high:g}"] = {"windows": int(here.sum())} | headline(part)
    return body


def _values(runs: Sequence[DatasetRun], name: str) -> npt.NDArray[np.float64] | None:
    try:
        return np.array([float(run.about[name]) for run in runs])
    except (KeyError, TypeError, ValueError):
        return None


def _importances(fitted: Fitted) -> dict[str, float]:
    """The share of the boosted trees' gain that each feature brings, the largest first; empty without trees."""
    booster = fitted.estimators.get("boosting")
    if booster is None:
        return {}
    gain = booster.booster_.feature_importance("gain")
    order = np.argsort(-gain, kind="stable")
    return {NAMES[index]: round(float(gain[index] / gain.sum()), 5) for index in order}


def as_card(body: Mapping[str, Any]) -> str:
    """The model card in Markdown, from the report alone."""
    model, data = body["model"], body["data"]
    blend = " and ".join(f"{name} ({weight:g})" for name, weight in model["blend"].items())
    opsets = ", ".join(f"{domain} {version}" for domain, version in model["opsets"].items())
    made_with = ", ".join(f"{name} {version}" for name, version in model["made_with"].items())
    lines = [
        f"# Model card: {model['name']} {model['version']}",
        "",
        *_PURPOSE,
        "",
        "## What it is",
        f"A blend of {blend}, calibrated by temperature {model['temperature']:.3f}, over {len(NAMES)} features",
        f"of version {model['feature_version']}. ONNX, {model['bytes']} bytes, operator sets {opsets}; made with {made_with},",
        f"seed {model['seed']}. SHA-256 `{model['sha256']}`.",
        f"Largest difference to the training framework: {model['largest_difference_to_framework']:.1e}.",
        f"It answers from a confidence of {model['minimum_confidence']:g} in *any BBR*, up to a novelty of {model['maximum_novelty']:.3g}.",
        "",
        "## What it was trained on",
        f"{data['training_windows']} windows; runs {_counted(data['runs'])}; paths {_counted(data['paths'])};",
        f"data SHA-256 `{data['sha256']}`.",
        "",
        f"## How well it does, windows of {body['window_s']:g} s",
        *_figures_table({f"validation, held out by {body['held_out_by']}": body["validation"]["chosen"]} | dict(body["tests"])),
        *_sections(body["tests"] or {"validation": body["validation"]["chosen"]}),
        *_regions(body["regions"]),
        "",
        *_LIMITS,
    ]
    return "\n".join(lines) + "\n"


def _figures_table(rows: Mapping[str, Any]) -> list[str]:
    table = [
        "| set | macro F1 | accuracy | any BBR | any BBR at 80 % coverage | calibration error | coverage |",
        "|---|---|---|---|---|---|---|",
    ]
    table += [f"| {name} | " + " | ".join(_number(figure[key]) for key in HEADLINE) + " |" for name, figure in rows.items()]
    return table


def _sections(tests: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, figure in tests.items():
        lines += ["", f"### {name}: by class, and what is taken for what (rows true, columns answered)"]
        lines += ["| class | precision | recall | F1 | " + " | ".join(CLASSES) + " |", "|---|---|---|---|" + "---|" * len(CLASSES)]
        for row, class_name in enumerate(CLASSES):
            of_class = figure["per_class"][class_name]
            cells = [_number(of_class[key]) for key in ("precision", "recall", "f1")] + [str(count) for count in figure["confusion"][row]]
            lines.append(f"| {class_name} | " + " | ".join(cells) + " |")
    return lines


def _regions(regions: Mapping[str, Any]) -> list[str]:
    lines = []
    for test, by_name in regions.items():
        for name, by_range in by_name.items():
            lines += ["", f"### {test}: by {name}", f"| {name} | windows | macro F1 | any BBR |", "|---|---|---|---|"]
            lines += [
                f"| {bounds} | {figure['windows']} | {_number(figure['macro_f1'])} | {_number(figure['any_bbr_accuracy'])} |"
                for bounds, figure in by_range.items()
            ]
    return lines


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}"


def _counted(counts: Mapping[str, int]) -> str:

    return ", ".join(f"{name} {count}" for name, count in counts.items())
