"""Values for a field, by its schema alone: valid ones, those at its bounds and beyond them, of wrong types, and odd ones.

Which of them the schema allows is for `schemas.violations` to say: the same texts are tried everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fuzz.schemas import Schema, violations

LONG: Final = 5000
"""Characters of a text that is longer than any field takes."""


class _Absent:
    """The field is left out."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value with a name, which is the same in every run and unique to it in its field."""

    label: str
    value: Any


_TEXTS: Final[Mapping[str, str]] = {
    "empty": "",
    "letter": "a",
    "capital": "A",
    "digit": "7",
    "dashed": "a-b",
    "dotted": "a.b",
    "underscored": "a_b",
    "path": "a/b",
    "dash-first": "-a",
    "dash-last": "a-",
    "dot": ".",
    "dots": "..",
    "up": "a/../b",
    "empty-component": "a//b",
    "slash-first": "/a",
    "slash-last": "a/",
    "space": " ",
    "inner-space": "a b",
    "newline": "a\n",
    "tab": "a\tb",
    "nul": "a\x00b",
    "delete": "a\x7f",
    "accent": "é",
    "decomposed": "é",
    "han": "路径",
    "emoji": "😀",
    "right-to-left": "a\u202eb",
    "byte-order-mark": "\ufeffa",
    "variable": "$(NODE_ADDRESS)",
    "option": "--help",
    "comma": "a,b",
    "equals": "a=b",
    "quote": "a'b\"c",
    "backslash": "a\\b",
    "format": "%s{0}",
    "null-text": "null",
    "true-text": "true",
    "star": "*",
    "open-class": "[a-",
    "braces": "{a,b}",
    "auto": "auto",
    "others": "others",
    "a-node": "dtn-a",
    "other-node": "dtn-b",
    "no-node": "nowhere",
    "a-claim": "raw",
    "other-claim": "scratch",
    "no-claim": "missing",
    "own-manager": "fairlead.io/transferjob-controller",
    "other-manager": "example.com/queue",
    "domain": "example.com",
}
_RATES: Final[Mapping[str, str]] = {
    "rate-0": "0",
    "rate-1": "1",
    "rate-below-64k": "63999",
    "rate-64k": "64k",
    "rate-fraction": "64.001k",
    "rate-small-fraction": "0.064M",
    "rate-below-1M": "999.999k",
    "rate-1M": "1M",
    "rate-1.5G": "1.5G",
    "rate-leading-zero": "01M",
    "rate-10T": "10T",
    "rate-above-10T": "10.001T",
    "rate-largest": "999999999999999T",
    "rate-exponent": "1e9",
    "rate-binary": "1Gi",
    "rate-negative": "-1M",
    "rate-plus": "+1M",
    "rate-precise": "1.0001G",
    "rate-of-bytes": "1GB/s",
}
_PARTS: Final[Mapping[str, str]] = {
    "part-0": "0%",
    "part-least": "0.001%",
    "part-half": "50%",
    "part-95": "95%",
    "part-most": "99.999%",
    "part-whole": "100%",
    "part-negative": "-1%",
    "part-bare": "%",
}
_ADDRESSES: Final[Mapping[str, str]] = {
    "address-v4": "198.18.0.9/24",
    "address-v4-host": "198.18.0.9/32",
    "address-v6": "fd00::9/64",
    "address-v6-any": "::/0",
    "address-any": "0.0.0.0/0",
    "address-loopback": "127.0.0.1/8",
    "address-multicast": "224.0.0.1/4",
    "address-octets": "999.999.999.999/24",
    "address-long-prefix": "198.18.0.9/33",
    "address-v6-long-prefix": "fd00::9/129",
    "address-colon": ":/1",
    "address-colons": ":::::/64",
    "address-zeros": "198.018.000.009/24",
    "address-bare": "198.18.0.9",
    "address-scope": "fe80::1%eth0/64",
    "address-mapped": "::ffff:198.18.0.9/96",
}
_MOMENTS: Final[Mapping[str, str]] = {
    "moment": "2026-01-02T03:04:05Z",
    "moment-first": "0001-01-01T00:00:00Z",
    "moment-last": "9999-12-31T23:59:59Z",
    "moment-offset": "2026-01-02T03:04:05+14:00",
    "moment-fine": "2026-01-02T03:04:05.123456789Z",
    "moment-date": "2026-01-02",
    "moment-word": "yesterday",
}
_SETS: Final[Mapping[str, str]] = {"cpus": "0-3,8", "cpus-backwards": "7-0", "cpus-huge": "0-99999999999999999999"}
_KEYS: Final[Mapping[str, str]] = {
    "bare": "a",
    "qualified": "example.com/a",
    "of-kubernetes": "kubernetes.io/a",
    "below-kubernetes": "example.kubernetes.io/a",
    "dash-first": "-a",
    "empty": "",
    "accent": "é",
    "space": "a b",
    "long": "a" * 64,
    "very-long": "a" * LONG,
    "two-slashes": "a/b/c",
    "long-domain": f"{'d' * 63}.{'d' * 63}.{'d' * 63}.{'d' * 63}/a",
    "variable": "$(A)",
}
_SPECIAL: Final = (_RATES, _PARTS, _ADDRESSES, _MOMENTS, _SETS)
_WRONG: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    "string": (("integer", 7), ("boolean", True), ("list", []), ("object", {})),
    "integer": (("text", "7"), ("fraction", 1.5), ("boolean", True), ("list", [1]), ("object", {})),
    "boolean": (("text", "true"), ("integer", 1), ("object", {})),
    "array": (("text", "a"), ("object", {}), ("integer", 0)),
    "object": (("text", "a"), ("list", []), ("boolean", False)),
}


