"""How many tests of the run failed, by pytest's own report of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_dev.bench.observe.run import row_of
from fairlead_dev.errors import CommandUsageError

TESTS = """
import pytest

@pytest.fixture
def broken():
    yield
    raise OSError("cannot be cleaned up")

def test_good():
    pass

def test_fails():
    assert False

def test_fails_twice(broken):
    assert False

@pytest.mark.skip(reason="not here")
def test_skipped():
    pass
"""


def test_failed_tests_are_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    report = tmp_path / "report.xml"
    pytest_run = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report, tmp_path)
    # Under make a skip that nobody expects is a failure.
    environment = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_EXPECTED_SKIPS"}
    done = subprocess.run(pytest_run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    row = row_of(report)
    assert (row.value, row.reference, row.more["failed"], row.ok) == (2, 4, ["test_fails", "test_fails_twice"], False)


def test_a_run_without_failures_reaches_its_goal(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite><testcase name="test_good"/></testsuite></testsuites>')
    row = row_of(report)
    assert (row.value, row.reference, row.ok) == (0, 1, True)


def test_a_run_that_did_not_begin_is_no_success(tmp_path: Path) -> None:
    row = row_of(tmp_path / "absent.xml")
    assert (row.value, row.ok) == (None, False)


def test_what_is_no_report_is_said(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text("")
    with pytest.raises(CommandUsageError, match="junitxml"):
        row_of(tmp_path / "report.xml")
