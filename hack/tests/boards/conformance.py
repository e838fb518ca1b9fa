"""Checks JSON against Grafana's published schema, as the models of grafana-foundation-sdk have it."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

_MODELS = "grafana_foundation_sdk.models."


def faults(board: dict[str, Any]) -> list[str]:
    """What in a board the schema does not know, or knows with another type."""
    register_default_plugins()
    try:
        read = Dashboard.from_json(board)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [f"cannot be read: {error!r}"]
    known = json.loads(JSONEncoder().encode(read))
    return [*_lost(board, known, "board"), *_mistyped(read, "board")]


def _lost(given: Any, known: Any, place: str) -> Iterator[str]:
    """Fields that reading and writing by the models drops or changes."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            if key in known:
                yield from _lost(value, known[key], f"{place}.{key}")
            elif value is not None:
                yield f"{place}.{key} is unknown"
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _lost(one, other, f"{place}[{index}]")
    elif given != known:
        yield f"{place} is {given!r}, read as {known!r}"


def _mistyped(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _mistyped(each, f"{place}[{index}]")
    elif type(value).__module__.startswith(_MODELS) and not isinstance(value, enum.Enum):
        for name, hint in typing.get_type_hints(type(value)).items():
            held = getattr(value, name)
            if not _fits(held, hint):
                yield f"{place}.{name} is {held!r}, which is no {hint}"
            yield from _mistyped(held, f"{place}.{name}")


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if hint in (object, Any):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(_fits(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(each, arguments[1]) for each in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in {each.value for each in hint}
    if isinstance(value, dict) and hint.__module__.startswith(_MODELS):
        # The models leave some parts as they were read.
        part = hint.from_json(value)
        return not [*_lost(value, part.to_json(), ""), *_mistyped(part, "")]
    return isinstance(value, hint)
