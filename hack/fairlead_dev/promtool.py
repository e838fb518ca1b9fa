"""What Prometheus' own tool says of a page of metrics, as a program serves it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from fairlead_dev.checkout import BINARIES
from fairlead_dev.errors import NotAvailableError

PROMTOOL: Final = BINARIES / "promtool"


def complaints(page: str, promtool: Path = PROMTOOL) -> str:
    """What `promtool check metrics` finds in the names, types and help of a page; empty if nothing. Raises NotAvailableError."""
    if not any(line and not line.startswith("#") for line in page.splitlines()):
        return "the page has no metrics"
    try:
        done = subprocess.run((promtool, "check", "metrics"), input=page, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotAvailableError(f"{promtool} is missing: run make programs") from error
    return done.stdout + done.stderr
