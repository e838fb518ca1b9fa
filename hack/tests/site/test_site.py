"""The site of this checkout, built once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.site.contents import page_texts

ROOT = "https://site.invalid/"


@dataclass
class Html(HTMLParser):
    """What a page links to, what it loads, and where one can link to in it."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    diagrams: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if values.get(name)}
        self.diagrams += "mermaid" in values.get("class", "").split()
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") != "canonical":
            self.loaded.append(values.get("href", ""))
        elif values.get("src"):
            self.loaded.append(values["src"])


@dataclass(frozen=True)
class Site:
    folder: Path
    log: str
    pages: dict[str, Html]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CHECKOUT / "hack/site/mkdocs.yml"), "-d", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"}, check=False)
    assert built.returncode == 0, built.stderr
    pages = {}
    for path in folder.rglob("*.html"):
        pages[path.relative_to(folder).as_posix().removesuffix("index.html")] = page = Html()
        page.feed(path.read_text())
    return Site(folder, built.stderr, pages)


def test_it_is_built_without_warnings(site: Site) -> None:
    assert [line for line in site.log.splitlines() if not line.startswith("INFO")] == []


def test_every_page_of_the_repository_is_in_the_navigation(site: Site) -> None:
    assert len(site.pages.keys() - {"404.html"}) == len(page_texts())
    in_navigation = {urljoin(ROOT, link) for link in site.pages[""].links}
    assert {urljoin(ROOT, page) for page in site.pages if page != "404.html"} <= in_navigation


def test_every_link_inside_leads_to_a_page_and_a_heading_that_exist(site: Site) -> None:
    assert [f"{page} -> {link}" for page, link in _inner_links(site) if not _resolves(site, page, link)] == []


def test_nothing_is_loaded_from_the_network(site: Site) -> None:
    outside = {url for page in site.pages.values() for url in page.loaded if urlsplit(url).netloc}
    assert outside == set()
    assert [name for name, page in site.pages.items() if page.diagrams] == [], "Mermaid is loaded from the network: draw a picture"


@pytest.mark.parametrize(
    ("words", "location"),
    [("spec.bandwidth.guarantee", "reference/transferjob/"), ("max-min", "explanation/fair-shares/"), ("helm install", "")],
)
def test_the_search_knows_the_words_of_a_page(site: Site, words: str, location: str) -> None:
    found = {urldefrag(entry["location"]).url for entry in _search_entries(site) if words in entry["text"] or words in entry["title"]}
    assert location in found


def _search_entries(site: Site) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads((site.folder / "search/search_index.json").read_text())["docs"]
    return entries


def _inner_links(site: Site) -> Iterator[tuple[str, str]]:
    for name, page in site.pages.items():
        if name != "404.html":
            yield from ((name, link) for link in [*page.links, *page.loaded] if not urlsplit(link).scheme)


def _resolves(site: Site, page: str, link: str) -> bool:
    url, fragment = urldefrag(urljoin(ROOT + page, link))
    target = unquote(url.removeprefix(ROOT))
    if target in site.pages:
        return not fragment or unquote(fragment) in site.pages[target].names
    return (site.folder / target).is_file()
