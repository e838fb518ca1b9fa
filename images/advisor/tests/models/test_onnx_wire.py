import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from fairlead_advisor.errors import ModelError
from fairlead_advisor.models.metadata import KEY, encode
from fairlead_advisor.models.onnx_wire import inspect
from tests.support.models import METADATA, tiny_model, tiny_proto


def external(tensor: Any, location: str = "weights.bin") -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location


def dense(model: Any) -> None:
    external(model.graph.initializer[0], "/etc/passwd")


def located_only(model: Any) -> None:
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL


def sparse(model: Any) -> None:
    values = numpy_helper.from_array(np.ones(1, dtype=np.float32), "sparse")
    external(values, "../../etc/shadow")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, dtype=np.int64)), [4]))


def constant(model: Any) -> None:
    tensor = numpy_helper.from_array(np.ones(2, dtype=np.float32), "c")
    node = helper.make_node("Constant", [], ["c"], value=tensor)
    external(node.attribute[0].t)
    model.graph.node.append(node)


def constants(model: Any) -> None:
    node = helper.make_node("Made", [], ["c"], tensors=[numpy_helper.from_array(np.ones(2, dtype=np.float32), "c")])
    external(node.attribute[0].tensors[0])
    model.graph.node.append(node)


def nested(model: Any) -> None:
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=model.graph, else_branch=model.graph))


def function(model: Any) -> None:
    model.functions.append(helper.make_function("custom", "f", ["a"], ["b"], [], [helper.make_opsetid("", 17)]))


def foreign_operator(model: Any) -> None:
    model.graph.node.append(helper.make_node("PyOp", ["features"], ["z"], domain="ai.onnx.contrib"))


def training(model: Any) -> None:
    model.training_info.add()


@pytest.mark.parametrize("spoil", [dense, located_only, sparse, constant, constants, nested, function, foreign_operator, training])
def test_a_model_that_is_not_self_contained_is_refused(spoil: Callable[[Any], None]) -> None:
    model = tiny_proto()
    spoil(model)
    with pytest.raises(ModelError, match=r"not self-contained|operators of the domain 'ai.onnx.contrib'"):
        inspect(model.SerializeToString())


def test_a_second_graph_is_refused() -> None:
    # A protobuf may carry a field twice; readers merge both, so that one alone would not tell all.
    with pytest.raises(ModelError, match="is not an ONNX model"):
        inspect(tiny_model() + tiny_model())


def test_a_good_model_tells_its_opsets_and_metadata() -> None:
    found = inspect(tiny_model())
    assert (found.ir_version, found.opsets) == (8, {"": 17})
    assert found.metadata == {KEY: encode(METADATA)}


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ModelError):
        inspect(content)


@given(st.integers(0, 10**6))
def test_a_model_cut_short_is_refused_or_lacks_what_follows(cut: int) -> None:
    whole = tiny_model()
    try:
        found = inspect(whole[: cut % len(whole)])
    except ModelError:
        return
    # Cut between two fields: a valid model, but without the metadata that every one of ours ends with.
    assert KEY not in found.metadata


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte_never_does_worse_than_refuse(place: int, value: int) -> None:
    content = bytearray(tiny_model())
    content[place % len(content)] = value
    with contextlib.suppress(ModelError):
        inspect(bytes(content))


def test_lengths_beyond_the_end_and_endless_numbers_are_refused() -> None:
    for content in (b"\x3a\xff\xff\xff\xff\x0f", b"\x08" + b"\xff" * 20, b"\x3d\x00", b"\x0b", b"\xff" * 11):
        with pytest.raises(ModelError):
            inspect(content)
