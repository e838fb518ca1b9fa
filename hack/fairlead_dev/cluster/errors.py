"""Failures that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairlead_dev.errors import DevError


class ClusterError(DevError):
    """Something went wrong; the message has the cause and, where known, the remedy."""


class CommandFailedError(ClusterError):
    """A program ended with an error."""

    def __init__(self, args: Sequence[str], exit_code: int, output: str, log: Path | None = None) -> None:
        self.exit_code = exit_code
        self.output = output
        shown = " ".join(args) if len(args) <= 12 else " ".join(args[:12]) + " …"
        tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-15:])
        where = f"\n  full output: {log}" if log else ""
        super().__init__(f"`{shown}` failed with exit code {exit_code}" + (f":\n{tail}" if tail else "") + where)
