"""The navigation of the site, from the index of the pages. Texts of pages are by path from the repository's root."""

from __future__ import annotations

import posixpath
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fairlead_dev.checkout import CHECKOUT

FRONT = "README.md"
INDEX = "docs/index.md"

NavItem = dict[str, "str | list[NavItem]"]
"""An entry as MkDocs takes it: a page with a title, or a titled list of entries."""


@dataclass
class _Section:
    title: str
    entries: list[tuple[str, str]] = field(default_factory=list)
    parts: list[_Section] = field(default_factory=list)


def page_texts() -> dict[str, str]:
    """Every page of the checkout by its path, also those that git does not follow yet."""
    listed = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name: (CHECKOUT / name).read_text() for name in sorted(set(names)) if name and (CHECKOUT / name).is_file()}


def navigation(texts: Mapping[str, str]) -> list[NavItem]:
    """The front page and the index, then what the index lists, by its headings. A page that the index does not name comes below the
    first page that links to it; one that no page links to is missing."""
    sections = _sections(texts[INDEX])
    placed = {FRONT, INDEX} | {page for section in sections for part in (section, *section.parts) for _, page in part.entries}

    def entry(title: str, page: str) -> NavItem:
        below = [target for target in dict.fromkeys(linked_files(page, texts.get(page, ""))) if target in texts and target not in placed]
        placed.update(below)
        return {title: [{"Overview": page}, *(entry(heading(texts[child]), child) for child in below)]} if below else {title: page}

    items: list[NavItem] = [{"Fairlead": [{"Overview": FRONT}, {"All pages": INDEX}]}]
    for section in sections:
        entries: list[NavItem] = [entry(title, page) for title, page in section.entries]
        entries += [{part.title: [entry(title, page) for title, page in part.entries]} for part in section.parts]
        items.append({section.title: entries})
    return items


def linked_files(page: str, text: str) -> list[str]:
    """Paths from the repository's root to what a page links to or shows."""
    return [target for _, target in _links(page, text)]


def heading(text: str) -> str:
    """The first heading of a page, as plain text; empty if it has none."""
    tokens = MarkdownIt().parse(text)
    first = next((inline for before, inline in pairwise(tokens) if before.type == "heading_open"), None)
    return "".join(token.content for token in first.children or ()) if first else ""


def _sections(index: str) -> list[_Section]:
    """Second-level headings with the links of their lists; a paragraph before a list that ends with a colon names a part."""
    sections: list[_Section] = []
    tokens = MarkdownIt().parse(index)
    depth = 0
    for before, token in pairwise(tokens):
        depth += {"list_item_open": 1, "list_item_close": -1}.get(before.type, 0)
        if token.type != "inline":
            continue
        if before.type == "heading_open" and before.tag == "h2":
            sections.append(_Section(token.content))
        elif sections and depth:
            into = sections[-1].parts[-1] if sections[-1].parts else sections[-1]
            into.entries += [(title, page) for title, page in _links_of(INDEX, token) if page.endswith(".md")]
        elif sections and token.content.endswith(":"):
            sections[-1].parts.append(_Section(token.content.removesuffix(":")))
    return sections


def _links(page: str, text: str) -> Iterator[tuple[str, str]]:
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "inline":
            yield from _links_of(page, token)


def _links_of(page: str, inline: Token) -> Iterator[tuple[str, str]]:
    """The text and the target, without its anchor, of each link and picture that stays in the repository."""
    title, target = "", ""
    for token in inline.children or ():
        if token.type in ("link_open", "image"):
            title, target = "", str(token.attrGet("href") or token.attrGet("src") or "").partition("#")[0]
            if token.type == "image" and target and "://" not in target:
                yield token.content, posixpath.normpath(PurePosixPath(page).parent / target)
        elif token.type == "link_close":
            if target and "://" not in target:
                yield title, posixpath.normpath(PurePosixPath(page).parent / target)
        elif token.type in ("text", "code_inline"):
            title += token.content
        elif token.type == "softbreak":
            title += " "
