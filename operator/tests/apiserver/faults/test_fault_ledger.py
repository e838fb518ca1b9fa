"""A run that was interrupted goes on where it was; another run, or one of another operator, begins anew."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fault_suite import rows

from fairlead_dev.checkout import CHECKOUT
from faults.ledger import OPERATOR, SUITE, Ledger, digest
from faults.plans import plans_of
from faults.workers import Verdict

GOOD, BAD = plans_of("create", ["GET nodes dtn-a"])[:2]


def test_what_ended_well_is_not_run_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "bench" / "plans.jsonl", "night", "0123", "aaaa")
    assert ledger.converged() == []
    ledger.note(Verdict(GOOD, (), True, 1.5, "a log"))
    ledger.note(Verdict(BAD, ("stuck",), True, 30.0, "a log"))
    assert ledger.converged() == [Verdict(GOOD, (), True, 1.5, "")]
    ledger.note(Verdict(BAD, (), False, 2.0, ""))
    assert ledger.converged() == [Verdict(GOOD, (), True, 1.5, ""), Verdict(BAD, (), False, 2.0, "")]
    assert ledger.failures() == 1


def test_another_run_and_another_operator_begin_anew(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "plans.jsonl", "night", "0123", "aaaa")
    ledger.note(Verdict(GOOD, (), True, 1.5, ""))
    assert replace(ledger, run="day").converged() == []
    assert replace(ledger, operator="4567").converged() == []


def test_a_mended_suite_keeps_what_ended_well_and_says_that_it_was_another_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "plans.jsonl", "night", "0123", "aaaa")
    ledger.note(Verdict(GOOD, (), True, 1.5, ""))
    ledger.note(Verdict(BAD, ("a false alarm",), True, 30.0, ""))
    mended = replace(ledger, suite="bbbb")
    assert mended.converged() == [Verdict(GOOD, (), True, 1.5, "", of_this_suite=False)]
    mended.note(Verdict(BAD, (), True, 2.0, ""))
    assert [verdict.of_this_suite for verdict in mended.converged()] == [False, True]
    assert mended.failures() == 1


def test_the_results_say_how_many_plans_the_present_suite_ran() -> None:
    verdicts = [Verdict(GOOD, (), True, 1.5, "", of_this_suite=False), Verdict(BAD, (), True, 1.5, "")]
    figures = {row.name: row.value for row in rows(verdicts, 10)}
    assert (figures["plans"], figures["plans_of_this_suite"]) == (2, 1)


def test_a_plan_that_the_suite_has_no_more_and_a_line_of_an_earlier_form_are_left_out(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "plans.jsonl", "night", "0123", "aaaa")
    kept = {"run": "night", "plan": str(GOOD), "problems": [], "reached": True, "seconds": 1.5}
    lines = [{**kept, "digest": "0123"}, {**kept, "operator": "0123", "suite": "aaaa", "plan": "create/no-such@GET nodes dtn-a#1"}]
    ledger.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert ledger.converged() == []


def test_the_digest_is_of_the_code_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("a = 1\n")
    first = digest(["code"], tmp_path)
    (tmp_path / "code" / "a.log").write_text("noise")
    assert digest(["code"], tmp_path) == first
    (tmp_path / "code" / "a.py").write_text("a = 2\n")
    assert digest(["code"], tmp_path) != first


def test_a_part_that_counts_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    first = digest(["a.py"], tmp_path)
    (tmp_path / "a.py").write_text("a = 2\n")
    assert digest(["a.py"], tmp_path) != first


@pytest.mark.parametrize("part", [*OPERATOR, *SUITE])
def test_what_counts_is_there(part: str) -> None:
    assert (CHECKOUT / part).exists()
