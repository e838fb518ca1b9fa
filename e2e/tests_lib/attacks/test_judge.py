"""The three outcomes of an attack."""

from __future__ import annotations

import tempfile
from pathlib import Path

from e2e.attacks.lib import evidence
from e2e.attacks.lib.catalogue import Attack
from e2e.attacks.lib.judge import OBSERVED_CHARS, Judge, Outcome
from e2e.attacks.lib.results import Result, rows


def test_one_that_got_through_outweighs_all_that_held() -> None:
    judge = Judge()
    for held, observed in ((True, "refused"), (False, "taken"), (True, "refused again")):
        judge(held, observed)
    assert judge.outcome(None) == Outcome("got through", "taken")


def test_the_last_of_those_that_held_is_told() -> None:
    judge = Judge()
    judge(True, "refused")
    judge(True, "refused\n  again" + "!" * OBSERVED_CHARS)
    outcome = judge.outcome(None)
    assert outcome.verdict == "held" and outcome.observed.startswith("refused again!") and len(outcome.observed) == OBSERVED_CHARS


def test_what_is_observed_names_no_folder_of_this_machine() -> None:
    scratch = Path(tempfile.gettempdir()) / "pytest-of-somebody" / "pytest-7" / "popen-gw0" / "attack_with_a_link0"
    judge = Judge()
    judge(True, f"`/some/where/build/bin/fairlead-mover send --source {scratch}/tree/file` ended with 2: /proc/self is a link")
    assert judge.outcome(None).observed == "`build/bin/fairlead-mover send --source /…/tree/file` ended with 2: /proc/self is a link"


def test_an_attack_that_broke_or_did_not_conclude_is_an_error_and_never_held() -> None:
    assert Judge().outcome(None).verdict == "error"
    judge = Judge()
    judge(True, "refused")
    assert judge.outcome("AssertionError: the control failed") == Outcome("error", "AssertionError: the control failed")


def test_evidence_is_about_attacks_that_were_carried_out() -> None:
    assert evidence.of(Outcome("error", "no cluster"), "abc", 1.0) is None
    found = [evidence.of(Outcome(verdict, "x"), "abc", 1.04) for verdict in ("held", "got through")]
    assert [(one.outcome, one.seconds) for one in found if one] == [("held already", 1.0), ("got through", 1.0)]


def test_the_rows_count_what_was_carried_out_and_what_got_through() -> None:
    attack = Attack("tls/x", "processes", "A stranger comes.", "data", "processes/attack_tls.py::attack_x")
    results = [Result(attack, Outcome(verdict, "seen"), 2.0) for verdict in ("held", "got through", "error")]
    found = [row.to_json() for row in rows(results, 9.96)]
    assert [(row["name"], row["value"]) for row in found[:3]] == [("attacks", 2), ("got_through", 1), ("seconds", 10.0)]
    assert [(row["value"], row["note"]) for row in found[3:]] == [(0, "seen"), (1, "seen"), (None, "error: seen")]
    assert {"name", "value", "unit", "reference", "ratio", "title", "layer"} <= set(found[3])
