"""Which paths are sealed: drawn from a seed, listed in the repository, and held to that list by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from fairlead_dev.checkout import WAN_DATA
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.draw import draw_paths, even_paths
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.scenario.model import Path
from fairlead_dev.testbed.sealed.engine_paths import EnginePath, EngineSetSpecification, draw_engine_paths

FOLDER = WAN_DATA / "sealed"
LIST = FOLDER / "paths.json"
ENGINES_LIST = FOLDER / "engines.json"
"""A list of its own: the digest of the other one, which is older, covers all that is in it."""
SECOND_LIST = FOLDER / "classifier-2.json"

CLASSIFIER, DECISIONS, LISTENING, ENGINES, CLASSIFIER_2 = "classifier", "decisions", "listening", "engines", "classifier-2"
PURPOSES = {
    CLASSIFIER: "the final table of the background classifier",
    DECISIONS: "the final matrix of decisions",
    LISTENING: "the thresholds of the loaded classification",
    ENGINES: "the choice of the transport protocol",
    CLASSIFIER_2: "the final table of a classifier that learnt from the first of these sets",
}
RECORDED_AS = {CLASSIFIER: "sealed", CLASSIFIER_2: "sealed-2"}
"""The sets of the classifier are data sets of their own."""
_SIDES = {DECISIONS: ("sealed-d", 8), LISTENING: ("sealed-l", 8)}
"""Beside the classifier's, which are a data set of their own: what their names begin with, and how many."""


@dataclass(frozen=True, slots=True)
class SealedSet:
    """Paths put aside for one purpose, by their names."""

    name: str
    purpose: str
    paths: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Sealed:
    """The sealed sets of one list, the seed that they come from, and the digest of the whole list."""

    seed: int
    sets: tuple[SealedSet, ...]

    @property
    def sha256(self) -> str:
        """Over seed, names and every value of every path."""
        return hashlib.sha256(json.dumps(_listed(self), sort_keys=True).encode()).hexdigest()

    def of(self, name: str) -> SealedSet:
        """The set of that name."""
        return next(one for one in self.sets if one.name == name)


def draw_sealed(specification: Specification) -> Sealed:
    """The sets that a specification's seed gives, from its ranges."""
    drawn, seed = specification.drawn_paths, specification.seed
    sides = {name: dict(even_paths(drawn, count, seed, f"sealed {name}", prefix)) for name, (prefix, count) in _SIDES.items()}
    sets = {CLASSIFIER: _paths_of(specification), **sides}
    return Sealed(seed, tuple(SealedSet(name, PURPOSES[name], paths) for name, paths in sets.items()))


def draw_engines(specification: EngineSetSpecification) -> Sealed:
    """The list of the set for the choice of the transport protocol."""
    return Sealed(specification.seed, (SealedSet(ENGINES, PURPOSES[ENGINES], draw_engine_paths(specification)),))


def draw_second(specification: Specification) -> Sealed:
    """The list of the classifier's second set."""
    return Sealed(specification.seed, (SealedSet(CLASSIFIER_2, PURPOSES[CLASSIFIER_2], _paths_of(specification)),))


def load_sealed(file: FilePath = LIST, kind: type[Path] = Path) -> Sealed:
    """A list of the repository, of paths of that kind. UsageError if it is none, or if anything in it was changed after it was sealed."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        sets = tuple(
            SealedSet(name, one["purpose"], {path_id: kind(**path) for path_id, path in one["paths"].items()})
            for name, one in content["sets"].items()
        )
        found, sha256 = Sealed(int(content["seed"]), sets), content["sha256"]
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise CommandUsageError(f"{file}: is no list of sealed paths ({error}): take it from the repository again") from None
    if found.sha256 != sha256:
        raise CommandUsageError(
            f"{file}: was changed after it was sealed (digest {found.sha256[:12]}, sealed {sha256[:12]}): take it from the repository again"
        )
    return found


def load_lists() -> tuple[Sealed, ...]:
    """All lists of the repository. UsageError as `load_sealed`."""
    return load_sealed(), load_sealed(ENGINES_LIST, EnginePath), load_sealed(SECOND_LIST)


def list_with(name: str) -> Sealed:
    """The list that has the set of that name. UsageError as `load_sealed`."""
    return next(sealed for sealed in load_lists() if any(one.name == name for one in sealed.sets))


def sealed_engine_paths() -> dict[str, EnginePath]:
    """The paths for the choice of the transport protocol. UsageError as `load_sealed`."""
    return {name: path for name, path in list_with(ENGINES).of(ENGINES).paths.items() if isinstance(path, EnginePath)}


@cache
def sealed_ids() -> frozenset[str]:
    """The names of all sealed paths."""
    return frozenset(path_id for sealed in load_lists() for one in sealed.sets for path_id in one.paths)


def specification(name: str = CLASSIFIER) -> Specification:
    """What a set of the classifier is drawn from; the other sets of the older list come from that of `CLASSIFIER` too."""
    return load_toml(DATASETS / f"{RECORDED_AS[name]}.toml", Specification)


def engine_specification() -> EngineSetSpecification:
    """What the set for the choice of the transport protocol is drawn from."""
    return load_toml(FOLDER / "engines.toml", EngineSetSpecification)


def write_sealed(sealed: Sealed, file: FilePath = LIST) -> None:
    """Writes the list with its digest. UsageError if there is one: a sealed set is never drawn again."""
    if file.exists():
        raise CommandUsageError(f"{file}: is there already, and a sealed set is never drawn again")
    write_json(file, {**_listed(sealed), "sha256": sealed.sha256})


def write_json(file: FilePath, content: object) -> None:
    """Writes a file so that it is never seen half written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(file)


def _paths_of(specification: Specification) -> dict[str, Path]:
    return {one.id: one.path for one in draw_paths(specification)}


def _listed(sealed: Sealed) -> dict[str, Any]:
    sets = {
        one.name: {
            "purpose": one.purpose,
            "paths": {path_id: path.model_dump(mode="json", exclude_defaults=True) for path_id, path in one.paths.items()},
        }
        for one in sealed.sets
    }
    return {"seed": sealed.seed, "sets": sets}
