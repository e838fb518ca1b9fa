"""What the tools' answers mean: what was not asked is never called clean."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from fairlead_dev.audit import PYTHON_LOCKS, Check, Run, Verdict, check_crates, check_policy, check_python_lock, exit_code
from fairlead_dev.checkout import CHECKOUT

CLEAN = {"name": "a", "version": "1", "vulns": []}
FLAWED = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (3)"}


def answering(code: int, out: str = "", err: str = "") -> Run:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, code, out, err)

    return run


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("code", "out", "verdict", "words"),
    [
        (0, report(CLEAN), Verdict.CLEAN, ""),
        (1, report(CLEAN, FLAWED), Verdict.FLAWS, "b 2: PYSEC-2026-1"),
        (1, report(FLAWED, SKIPPED), Verdict.FLAWS, "PYSEC-2026-1"),
        (0, report(CLEAN, SKIPPED), Verdict.NOT_AUDITED, "could not be audited: c (3)"),
        (0, report(*[SKIPPED] * 9), Verdict.NOT_AUDITED, "and 6 more of 9"),
        (0, report(), Verdict.NOT_AUDITED, ""),
        (1, "", Verdict.NOT_AUDITED, "ConnectionError: no such host"),
        (0, "[]", Verdict.NOT_AUDITED, "ConnectionError: no such host"),
    ],
)
def test_a_python_lock(code: int, out: str, verdict: Verdict, words: str) -> None:
    check = check_python_lock(answering(code, out, "Traceback\nConnectionError: no such host\n"), "a.lock")
    assert check.verdict is verdict
    assert words in check.why


@pytest.mark.parametrize(
    ("code", "err", "verdict"),
    [
        (0, "advisories ok", Verdict.CLEAN),
        (1, "error[vulnerability]: a hole", Verdict.FLAWS),
        (1, "[ERROR] failed to fetch advisory database", Verdict.NOT_AUDITED),
    ],
)
def test_crates(code: int, err: str, verdict: Verdict) -> None:
    assert check_crates(answering(code, "", err)).verdict is verdict


@pytest.mark.parametrize(("code", "verdict"), [(0, Verdict.CLEAN), (2, Verdict.FLAWS), (101, Verdict.FLAWS)])
def test_the_policy_needs_no_network_and_is_clean_or_not(code: int, verdict: Verdict) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code, "", "why")

    assert check_policy(run).verdict is verdict
    assert "--offline" in asked[0]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.CLEAN], 0),
        ([Verdict.CLEAN, Verdict.NOT_AUDITED], 3),
        ([Verdict.NOT_AUDITED, Verdict.FLAWS], 1),
    ],
)
def test_exit_codes(verdicts: list[Verdict], code: int) -> None:
    assert exit_code([Check("x", verdict) for verdict in verdicts]) == code


def test_every_python_lock_of_the_repository_is_audited() -> None:
    listed = subprocess.run(["git", "ls-files", "*.lock"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()
    assert set(PYTHON_LOCKS) == {lock for lock in listed if lock != "Cargo.lock"}
