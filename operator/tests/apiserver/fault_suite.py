"""Faults at every write, read and watch event of the operator: `make faults`, `make faults-selfcheck`, and one plan alone.

It stands beside the modules that it uses, so that Python finds them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from faults.defects import DEFECTS, Defect, StaleDefectError
from faults.ledger import OPERATOR, SUITE, Ledger, digest
from faults.plans import Fault, PlanError, plans_of, read_plan, sample
from faults.workers import Verdict, Worker, crew, serve, serve_as_worker
from faults.workloads import WORKLOADS

from fairlead_dev.bench.rows import Goal, Row, heading, line, write
from fairlead_dev.checkout import BENCH_RESULTS
from fairlead_dev.stopping import exit_code, stoppable

DEFAULT_SEED = 1
FIGURES = BENCH_RESULTS / "faults.json"
LEDGER = BENCH_RESULTS / "faults-plans.jsonl"


def main(words: Sequence[str]) -> int:
    """Runs the command; returns the exit code: 0 all is well, 1 a plan failed, 2 it cannot be run, 130 or 143 it was stopped."""
    options = _parser().parse_args(words)
    try:
        if options.command == "worker":
            return serve_as_worker(serve)
        work = _check_suite(options) if options.command == "selfcheck" else _run(options)
        return exit_code("faults", lambda: stoppable(work))
    except (PlanError, StaleDefectError) as error:
        print(f"faults: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    all_plans = commands.add_parser("run", help="run plans")
    all_plans.add_argument("--plan", help="this one alone")
    all_plans.add_argument("--seed", type=int, default=DEFAULT_SEED, help="the order of the plans")
    all_plans.add_argument("--count", type=int, help="how many of them; all without")
    all_plans.add_argument("--seconds", type=float, help="begin no plan later than this")
    all_plans.add_argument("--workloads", default=",".join(WORKLOADS), help="of these alone, separated by commas")
    all_plans.add_argument("--workers", type=int, default=2, help="how many runs at a time")
    all_plans.add_argument("--run", help="the name of a long run: what it finds is kept; one of this name and operator goes on there")
    all_plans.add_argument("--ledger", type=Path, default=LEDGER, help="the file that keeps it")
    all_plans.add_argument("--list", action="store_true", help="print the plans and stop")
    selfcheck = commands.add_parser("selfcheck", help="seed defects, each of which a plan must find")
    selfcheck.add_argument("--defects", default="", help="those alone whose name this regular expression finds")
    selfcheck.add_argument("--workers", type=int, default=2, help="how many runs at a time")
    commands.add_parser("worker", help="what this program starts")
    return parser


async def _run(options: argparse.Namespace) -> int:
    only = read_plan(options.plan) if options.plan else None
    workloads = [only.workload] if only else options.workloads.split(",")
    if unknown := [name for name in workloads if name not in WORKLOADS]:
        raise PlanError(f"there is no workload {unknown[0]}, but {', '.join(WORKLOADS)}")
    begun_s = time.monotonic()
    async with crew(min(options.workers, len(workloads))) as made:
        usual = await made.record(workloads, lambda said: print(f"without a fault: {said}", flush=True))
        unsteady = [name for name in workloads if name not in usual]
        every = [plan for name in usual for plan in plans_of(name, usual[name].seen)]
        if only and unsteady:
            return 1
        plans = [only] if only else sample(every, options.seed, options.count)
        if options.list:
            print("\n".join(map(str, plans)))
            return 0
        ledger = Ledger(options.ledger, options.run, digest(OPERATOR), digest(SUITE)) if options.run else None
        verdicts: list[Verdict] = [] if ledger is None else ledger.converged()
        done = {verdict.plan for verdict in verdicts}
        left = [plan for plan in plans if plan not in done]
        print(f"{len(left)} of {len(every)} plans, seed {options.seed}, after {len(done)} that were done before", flush=True)

        def note(verdict: Verdict) -> bool:
            verdicts.append(verdict)
            if ledger is not None:
                ledger.note(verdict)
            _show(verdict, len(verdicts), len(done) + len(left))
            return options.seconds is None or time.monotonic() - begun_s < options.seconds

        await made.carry_out(left, usual, note)
    failed = [verdict for verdict in verdicts if not verdict.converged]
    figures = [*rows(verdicts, len({*every, *done})), Row("workloads_failed", len(unsteady), "count")]
    if ledger is not None:
        figures.append(Row("failed_runs", ledger.failures(), "count"))
    print("\n".join([heading(), *map(line, figures)]))
    if failed:
        print("\n".join(["these failed; make faults PLAN='...' runs one again:", *(f"  {verdict.plan}" for verdict in failed)]))
    if only is None:
        _put(figures)
    return 1 if failed or unsteady else 0


async def _check_suite(options: argparse.Namespace) -> int:
    defects = [defect for defect in DEFECTS if re.search(options.defects, defect.name)]
    workloads = sorted({plan.partition("/")[0] for defect in defects for plan in defect.plans})
    begun_s = time.monotonic()
    caught: dict[str, str] = {}
    async with crew(min(options.workers, len(defects))) as made:
        usual = await made.record(workloads, lambda said: print(f"without a fault: {said}", flush=True))

        async def one(worker: Worker, defect: Defect) -> None:
            with tempfile.TemporaryDirectory(prefix="fairlead-defect-") as folder:
                defect.seed(Path(folder))
                for text in defect.plans:
                    workload, _, fault = text.partition("/")
                    if workload not in usual:
                        continue
                    answer = await worker.ask(workload, read_plan(text) if fault else None, usual[workload], folder)
                    if answer["problems"]:
                        caught[defect.name] = text
                        print(f"caught: {defect.name}\n    by {text}: {answer['problems'][0][:200]}", flush=True)
                        return
                print(f"MISSED: {defect.name}\n    by {', '.join(defect.plans)}", flush=True)

        await made.spread(defects, one)
    figures = [
        Row("defects_seeded", len(defects), "count"),
        Row(
            "defects_caught",
            len(caught),
            "count",
            len(defects),
            len(caught) / len(defects),
            goal=Goal("at_least", 1.0),
            more={"by": caught},
        ),
        Row("selfcheck_seconds", time.monotonic() - begun_s, "s"),
    ]
    print("\n".join([heading(), *map(line, figures)]))
    if not options.defects:
        _put(figures)
    return 0 if len(caught) == len(defects) else 1


def _put(figures: Sequence[Row]) -> None:
    """Puts rows into the bench's file, beside those of the other command."""
    present = json.loads(FIGURES.read_text()) if FIGURES.exists() else []
    names = {row.name for row in figures}
    write([*(row for row in present if row["name"] not in names), *figures], FIGURES)


