"""Turns pydantic's JSON schema into the structural OpenAPI schema that Kubernetes demands of a CRD."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_COMMENT_ONLY = frozenset({"title", "discriminator"})
Json = dict[str, Any]


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Json:
    """The schema of `model` without references, nulls or titles; with `defaults` the API server fills fields in."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs", {}), defaults=defaults)


def _convert(node: Json, definitions: Json, *, defaults: bool) -> Json:
    node = _resolve(node, definitions)
    converted: Json = {}
    for key, value in node.items():
        if key in _COMMENT_ONLY or key == "$defs":
            continue
        if key == "properties":
            converted[key] = {name: _convert(child, definitions, defaults=defaults) for name, child in value.items()}
        elif key == "additionalProperties":
            # A map's values have a schema; a plain `false` only states the API server's default.
            if isinstance(value, dict):
                converted[key] = _convert(value, definitions, defaults=defaults)
        elif key == "items":
            converted[key] = _convert(value, definitions, defaults=defaults)
        elif key == "const":
            converted["enum"] = [value]
        elif key == "default":
            if defaults and value is not None:
                converted[key] = value
        elif key == "description":
            converted[key] = " ".join(value.split())
        else:
            converted[key] = value
    if converted.get("type") == "integer":
        converted.setdefault("format", "int64")
    return converted


def _resolve(node: Json, definitions: Json) -> Json:
    """`node` with its reference inlined and its null alternative dropped; the node's own keys win over those of the reference."""
    own = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "allOf")}
    alternatives = [part for part in [*node.get("anyOf", []), *node.get("allOf", [])] if part.get("type") != "null"]
    if "$ref" in node:
        alternatives.append(definitions[node["$ref"].removeprefix("#/$defs/")])
    if not alternatives:
        return own
    if len(alternatives) > 1:
        raise ValueError(f"a field with several types has no structural schema: {node}")
    return {**_resolve(alternatives[0], definitions), **own}
