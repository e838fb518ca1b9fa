"""Links between pages, and citations in code and pages. Pure functions of the tracked files' texts, by path from the root."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

from fairlead_dev.bench.house.counts import OWN

Texts = Mapping[PurePosixPath, str]

INDEX = PurePosixPath("docs/index.md")
REFERENCES = PurePosixPath("docs/references.md")
GLOSSARY = PurePosixPath("docs/glossary.md")
_FRONT = PurePosixPath("README.md")
_CITING = (".py", ".rs", ".md")
_LINK = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`\n]+`")
# `operator/fairlead/core`, not `hack/NAME/` or `hack/*.md`
_NAMED_PATH = re.compile(r"`((?:operator|images|hack|e2e|docs|crds|charts)/[a-z0-9_./-]+)`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# [Huang 2018, eq. 4.8] · RFC 9438 · ITU-T I.371
_PAPER = re.compile(r"\[([A-Z][A-Za-z-]+\s(?:19|20)\d\d)(?:,\s[^\]]+)?\](?!\()")
_STANDARD = re.compile(r"\b(RFC\s\d{3,5}|ITU-T\s[A-Z]\.\d+)\b")
# Forms that name no entry: Guo et al. · (Cardwell 2016) · (Arifuzzaman and Arslan, SC 2021) · ops.md 2.6
_LOOSE = re.compile(r"(\w+\set\sal\b|\([A-Z][a-z]+(?:\sand\s[A-Z][a-z]+)?,?\s(?:[A-Z]{2,}\s)?(?:19|20)\d\d\b)")
_NOTE = re.compile(r"\b([\w-]+\.md)\s\d+(?:\.\d+)*\b")


def links(page: PurePosixPath, text: str) -> list[tuple[PurePosixPath, str]]:
    """The files that a page links to, as paths from the root, each with its anchor or ''. Addresses of other sites are left out."""
    found = []
    for target in _LINK.findall(_CODE_SPAN.sub("", _FENCE.sub("", text))):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        found.append((PurePosixPath(posixpath.normpath(page.parent / file)) if file else page, anchor))
    return found


def orphan_pages(texts: Texts) -> list[PurePosixPath]:
    """Pages that no chain of links from the index reaches. The front page needs none."""
    reached, waiting = {INDEX, _FRONT}, [INDEX]
    while waiting:
        page = waiting.pop()
        for target, _ in links(page, texts.get(page, "")):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                waiting.append(target)
    return sorted(path for path in texts if path.suffix == ".md" and path not in reached)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(texts: Texts, files: Collection[PurePosixPath]) -> list[str]:
    """Links to files or headings that do not exist, as `page -> target`. `files`: every file and folder of the repository."""
    broken = []
    for page, text in texts.items():
        for target, anchor in links(page, text) if page.suffix == ".md" else ():
            if target not in files or (anchor and target.suffix == ".md" and anchor not in anchors(texts[target])):
                broken.append(f"{page} -> {target}{'#' + anchor if anchor else ''}")
    return broken


def missing_paths(texts: Texts, files: Collection[PurePosixPath]) -> list[str]:
    """Files and folders that pages name in code spans and that do not exist, as `page -> path`."""
    return [
        f"{page} -> {named}"
        for page, text in texts.items()
        if page.suffix == ".md"
        for named in _NAMED_PATH.findall(_FENCE.sub("", text))
        if PurePosixPath(named) not in files
    ]


def unresolved_citations(texts: Texts) -> list[str]:
    """Citations that the page of references does not list, and those in a form that names no entry of it, as `path:line: text`."""
    references = texts.get(REFERENCES, "")
    pages = {path.name for path in texts if path.suffix == ".md"}
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {_plain(match[1])}"
        for path, text in texts.items()
        if path.suffix in _CITING and path != REFERENCES and not any(path.is_relative_to(own) for own in OWN)
        for match in sorted(_citations(text), key=re.Match.start)
        if not _resolved(match, references, pages)
    ]


def _citations(text: str) -> Iterator[re.Match[str]]:
    for form in (_PAPER, _STANDARD, _LOOSE, _NOTE):
        yield from form.finditer(text)


def _resolved(match: re.Match[str], references: str, pages: Collection[str]) -> bool:
    cited = _plain(match[1])
    if match.re is _PAPER:
        return f"**{cited}.**" in references
    if match.re is _STANDARD:
        return f"| {cited} |" in references
    return match.re is _NOTE and cited in pages


def _plain(cited: str) -> str:
    return " ".join(cited.split())