def _show(verdict: Verdict, number: int, of: int) -> None:
    reached = "" if verdict.reached else " (the run did not come to that point)"
    if verdict.converged:
        print(f"[{number}/{of}] {verdict.seconds:4.1f} s {verdict.plan}{reached}", flush=True)
        return
    print(f"[{number}/{of}] {verdict.seconds:4.1f} s FAILED {verdict.plan}{reached}", flush=True)
    print("\n".join(f"    {problem}" for problem in verdict.problems), flush=True)
    print("\n".join(f"      {text}" for text in verdict.log.splitlines()), flush=True)


def rows(verdicts: Sequence[Verdict], possible: int) -> list[Row]:
    """What the bench's file says of the plans that ran, of so many that there are."""
    by_fault: dict[Fault, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_fault[verdict.plan.fault].append(verdict)
    return [
        Row("plans", len(verdicts), "count", reference=possible, ratio=len(verdicts) / possible if possible else None),
        Row("plans_of_this_suite", sum(verdict.of_this_suite for verdict in verdicts), "count", reference=len(verdicts)),
        Row("converged_share", _share(verdicts), "ratio", goal=Goal("at_least", 1.0, of="value")),
        Row("reached_share", sum(verdict.reached for verdict in verdicts) / len(verdicts) if verdicts else None, "ratio"),
        Row("seconds", sum(verdict.seconds for verdict in verdicts), "s"),
        *(
            Row(f"converged_{fault}", _share(by_fault[fault]), "ratio", more={"plans": len(by_fault[fault])})
            for fault in Fault
            if by_fault[fault]
        ),
    ]


def _share(verdicts: Sequence[Verdict]) -> float | None:
    return sum(verdict.converged for verdict in verdicts) / len(verdicts) if verdicts else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
