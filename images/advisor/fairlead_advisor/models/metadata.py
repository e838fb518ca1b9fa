"""What a model declares, as JSON under one key of the ONNX metadata."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from fairlead_advisor.errors import ModelError
from fairlead_advisor.features import vector
from fairlead_advisor.models.answer import CLASSES

KEY = "fairlead.background"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """A model's name and version, what it was trained for and with, and the limits beyond which it does not answer.

    `minimum_confidence` and `maximum_novelty` are the bounds of an answer; `window_s` are the window lengths (s) it was trained on, and
    `trained_paths` the names of those paths; a model that is older than this field has none.
    """

    name: str
    version: str
    window_s: tuple[float, ...]
    minimum_confidence: float
    maximum_novelty: float
    data_sha256: str
    made_with: dict[str, str]
    trained_paths: tuple[str, ...] = ()
    classes: tuple[str, ...] = CLASSES
    feature_version: int = vector.VERSION
    features: tuple[str, ...] = vector.NAMES
    format: int = FORMAT


def encode(metadata: ModelMetadata) -> str:
    """The text under `KEY`, the same for equal metadata."""
    return json.dumps(asdict(metadata), sort_keys=True, separators=(",", ":"))


def decode(text: str | None) -> ModelMetadata:
    """Raises ModelError if `text` is not what this version of the advisor can work with."""
    if text is None:
        raise ModelError(f"has no metadata {KEY!r}: it is not a model made by `fairlead-advisor train`")
    try:
        body: Any = json.loads(text)
    except ValueError:
        raise ModelError(f"has metadata {KEY!r} that is not JSON") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ModelError(f"has metadata of another format than {FORMAT}: train it again with this version of the advisor")
    if body.get("feature_version") != vector.VERSION or body.get("features") != list(vector.NAMES):
        raise ModelError(
            f"was trained on features of version {body.get('feature_version')!r}, this advisor computes {vector.VERSION}: train it again"
        )
    if body.get("classes") != list(CLASSES):
        raise ModelError(f"knows other classes than {', '.join(CLASSES)}: train it again")
    try:
        metadata = ModelMetadata(
            name=_string(body, "name"),
            version=_string(body, "version"),
            window_s=tuple(float(seconds) for seconds in body["window_s"]),
            minimum_confidence=float(body["minimum_confidence"]),
            maximum_novelty=float(body["maximum_novelty"]),
            data_sha256=_string(body, "data_sha256"),
            made_with={str(key): str(value) for key, value in dict(body["made_with"]).items()},
            trained_paths=tuple(str(path) for path in list(body.get("trained_paths", []))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"has incomplete metadata ({error}): train it again") from None
    if not (0 <= metadata.minimum_confidence <= 1 and math.isfinite(metadata.maximum_novelty) and metadata.window_s):
        raise ModelError("has limits in its metadata that are not numbers in range: train it again")
    return metadata


def _string(body: dict[str, Any], name: str) -> str:
    if not isinstance(body[name], str) or not body[name]:
        raise ValueError(f"{name} is {body[name]!r}")
    return str(body[name])
