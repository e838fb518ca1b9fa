"""What the plans of a long run came to, kept in a file, so that a run that was interrupted goes on where it was."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.checkout import CHECKOUT
from faults.plans import PlanError, read_plan
from faults.workers import Verdict

OPERATOR = tuple(
    f"operator/fairlead/{part}"
    for part in ("__main__.py", "api", "commands/uninstall.py", "core", "handlers", "kube", "metrics.py", "pages.py")
)
"""With another operator a verdict is worth nothing. The package's other programs (agent, guard, plugin) are not
in it: the layers forbid the operator to import them."""
SUITE = ("operator/tests/apiserver/faults",)
"""With another suite a plan that failed may end well, and is run again anyway; one that ended well did so with this operator."""


def digest(parts: Iterable[str], checkout: Path = CHECKOUT) -> str:
    """Of code: files, and folders with all that is below them."""
    whole = hashlib.sha256()
    for part in parts:
        place = checkout / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            whole.update(f"{file.relative_to(checkout)}\n".encode() + file.read_bytes() + b"\n")
    return whole.hexdigest()[:16]


@dataclass(frozen=True)
class Ledger:
    """The verdicts of the run of that name, with the operator of that digest, in a file of JSON lines."""

    file: Path
    run: str
    operator: str
    suite: str
    """The digest of the suite that gives verdicts now. Those that another suite gave are kept."""

    def note(self, verdict: Verdict) -> None:
        """Adds a verdict."""
        by = {"run": self.run, "operator": self.operator, "suite": self.suite}
        found = {"plan": str(verdict.plan), "problems": verdict.problems, "reached": verdict.reached, "seconds": round(verdict.seconds, 3)}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps({**by, **found}) + "\n")

    def converged(self) -> list[Verdict]:
        """The plans that ended well in this run, with the same operator. The others are to be run again."""
        good = [line for line in {line["plan"]: line for line in self._lines()}.values() if not line["problems"]]
        verdicts = []
        for line in good:
            # Another suite may have had a fault that this one has not.
            with contextlib.suppress(PlanError):
                of_this_suite = line["suite"] == self.suite
                verdicts.append(Verdict(read_plan(line["plan"]), (), line["reached"], line["seconds"], "", of_this_suite))
        return verdicts

    def failures(self) -> int:
        """How often a plan failed, also where it ended well when it was run again, and by whichever suite."""
        return sum(bool(line["problems"]) for line in self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.file.read_text().splitlines() if self.file.exists() else [])
        # A line of an earlier form names no operator.
        return [line for line in lines if (line["run"], line.get("operator")) == (self.run, self.operator)]
