"""A trained model, ready to run."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_advisor.errors import ModelError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.metadata import KEY, ModelMetadata, decode
from fairlead_advisor.models.onnx_wire import inspect

# Official builds report every process and session to their maker over HTTPS and keep an identifier in the home directory (Privacy.md of
# onnxruntime, from 1.29 on). Read once, when the library is loaded.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime

MAXIMUM_BYTES = 2_000_000
INPUT = "features"
OUTPUTS = ("probabilities", "novelty")

_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Model:
    """`metadata` describes it, `sha256` is of its bytes, `opsets` the operator sets it needs."""

    metadata: ModelMetadata
    sha256: str
    opsets: dict[str, int]
    bytes: int
    _session: Any

    def predict(self, features: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Calibrated probabilities of the classes, shape (n, 6), and the novelty of each row, shape (n,), for features of shape (n, f)."""
        probabilities, novelty = self._session.run(OUTPUTS, {INPUT: features})
        # Away from the model's float32 the rows sum to one again.
        exact = np.asarray(probabilities, dtype=np.float64)
        return exact / exact.sum(axis=1, keepdims=True), np.asarray(novelty, dtype=np.float64).reshape(len(features))

    @property
    def label(self) -> str:
        """Name, version and the start of the digest, for people and records."""
        return f"{self.metadata.name}-{self.metadata.version} (sha256:{self.sha256[:12]})"


def load(content: bytes, sha256: str) -> Model:
    """The model in `content`, whose digest must be `sha256` (hex).

    Raises ModelError if it is another file, not self-contained, not for this version of the features, or does not run as it should.
    """
    if len(content) > MAXIMUM_BYTES:
        raise ModelError(f"has more than {MAXIMUM_BYTES} bytes")
    found = hashlib.sha256(content).hexdigest()
    if found != sha256.lower():
        raise ModelError(f"has the SHA-256 {found}, expected {sha256.lower()}: it was changed or damaged, copy it again")
    inspection = inspect(content)
    metadata = decode(inspection.metadata.get(KEY))
    model = Model(metadata, found, inspection.opsets, len(content), _session(content))
    _try(model)
    return model


def _session(content: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    # One window at a time on a shared node: threads would only spin. Its log is not ours to show.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"cannot be loaded by onnxruntime {onnxruntime.__version__}: {str(error).splitlines()[0][:200]}") from None


def _try(model: Model) -> None:
    """One run on plain numbers, so that a model of another shape fails here and not in the middle of a job."""
    rows = np.zeros((2, len(model.metadata.features)), dtype=np.float32)
    try:
        probabilities, novelty = model.predict(rows)
    except Exception as error:
        raise ModelError(f"does not take {rows.shape[1]} features to {' and '.join(OUTPUTS)}: {str(error).splitlines()[0][:200]}") from None
    if probabilities.shape != (2, len(CLASSES)) or not np.isfinite(novelty).all():
        raise ModelError(f"gives no {len(CLASSES)} probabilities and a novelty for each window")
    if not (np.isfinite(probabilities).all() and (probabilities >= -_ROUNDING).all()):
        raise ModelError("gives probabilities that are none")
