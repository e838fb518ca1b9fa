"""Benches on sealed paths: none runs without a logged reason, and rows say what kind of set they are of."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.sealed.openings import LOG, LoggedOpening, Opened, open_sealed
from fairlead_dev.testbed.sealed.sets import list_with


def add_reason(parser: argparse.ArgumentParser) -> None:
    """The option that a bench on sealed paths needs."""
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why a sealed set is looked at; it is logged (docs/explanation/sealed-sets.md)"
    )


def log_opening(name: str, bench: str, reason: str, measured: str = "", kept: Path | None = None) -> Opened:
    """Logs that `bench` opens a set, before anything is measured. UsageError without a reason, or with code that is in no commit.

    `measured` is a digest of all that the figures depend on: with another one it is another opening. New files in the folder `kept`, where
    finished runs are put, may be in no commit yet.
    """
    sealed = list_with(name)
    wanted = LoggedOpening(datetime.now(UTC).date().isoformat(), name, bench, reason, sealed.sha256, commit(), measured)
    found = open_sealed(sealed, wanted, uncommitted=uncommitted(kept))
    print(f"opening {found.number} of the sealed set {name}, in {LOG}: no further call goes on before that is committed", file=sys.stderr)
    return found


def about_set(found: Opened | None) -> dict[str, Any]:
    """What the row `about` has of the set that was measured."""
    if found is None:
        return {"set": "development"}
    opening = found.opening
    told = {"set": found.kind, "sealed": opening.set, "opening": found.number, "reason": opening.reason}
    return {**told, "commit": found.commit, "opened_at_commit": opening.commit, "measured": opening.measured[:12]}


def commit() -> str:
    """This checkout's code."""
    return _git("describe", "--always", "--dirty").strip()


def uncommitted(kept: Path | None = None) -> tuple[str, ...]:
    """The files that are not as in the last commit, new ones among them but for those in `kept`."""
    folder = None if kept is None else kept.resolve()
    return changed(_git("status", "--porcelain", "--untracked-files=all"), folder)


def changed(status: str, kept: Path | None) -> tuple[str, ...]:
    """The files in what git says. What is committed is no part of this machine's any more: nobody takes a run out of it, or adds one."""
    files = [(line[:2], line[3:]) for line in status.splitlines()]
    return tuple(file for mark, file in files if mark != "??" or kept is None or (CHECKOUT / file).parent != kept)


def _git(*words: str) -> str:
    asked = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise CommandUsageError(f"{CHECKOUT}: git does not say what was measured: {asked.stderr.strip()}")
    return asked.stdout
