"""The schemas of the generated definitions, and what they say of a value. Rules in CEL are the API server's alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml
from control_plane import CHECKOUT

Schema = Mapping[str, Any]

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")
_LARGEST_INTEGER = 2**63 - 1
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@cache
def schemas() -> Mapping[str, Schema]:
    """The schema of each kind, by the plural of its name."""
    found: dict[str, Schema] = {}
    for file in sorted((CHECKOUT / "crds").glob("*.yaml")):
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["spec"]
        found[definition["names"]["plural"]] = definition["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def violations(schema: Schema, value: Any, where: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its place. A null counts as absent, as the API server drops it."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{where}: neither an integer nor a text"
        return
    kind = str(schema.get("type", "object"))
    if not _is_of(kind, value):
        yield f"{where}: no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: none of {schema['enum']}"
    match kind:
        case "object":
            yield from _of_object(schema, value, where)
        case "array":
            yield from _of_array(schema, value, where)
        case "string":
            yield from _of_text(schema, value, where)
        case "integer":
            yield from _of_integer(schema, value, where)


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _of_object(schema: Schema, value: Mapping[str, Any], where: str) -> Iterator[str]:
    present = {name: each for name, each in value.items() if each is not None}
    properties = schema.get("properties") or {}
    for name in schema.get("required") or []:
        if name not in present and "default" not in properties[name]:
            yield f"{where}.{name}: missing"
    if len(present) < schema.get("minProperties", 0) or len(present) > schema.get("maxProperties", len(present)):
        yield f"{where}: {len(present)} entries"
    for name, each in present.items():
        if (below := properties.get(name) or schema.get("additionalProperties")) is not None:
            yield from violations(below, each, f"{where}.{name}")


def _of_array(schema: Schema, value: list[Any], where: str) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
        yield f"{where}: {len(value)} items"
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if kind in ("set", "map"):
        known = [{key: each.get(key) for key in keys} if kind == "map" and isinstance(each, dict) else each for each in value]
        if any(each in known[:number] for number, each in enumerate(known)):
            yield f"{where}: an item twice"
    for number, each in enumerate(value):
        yield from violations(schema["items"], each, f"{where}[{number}]")


def _of_text(schema: Schema, value: str, where: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", len(value)):
        yield f"{where}: {len(value)} characters"
    if "pattern" in schema and not re.search(str(schema["pattern"]).replace("$", r"\Z"), value):
        yield f"{where}: not of the form {schema['pattern']}"
    if schema.get("format") == "date-time" and not _MOMENT.fullmatch(value):
        yield f"{where}: no moment"


def _of_integer(schema: Schema, value: int, where: str) -> Iterator[str]:
    least, most = schema.get("minimum", -_LARGEST_INTEGER - 1), schema.get("maximum", _LARGEST_INTEGER)
    if not least <= value <= most:
        yield f"{where}: not between {least} and {most}"
