"""One field of one object takes another value: which there are, as text that anybody can give back, and what they make of an object."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzz.schemas import Schema, violations
from fuzz.values import ABSENT, candidates

Path = tuple[str | int, ...]
"""Where a field is in an object."""

_TEXT = re.compile(r"(?P<scene>[a-z-]+)@(?P<path>[A-Za-z0-9_.\[\]]+)=(?P<label>[A-Za-z0-9_.-]+)")


class TransitionError(ValueError):
    """A text that is no transition."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A field of a scene's object takes a value, which `label` names."""

    scene: str
    path: Path
    label: str
    value: Any
    is_allowed: bool = True
    """Whether the schema, without its rules in CEL, allows the object with it."""

    def __str__(self) -> str:
        return f"{self.scene}@{shown(self.path)}={self.label}"

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object with the field changed; what is above it is made where it is missing."""
        changed: dict[str, Any] = copy.deepcopy(dict(body))
        at: Any = changed
        for part in self.path[:-1]:
            if isinstance(at, dict) and at.get(part) is None:
                at[part] = {}
            at = at[part]
        last = self.path[-1]
        if self.value is not ABSENT:
            at[last] = self.value
        elif isinstance(at, list):
            del at[last]
        else:
            at.pop(last, None)
        return changed

    def names(self, text: str) -> bool:
        """Whether a text names the field, one above it or, for a text, its value."""
        words = [str(part) for part in self.path if isinstance(part, str) and part not in ("spec", "status")]
        below = [str(name) for name in self.value] if isinstance(self.value, dict) else []
        found = [*words, *below, *([self.value] if isinstance(self.value, str) and self.value else [])]
        return not words or any(word in text for word in found)


def shown(path: Path) -> str:
    """A path as the API server writes it, `spec.links[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def read_path(text: str) -> Path:
    """The path that `shown` made this text of."""
    return tuple(int(part[1:-1]) if part.startswith("[") else part for part in re.findall(r"\[[0-9]+\]|[^.\[\]]+", text))


def fields(schema: Schema, body: Any, path: Path = ()) -> Iterator[tuple[Path, Schema, Any]]:
    """Every field below an object, with its schema and what it has; of lists of objects those of the first item, if there is one."""
    for name, below in (schema.get("properties") or {}).items():
        present = body.get(name, ABSENT) if isinstance(body, dict) else ABSENT
        at = (*path, name)
        yield at, below, present
        if below.get("type") == "object":
            yield from fields(below, present, at)
        elif below.get("type") == "array" and below["items"].get("type") == "object" and isinstance(present, list) and present:
            yield from fields(below["items"], present[0], (*at, 0))


def transitions_of(scene: str, schema: Schema, body: Mapping[str, Any], roots: Sequence[str]) -> list[Transition]:
    """Every value of every field below `roots`, paths of the object, that changes it."""
    made = []
    for root in roots:
        start = read_path(root)
        schema_there, there = _at(schema, body, start)
        for path, below, present in [(start, schema_there, there), *fields(schema_there, there, start)]:
            for each in candidates(below, present):
                if _differs(each.value, present):
                    changed = Transition(scene, path, each.label, each.value)
                    made.append(replace(changed, is_allowed=is_allowed(schema, changed.applied(body))))
    return made


def _differs(value: Any, present: Any) -> bool:
    return type(value) is not type(present) or value != present


def _at(schema: Schema, body: Any, path: Path) -> tuple[Schema, Any]:
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
        body = ABSENT if body is ABSENT else body.get(part, ABSENT) if isinstance(part, str) else body[part]
    return schema, body


def is_allowed(schema: Schema, body: Mapping[str, Any]) -> bool:
    """Whether the schema, without its rules in CEL, allows the object."""
    return not list(violations(schema, {"spec": body.get("spec"), "status": body.get("status")}))


def find(transitions: Sequence[Transition], text: str) -> Transition:
    """The one that `str` made this text of. Raises TransitionError."""
    if _TEXT.fullmatch(text.strip()) is None:
        raise TransitionError(f"{text!r} is no transition: write SCENE@FIELD=LABEL, as in job-live@spec.bandwidth.limit=rate-64k")
    for each in transitions:
        if str(each) == text.strip():
            return each
    beside = sorted({each.label for each in transitions if str(each).startswith(text.partition("=")[0] + "=")})
    raise TransitionError(f"{text!r}: there is no such transition{f'; of this field there are {chr(44).join(beside)}' if beside else ''}")


def sample(transitions: Sequence[Transition], seed: int, count: int | None) -> list[Transition]:
    """`count` of them by `seed`, in which every field has an allowed and a forbidden value before one has another; those of a scene stand
    together."""
    shuffled = list(transitions)
    random.Random(seed).shuffle(shuffled)
    rounds: Counter[tuple[str, Path, bool]] = Counter()
    turns = []
    for place, each in enumerate(shuffled):
        kind = (each.scene, each.path, each.is_allowed)
        rounds[kind] += 1
        turns.append((rounds[kind], place, each))
    chosen = [each for _, _, each in sorted(turns, key=lambda turn: turn[:2])][:count]
    scenes = list(dict.fromkeys(each.scene for each in transitions))
    return sorted(chosen, key=lambda each: scenes.index(each.scene))
