"""`make site-look`: the built site in headless Chromium at two widths: pictures, a search, and no page wider than its window."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from fairlead_dev.browser import DevToolsPage, find_chromium, open_page
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError, DevError

SITE: Final = CHECKOUT / "build" / "site"
PICTURES: Final = CHECKOUT / "build" / "site-look"
WIDTHS_PX: Final = (1280, 390)
"""Of a laptop's window and of a telephone."""
WINDOW_HEIGHT_PX: Final = 900
HIGHEST_PICTURE_PX: Final = 4000
PAGES: Final = ("", "tutorial/first-transfer/", "explanation/fair-shares/", "reference/transferjob/")
"""The front page; commands, pictures, and wide tables."""
SEARCHED: Final = "guarantee"
_SEARCH_LIMIT_MS: Final = 60_000

_MEASURED: Final = """(() => {
  const room = window.innerWidth
  const isBox = (element) => getComputedStyle(element).overflowX !== "visible"
  const scrolls = (element) => element !== document.body && (isBox(element) || scrolls(element.parentElement))
  const sticksOut = (element) => element.getBoundingClientRect().right > room + 1 && !scrolls(element.parentElement)
  const named = (element) => element.tagName.toLowerCase() + (element.className ? `.${element.className}` : "")
  const widest = [...document.body.querySelectorAll("*")].filter(sticksOut).slice(0, 3).map(named)
  const root = document.scrollingElement
  return {room, width: root.scrollWidth, height: root.scrollHeight, widest}
})()"""
_SETTLED: Final = """(async () => {
  const still = document.createElement("style")
  still.textContent = "*, *::before, *::after { transition: none !important; animation: none !important }"
  document.head.append(still)
  await document.fonts.ready
  for (let frames = 0; frames < 3; frames++) await new Promise((next) => requestAnimationFrame(next))
})()"""
_FOUND: Final = f"""new Promise((done) => {{
  const look = () => {{
    const links = [...document.querySelectorAll(".md-search-result__link")].map((link) => link.href)
    links.length || performance.now() > {_SEARCH_LIMIT_MS} ? done(links) : setTimeout(look, 100)
  }}
  look()
}})"""


@dataclass(frozen=True, slots=True)
class PageSize:
    """A page as it is laid out in a window, in pixels."""

    page: str
    room: int
    width: int
    height: int
    widest: tuple[str, ...] = ()
    """Elements that stick out."""

    @classmethod
    def of(cls, page: str, measured: Mapping[str, Any]) -> PageSize:
        """From what the page says of itself."""
        return cls(page, measured["room"], measured["width"], measured["height"], tuple(measured["widest"]))

    @property
    def trouble(self) -> str | None:
        """What is wrong if it is wider than its window."""
        if self.width <= self.room:
            return None
        by = f" by {', '.join(self.widest)}" if self.widest else ""
        return f"/{self.page} is {self.width} px wide in a window of {self.room} px{by}"


def pages_of(site: Path) -> list[str]:
    """Every page of a built site, by its path as a browser has it."""
    return sorted(path.relative_to(site).as_posix().removesuffix("index.html") for path in site.rglob("*.html"))


def picture_name(page: str, width_px: int) -> str:
    """The file of a page's picture."""
    return f"{page.strip('/').replace('/', '-') or 'front'}-{width_px}.png"


def search_address(root: str, words: str) -> str:
    """The front page with its search open and these words in it."""
    return f"{root}?q={quote(words)}"


def search_trouble(links: Iterable[str], site: Path, words: str) -> str | None:
    """What is wrong with the links that a search has found: each leads to a page of the site, and the first to one with the words."""
    pages = [site / unquote(urlsplit(link).path).lstrip("/") / "index.html" for link in links]
    if not pages:
        return f"a search for {words!r} finds nothing"
    if missing := [page for page in pages if not page.is_file()]:
        return f"a search for {words!r} leads to {missing[0].relative_to(site).as_posix()}, which does not exist"
    if words.lower() not in pages[0].read_text(encoding="utf-8").lower():
        return f"a search for {words!r} leads first to {pages[0].relative_to(site).as_posix()}, which does not have it"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Looks at the site; the exit code."""
    parser = argparse.ArgumentParser(prog="site-look", description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE, help="folder of the built site [build/site]")
    parser.add_argument("--output", type=Path, default=PICTURES, help="folder for the pictures [build/site-look]")
    parser.add_argument("--page", action="append", metavar="PATH", help="draw these pages instead, e.g. reference/metrics/")
    parser.add_argument("--install", action="store_true", help="install Chromium with apt-get where it is missing")
    options = parser.parse_args(arguments)
    try:
        if not (options.site / "index.html").is_file():
            raise CommandUsageError(f"{options.site} has no site: `make site` builds it")
        troubles = look(options.site, options.output, find_chromium(install=options.install), options.page or PAGES)
    except DevError as error:
        print(f"site-look: {error}", file=sys.stderr)
        return error.exit_code
    for trouble in troubles:
        print(f"site-look: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


def look(site: Path, output: Path, browser: str, drawn: Sequence[str] = PAGES) -> list[str]:
    """Writes pictures of the pages `drawn`, and says what is wrong with any page."""
    troubles: list[str] = []
    output.mkdir(parents=True, exist_ok=True)
    with _served(site) as root, open_page(browser) as page:
        for width_px in WIDTHS_PX:
            page.resize(width_px, WINDOW_HEIGHT_PX)
            sizes = [_measured(page, root, each) for each in pages_of(site)]
            troubles += [trouble for size in sizes if (trouble := size.trouble)]
            for each in drawn:
                size = _measured(page, root, each)
                _draw(page, output / picture_name(each, width_px), width_px, min(size.height, HIGHEST_PICTURE_PX))
            page.open(search_address(root, SEARCHED))
            links = page.evaluate(_FOUND)
            troubles += [trouble] if (trouble := search_trouble(links, site, SEARCHED)) else []
            _draw(page, output / picture_name("search", width_px), width_px, WINDOW_HEIGHT_PX)
            print(f"{len(sizes)} pages at {width_px} px; a search for {SEARCHED!r} finds {len(links)} links", flush=True)
    return troubles


def _measured(page: DevToolsPage, root: str, path: str) -> PageSize:
    page.open(root + path)
    return PageSize.of(path, page.evaluate(_MEASURED))


def _draw(page: DevToolsPage, picture: Path, width_px: int, height_px: int) -> None:
    page.resize(width_px, height_px)
    page.evaluate(_SETTLED)
    picture.write_bytes(page.picture())
    page.resize(width_px, WINDOW_HEIGHT_PX)
    print(picture, flush=True)


@contextmanager
def _served(site: Path) -> Iterator[str]:
    """The address of a server of the site on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """What the browser asks for is no news."""


if __name__ == "__main__":
    sys.exit(main())
