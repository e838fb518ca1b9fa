"""`make chaos`: disturbs transfers on the local cluster and writes `build/bench/chaos.json`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from e2e.chaos.conftest import WORKERS, read
from e2e.chaos.disturbances import DISTURBANCES
from e2e.chaos.verdict import MISSED, Verdict
from fairlead_dev.bench.rows import Goal, Row, heading, line, write
from fairlead_dev.checkout import BENCH_RESULTS, CHECKOUT
from fairlead_dev.cluster.client import LocalCluster

HERE = Path(__file__).parent
ROUNDS_GOAL = 300
DRAWS = 4
"""How often a round is tried that was missed each time."""
NONE = Goal("at_most", 0, of="value")


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every transfer ended as it may; 1: one did not."""
    options = _parser().parse_args(arguments)
    done: Path = options.done
    done.parent.mkdir(parents=True, exist_ok=True)
    if not options.resume:
        done.unlink(missing_ok=True)
    code, only = _run(options, options.only), options.only
    for _ in range(DRAWS - 1):
        if not any(verdict.missed for verdict in read(done)):
            break
        # What is no drawn round has ended.
        code = _run(options, f"chaos_in_mid_flight and ({only})" if only else "chaos_in_mid_flight") or code
    verdicts = read(done)
    figures = rows(verdicts)
    print("\n".join([heading(), *map(line, figures)]))
    for verdict in verdicts:
        if verdict.problem or verdict.missed:
            print(f"{verdict.round}: {verdict.problem or MISSED}: {verdict.detail}")
    write(figures, BENCH_RESULTS / "chaos.json")
    return 0 if code == 0 and not any(verdict.problem for verdict in verdicts) else 1


def _run(options: argparse.Namespace, only: str | None) -> int:
    """Makes the rounds that have not ended, or those of them whose name fits `only`; pytest's exit code."""
    rounds = [f"--rounds={options.rounds}", f"--seed={options.seed}", f"--done={options.done}", f"--commit={_commit()}"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), "-n", str(WORKERS), *rounds, str(HERE)]
    if only:
        command += ["-k", only]
    environment = {**os.environ, "FAIRLEAD_E2E_KUBECTL": "kubectl"}
    return subprocess.run([LocalCluster(CHECKOUT).program, "enter", "--", *command], cwd=CHECKOUT, env=environment, check=False).returncode


def rows(every: Sequence[Verdict]) -> list[Row]:
    """How many rounds there were, how many had each problem, and of each disturbance how often it came and how it ended.

    Rounds that were missed count as that alone.
    """
    verdicts = [verdict for verdict in every if not verdict.missed]
    problems = Counter(verdict.problem for verdict in verdicts)
    commits = dict(Counter(verdict.commit for verdict in verdicts))
    found = [
        Row("chaos_rounds", len(verdicts), "count", goal=Goal("at_least", ROUNDS_GOAL, of="value"), more={"commits": commits}),
        Row("wrong_trees", problems["wrong tree"], "count", goal=NONE),
        Row("stuck", problems["stuck"], "count", goal=NONE),
        Row("noticed", problems["noticed"], "count", goal=NONE),
        Row("two_senders", problems["two senders"], "count", goal=NONE),
        Row("failed", problems["failed"], "count", goal=NONE),
        Row("left_behind", problems["left behind"], "count", goal=NONE),
        Row("missed", len(every) - len(verdicts), "count"),
        Row("seconds", round(sum(verdict.seconds for verdict in every), 1), "s"),
    ]
    for name in sorted({_disturbance(verdict) for verdict in verdicts}):
        own = [verdict for verdict in verdicts if _disturbance(verdict) == name]
        more = {
            "ended": dict(Counter(verdict.ended for verdict in own)),
            "attempts": dict(sorted(Counter(verdict.attempts for verdict in own).items())),
            "problems": dict(Counter(verdict.problem for verdict in own if verdict.problem)),
        }
        found.append(Row(f"rounds.{name}", len(own), "count", more=more))
    return found


def _commit() -> str:
    """Of this checkout, with `-dirty` where it has changes."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip()


def _disturbance(verdict: Verdict) -> str:
    number, _, name = verdict.round.partition("-")
    return name if number.isdigit() else verdict.round


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_GOAL)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on with a run that was interrupted, with the same seed")
    parser.add_argument("--done", type=Path, default=BENCH_RESULTS / "chaos-rounds.jsonl", help="where the run keeps what has ended")
    parser.add_argument("--only", help=f"rounds whose name fits this (pytest's -k): a number, or one of {', '.join(DISTURBANCES)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
