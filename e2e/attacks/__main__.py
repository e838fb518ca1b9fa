"""`make attacks`: runs attacks on a checkout and writes `build/bench/attacks.json`, a row for each."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.attacks.lib import catalogue, evidence, selection
from e2e.attacks.lib.catalogue import Attack, CatalogueError
from e2e.attacks.lib.judge import Outcome
from e2e.attacks.lib.results import Result, rows
from e2e.attacks.lib.target import VARIABLE, Target, TargetError
from fairlead_dev.bench.rows import heading, line, write
from fairlead_dev.checkout import BENCH_RESULTS, CHECKOUT
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.cluster.client import LocalCluster

HERE = Path(__file__).parent
EVIDENCE = HERE / "evidence.json"
DEFAULT_SEED = 1
WORKERS = "2"


def main(arguments: Sequence[str] | None = None) -> int:
    """0: everything held; 1: something got through, or could not be carried out; 2: wrong use."""
    options = _parser().parse_args(arguments)
    try:
        every = catalogue.read(HERE)
        chosen = selection.named(every, options.attacks)
        if options.quarter:
            seconds = {attack: found.seconds for attack, found in evidence.load(EVIDENCE).items()}
            chosen = selection.quarter(chosen, options.seed, seconds)
        if options.list:
            print("\n".join(f"{attack.layer:10} {attack.id:60} {attack.title}" for attack in chosen))
            return 0
        target = Target(options.against.resolve())
        commit = target.commit()
        if options.evidence and commit.endswith("+"):
            raise TargetError(f"{target.root} differs from its commit: evidence is about a commit, so commit or stash what is changed")
        started_s = time.monotonic()
        results = _run(chosen, target)
        seconds_taken = time.monotonic() - started_s
    except (CatalogueError, TargetError, CommandError) as error:
        print(f"attacks: {error}", file=sys.stderr)
        return 2
    if options.evidence:
        found = {each.attack.id: evidence.of(each.outcome, commit, each.seconds) for each in results}
        evidence.store(EVIDENCE, {attack: one for attack, one in found.items() if one is not None})
    figures = rows(results, seconds_taken)
    print("\n".join([f"against {commit} in {target.root}", heading(), *map(line, figures)]))
    whole = len(chosen) == len(every) and target.root == CHECKOUT
    write(figures, options.output or BENCH_RESULTS / ("attacks.json" if whole else "attacks-partial.json"))
    expected = ("held", "got through") if options.evidence else ("held",)
    return 0 if all(each.outcome.verdict in expected for each in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attacks", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="ids, patterns of ids such as 'tls/*', or layers; all without")
    parser.add_argument("--against", type=Path, default=CHECKOUT, metavar="FOLDER", help="the checkout to attack [this one]")
    parser.add_argument("--quarter", action="store_true", help="a quarter of each layer, by --seed")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--evidence", action="store_true", help="note the outcomes in evidence.json; none of them is a failure")
    parser.add_argument("--list", action="store_true", help="print the attacks and stop")
    parser.add_argument("--output", type=Path, help="the file to write")
    return parser


def _run(chosen: Sequence[Attack], target: Target) -> list[Result]:
    """Runs the attacks, those on the cluster after the others and inside its network."""
    outcomes: dict[str, tuple[Outcome, float]] = {}
    on_cluster = [attack for attack in chosen if attack.layer == "cluster"]
    others = [attack for attack in chosen if attack.layer != "cluster"]
    if others:
        outcomes |= _pytest([], others, target)
    if on_cluster:
        with _cluster(target) as cluster:
            outcomes |= _pytest([cluster.program, "enter", "--"], on_cluster, target)
    nothing = Outcome("error", "pytest ended before it ran"), 0.0
    return [Result(attack, *outcomes.get(attack.id, nothing)) for attack in chosen]


def _pytest(prefix: Sequence[str], attacks: Sequence[Attack], target: Target) -> dict[str, tuple[Outcome, float]]:
    """Outcome and seconds of each attack that pytest ran. Its own output goes to the screen."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes"
        nodes = [str(HERE.relative_to(CHECKOUT) / attack.node) for attack in attacks]
        workers = WORKERS if len(attacks) > 1 else "0"
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), "-n", workers, f"--outcomes={outcomes}", *nodes]
        environment = {**os.environ, VARIABLE: str(target.root), "FAIRLEAD_E2E_KUBECTL": "kubectl"}
        subprocess.run([*prefix, *command], cwd=CHECKOUT, env=environment, check=False)
        found = [json.loads(text) for text in outcomes.read_text(encoding="utf-8").splitlines()] if outcomes.exists() else []
    return {one["id"]: (Outcome(one["verdict"], one["observed"]), float(one["seconds"])) for one in found}


@contextmanager
def _cluster(target: Target) -> Iterator[LocalCluster]:
    """The target's local cluster with its images: the one that is up, or one for this run alone (KEEP=1 leaves it up)."""
    cluster = LocalCluster(target.root)
    up = _is_up(cluster)
    try:
        if not up:
            cluster.show("up")
        cluster.show("images")
        yield cluster
    finally:
        if not up and not os.environ.get("KEEP"):
            cluster.show("down")


def _is_up(cluster: LocalCluster) -> bool:
    try:
        cluster.kubectl.run("get", "nodes")
    except CommandError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
