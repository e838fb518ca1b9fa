"""What MkDocs calls while it builds the site (`hooks` in hack/site/mkdocs.yml)."""

from __future__ import annotations

import re

import mdformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.site.contents import INDEX, linked_files, navigation, page_texts

STYLE = "site.css"
# <td><code>spec.source.node</code></td>
_NAME_CELL = re.compile(r"(?<=<td><code>)[\w.\[\]]+(?=</code>)")


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
    """Lets the names of fields and metrics break after dots and underscores, so that tables stay narrow."""
    return _NAME_CELL.sub(lambda cell: re.sub(r"([._])", r"\1<wbr>", cell[0]), html)


def _file(path: str, config: MkDocsConfig) -> File:
    """The front page is the repository's. Pages of docs/ are where they are without that folder's name."""
    file = File(path, str(CHECKOUT), config.site_dir, config.use_directory_urls)
    file.dest_uri = "pages/index.html" if path == INDEX else file.dest_uri.removeprefix("docs/")
    return file
