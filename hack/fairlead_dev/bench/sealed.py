"""Benches on sealed paths: none runs without a logged reason, and rows say what kind of set they are of."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.testbed.sealed.openings import LOG, LoggedOpening, Opened, open_sealed
from fairlead_dev.testbed.sealed.sets import list_with


def add_reason(parser: argparse.ArgumentParser) -> None:
    """The option that a bench on sealed paths needs."""
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why a sealed set is looked at; it is logged (docs/explanation/sealed-sets.md)"
    )


def log_opening(name: str, bench: str, reason: str) -> Opened:
    """Logs that `bench` opens a set, before anything is measured. UsageError without a reason."""
    sealed = list_with(name)
    wanted = LoggedOpening(datetime.now(UTC).date().isoformat(), name, bench, reason, sealed.sha256, _commit())
    found = open_sealed(sealed, wanted)
    print(f"opening {found.number} of the sealed set {name}, in {LOG}: commit it with the figures", file=sys.stderr)
    return found


def about_set(found: Opened | None) -> dict[str, Any]:
    """What the row `about` has of the set that was measured."""
    if found is None:
        return {"set": "development"}
    opening = found.opening
    return {"set": found.kind, "sealed": opening.set, "opening": found.number, "reason": opening.reason, "commit": opening.commit}


def _commit() -> str:
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"
