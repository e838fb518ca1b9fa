"""What all Python test suites of the checkout share, found by Hypothesis and by pytest through this package's entry points."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator

import pytest

PROFILE = "fairlead"
EXPECTED_SKIPS = "FAIRLEAD_EXPECTED_SKIPS"
"""Set, as `make` does, it is a regular expression for the reasons of skips that are expected, empty for none; any other skip fails."""


def load_hypothesis_profile() -> None:
    """Nothing is judged by the time that it takes, which a busy machine decides; what reproduces a failure is printed."""
    from hypothesis import HealthCheck, settings  # noqa: PLC0415 - called while hypothesis is imported, and pytest alone does not need it

    settings.register_profile(PROFILE, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(PROFILE)


def pytest_collection_finish() -> None:
    """Spares the garbage collector what was imported and collected, which lives until the run ends."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails a test whose skip is not expected."""
    report = yield
    _judge_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fails a file whose skip is not expected."""
    report = yield
    _judge_skip(report)
    return report


def _judge_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    expected = os.environ.get(EXPECTED_SKIPS)
    if expected is None or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
    if not expected or not re.search(expected, reason):
        report.outcome = "failed"
        report.longrepr = f"skipped ({reason}), which {EXPECTED_SKIPS}={expected!r} does not expect"
