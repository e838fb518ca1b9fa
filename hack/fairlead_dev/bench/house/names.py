"""Public type names that are defined more than once. Pure functions of the tracked files' texts, by path from the root."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath

Texts = Mapping[PurePosixPath, str]

PYTHON_PACKAGES = ("operator/fairlead", "images/advisor/fairlead_advisor", "hack")
RUST_CRATES = ("images/mover/src", "images/mover/crates", "hack/wan/src")
_RUST_TYPE = re.compile(r"^ *pub(?:\([a-z: ]+\))? (?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
_RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub(?:\([a-z]+\))? )?mod \w+ \{", re.MULTILINE)
_SHARED_HEADING = "## One name in several places"
_SHARED_ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def python_types(source: str) -> list[str]:
    """The public classes of a module's top level."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def rust_types(source: str) -> list[str]:
    """The structs, enums, unions, traits and type aliases that a file makes visible beyond itself, without those of its tests."""
    tests = _RUST_TESTS.search(source)
    return _RUST_TYPE.findall(source[: tests.start()] if tests else source)


def shared_names(glossary: str) -> frozenset[str]:
    """The names that the glossary allows in several places, since they mean one thing there."""
    _, _, section = glossary.partition(_SHARED_HEADING)
    return frozenset(_SHARED_ROW.findall(section.partition("\n## ")[0]))


def homonyms(texts: Texts, shared: frozenset[str]) -> dict[tuple[str, str], list[PurePosixPath]]:
    """Type names, with the suffix of their language, that more than one of its files defines, and these files; not the `shared` ones."""
    found: dict[tuple[str, str], list[PurePosixPath]] = defaultdict(list)
    for path, text in texts.items():
        for name in _types(path, text):
            found[name, path.suffix].append(path)
    return {key: paths for key, paths in sorted(found.items()) if len(paths) > 1 and key[0] not in shared}


def _types(path: PurePosixPath, text: str) -> list[str]:
    if "tests" in path.parts:
        return []
    if path.suffix == ".py" and any(path.is_relative_to(package) for package in PYTHON_PACKAGES):
        return python_types(text)
    if path.suffix == ".rs" and any(path.is_relative_to(crate) for crate in RUST_CRATES):
        return rust_types(text)
    return []
