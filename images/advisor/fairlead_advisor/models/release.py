"""The command `export`: from what `train` has written to a release folder that is never changed again. Needs no training package."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from fairlead_advisor.errors import ModelError, OutputError
from fairlead_advisor.files import write_atomically
from fairlead_advisor.models.location import MODEL_FILE
from fairlead_advisor.models.model import Model
from fairlead_advisor.models.store import digest_file, find_model

GOLDEN_FILE = "golden.npz"
REPORT_FILE = "report.json"
CARD_FILE = "card.md"
METADATA_FILE = "metadata.json"
TOLERANCE = 1e-5

_KEPT_VECTORS = 96
_LARGEST_FILE_BYTES = 64 * 1024**2


def release(trained: Path, releases: Path) -> dict[str, object]:
    """Checks the model in `trained` against its golden vectors, with the runtime alone, and copies it to `releases`/NAME-VERSION.

    Raises ModelError if the model is not what it was trained to be, OutputError if that release exists already.
    """
    model = find_model(trained / MODEL_FILE)
    golden = _golden(trained / GOLDEN_FILE)
    difference = replay(model, golden)
    if difference > TOLERANCE:
        raise ModelError(f"{trained}: differs from its golden vectors by {difference:.1e}, more than {TOLERANCE:g}: train it again")
    target = releases / f"{model.metadata.name}-{model.metadata.version}"
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise OutputError(f"{target}: exists, and a release is never changed: train with another --version") from None
    except OSError as error:
        raise OutputError(f"{target}: cannot be made: {error.strerror}") from None
    content = (trained / MODEL_FILE).read_bytes()
    kept = np.linspace(0, len(golden["features"]) - 1, min(_KEPT_VECTORS, len(golden["features"]))).astype(np.intp)
    vectors = io.BytesIO()
    np.savez_compressed(vectors, allow_pickle=False, **{name: rows[kept] for name, rows in golden.items()})
    about = {
        "name": model.metadata.name,
        "version": model.metadata.version,
        "sha256": model.sha256,
        "bytes": model.bytes,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "made_with": model.metadata.made_with,
        "data_sha256": model.metadata.data_sha256,
        "feature_version": model.metadata.feature_version,
        "minimum_confidence": model.metadata.minimum_confidence,
        "maximum_novelty": model.metadata.maximum_novelty,
    }
    write_atomically(target / GOLDEN_FILE, vectors.getvalue())
    write_atomically(target / METADATA_FILE, (json.dumps(about, indent=1) + "\n").encode())
    for name in (CARD_FILE, REPORT_FILE):
        write_atomically(target / name, _copied(trained / name))
    write_atomically(target / MODEL_FILE, content)
    write_atomically(digest_file(target / MODEL_FILE), digest_line(content))
    return {
        "release": str(target),
        "sha256": model.sha256,
        "bytes": model.bytes,
        "golden_vectors": len(kept),
        "largest_difference": difference,
    }


def replay(model: Model, golden: "dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]") -> float:
    """The largest difference between the answers of `model` and of the framework to the golden features (novelty: relative to it)."""
    probabilities, novelty = model.predict(golden["features"].astype(np.float32))
    scale = np.maximum(golden["novelty"], 1)
    return float(max(np.abs(probabilities - golden["probabilities"]).max(), (np.abs(novelty - golden["novelty"]) / scale).max()))


def digest_line(content: bytes) -> bytes:
    """The digest file of a model, in the format of sha256sum."""
    return f"{hashlib.sha256(content).hexdigest()}  {MODEL_FILE}\n".encode()


def _golden(path: Path) -> "dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]":
    try:
        with np.load(io.BytesIO(_copied(path)), allow_pickle=False) as arrays:
            golden = {name: arrays[name] for name in ("features", "probabilities", "novelty")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: cannot be read as golden vectors ({error}): train the model again") from None
    if not len(golden["features"]):
        raise ModelError(f"{path}: holds no golden vectors: train the model again")
    return golden


def _copied(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise ModelError(f"{path}: has more than {_LARGEST_FILE_BYTES} bytes: it is not what `train` wrote")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}): name a folder that `fairlead-advisor train` has written") from None
