"""One ONNX graph of ours: features to the calibrated probabilities of a blend and to a novelty.

The graph is put together here and not by converters: those round a tree's threshold to the nearest float32, which sends some windows down
the other branch (onnx/sklearn-onnx issue 1192), and what is left after trees are a few matrix products.
"""

from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import onnx
import sklearn
from onnx import TensorProto, helper, numpy_helper

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.metadata import KEY, ModelMetadata, encode
from fairlead_advisor.models.model import INPUT, OUTPUTS
from fairlead_advisor.train.candidates import SMALLEST_PROBABILITY
from fairlead_advisor.train.novelty import CLIP, Novelty

# As old as the operators allow, so that older runtimes take the file too.
OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8


def versions() -> dict[str, str]:
    """The packages that a model depends on."""
    return {package.__name__: package.__version__ for package in (lightgbm, np, onnx, sklearn)}


def build(
    estimators: Mapping[str, Any], weights: Mapping[str, float], temperature: float, novelty: Novelty, metadata: ModelMetadata
) -> bytes:
    """The bytes of the model; the same for the same arguments."""
    graph = _Graph()
    logits = [graph.log_probabilities(estimators[name], name, weights[name] / temperature) for name in weights]
    total = logits[0] if len(logits) == 1 else graph.node("Sum", *logits)
    graph.node("Softmax", total, output=OUTPUTS[0], axis=1)
    graph.novelty(novelty)
    return graph.finish(metadata, len(novelty.centre))


class _Graph:
    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        self._initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def log_probabilities(self, estimator: Any, name: str, factor: float) -> str:
        raw = self._trees(estimator) if isinstance(estimator, lightgbm.LGBMClassifier) else self._layers(estimator, name)
        floor = self.constant(f"{name}_floor", np.float32(np.log(SMALLEST_PROBABILITY)))
        raised = self.node("Max", self.node("LogSoftmax", raw, axis=1), floor)
        return self.node("Mul", raised, self.constant(f"{name}_weight", np.float32(factor)))

    def _layers(self, pipeline: Any, name: str) -> str:
        """A scaler and a network, or a linear model, of scikit-learn; the tensor before its softmax."""
        scaler, learner = pipeline[0], pipeline[-1]
        tensor = self.node("Sub", INPUT, self.constant(f"{name}_mean", scaler.mean_.astype(np.float32)))
        tensor = self.node("Div", tensor, self.constant(f"{name}_scale", scaler.scale_.astype(np.float32)))
        if hasattr(learner, "coefs_"):
            layers = list(zip(learner.coefs_, learner.intercepts_, strict=True))
        else:
            layers = [(learner.coef_.T, learner.intercept_)]
        for number, (weights, bias) in enumerate(layers):
            if number:
                tensor = self.node("Relu", tensor)
            tensor = self.node("MatMul", tensor, self.constant(f"{name}_weights{number}", weights.astype(np.float32)))
            tensor = self.node("Add", tensor, self.constant(f"{name}_bias{number}", bias.astype(np.float32)))
        return tensor

    def _trees(self, estimator: Any) -> str:
        """The trees of LightGBM, of which every sixth belongs to one class; the tensor of their sums."""
        columns: dict[str, list[Any]] = {key: [] for key in ("tree", "node", "feature", "value", "mode", "true", "false")}
        leaves: dict[str, list[Any]] = {key: [] for key in ("tree", "node", "class", "weight")}
        for tree, information in enumerate(estimator.booster_.dump_model()["tree_info"]):
            _flatten(information["tree_structure"], tree, columns, leaves)
        return self.node(
            "TreeEnsembleRegressor",
            INPUT,
            domain="ai.onnx.ml",
            n_targets=len(CLASSES),
            aggregate_function="SUM",
            post_transform="NONE",
            nodes_treeids=columns["tree"],
            nodes_nodeids=columns["node"],
            nodes_featureids=columns["feature"],
            nodes_values=columns["value"],
            nodes_modes=columns["mode"],
            nodes_truenodeids=columns["true"],
            nodes_falsenodeids=columns["false"],
            target_treeids=leaves["tree"],
            target_nodeids=leaves["node"],
            target_ids=leaves["class"],
            target_weights=leaves["weight"],
        )

    def novelty(self, novelty: Novelty) -> None:
        shifted = self.node("Sub", INPUT, self.constant("centre", novelty.centre.astype(np.float32)))
        scaled = self.node("Div", shifted, self.constant("scale", novelty.scale.astype(np.float32)))
        clipped = self.node("Clip", scaled, self.constant("lowest", np.float32(-CLIP)), self.constant("highest", np.float32(CLIP)))
        projected = self.node("MatMul", clipped, self.constant("projection", novelty.projection.astype(np.float32)))
        rows = self.node("Unsqueeze", projected, self.constant("class_axis", np.array([1], dtype=np.int64)))
        apart = self.node("Sub", rows, self.constant("class_centres", novelty.class_centres.astype(np.float32)[None]))
        mean = self.node("ReduceMean", self.node("Mul", apart, apart), axes=[2], keepdims=0)
        self.node("ReduceMin", mean, output=OUTPUTS[1], axes=[1], keepdims=0)

    def finish(self, metadata: ModelMetadata, width: int) -> bytes:
        inputs = [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, width])]
        outputs = [
            helper.make_tensor_value_info(OUTPUTS[0], TensorProto.FLOAT, [None, len(CLASSES)]),
            helper.make_tensor_value_info(OUTPUTS[1], TensorProto.FLOAT, [None]),
        ]
        graph = helper.make_graph(self._nodes, metadata.name, inputs, outputs, self._initializers)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="fairlead-advisor")
        helper.set_model_props(model, {KEY: encode(metadata)})
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString(deterministic=True))


def largest_difference(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """The largest absolute difference between two arrays; 0 when they are empty."""
    return float(np.max(np.abs(first - second), initial=0.0))


def _flatten(root: dict[str, Any], tree: int, columns: dict[str, list[Any]], leaves: dict[str, list[Any]]) -> None:
    """Appends the nodes of one tree, numbered in the order in which they are met."""
    waiting, numbered = [(root, 0)], 1
    while waiting:
        node, number = waiting.pop()
        is_leaf = "split_feature" not in node
        below = (0, 0) if is_leaf else (numbered, numbered + 1)
        row = (tree, number, 0, 0.0, "LEAF", *below)
        if is_leaf:
            leaves["tree"].append(tree)
            leaves["node"].append(number)
            leaves["class"].append(tree % len(CLASSES))
            leaves["weight"].append(float(node["leaf_value"]))
        else:
            if node["decision_type"] != "<=":
                raise ValueError(f"a split of the kind {node['decision_type']!r} has no place in this graph")
            row = (tree, number, node["split_feature"], _rounded_down(node["threshold"]), "BRANCH_LEQ", *below)
            waiting += [(node["left_child"], below[0]), (node["right_child"], below[1])]
            numbered += 2
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)


def _rounded_down(threshold: float) -> float:
    """The largest float32 not above `threshold`: for every float32 x, `x <= threshold` stays what it was."""
    nearest = np.float32(threshold)
    # numpy compares a float32 with a plain float in float32, where the two are always equal.
    return float(nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf)))
