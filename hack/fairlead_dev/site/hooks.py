"""What MkDocs calls while it builds the site (`hooks` in hack/site/mkdocs.yml)."""

from __future__ import annotations

import re
from itertools import cycle

import mdformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.site.contents import INDEX, linked_files, navigation, page_texts

STYLE = "site.css"
# <td><code>spec.source.node</code></td>
_NAME_CELL = re.compile(r"(?<=<td><code>)[\w.\[\]]+(?=</code>)")

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TITLE = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<td\b[^>]*>(.*?)</td>", re.DOTALL)
_FEWEST_COLUMNS = 3
_PROSE_CHARACTERS = 60


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Makes the navigation from docs/index.md."""
    config.nav = navigation(page_texts())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Every page of the repository and what pages link to, by path from the repository's root, in place of the files of docs/."""
    texts = page_texts()
    linked = {target for page, text in texts.items() for target in linked_files(page, text) if (CHECKOUT / target).is_file()}
    style = File(STYLE, str(CHECKOUT / "hack/site"), config.site_dir, config.use_directory_urls)
    theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*theme, style, *(_file(path, config) for path in sorted({*texts, *linked}))])


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Pages are written as GitHub reads them. Python-Markdown wants empty lines before lists and tables, and four spaces in lists."""
    return mdformat.text(markdown, options={"wrap": "keep"}, extensions={"mkdocs", "gfm", "tables"})


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lets the names of fields and metrics break after dots and underscores, and tells the style which tables are of prose."""
    broken = _NAME_CELL.sub(lambda cell: re.sub(r"([._])", r"\1<wbr>", cell[0]), html)
    return _TABLE.sub(lambda table: titled(table[0]), broken)


def titled(table: str) -> str:
    """A table of prose with each cell's title in the cell, so that a narrow window has one cell below the other (site.css). One of
    figures, or of two columns, stays as it is."""
    titles = [_plain(title) for title in _TITLE.findall(table)]
    if len(titles) < _FEWEST_COLUMNS or max((len(_plain(text)) for text in _CELL.findall(table)), default=0) < _PROSE_CHARACTERS:
        return table
    following = cycle(titles)
    cells = re.sub(r"<td\b", lambda _: f'<td data-title="{next(following)}"', table)
    return cells.replace("<table", "<table data-prose", 1)


def _plain(html: str) -> str:
    """The text, as an attribute has it."""
    return re.sub(r"<[^>]*>", "", html).replace('"', "&quot;").strip()


def _file(path: str, config: MkDocsConfig) -> File:
    """The front page is the repository's. Pages of docs/ are where they are without that folder's name."""
    file = File(path, str(CHECKOUT), config.site_dir, config.use_directory_urls)
    file.dest_uri = "pages/index.html" if path == INDEX else file.dest_uri.removeprefix("docs/")
    return file
