"""Which attacks there are, read from the sources: nothing is imported, so nothing has to be installed or started for it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LAYERS = ("processes", "apiserver", "cluster")
PREFIX = "attack_"


class CatalogueError(ValueError):
    """A function that is no whole attack; the message names it and what it lacks."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: `id` is FILE/FUNCTION without the prefixes, with dashes; `node` is how pytest is asked for it, from this folder."""

    id: str
    layer: str
    title: str
    gains: str
    node: str


def attack_id(node: str) -> str:
    """The id of the attack with a node id of pytest."""
    file, _, function = node.partition("::")
    return f"{_words(Path(file).stem)}/{_words(function.partition('[')[0])}"


def read(folder: Path) -> tuple[Attack, ...]:
    """All attacks below the folders of the layers, by layer and id. Raises CatalogueError."""
    found = [attack for layer in LAYERS for file in sorted((folder / layer).glob(f"{PREFIX}*.py")) for attack in _attacks(layer, file)]
    ids = [attack.id for attack in found]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise CatalogueError(f"two attacks have the id {twice[0]}; rename one")
    return tuple(found)


def _attacks(layer: str, file: Path) -> list[Attack]:
    found: list[Attack] = []
    for function in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not function.name.startswith(PREFIX):
            continue
        node = f"{layer}/{file.name}::{function.name}"
        title = " ".join((ast.get_docstring(function) or "").partition("\n\n")[0].split())
        if not title:
            raise CatalogueError(f"{node}: the docstring must say in one sentence what the attacker does")
        found.append(Attack(attack_id(node), layer, title, _gains(node, function.decorator_list), node))
    return found


def _gains(node: str, decorators: Sequence[ast.expr]) -> str:
    for each in decorators:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "gains" and len(each.args) == 1:
            argument = each.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value:
                return argument.value
    raise CatalogueError(f'{node}: write @gains("what the attacker would have of it") above it, with a literal string')


def _words(name: str) -> str:
    return name.removeprefix(PREFIX).replace("_", "-")
