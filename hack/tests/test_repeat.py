"""What failed how often is counted by test."""

from pathlib import Path

import pytest

from fairlead_dev.repeat import SuiteRun, command, read_report, summary

REPORT = """<testsuites><testsuite>
<testcase classname="e2e.test_fairness" name="test_shares"/>
<testcase classname="e2e.test_fairness" name="test_guard"><failure message="AboveCap"/></testcase>
<testcase classname="e2e.test_fairness" name="test_bucket"><error message="setup"/></testcase>
<testcase classname="e2e.test_fairness" name="test_bucket"><error message="teardown"/></testcase>
</testsuite></testsuites>"""


def test_failures_and_errors_are_read_once_a_test() -> None:
    failed = ("e2e.test_fairness::test_guard", "e2e.test_fairness::test_bucket")
    assert read_report(REPORT, 1) == SuiteRun(4, failed, passed=False)
    assert read_report("", 3) == SuiteRun(0, (), passed=False)


def test_the_most_frequent_failure_comes_first() -> None:
    runs = [SuiteRun(2, ("b",), False), SuiteRun(2, ("b", "a"), False), SuiteRun(2, (), True), SuiteRun(0, (), False)]
    assert summary(runs).splitlines() == ["1 of 4 runs passed", "   2  b", "   1  a", "   1  runs ended without a failed test"]


@pytest.mark.parametrize(("suite", "in_cluster"), [("e2e/test_fairness.py", True), ("operator/tests", False)])
def test_end_to_end_tests_run_in_the_clusters_network(suite: str, in_cluster: bool) -> None:
    words = command([suite], Path("report.xml"))
    assert ("enter" in words) is in_cluster
    assert words[-1] == suite
