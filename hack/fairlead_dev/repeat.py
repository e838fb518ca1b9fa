"""`python -m fairlead_dev.repeat SUITE... --count N [--loops M]`: runs tests again and again, and says which failed how often."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from fairlead_dev.checkout import CHECKOUT

CLUSTER = CHECKOUT / "hack" / "cluster" / "cluster"


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run: how many tests it had, which failed, and whether pytest was content."""

    tests: int
    failed: tuple[str, ...]
    passed: bool


def read_report(text: str, exit_code: int) -> SuiteRun:
    """A run from pytest's report in the JUnit format; empty where pytest wrote none."""
    cases = list(ElementTree.fromstring(text).iter("testcase")) if text else []
    failed = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    names = dict.fromkeys(f"{case.get('classname', '')}::{case.get('name', '')}" for case in failed)
    return SuiteRun(len(cases), tuple(names), exit_code == 0)


def summary(runs: Sequence[SuiteRun]) -> str:
    """A table of what failed how often, the most frequent first."""
    counts = Counter(name for run in runs for name in run.failed)
    broken = sum(not run.passed and not run.failed for run in runs)
    lines = [f"{sum(run.passed for run in runs)} of {len(runs)} runs passed"]
    lines += [f"{count:4}  {name}" for name, count in counts.most_common()]
    return "\n".join(lines + ([f"{broken:4}  runs ended without a failed test"] if broken else []))


def command(suites: Sequence[str], report: Path, options: Sequence[str] = ()) -> list[str]:
    """pytest over these files; inside the local cluster's network for end-to-end tests."""
    pytest = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options, *suites]
    return [str(CLUSTER), "enter", "--", *pytest] if any(Path(suite).parts[0] == "e2e" for suite in suites) else pytest


@contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """Programs of low priority that never wait, until the block is left."""
    loops = [subprocess.Popen(("nice", "sh", "-c", "while :; do :; done")) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_once(suites: Sequence[str], options: Sequence[str]) -> SuiteRun:
    """Runs the tests from the checkout; their output is shown as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            command(suites, report, options), cwd=CHECKOUT, env={**os.environ, "FAIRLEAD_E2E_KUBECTL": "kubectl"}, check=False
        )
        return read_report(report.read_text() if report.exists() else "", done.returncode)


def main() -> int:
    """Returns 0 if every run passed."""
    parser = argparse.ArgumentParser(prog="fairlead_dev.repeat", description=__doc__)
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a file, a folder or a test, as pytest takes them")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--loops", type=int, default=0, help="endless loops beside, of low priority")
    parser.add_argument("--option", action="append", default=[], help="an option for pytest, for example --option=-x")
    arguments = parser.parse_args()
    runs: list[SuiteRun] = []
    with endless_loops(arguments.loops):
        for number in range(1, arguments.count + 1):
            runs.append(run_once(arguments.suites, arguments.option))
            print(f"run {number} of {arguments.count}: {summary(runs)}", flush=True)
    return 0 if all(run.passed for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
