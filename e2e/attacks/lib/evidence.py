"""What every attack did to the code before its fix, as committed in `evidence.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from e2e.attacks.lib.judge import Outcome

Before = Literal["got through", "held already"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One attack against one commit."""

    commit: str
    outcome: Before
    observed: str
    seconds: float


def of(outcome: Outcome, commit: str, seconds: float) -> Evidence | None:
    """The evidence that an outcome gives; none where the attack could not be carried out."""
    if outcome.verdict == "error":
        return None
    return Evidence(commit, "held already" if outcome.verdict == "held" else "got through", outcome.observed, round(seconds, 1))


def load(file: Path) -> dict[str, Evidence]:
    """The evidence by attack."""
    return {attack: Evidence(**fields) for attack, fields in json.loads(file.read_text(encoding="utf-8")).items()}


def store(file: Path, added: Mapping[str, Evidence]) -> None:
    """Puts evidence beside, or in the place of, what the file has."""
    whole = {**load(file), **added}
    text = json.dumps({attack: asdict(whole[attack]) for attack in sorted(whole)}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
