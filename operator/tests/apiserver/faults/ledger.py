"""What the plans of a long run came to, kept in a file, so that a run that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.checkout import CHECKOUT
from faults.plans import read_plan
from faults.workers import Verdict

WHAT_COUNTS = (
    *(
        f"operator/fairlead/{part}"
        for part in ("__main__.py", "api", "commands/uninstall.py", "core", "handlers", "kube", "metrics.py", "pages.py")
    ),
    "operator/tests/apiserver/faults",
)
"""With another operator or another suite a verdict is worth nothing. The package's other programs (agent, guard,
plugin) are not in it: the layers forbid the operator to import them."""


def digest(checkout: Path = CHECKOUT, parts: Iterable[str] = WHAT_COUNTS) -> str:
    """Of the code that the verdicts are about: files, and folders with all that is below them."""
    whole = hashlib.sha256()
    for part in parts:
        place = checkout / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            whole.update(f"{file.relative_to(checkout)}\n".encode() + file.read_bytes() + b"\n")
    return whole.hexdigest()[:16]


@dataclass(frozen=True)
class Ledger:
    """The verdicts of the run of that name, with the code of that digest, in a file of JSON lines."""

    file: Path
    run: str
    digest: str

    def note(self, verdict: Verdict) -> None:
        """Adds a verdict."""
        kept = {"run": self.run, "digest": self.digest, "plan": str(verdict.plan), "problems": verdict.problems}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps({**kept, "reached": verdict.reached, "seconds": round(verdict.seconds, 3)}) + "\n")

    def converged(self) -> list[Verdict]:
        """The plans that ended well in this run, with the same code. The others are to be run again."""
        good = [line for line in {line["plan"]: line for line in self._lines()}.values() if not line["problems"]]
        return [Verdict(read_plan(line["plan"]), (), line["reached"], line["seconds"], "") for line in good]

    def failures(self) -> int:
        """How often a plan failed, also where it ended well when it was run again."""
        return sum(bool(line["problems"]) for line in self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.file.read_text().splitlines() if self.file.exists() else [])
        return [line for line in lines if (line["run"], line["digest"]) == (self.run, self.digest)]
