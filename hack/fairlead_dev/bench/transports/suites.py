"""Suites whose results are rows: the conformance of every engine, and the matrix with libudt."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead_dev.bench.lab.machine import LIBUDT_HEADER
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Goal, Row
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import LabError

ROWS = ("conformance_cases", "interop_failures")
GOALS = {"conformance_cases": Goal("at_least", 1.0, of="ratio"), "interop_failures": Goal("at_most", 0, of="value")}
PROGRAMS = ("cargo", "g++", LIBUDT_HEADER)
LIMIT_S = 1800.0
_CARGO = (str(CHECKOUT / "hack" / "cargo"), "test", "--locked", "--workspace", "--features", "fairlead-mover/fault-injection")
_CASE = re.compile(r"^test ([\w:]+) \.\.\. (\w+)", re.MULTILINE)

_COUNTS = re.compile(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What became of a suite's cases: `ok`, `FAILED` or `ignored` by engine and case; the engine is empty where there is none."""

    cases: Mapping[str, Mapping[str, str]]

    @property
    def not_passed(self) -> dict[str, list[str]]:
        """The cases that failed or were left out, by engine."""
        found = {engine: [case for case, result in cases.items() if result != "ok"] for engine, cases in self.cases.items()}
        return {engine: cases for engine, cases in found.items() if cases}


def result_of(output: str) -> SuiteResult:
    """The result of what cargo's test harness has printed in its long form. LabError if it did not come to its end."""
    found, counts = _CASE.findall(output), _COUNTS.findall(output)
    if not counts or sum(map(int, counts[0])) != len(found):
        raise LabError("the suite did not come to its end")
    cases: dict[str, dict[str, str]] = defaultdict(dict)
    for name, result in found:
        *engine, case = name.split("::")
        # What is deeper is a test of the suite's own tools.
        if len(engine) <= 1:
            cases["".join(engine)][case] = result
    return SuiteResult(cases)


def rows_of(conformance: SuiteResult, interop: SuiteResult) -> list[Row]:
    """A case that an engine does not have counts as one that it has not passed."""
    every = {case for cases in conformance.cases.values() for case in cases}
    passed = {engine: sum(result == "ok" for result in cases.values()) for engine, cases in conformance.cases.items()}
    fewest = min(passed.values())
    matrix = sum(len(cases) for cases in interop.cases.values())
    failed = sum(len(cases) for cases in interop.not_passed.values())
    return [
        Row(
            "conformance_cases",
            float(fewest),
            "cases",
            float(len(every)),
            fewest / len(every),
            note="passed by the engine that passed fewest; the reference is how many there are",
            more={"passed": passed, "not_passed": conformance.not_passed},
        ),
        Row(
            "interop_failures",
            float(failed),
            "cases",
            note=f"of {matrix} with libudt: who connects, who sends (libudt, or the mover by each policy), with and without loss",
            more={"not_passed": interop.not_passed},
        ),
    ]


def measure(_lab: MoverLab) -> list[Row]:
    """Runs both suites. LabError if one could not be run."""
    return rows_of(_run("conformance"), _run("interop"))


def _run(suite: str) -> SuiteResult:
    # With nothing expected, a case that would be skipped fails.
    environment = {**os.environ, "FAIRLEAD_EXPECTED_SKIPS": ""}
    command = [*_CARGO, "--test", suite, "--", "--format", "pretty"]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    try:
        return result_of(done.stdout)
    except LabError as error:
        raise LabError(f"{suite}: {error}:\n{done.stderr[-2000:]}") from error
