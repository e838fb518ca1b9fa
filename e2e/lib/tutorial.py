"""The commands of a page and the output that it shows, so that tests can run them as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "tutorial" / "first-transfer.md"
PREPARE, COMMANDS, CLEAN_UP = "Prepare", "Five commands", "Clean up"
"""Headings of the tutorial."""
TENANTS = ("astro", "bio")
"""The namespaces of its two tenants."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command line, and what the page shows as its output; empty where it shows none."""

    section: str
    command: str
    shown: str = ""


def steps(page: str, section: str) -> list[Step]:
    """The lines of the section's blocks of `sh`. A block of `text` behind one is the output of its last line."""
    found: list[Step] = []
    heading = ""
    for before, token in pairwise(MarkdownIt().parse(page)):
        if before.type == "heading_open":
            heading = token.content
        elif token.type == "fence" and heading == section and token.info == "sh":
            found += [Step(section, line) for line in token.content.splitlines()]
        elif token.type == "fence" and heading == section and token.info == "text":
            found[-1] = Step(section, found[-1].command, token.content)
    return found


def looks_as_shown(printed: str, shown: str) -> bool:
    """Whether the output has the shown lines, in their order and alone. A word with a figure stands for any other one with a figure."""
    return [_words(line) for line in printed.splitlines()] == [_words(line) for line in shown.splitlines()]


def _words(line: str) -> list[str]:
    return ["0" if any(character.isdigit() for character in word) else word for word in line.split()]
