"""Small ONNX models of the product's interface, made without any training."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.metadata import KEY, ModelMetadata, encode

METADATA = ModelMetadata("background", "1.2.3", (10.0,), 0.7, 5.0, "ab" * 32, {"onnx": onnx.__version__})


def tiny_proto(metadata: ModelMetadata | None = METADATA, weights: np.ndarray | None = None) -> Any:
    """Softmax of a linear map, and the square of the first feature as novelty."""
    matrix = np.zeros((len(NAMES), len(CLASSES)), dtype=np.float32) if weights is None else weights.astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["features", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        helper.make_node("Gather", ["features", "first"], ["column"], axis=1),
        helper.make_node("Mul", ["column", "column"], ["novelty"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, matrix.shape[0]])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, matrix.shape[1]]),
            helper.make_tensor_value_info("novelty", TensorProto.FLOAT, [None]),
        ],
        [numpy_helper.from_array(matrix, "weights"), numpy_helper.from_array(np.array(0, dtype=np.int64), "first")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if metadata is not None:
        helper.set_model_props(model, {KEY: encode(metadata)})
    return model


def tiny_model(metadata: ModelMetadata | None = METADATA, weights: np.ndarray | None = None) -> bytes:
    return bytes(tiny_proto(metadata, weights).SerializeToString(deterministic=True))


def write_model(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.with_name(path.name + ".sha256").write_text(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")
    return path
