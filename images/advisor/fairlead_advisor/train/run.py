"""The command `train`: from labelled traces to a model, its card, its report and the vectors that it is checked against."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead_advisor.errors import DataError, ModelError, OutputError
from fairlead_advisor.features.series import GRID_HZ
from fairlead_advisor.files import ensure_writable, write_atomically
from fairlead_advisor.models.location import MODEL_FILE
from fairlead_advisor.models.metadata import ModelMetadata
from fairlead_advisor.models.model import Model, load
from fairlead_advisor.models.release import CARD_FILE, GOLDEN_FILE, REPORT_FILE, TOLERANCE, digest_line
from fairlead_advisor.models.store import digest_file
from fairlead_advisor.train import report
from fairlead_advisor.train.data import TEST_SPLITS, TRAIN, Dataset, DatasetRun, load_datasets
from fairlead_advisor.train.fit import REFERENCE_WINDOW_S, Fitted, fit
from fairlead_advisor.train.onnx_graph import build, largest_difference, versions
from fairlead_advisor.train.validation import groups_of
from fairlead_advisor.train.windows import Cutting, Table, tabulate

NAME = "background"

# Windows overlap, and come in several lengths and rates, so that a model meets every phase of a cycle and every probe it may be used with.
TRAINING_CUTTINGS = (
    Cutting(5.0, 2.5, rate_hz=GRID_HZ),
    Cutting(10.0, 2.5, rate_hz=GRID_HZ),
    Cutting(10.0, 5.0),
    Cutting(10.0, 5.0, rate_hz=10.0),
    Cutting(20.0, 5.0, rate_hz=GRID_HZ),
)
TEST_CUTTING = Cutting(REFERENCE_WINDOW_S, REFERENCE_WINDOW_S)


@dataclass(frozen=True, slots=True)
class Order:
    """What to train on and where to; `seed` fixes every random choice, `jobs` processes compute features and validate.

    Of `whole_data` the tests are trained on too.
    """

    data: Sequence[Path]
    output: Path
    version: str
    whole_data: Sequence[Path] = ()
    seed: int = 1
    jobs: int = 1


def train(order: Order, tell: Callable[[str], None]) -> dict[str, object]:
    """Trains, exports, checks the export against the framework and writes everything; the summary for the command's output.

    Raises DataError or TraceError for data that cannot be used, OutputError if the output cannot be written, before the work begins.
    """
    _prepare(order.output)
    dataset = load_datasets(order.data, order.whole_data)
    runs = dataset.of_split(TRAIN)
    if not runs:
        raise DataError(f"{', '.join(map(str, (*order.data, *order.whole_data)))}: no run is of the split `train`")
    groups, kind = groups_of(runs)
    tell(f"{len(runs)} runs of {len({run.path for run in runs})} paths to train on; held out by {kind}")
    table = tabulate(runs, TRAINING_CUTTINGS, order.jobs)
    fitted = fit(table, [groups[number] for number in table.run], order.seed, tell, jobs=order.jobs)
    metadata = ModelMetadata(
        name=NAME,
        version=order.version,
        window_s=tuple(sorted({cutting.seconds for cutting in TRAINING_CUTTINGS})),
        minimum_confidence=fitted.minimum_confidence,
        maximum_novelty=fitted.maximum_novelty,
        data_sha256=dataset.sha256,
        made_with=versions(),
        trained_paths=tuple(sorted({run.path for run in runs})),
    )
    content = build(fitted.estimators, fitted.weights, fitted.temperature, fitted.novelty, metadata)
    model = load(content, report.sha256_of(content))
    tests = _test_tables(dataset, order.jobs)
    difference = _export_difference(model, fitted, [table, *(part for _, part in tests.values())])
    tell(f"{len(content)} bytes; largest difference between the exported model and the framework {difference:.1e}")
    figures = report.Figures(
        dataset=dataset,
        groups=kind,
        windows=len(table),
        fitted=fitted,
        model=model,
        tests=tests,
        difference=difference,
        seed=order.seed,
    )
    body = report.as_json(figures)
    golden = np.concatenate([part.features for _, part in tests.values()] or [table.where(table.seconds == REFERENCE_WINDOW_S).features])
    _write(order.output, content, body, golden, fitted)
    return {"model": str(order.output / MODEL_FILE), "sha256": model.sha256, "bytes": len(content), "largest_difference": difference} | {
        "validation": report.headline(fitted.validation["chosen"]),
        "tests": {name: report.headline(figure) for name, figure in body["tests"].items()},
    }


def _prepare(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{output}: the directory cannot be made: {error.strerror}") from None
    ensure_writable(output / MODEL_FILE)


def _test_tables(dataset: Dataset, jobs: int) -> dict[str, tuple[list[DatasetRun], Table]]:
    tests = {}
    for split in TEST_SPLITS:
        runs = dataset.of_split(split)
        table = tabulate(runs, (TEST_CUTTING,), jobs)
        if len(table):
            tests[split] = (runs, table)
    return tests


def _export_difference(model: Model, fitted: Fitted, tables: list[Table]) -> float:
    largest = 0.0
    for table in tables:
        framework, exported = fitted.predict(table.features), model.predict(table.features)
        # Novelty is a sum of squares without a bound, so that its difference is taken relative to it.
        novelty = largest_difference(exported[1] / np.maximum(framework[1], 1), framework[1] / np.maximum(framework[1], 1))
        largest = max(largest, largest_difference(exported[0], framework[0]), novelty)
    if largest > TOLERANCE:
        raise ModelError(f"the exported model differs from the framework by {largest:.1e}, more than {TOLERANCE:g}: nothing was written")
    return largest


def _write(
    output: Path, content: bytes, body: dict[str, object], golden: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", fitted: Fitted
) -> None:
    probabilities, novelty = fitted.predict(golden)
    vectors = io.BytesIO()
    np.savez_compressed(vectors, features=golden, probabilities=probabilities, novelty=novelty)
    write_atomically(output / GOLDEN_FILE, vectors.getvalue())
    write_atomically(output / REPORT_FILE, (json.dumps(body, indent=1) + "\n").encode())
    write_atomically(output / CARD_FILE, report.as_card(body).encode())
    write_atomically(output / MODEL_FILE, content)
    # Last, so that a model without it is one that was not finished.
    write_atomically(digest_file(output / MODEL_FILE), digest_line(content))
