"""The rounds of a run, a lab for each, and the file that keeps what they came to."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.chaos.disturbances import DISTURBANCES, OF_ONE_JOB, destination_disk
from e2e.chaos.rounds import Round, drawn
from e2e.chaos.verdict import MISSED, Verdict
from e2e.conftest import BUILD, TURNS, cluster, kubectl, pytest_runtest_makereport
from e2e.lib import install
from e2e.lib.evidence import FAILED
from e2e.lib.lab import Lab
from e2e.lib.turns import CLUSTER, once, turn
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.cluster.client import LocalCluster

__all__ = ["cluster", "kubectl", "pytest_runtest_makereport"]

WORKERS = 4
NAMESPACES = tuple(tuple(f"e2e-chaos-{worker}-{number}" for number in range(3)) for worker in range(WORKERS))
"""Those of each worker, which it takes in turn: what a round leaves goes while the next ones run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=len(DISTURBANCES), help="how many rounds the run has")
    parser.addoption("--seed", type=int, default=1)
    parser.addoption("--commit", default="", help="of what is tried, to be kept with each verdict")
    parser.addoption("--done", type=Path, required=True, help="the file with one line of JSON for each round that has ended")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chaos" in metafunc.fixturenames:
        file: Path = metafunc.config.getoption("--done")
        again = Counter(verdict.round for verdict in kept(file) if verdict.missed)
        rounds = drawn(metafunc.config.getoption("--seed"), metafunc.config.getoption("--rounds"), list(DISTURBANCES), again)
        done = {verdict.round for verdict in read(file) if not verdict.missed}
        left = [each for each in rounds if str(each) not in done]
        # Whoever waits for the cluster comes last, and keeps nobody waiting.
        left.sort(key=lambda each: each.disturbance not in OF_ONE_JOB)
        metafunc.parametrize("chaos", left, ids=str)


def kept(file: Path) -> list[Verdict]:
    """Every verdict so far, the oldest first."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [Verdict.from_json(json.loads(line)) for line in lines]


def read(file: Path) -> list[Verdict]:
    """The rounds that have ended so far, the last word on each."""
    return list({verdict.round: verdict for verdict in kept(file)}.values())


@pytest.fixture
def conclude(request: pytest.FixtureRequest) -> Callable[[Verdict], None]:
    """Keeps a verdict, and fails the round where it has a problem; one that was missed is skipped, and comes again."""

    def keep(verdict: Verdict) -> None:
        with request.config.getoption("--done").open("a", encoding="utf-8") as file:
            file.write(json.dumps(replace(verdict, commit=request.config.getoption("--commit")).to_json()) + "\n")
        if verdict.problem:
            pytest.fail(f"{verdict.problem}: {verdict.detail}", pytrace=False)
        if verdict.missed:
            pytest.skip(MISSED)

    return keep


@pytest.fixture(scope="session")
def installed(cluster: LocalCluster, testrun_uid: str) -> None:
    """The chart, installed once a run, with the namespaces of the rounds."""
    with once(BUILD / "installed", testrun_uid, BUILD / "install.lock") as first:
        if first:
            install.install(cluster, itertools.chain(*NAMESPACES), testrun_uid, BUILD, more={})


@pytest.fixture(scope="session")
def namespaces(worker_id: str) -> Iterator[str]:
    """The namespaces of this worker, without end."""
    return itertools.cycle(NAMESPACES[int(worker_id.removeprefix("gw")) if worker_id != "master" else 0])


@pytest.fixture
def lab(
    cluster: LocalCluster, kubectl: Kubectl, installed: None, namespaces: Iterator[str], request: pytest.FixtureRequest
) -> Iterator[Lab]:
    """A namespace and two disks for this round, and the cluster alone where others would be disturbed too."""
    chaos: Round | None = request.node.callspec.params.get("chaos") if hasattr(request.node, "callspec") else None
    disturbance = "" if chaos is None else chaos.disturbance
    disk = destination_disk(disturbance)
    with (
        turn(TURNS, () if disturbance in OF_ONE_JOB else (CLUSTER,)),
        Lab(cluster, kubectl, next(namespaces), disk.size, destination_on_device=disk.on_device) as made,
    ):
        yield made
        if request.node.stash.get(FAILED, False):
            made.keep_evidence(BUILD / f"chaos-{chaos or request.node.name}")
