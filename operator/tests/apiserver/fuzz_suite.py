"""Every field of every kind takes odd values, and its own again: `make fuzz-spec`, and one transition alone.

It stands beside the modules that it uses, so that Python finds them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults.workers import Worker, crew, serve_as_worker
from fuzz.scenes import SCENES, everything
from fuzz.session import Verdict
from fuzz.transitions import Transition, TransitionError, find, sample
from fuzz.workers import serve

from fairlead_dev.bench.rows import Goal, Row, heading, line, write
from fairlead_dev.checkout import BENCH_RESULTS
from fairlead_dev.stopping import exit_code, stoppable

DEFAULT_SEED, DEFAULT_COUNT = 1, 4000
CHUNK = 25
"""Transitions between two runs of the canary."""
FIGURES = BENCH_RESULTS / "fuzz.json"


def main(words: Sequence[str]) -> int:
    """Runs the command; returns the exit code: 0 all is well, 1 a transition went wrong, 2 it cannot be run, 130 or 143 it was stopped."""
    options = _parser().parse_args(words)
    try:
        if options.command == "worker":
            return serve_as_worker(serve)
        return exit_code("fuzz", lambda: stoppable(_run(options)))
    except TransitionError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="carry out transitions")
    run.add_argument("--transition", help="this one alone")
    run.add_argument("--seed", type=int, default=DEFAULT_SEED, help="which ones, and in which order")
    run.add_argument("--count", type=int, default=DEFAULT_COUNT, help="how many of them; 0 for all")
    run.add_argument("--scenes", default=",".join(SCENES), help="of these alone, separated by commas")
    run.add_argument("--workers", type=int, default=2, help="how many at a time")
    run.add_argument("--list", action="store_true", help="print them and stop")
    commands.add_parser("worker", help="what this program starts")
    return parser


async def _run(options: argparse.Namespace) -> int:
    wanted = options.scenes.split(",")
    if unknown := [name for name in wanted if name not in SCENES]:
        raise TransitionError(f"there is no scene {unknown[0]}, but {', '.join(SCENES)}")
    every = [each for each in everything() if each.scene in wanted]
    only = find(every, options.transition) if options.transition else None
    transitions = [only] if only else sample(every, options.seed, options.count or None)
    if options.list:
        print("\n".join(map(str, transitions)))
        return 0
    print(f"{len(transitions)} of {len(every)} transitions, seed {options.seed}", flush=True)
    begun_s = time.monotonic()
    chunks = list(chunked(transitions))
    verdicts: list[Verdict] = []

    async def one(worker: Worker, chunk: Sequence[Transition]) -> None:
        answer = await worker.tell({"scene": chunk[0].scene, "transitions": [str(each) for each in chunk]})
        for each in answer:
            verdicts.append(Verdict(**each | {"problems": tuple(each["problems"])}))
            _show(verdicts[-1], len(verdicts), len(transitions))

    async with crew(min(options.workers, len(chunks)), Path(__file__)) as made:
        await made.spread(chunks, one)
    figures = rows(verdicts, len(every), time.monotonic() - begun_s)
    print("\n".join([heading(), *map(line, figures)]))
    stuck = [verdict for verdict in verdicts if verdict.is_stuck]
    if stuck:
        print("\n".join(["these went wrong; each is run again by:", *(f"  {replay(verdict.transition)}" for verdict in stuck)]))
    if only is None:
        write(figures, FIGURES)
    return 1 if stuck else 0


def chunked(transitions: Sequence[Transition]) -> Iterator[list[Transition]]:
    """The transitions of each scene, some at a time."""
    for _, group in itertools.groupby(transitions, key=lambda each: each.scene):
        whole = list(group)
        yield from (whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK))


def replay(transition: str) -> str:
    """The command that runs a transition again."""
    return f"make fuzz-spec TRANSITION='{transition}'"


def _show(verdict: Verdict, number: int, of: int) -> None:
    if not verdict.is_stuck:
        print(f"[{number}/{of}] {verdict.seconds:4.1f} s {verdict.came_to} {verdict.transition}", flush=True)
        return
    print(f"[{number}/{of}] {verdict.seconds:4.1f} s FAILED {verdict.came_to} {replay(verdict.transition)}", flush=True)
    print("\n".join(f"    {problem}" for problem in verdict.problems), flush=True)
    print("\n".join(f"      {text}" for text in verdict.log.splitlines()), flush=True)


def rows(verdicts: Sequence[Verdict], possible: int, seconds: float) -> list[Row]:
    """What the bench's file says of the transitions that were made, of so many that there are."""
    by_kind: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        kind = SCENES[verdict.transition.partition("@")[0]].kind.plural
        by_kind.setdefault(kind, []).append(verdict)
    came_to = Counter(verdict.came_to for verdict in verdicts)
    return [
        Row(
            "fuzz_transitions",
            len(verdicts),
            "count",
            reference=possible,
            ratio=len(verdicts) / possible if possible else None,
            goal=Goal("at_least", 2000, of="value"),
        ),
        Row("fuzz_stuck", _stuck(verdicts), "count", goal=Goal("at_most", 0, of="value")),
        Row("seconds", seconds, "s"),
        *(Row(f"fuzz_{name}", came_to[name], "count") for name in ("refused", "told", "taken")),
        *(
            Row(f"fuzz_{kind}", len(those), "count", more={"stuck": _stuck(those), **Counter(each.came_to for each in those)})
            for kind, those in by_kind.items()
        ),
    ]


def _stuck(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.is_stuck for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
