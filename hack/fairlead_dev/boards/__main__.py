"""`ask` asks a Prometheus for all that the boards show, `draw` draws its answers, and `import` puts the boards into a Grafana."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from fairlead_dev.boards.answers import BoardAnswers, TimeWindow, ask_all
from fairlead_dev.boards.drawing import WIDTH_PX, prepare
from fairlead_dev.boards.importer import import_boards
from fairlead_dev.boards.local import ask_local
from fairlead_dev.boards.prometheus import PrometheusApi, over_http
from fairlead_dev.boards.reading import load
from fairlead_dev.checkout import CACHE, CHECKOUT
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.errors import CommandUsageError, DevError

BOARDS = CHECKOUT / "charts" / "fairlead" / "dashboards"
PICTURES = CHECKOUT / "build" / "boards"


def main(arguments: list[str] | None = None) -> int:
    """Runs what the command line asks for; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        {"ask": _ask, "draw": _draw, "import": _import}[options.command](options)
    except DevError as error:
        print(f"boards: {error}", file=sys.stderr)
        return error.exit_code
    except CommandError as error:
        print(f"boards: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="boards", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("ask", help="print the answers to all queries of the boards, as JSON")
    where = asking.add_mutually_exclusive_group(required=True)
    where.add_argument("--prometheus", metavar="URL", help="e.g. http://127.0.0.1:9090")
    where.add_argument("--local", action="store_true", help="the Prometheus of the local cluster")
    asking.add_argument("--minutes", type=float, default=15, help="how much of the past to ask for [15]")
    asking.add_argument("--until", type=float, metavar="UNIX", help="its end [now]")
    asking.add_argument("--scrape-seconds", type=float, default=5, help="how often Prometheus scrapes [5]")
    asking.add_argument("--set", action="append", default=[], metavar="NAME=REGEX", help="the value of a variable [everything]")
    asking.add_argument("--over-time", action="store_true", help="ask for the whole time where a panel shows its end alone")
    drawing = commands.add_parser("draw", help="draw each board from such answers, with Grafana's panel components")
    drawing.add_argument("answers", type=Path, metavar="FILE", help="what `ask` printed")
    drawing.add_argument("--only", action="append", default=[], metavar="BOARD", help="goodput, fairness, decisions or operator [all]")
    drawing.add_argument("--output", type=Path, default=PICTURES, help="folder for the pictures [build/boards]")
    drawing.add_argument("--width", type=int, default=WIDTH_PX, metavar="PX", help=f"of the browser's window [{WIDTH_PX}]")
    drawing.add_argument("--install", action="store_true", help="install Chromium with apt-get where it is missing")
    taking = commands.add_parser("import", help="make or replace the boards in a Grafana, in the folder Fairlead (GRAFANA_TOKEN)")
    taking.add_argument("address", metavar="URL", help="where Grafana's pages are, e.g. https://grafana.example.org")
    return parser


def _import(options: argparse.Namespace) -> None:
    for page in import_boards(load(BOARDS), options.address, os.environ.get("GRAFANA_TOKEN")):
        print(page)


def _ask(options: argparse.Namespace) -> None:
    chosen = dict(each.split("=", 1) for each in options.set if "=" in each)
    if len(chosen) != len(options.set):
        raise CommandUsageError("--set takes NAME=REGEX, e.g. --set link=wan")
    end_s = options.until or time.time()
    window = TimeWindow(end_s - options.minutes * 60, end_s, options.scrape_seconds)
    if options.local:
        found = ask_local(LocalCluster(CHECKOUT), window, chosen, over_time=options.over_time)
    else:
        found = ask_all(PrometheusApi(over_http(options.prometheus)), load(BOARDS), chosen, window, over_time=options.over_time)
    json.dump(found.to_json(), sys.stdout)


def _draw(options: argparse.Namespace) -> None:
    found = BoardAnswers.read(options.answers)
    wanted = [board for board in load(BOARDS) if not options.only or board["uid"].removeprefix("fairlead-") in options.only]
    if not wanted:
        raise CommandUsageError(f"--only {options.only[0]}: there is no such board")
    painter = prepare(CACHE, install=options.install)
    for board in wanted:
        picture = options.output / f"{board['uid'].removeprefix('fairlead-')}.png"
        painter.draw(board, found, picture, options.width)
        empty = found.panels_without_data(board)
        print(f"{picture}" + (f"   without data: {', '.join(empty)}" if empty else ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
