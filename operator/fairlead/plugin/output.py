"""What is printed: rich text on a terminal, plain lines elsewhere, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.text import Text

_WIDE: Final = 10_000
"""Off a terminal nothing is cut or wrapped: a program or a file takes it."""


class Output:
    """Standard output in one form for the whole command. Colour only on a terminal, and not with NO_COLOR."""

    def __init__(self, *, as_json: bool, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = console or _console()

    @property
    def is_live(self) -> bool:
        """Whether a picture may be drawn again in its place."""
        return self.console.is_terminal and self.console.is_interactive and not self.as_json

    def show(self, shown: RenderableType) -> None:
        """Prints text or a table."""
        self.console.print(shown, highlight=False, soft_wrap=isinstance(shown, Text), markup=False)

    def line(self, words: str) -> None:
        """Prints one line as it is."""
        self.show(Text(words))

    def document(self, value: Any) -> None:
        """Prints one JSON document."""
        sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()

    def record(self, value: Any) -> None:
        """Prints one JSON document of a stream of them, on one line."""
        sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
        sys.stdout.flush()


def complain(words: str) -> None:
    """Prints one line on standard error."""
    print(f"kubectl fairlead: {words}", file=sys.stderr)  # noqa: T201


def _console() -> Console:
    console = Console()
    if console.is_terminal and sys.stdout.isatty():
        return console
    # FORCE_COLOR makes rich take a file for a terminal: the file gets colour, and no picture that is drawn again in its place.
    return Console(width=_WIDE, force_interactive=False)
