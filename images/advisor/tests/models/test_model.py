import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead_advisor.errors import ModelError
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.metadata import KEY, decode, encode
from fairlead_advisor.models.model import MAXIMUM_BYTES, load
from tests.support.models import METADATA, tiny_model, tiny_proto


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_model_answers_with_probabilities_and_novelty() -> None:
    weights = np.zeros((len(NAMES), len(CLASSES)))
    weights[0, 2] = 1.0
    content = tiny_model(weights=weights)
    model = load(content, digest(content).upper())
    rows = np.zeros((3, len(NAMES)), dtype=np.float32)
    rows[:, 0] = (0, 1, 20)
    probabilities, novelty = model.predict(rows)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-12)
    # softmax([1,0,0,0,0,0])
    assert probabilities[1] == pytest.approx([0.12956, 0.12956, 0.35219, 0.12956, 0.12956, 0.12956], abs=1e-5)
    assert novelty.tolist() == [0, 1, 400]
    assert (model.metadata, model.opsets, model.bytes) == (METADATA, {"": 17}, len(content))
    assert model.label == f"background-1.2.3 (sha256:{digest(content)[:12]})"


def test_another_digest_is_refused_before_the_bytes_are_looked_at() -> None:
    with pytest.raises(ModelError, match=r"has the SHA-256 .* it was changed or damaged"):
        load(b"anything", digest(tiny_model()))


def test_a_large_file_is_refused() -> None:
    content = bytes(MAXIMUM_BYTES + 1)
    with pytest.raises(ModelError, match="more than 2000000 bytes"):
        load(content, digest(content))


def narrow(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7


def unknown_operator(model: Any) -> None:
    model.graph.node[1].op_type = "NoSuchOperator"


def renamed_output(model: Any) -> None:
    model.graph.node[1].output[0] = model.graph.output[0].name = "p"


def other_metadata(model: Any) -> None:
    model.metadata_props[0].key = "other"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (narrow, f"does not take {len(NAMES)} features|cannot be loaded"),
        (unknown_operator, "cannot be loaded by onnxruntime"),
        (renamed_output, "does not take"),
        (other_metadata, "not a model made by"),
    ],
)
def test_a_model_that_does_not_run_as_it_should_is_refused(spoil: Any, complaint: str) -> None:
    model = tiny_proto()
    spoil(model)
    content = model.SerializeToString()
    with pytest.raises(ModelError, match=complaint):
        load(content, digest(content))


def test_a_model_of_other_classes_is_refused() -> None:
    content = tiny_model(weights=np.zeros((len(NAMES), 4)))
    with pytest.raises(ModelError, match="gives no 6 probabilities"):
        load(content, digest(content))


def test_a_model_of_not_a_number_is_refused() -> None:
    content = tiny_model(weights=np.full((len(NAMES), 6), np.nan))
    with pytest.raises(ModelError, match="probabilities that are none"):
        load(content, digest(content))


def test_metadata_is_read_back() -> None:
    assert decode(encode(METADATA)) == METADATA
    learnt = replace(METADATA, trained_paths=("p1", "p2"))
    assert decode(encode(learnt)) == learnt


def test_a_model_that_does_not_say_what_it_was_trained_on_is_read() -> None:
    older = json.loads(encode(METADATA))
    del older["trained_paths"]
    assert decode(json.dumps(older)) == METADATA
    assert KEY == "fairlead.background"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "has no metadata"),
        ("{", "is not JSON"),
        ("[]", "of another format"),
        (encode(replace(METADATA, format=2)), "of another format"),
        (encode(replace(METADATA, feature_version=99)), "trained on features of version 99"),
        (encode(replace(METADATA, features=NAMES[::-1])), "train it again"),
        (encode(replace(METADATA, classes=CLASSES[:5])), "knows other classes"),
        (encode(replace(METADATA, name="")), "incomplete metadata"),
        (encode(METADATA).replace('"minimum_confidence":0.7', '"minimum_confidence":"much"'), "incomplete metadata"),
        (encode(METADATA).replace('"minimum_confidence":0.7,', ""), "incomplete metadata"),
        (encode(replace(METADATA, minimum_confidence=1.5)), "limits in its metadata"),
        (encode(replace(METADATA, maximum_novelty=float("nan"))), "limits in its metadata"),
        (encode(replace(METADATA, window_s=())), "limits in its metadata"),
    ],
)
def test_metadata_that_this_version_cannot_work_with_is_refused(text: str | None, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        decode(text)
