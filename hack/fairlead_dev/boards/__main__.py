"""`draw` asks a Prometheus for all that the boards show and draws them; `import` puts them into a Grafana."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from fairlead_dev.boards.answers import TimeWindow, has_data, of_board
from fairlead_dev.boards.drawing import prepare
from fairlead_dev.boards.importer import import_boards
from fairlead_dev.boards.prometheus import PrometheusApi, over_http
from fairlead_dev.boards.reading import load, panels
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError, DevError

BOARDS = CHECKOUT / "charts" / "fairlead" / "dashboards"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"


def main(arguments: list[str] | None = None) -> int:
    """Runs what the command line asks for; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _import(options) if options.command == "import" else _draw(options)
    except DevError as error:
        print(f"boards: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="boards", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("import", help="make or replace the boards in a Grafana, in the folder Fairlead (GRAFANA_TOKEN)")
    taking.add_argument("address", metavar="URL", help="where Grafana's pages are, e.g. https://grafana.example.org")
    drawing = commands.add_parser("draw", help="draw each board from a Prometheus' answers, with Grafana's panel components")
    drawing.add_argument("--prometheus", required=True, metavar="URL", help="e.g. http://127.0.0.1:9090")
    drawing.add_argument("--minutes", type=float, default=15, help="how much of the past to show [15]")
    drawing.add_argument("--until", type=float, metavar="UNIX", help="the end of what is shown [now]")
    drawing.add_argument("--scrape-seconds", type=float, default=5, help="how often Prometheus scrapes [5]")
    drawing.add_argument("--set", action="append", default=[], metavar="NAME=REGEX", help="the value of a variable [everything]")
    drawing.add_argument("--only", action="append", default=[], metavar="BOARD", help="goodput, fairness, decisions or operator [all]")
    drawing.add_argument("--output", type=Path, default=CHECKOUT / "build" / "boards", help="folder for the pictures [build/boards]")
    drawing.add_argument("--install", action="store_true", help="install Chromium with apt-get where it is missing")
    return parser


def _import(options: argparse.Namespace) -> int:
    for page in import_boards(load(BOARDS), options.address, os.environ.get("GRAFANA_TOKEN")):
        print(page)
    return 0


def _draw(options: argparse.Namespace) -> int:
    chosen = dict(each.split("=", 1) for each in options.set if "=" in each)
    if len(chosen) != len(options.set):
        raise CommandUsageError("--set takes NAME=REGEX, e.g. --set link=wan")
    end_s = options.until or time.time()
    window = TimeWindow(end_s - options.minutes * 60, end_s, options.scrape_seconds)
    api = PrometheusApi(over_http(options.prometheus))
    wanted = [board for board in load(BOARDS) if not options.only or board["uid"].removeprefix("fairlead-") in options.only]
    if not wanted:
        raise CommandUsageError(f"--only {options.only[0]}: there is no such board")
    answers = {board["uid"]: of_board(api, board, chosen, window) for board in wanted}
    painter = prepare(CACHE, install=options.install)
    for board in wanted:
        found = answers[board["uid"]]
        empty = [panel["title"] for panel in panels(board) if not any(map(has_data, found[str(panel["id"])].values()))]
        picture = options.output / f"{board['uid'].removeprefix('fairlead-')}.png"
        painter.draw(board, found, chosen, window, picture)
        print(f"{picture}" + (f"   without data: {', '.join(empty)}" if empty else ""), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
