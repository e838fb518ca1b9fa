"""Draws boards with Grafana's own panel components in headless Chromium. Needs the standard library, npm and Chromium."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_dev.boards.answers import BoardAnswers
from fairlead_dev.boards.reading import Board
from fairlead_dev.browser import FLAGS, find_chromium
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import LabError, NotAvailableError

PROJECT: Final = CHECKOUT / "hack" / "boards"
WIDTH_PX: Final = 1600
_CELL_PX, _MARGIN_PX, _HEADER_PX = 30, 8, 64
_LIMIT_S: Final = 300
_BROWSER_TIME_MS: Final = 20_000
"""Of the browser's own clock, which runs on as soon as nothing is left to do: a busy machine needs longer, not more of it."""


@dataclass(frozen=True, slots=True)
class Painter:
    """A browser, and a folder with the script and the style that draw a board."""

    browser: str
    script: Path
    style: Path

    def draw(self, board: Board, found: BoardAnswers, output: Path, width_px: int = WIDTH_PX) -> None:
        """Writes the picture, for a window of this width. Raises LabError with what the page says if it cannot be drawn."""
        window = {"start_s": found.window.start_s, "end_s": found.window.end_s}
        drawing = {"board": board, "chosen": found.chosen, **window, "width_px": width_px, "answers": found.of(board)}
        with tempfile.TemporaryDirectory(prefix="fairlead-boards-") as folder:
            page = Path(folder) / "board.html"
            page.write_text(_page(drawing, self.script, self.style))
            shown = self._browse(page, folder, "--dump-dom")
            title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL)
            if title is None or title.group(1) != "drawn":
                raise LabError(f"{board['title']} was not drawn: {title.group(1) if title else shown[:300]}")
            picture = Path(folder) / "board.png"
            self._browse(page, folder, f"--screenshot={picture}", f"--window-size={width_px},{height_px(board)}")
            if not picture.exists():
                raise LabError(f"{board['title']} was drawn, and {self.browser} left no picture of it")
            output.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(picture, output)

    def _browse(self, page: Path, folder: str, *options: str) -> str:
        command = [
            self.browser,
            *FLAGS,
            f"--user-data-dir={folder}/profile",
            f"--virtual-time-budget={_BROWSER_TIME_MS}",
            *options,
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.browser} did not end within {_LIMIT_S} s") from None
        if done.returncode:
            raise LabError(f"{self.browser} failed: {done.stderr[-500:]}")
        return done.stdout


def height_px(board: Board) -> int:
    """The height of a board's picture."""
    rows: int = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    return _HEADER_PX + rows * (_CELL_PX + _MARGIN_PX) + _MARGIN_PX


def prepare(cache: Path, *, install: bool) -> Painter:
    """Installs what drawing needs, and bundles the script once for each version of hack/boards. Raises NotAvailableError."""
    browser = find_chromium(install=install)
    if shutil.which("npm") is None:
        raise NotAvailableError("there is no npm: install Node.js 20 or newer from https://nodejs.org or your distribution")
    folder = cache / "boards" / _digest()
    script, style = folder / "out" / "board.js", folder / "out" / "board.css"
    if not script.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(PROJECT / name, folder)
        shutil.copytree(PROJECT / "src", folder / "src")
        print("boards: installing Grafana's components from npm (about a minute, once)", flush=True)
        _run(["npm", "ci"], folder)
        bundle = ["src/main.tsx", "--bundle", "--minify", "--jsx=automatic", "--loader:.ttf=dataurl", "--loader:.svg=dataurl"]
        partial = folder / "partial"
        _run(["npx", "esbuild", *bundle, '--define:process.env.NODE_ENV="production"', f"--outfile={partial}/board.js"], folder)
        shutil.rmtree(folder / "node_modules")
        partial.rename(folder / "out")
    return Painter(browser, script, style)


def _digest() -> str:
    files = sorted(path for path in PROJECT.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAvailableError(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr)[-1500:]}")


def _page(drawing: Mapping[str, Any], script: Path, style: Path) -> str:
    data = json.dumps(drawing).replace("</", "<\\/")
    return (
        '<!doctype html><html><head><meta charset="utf-8"><title>being drawn</title>'
        f'<link rel="stylesheet" href="{style.as_uri()}"></head><body style="margin:0"><div id="board"></div>'
        f'<script>window.drawing = {data}</script><script src="{script.as_uri()}"></script></body></html>'
    )