def candidates(schema: Schema, present: Any = ABSENT) -> list[Candidate]:
    """Values for a field. `present` is what it has, of which longer lists and objects are made."""
    kind = "string" if schema.get("x-kubernetes-int-or-string") else str(schema.get("type", "object"))
    made = [Candidate("absent", ABSENT), Candidate("null", None)]
    wrong = (("fraction", 1.5), ("boolean", True), ("list", [])) if schema.get("x-kubernetes-int-or-string") else _WRONG[kind]
    made += [Candidate(f"wrong-{name}", value) for name, value in wrong]
    match kind:
        case "string":
            made += _texts(schema)
            if schema.get("x-kubernetes-int-or-string"):
                made += [Candidate(f"integer-{number}", number) for number in (-1, 0, 1, 2, 31, 32, 33, 2**31, 2**63 - 1)]
        case "integer":
            made += _integers(schema)
        case "boolean":
            made += [Candidate("true", True), Candidate("false", False)]
        case "array":
            made += _lists(schema, present)
        case "object":
            made += _objects(schema)
    return made


def _texts(schema: Schema) -> Iterator[Candidate]:
    """Texts of every kind that the field may take, and some of all others."""
    for word in schema.get("enum") or []:
        yield Candidate(f"enum-{word}", word)
        yield Candidate(f"enum-{word}-lower", f"{word.lower()} ")
    for name, text in _TEXTS.items():
        yield Candidate(name, text)
    for group in _SPECIAL:
        fits = "format" in schema or ("pattern" in schema and any(not list(violations(schema, text)) for text in group.values()))
        for name, text in group.items() if fits else list(group.items())[-1:]:
            yield Candidate(name, text)
    most = schema.get("maxLength")
    if most is not None:
        yield Candidate("longest", _of_length(schema, most))
        yield Candidate("too-long", _of_length(schema, most + 1))
        yield Candidate("longest-han", "路" * most)
    yield Candidate("very-long", "a" * LONG)


