"""Falcon's search for the stream count, as a rival of the advisor's: it judges by its own goodput, and spares nobody."""

from __future__ import annotations

import sys
from pathlib import Path


def search_command(control_socket: Path, most_streams: int, record: Path) -> tuple[str, ...]:
    """The program that searches for the sending mover behind that socket, until it is ended."""
    options = ("--control-socket", str(control_socket), "--streams-max", str(most_streams), "--record", str(record))
    return (sys.executable, "-m", __name__, *options)
