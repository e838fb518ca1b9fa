"""The checkout that is attacked: its programs, its chart and its commit."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT

VARIABLE = "FAIRLEAD_ATTACKS_AGAINST"


class TargetError(RuntimeError):
    """The checkout cannot be attacked as it is; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checkout with `make python` and `make programs` done. Attacks themselves are always of this checkout."""

    root: Path

    @classmethod
    def given(cls) -> Target:
        """The one that the runner was asked to attack; without a runner, this checkout."""
        return cls(Path(os.environ.get(VARIABLE) or CHECKOUT))

    @property
    def mover(self) -> Path:
        """`fairlead-mover`."""
        return self._there("build/bin/fairlead-mover", "make rust")

    @property
    def python(self) -> Path:
        """An interpreter with the operator and the advisor of the checkout."""
        return self._there(".venv/bin/python", "make python")

    @property
    def advisor(self) -> Path:
        """`fairlead-advisor`."""
        return self._there(".venv/bin/fairlead-advisor", "make python")

    @property
    def chart(self) -> Path:
        """The Helm chart with its CRDs."""
        return self.root / "charts" / "fairlead"

    def commit(self) -> str:
        """Its commit, shortened, with `+` where files differ from it. Raises TargetError."""

        def git(*arguments: str) -> str:
            done = subprocess.run(["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=False)
            if done.returncode:
                raise TargetError(f"{self.root} is no checkout: {done.stderr.strip()}")
            return done.stdout.strip()

        return git("rev-parse", "--short=7", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")

    def _there(self, path: str, remedy: str) -> Path:
        found = self.root / path
        if not found.exists():
            raise TargetError(f"{found} is missing: run `{remedy}` in {self.root}")
        return found
