"""Scenario files: TOML in, a Scenario or a message that names file and field out."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fairlead_dev.checkout import WAN_DATA
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.scenario.model import Scenario

SCENARIOS = WAN_DATA / "scenarios"
MAXIMUM_BYTES = 1_000_000

_Model = TypeVar("_Model", bound=BaseModel)


def named_scenarios() -> list[str]:
    """The names of the scenarios that come with the test bed."""
    return sorted(file.stem for file in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_file: str) -> Scenario:
    """The scenario of that file, or the one of that name among those that come with the test bed."""
    file = Path(name_or_file)
    if not file.suffix and name_or_file in named_scenarios():
        file = SCENARIOS / f"{name_or_file}.toml"
    if not file.suffix and not file.exists():
        raise CommandUsageError(f"{name_or_file}: no such scenario; there are {', '.join(named_scenarios())}, or name a .toml file")
    return load_toml(file, Scenario)


def load_toml(file: Path, model: type[_Model]) -> _Model:
    """The content of `file` as a `model`; UsageError naming the file and the field at fault."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise CommandUsageError(f"{file}: cannot be read: {error.strerror}") from None
    if len(text) > MAXIMUM_BYTES:
        raise CommandUsageError(f"{file}: has over {MAXIMUM_BYTES} bytes, which no scenario needs: is it the right file?")
    try:
        content = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandUsageError(f"{file}: is not TOML: {error}") from None
    return validated(str(file), content, model)


def validated(where: str, content: object, model: type[_Model]) -> _Model:
    """`content` as a `model`; UsageError with one line per field at fault, each naming `where` and the field."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = [f"{where}: {_field(fault['loc'])}{_message(fault)}" for fault in error.errors()]
        raise CommandUsageError("\n".join(faults)) from None


def _field(location: tuple[int | str, ...]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"{text}: " if text else ""


def _message(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "is not a field here; is it misspelt?"
    message = str(fault["msg"]).removeprefix("Value error, ")
    given = fault.get("input")
    return message if isinstance(given, dict | list) or fault["type"] == "missing" else f"{message}, got {given!r}"
