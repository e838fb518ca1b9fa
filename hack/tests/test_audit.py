"""What the tools' answers mean: what was not asked is never called clean."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from fairlead_dev.audit import PYTHON_LOCKS, AuditResult, Check, Run, check_crates, check_policy, check_python_lock, exit_code
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
    ("code", "out", "result", "words"),
    [
        (0, report(CLEAN), AuditResult.CLEAN, ""),
        (1, report(CLEAN, FLAWED), AuditResult.FLAWS, "b 2: PYSEC-2026-1"),
        (1, report(FLAWED, SKIPPED), AuditResult.FLAWS, "PYSEC-2026-1"),
        (0, report(CLEAN, SKIPPED), AuditResult.NOT_AUDITED, "could not be audited: c (3)"),
        (0, report(*[SKIPPED] * 9), AuditResult.NOT_AUDITED, "and 6 more of 9"),
        (0, report(), AuditResult.NOT_AUDITED, ""),
        (1, "", AuditResult.NOT_AUDITED, "ConnectionError: no such host"),
        (0, "[]", AuditResult.NOT_AUDITED, "ConnectionError: no such host"),
    ],
)
def test_a_python_lock(code: int, out: str, result: AuditResult, words: str) -> None:
    check = check_python_lock(answering(code, out, "Traceback\nConnectionError: no such host\n"), "a.lock")
    assert check.result is result
    assert words in check.why


@pytest.mark.parametrize(
    ("code", "err", "result"),
    [
        (0, "advisories ok", AuditResult.CLEAN),
        (1, "error[vulnerability]: a hole", AuditResult.FLAWS),
        (1, "[ERROR] failed to fetch advisory database", AuditResult.NOT_AUDITED),
    ],
)
def test_crates(code: int, err: str, result: AuditResult) -> None:
    assert check_crates(answering(code, "", err)).result is result


@pytest.mark.parametrize(("code", "result"), [(0, AuditResult.CLEAN), (2, AuditResult.FLAWS), (101, AuditResult.FLAWS)])
def test_the_policy_needs_no_network_and_is_clean_or_not(code: int, result: AuditResult) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code, "", "why")

    assert check_policy(run).result is result
    assert "--offline" in asked[0]


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([AuditResult.CLEAN], 0),
        ([AuditResult.CLEAN, AuditResult.NOT_AUDITED], 3),
        ([AuditResult.NOT_AUDITED, AuditResult.FLAWS], 1),
    ],
)
def test_exit_codes(results: list[AuditResult], code: int) -> None:
    assert exit_code([Check("x", result) for result in results]) == code


def test_every_python_lock_of_the_repository_is_audited() -> None:
    listed = subprocess.run(["git", "ls-files", "*.lock"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()
    assert set(PYTHON_LOCKS) == {lock for lock in listed if not lock.endswith("Cargo.lock")}
