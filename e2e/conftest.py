"""Fixtures of the end-to-end tests: the cluster that is up, the chart installed once a run, a lab for each test."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e.lib import install
from e2e.lib.apiserver import direct
from e2e.lib.evidence import FAILED
from e2e.lib.history import TOLD_AFTER
from e2e.lib.lab import Lab
from e2e.lib.turns import SHARED, once, turn
from e2e.lib.tutorial import TENANTS
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.cluster.client import LocalCluster

CHECKOUT = Path(__file__).resolve().parents[1]
BUILD = CHECKOUT / "build" / "e2e"
TURNS = BUILD / "turns"
DEMO_NAMESPACE = "demo"
ADMISSION_NAMESPACE = "e2e-admission"
collect_ignore = ["attacks", "chaos"]


def namespace_of(item: pytest.Item) -> str:
    """A namespace's name that follows from the test's: readable, unique, at most 63 characters."""
    digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:6]
    words = re.sub(r"[^a-z0-9]+", "-", item.name.removeprefix("test_").lower()).strip("-")
    return f"e2e-{words[:40].rstrip('-')}-{digest}"


def neighbour_of(item: pytest.Item) -> str:
    """The second namespace of a test that has one."""
    return f"{namespace_of(item)}-b"


def uses(item: pytest.Item, fixture: str) -> bool:
    """Whether the test has a fixture: those with a namespace of their own need the administrator to allow it."""
    return fixture in getattr(item, "fixturenames", ())


def needs_alone(item: pytest.Item) -> tuple[str, ...]:
    """What the test must have alone of what all tests share: what its mark `exclusive` names, all of it where that names nothing."""
    mark = item.get_closest_marker("exclusive")
    return () if mark is None else mark.args or SHARED


def length_s(item: pytest.Item) -> float:
    """How long the test lasts, roughly: what its mark `long` says. Those of a group come one after the other, and so last longest."""
    if item.get_closest_marker("xdist_group"):
        return math.inf
    mark = item.get_closest_marker("long")
    return 0 if mark is None else mark.args[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that must be alone come last, so that the others do not wait for them, and of those the ones that can run beside each other
    come first; of the others those that last longest do. Workers take one at a time."""

    for item in items:
        if needs_alone(item) and not (uses(item, "lab") or uses(item, "alone")):
            raise pytest.UsageError(f"{item.nodeid} is marked exclusive and takes no turn: it needs the fixture lab or alone")

    def rank(item: pytest.Item) -> tuple[int, list[int], float]:
        alone = [SHARED.index(name) for name in needs_alone(item)]
        return len(alone), alone, -length_s(item)

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remembers failures, so that the lab keeps its evidence."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how soon jobs told what is wrong: a promise to users, and nothing that a busy machine could fail."""
    told = [
        f"{value:5g} s  {report.nodeid.rpartition('::')[2]}"
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == TOLD_AFTER
    ]
    if told:
        terminalreporter.section("how soon a job told what is wrong")
        terminalreporter.write_line("\n".join(sorted(told, reverse=True)))


@pytest.fixture(scope="session")
def cluster() -> LocalCluster:
    """The local cluster of this checkout, which must be up."""
    return LocalCluster(CHECKOUT)


@pytest.fixture(scope="session")
def kubectl(cluster: LocalCluster) -> Kubectl:
    """kubectl by FAIRLEAD_E2E_KUBECTL, whose API server this process must reach, else by the local cluster's command."""
    prefix = os.environ.get("FAIRLEAD_E2E_KUBECTL")
    return direct(Kubectl(tuple(shlex.split(prefix)))) if prefix else cluster.kubectl


@pytest.fixture(scope="session")
def more_values() -> Mapping[str, Any]:
    """Values of the chart beyond those that the cluster needs."""
    return {}


@pytest.fixture(scope="session")
def installed(cluster: LocalCluster, kubectl: Kubectl, more_values: Mapping[str, Any], request: pytest.FixtureRequest) -> None:
    """The chart, installed once a run whichever worker comes first, and the namespace that all of them share."""
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"pid-{os.getpid()}")
    items = request.session.items
    allowed = {namespace_of(item) for item in items if uses(item, "lab")} | {
        neighbour_of(item) for item in items if uses(item, "neighbour")
    }
    with once(BUILD / "installed", run_id, BUILD / "install.lock") as first:
        if first:
            install.install_as_in_the_tutorial(cluster)
            install.install(cluster, allowed | {DEMO_NAMESPACE, ADMISSION_NAMESPACE, *TENANTS}, run_id, BUILD, more_values)
            kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADMISSION_NAMESPACE}})


@pytest.fixture(scope="session")
def cleaning() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Cleans up after a test while the next ones of this worker run. An error in it fails the last one."""
    with ThreadPoolExecutor() as threads:
        under_way: list[Future[None]] = []
        yield lambda clean: under_way.append(threads.submit(clean))
        for each in under_way:
            each.result()


@pytest.fixture
def labs(
    cluster: LocalCluster,
    kubectl: Kubectl,
    installed: None,
    cleaning: Callable[[Callable[[], None]], None],
    request: pytest.FixtureRequest,
) -> Iterator[list[Lab]]:
    """A lab for the test and one for its neighbour, where it has one, with what the test must have alone."""
    item = request.node
    limited, source = (item.get_closest_marker(mark) for mark in ("destination_size", "source"))
    size, on_device = (limited.args[0], limited.kwargs.get("on_device", False)) if limited else (None, False)
    alone = needs_alone(item)
    with ExitStack() as held:
        # What is made and removed without jobs disturbs nobody: it is done beside other tests.
        turns = held.enter_context(ExitStack())
        turns.enter_context(turn(TURNS))
        made = [held.enter_context(Lab(cluster, kubectl, namespace_of(item), size, destination_on_device=on_device))]
        if uses(item, "neighbour"):
            made.append(held.enter_context(Lab(cluster, kubectl, neighbour_of(item))))
        if source:
            for each in made:
                each.write(each.source, *source.args, **source.kwargs)
        if alone:
            turns.close()
            turns.enter_context(turn(TURNS, alone))
        yield made
        for each in made:
            if item.stash.get(FAILED, False):
                each.keep_evidence(BUILD / re.sub(r"[^A-Za-z0-9_.-]+", "-", item.name) / each.namespace)
            if alone:
                each.delete_jobs()
                each.wait_no_mover_pods()
        if alone:
            turns.close()
        # With its turn: one that must be alone waits for the end of this.
        cleaning(held.pop_all().close)


@pytest.fixture
def lab(labs: list[Lab]) -> Lab:
    """A namespace and two disks for this test alone."""
    return labs[0]


@pytest.fixture
def neighbour(labs: list[Lab]) -> Lab:
    """A second namespace with disks of its own, for a test that needs two."""
    return labs[1]


@pytest.fixture
def alone() -> Iterator[None]:
    """The cluster without any other test, for one that is marked exclusive and has no lab."""
    with turn(TURNS, SHARED):
        yield


@pytest.fixture(scope="session")
def admission_namespace(installed: None) -> str:
    """A namespace that may use the host network, for jobs that are never to run."""
    return ADMISSION_NAMESPACE
