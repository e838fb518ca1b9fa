"""Reads just enough of an ONNX file (a protobuf of onnx.proto3) to refuse one that reaches outside itself, before a runtime sees it.

The runtime's image has no `onnx` package. Loaders have followed external data out of models more than once (CVE-2022-25882,
CVE-2024-27318), so that a model with external data, dense or sparse, with nested graphs, functions or operators of unknown
domains is not loaded at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead_advisor.errors import ModelError

_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})

# Message fields of onnx.proto3 (IR version 3 to 13) that may occur; what is not listed is refused.
_MODEL_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 14})
_GRAPH_FIELDS = frozenset({1, 2, 5, 10, 11, 12, 13})
_NODE_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7})
_ATTRIBUTE_FIELDS = frozenset({1, 2, 3, 4, 5, 7, 8, 9, 13, 20})
_TENSOR_FIELDS = frozenset({1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12})


@dataclass(slots=True)
class Inspection:
    """What a model declares: its IR version, the versions of the operator sets it needs, its metadata."""

    ir_version: int = 0
    opsets: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    graphs: int = 0


def inspect(content: bytes) -> Inspection:
    """Raises ModelError if `content` is not an ONNX model, or one that is not self-contained."""
    found = Inspection()
    for number, value in _fields(content, _MODEL_FIELDS, "model"):
        if number == 1:
            found.ir_version = _integer(value)
        elif number == 7:
            found.graphs += 1
            _check_graph(_message(value))
        elif number == 8:
            domain, version = _pair(_message(value), frozenset({1, 2}), "opset_import")
            found.opsets[_text(domain or b"")] = _integer(version or 0)
        elif number == 14:
            key, text = _pair(_message(value), frozenset({1, 2}), "metadata_props")
            found.metadata[_text(_message(key or b""))] = _text(_message(text or b""))
    if not found.ir_version or not found.opsets or found.graphs != 1:
        raise ModelError("is not an ONNX model")
    return found


def _check_graph(content: bytes) -> None:
    for number, value in _fields(content, _GRAPH_FIELDS, "graph"):
        if number == 1:
            _check_node(_message(value))
        elif number == 5:
            _check_tensor(_message(value))


def _check_node(content: bytes) -> None:
    for number, value in _fields(content, _NODE_FIELDS, "node"):
        if number == 5:
            for attribute, inner in _fields(_message(value), _ATTRIBUTE_FIELDS, "attribute"):
                if attribute == 5:
                    _check_tensor(_message(inner))
        elif number == 7 and _text(_message(value)) not in _DOMAINS:
            raise ModelError(f"uses operators of the domain {_text(_message(value))[:60]!r}: only the standard ones are allowed")


def _check_tensor(content: bytes) -> None:
    for _ in _fields(content, _TENSOR_FIELDS, "tensor"):
        pass


def _fields(content: bytes, allowed: frozenset[int], where: str) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message in order: a number and its value."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if kind == 0:
            value, position = _varint(content, position)
        elif kind in (1, 2, 5):
            length, position = _varint(content, position) if kind == 2 else ((8 if kind == 1 else 4), position)
            if length > len(content) - position:
                raise ModelError("is not an ONNX model, or one that was cut short")
            value, position = content[position : position + length], position + length
        else:
            raise ModelError("is not an ONNX model")
        if number not in allowed:
            raise ModelError(f"is not self-contained (field {number} of a {where}): it has external data, nested graphs or functions")
        yield number, value


def _pair(content: bytes, allowed: frozenset[int], where: str) -> tuple[int | bytes | None, int | bytes | None]:
    fields = dict(_fields(content, allowed, where))
    return fields.get(1), fields.get(2)


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            break
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ModelError("is not an ONNX model, or one that was cut short")


def _integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ModelError("is not an ONNX model")
    return value


def _message(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ModelError("is not an ONNX model")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _message(value).decode()
    except UnicodeDecodeError:
        raise ModelError("is not an ONNX model") from None