def _of_length(schema: Schema, length: int) -> str:
    """A text of that length, of the field's form if one of these is."""
    labels = ("a" * 62 + ".") * (length // 63 + 1)
    digits = "1" * length
    rate = f"{digits[:15]}.111k"
    forms = (
        "a" * length,
        rate + digits[len(rate) :],
        labels[: length - 1] + "a",
        digits,
        "a/" + digits[2:],
        f"198.18.0.9/{digits}"[:length],
    )
    form = {key: each for key, each in schema.items() if key not in ("minLength", "maxLength")}
    for text in forms:
        if len(text) == length and not list(violations(form, text)):
            return text
    return "a" * length


def _integers(schema: Schema) -> Iterator[Candidate]:
    numbers = {-1, 0, 1, 2, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63)}
    for bound in (schema.get("minimum"), schema.get("maximum")):
        if bound is not None:
            numbers |= {bound - 1, bound, bound + 1}
    if "minimum" in schema and "maximum" in schema:
        numbers.add((schema["minimum"] + schema["maximum"]) // 2)
    for number in sorted(numbers):
        yield Candidate(f"integer-{number}", number)


def _lists(schema: Schema, present: Any) -> Iterator[Candidate]:
    yield Candidate("items-0", [])
    yield Candidate("item-null", [None])
    items = schema["items"]
    of_objects = items.get("type") == "object"
    if of_objects and not (isinstance(present, list) and present):
        return
    good = list(_different(schema, present))
    if not good:
        return
    yield Candidate("items-1", good[:1])
    yield Candidate("items-2", good[:2])
    yield Candidate("item-twice", [good[0], good[0]])
    if "maxItems" in schema:
        yield Candidate("items-most", good[: schema["maxItems"]])
        yield Candidate("items-too-many", good[: schema["maxItems"] + 1])
    if not of_objects:
        for each in candidates(items):
            if each.value is not ABSENT and each.value is not None:
                yield Candidate(f"item-{each.label}", [each.value])
                if schema.get("minItems", 0) > 1:
                    yield Candidate(f"items-with-{each.label}", [good[-1], each.value])


def _different(schema: Schema, present: Any) -> Iterator[Any]:
    """Items that differ, one more than the list takes, as far as there are so many."""
    wanted = schema.get("maxItems", 8) + 1
    items = schema["items"]
    if items.get("type") == "object":
        keys = schema.get("x-kubernetes-list-map-keys") or [*items.get("required", []), *items["properties"]][:1]
        for number in range(wanted):
            item = copy.deepcopy(present[0])
            for key in keys:
                field = items["properties"][key]
                if field.get("type") == "string" and "enum" not in field:
                    item[key] = f"{'/' if str(item.get(key)).startswith('/') else ''}x{number}"
                    break
                if field.get("type") == "integer":
                    item[key] = number
                    break
            yield item
        return
    if items.get("type") == "integer":
        yield from range(items.get("minimum", 0), items.get("minimum", 0) + wanted)
        return
    texts = items.get("enum") or [
        *_good_texts(items),
        *(made for number in range(wanted) for made in (f"x{number}", f"10.0.{number}.1/24")),
    ]
    found = 0
    for text in texts:
        if found < wanted and not list(violations(items, text)) and text != "auto":
            found += 1
            yield text


def _good_texts(schema: Schema) -> Iterator[str]:
    for text in ("data0", "data1"):
        if not list(violations(schema, text)):
            yield text


def _objects(schema: Schema) -> Iterator[Candidate]:
    yield Candidate("entries-0", {})
    if "properties" in schema:
        yield Candidate("unknown-field", {"noSuchField": 1})
        return
    below = schema.get("additionalProperties")
    if below is None:
        return
    value: Any = 1 if below.get("type") == "integer" else "x"
    for name, key in _KEYS.items():
        yield Candidate(f"key-{name}", {key: value})
    most = schema.get("maxProperties")
    if most is not None:
        yield Candidate("entries-most", {f"example.com/k{number}": value for number in range(most)})
        yield Candidate("entries-too-many", {f"example.com/k{number}": value for number in range(most + 1)})
    for each in candidates(below):
        if each.value is not ABSENT and each.value is not None:
            yield Candidate(f"entry-{each.label}", {"example.com/a": each.value})
