"""What all attacks are given, and how their outcomes get to the runner."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from e2e.attacks.lib.catalogue import attack_id
from e2e.attacks.lib.judge import Judge
from e2e.attacks.lib.target import Target

OUTCOME = "attack"
"""Under this name a report carries the outcome from a worker to the process that collects them."""
_JUDGE = pytest.StashKey[Judge]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="the file for one line of JSON with each attack's outcome")


@pytest.fixture(scope="session")
def target() -> Target:
    """The checkout that is attacked."""
    return Target.given()


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Judge:
    """Takes what the attack concludes: `judge(held, observed)`."""
    made = Judge()
    request.node.stash[_JUDGE] = made
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """An attack that got through fails its test; one that did not conclude, or broke at any stage, is an error."""
    report = yield
    error = None if call.excinfo is None else f"{call.when}: {call.excinfo.exconly()}"
    if call.when == "call" or error is not None:
        outcome = item.stash.get(_JUDGE, Judge()).outcome(error)
        report.user_properties.append((OUTCOME, {"verdict": outcome.verdict, "observed": outcome.observed, "seconds": report.duration}))
        if error is None and outcome.verdict != "held":
            report.outcome = "failed"
            report.longrepr = f"{outcome.verdict}: {outcome.observed}"
    return report


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--outcomes")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(file))


class _Outcomes:
    """Writes outcomes to a file as they come. A later stage's line about the same attack replaces an earlier one's."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties).get(OUTCOME)
        if found is None and report.failed:
            # A worker that died has no conclusion.
            found = {"verdict": "error", "observed": str(report.longrepr)[:300], "seconds": report.duration}
        if isinstance(found, dict):
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"id": attack_id(report.nodeid), **found}) + "\n")
