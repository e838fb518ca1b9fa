"""A run that was interrupted goes on where it was; another run, or one of other code, begins anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from faults.ledger import WHAT_COUNTS, Ledger, digest
from faults.plans import plans_of
from faults.workers import Verdict

GOOD, BAD = plans_of("create", ["GET nodes dtn-a"])[:2]


def test_what_ended_well_is_not_run_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "bench" / "plans.jsonl", "night", "0123")
    assert ledger.converged() == []
    ledger.note(Verdict(GOOD, (), True, 1.5, "a log"))
    ledger.note(Verdict(BAD, ("stuck",), True, 30.0, "a log"))
    assert ledger.converged() == [Verdict(GOOD, (), True, 1.5, "")]
    ledger.note(Verdict(BAD, (), False, 2.0, ""))
    assert ledger.converged() == [Verdict(GOOD, (), True, 1.5, ""), Verdict(BAD, (), False, 2.0, "")]
    assert ledger.failures() == 1


def test_another_run_and_other_code_begin_anew(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "plans.jsonl", "night", "0123")
    ledger.note(Verdict(GOOD, (), True, 1.5, ""))
    assert replace(ledger, run="day").converged() == []
    assert replace(ledger, digest="4567").converged() == []


def test_the_digest_is_of_the_code_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("a = 1\n")
    first = digest(tmp_path, ["code"])
    (tmp_path / "code" / "a.log").write_text("noise")
    assert digest(tmp_path, ["code"]) == first
    (tmp_path / "code" / "a.py").write_text("a = 2\n")
    assert digest(tmp_path, ["code"]) != first


def test_a_part_that_counts_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    first = digest(tmp_path, ["a.py"])
    (tmp_path / "a.py").write_text("a = 2\n")
    assert digest(tmp_path, ["a.py"]) != first


@pytest.mark.parametrize("part", WHAT_COUNTS)
def test_what_counts_is_there(part: str) -> None:
    assert (CHECKOUT / part).exists()
