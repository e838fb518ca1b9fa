"""What counts against a transfer that was disturbed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from e2e.chaos.__main__ import rows
from e2e.chaos.conftest import read
from e2e.chaos.disturbances import Expectation
from e2e.chaos.verdict import Ending, Verdict, judged

from fairlead_dev.clients.watch import WatchEvent
from fairlead_dev.trees.listing import Entry


def entry(content: str) -> Entry:
    return Entry("f", "644", "1.0", 10, b"", content)


def job(attempts: int = 1, failed: str = "") -> dict[str, Any]:
    conditions = [{"type": "Failed", "status": "True", "reason": failed, "message": "why"}] if failed else []
    return {"status": {"attempts": attempts, "conditions": conditions, "lastFailure": {"reason": "PeerLost", "message": "gone"}}}


def pod(uid: str, phase: str = "Running", role: str = "sender", kind: str = "ADDED") -> WatchEvent:
    return WatchEvent(kind, {"metadata": {"uid": uid, "labels": {"fairlead.io/role": role}}, "status": {"phase": phase}}, 0.0)


OLD, NEW = {b"a": entry("old")}, {b"a": entry("new")}
GOOD = Ending(job(), OLD, OLD, OLD, [], [pod("1"), pod("1", "Succeeded"), pod("2", role="receiver")])
CHANGES = Expectation(failures=frozenset({"SourceChanged"}), source_changes=True)


@pytest.mark.parametrize(
    ("ending", "expected", "problem"),
    [
        (GOOD, Expectation(), ""),
        (replace(GOOD, destination=NEW), Expectation(), "wrong tree"),
        (replace(GOOD, source=NEW, destination=OLD), CHANGES, ""),
        (replace(GOOD, source=NEW, destination=NEW), CHANGES, ""),
        (replace(GOOD, source=NEW, destination=OLD), Expectation(), "wrong tree"),
        (replace(GOOD, source=NEW, destination={}), CHANGES, "wrong tree"),
        (replace(GOOD, job=job(failed="SourceChanged"), source=NEW, destination={}), CHANGES, ""),
        (replace(GOOD, job=job(failed="SourceChanged"), destination={b"a": entry("half")}), CHANGES, "wrong tree"),
        (replace(GOOD, job=job(failed="SourceChanged"), destination={b".fairlead-x": entry("half")}), CHANGES, ""),
        (replace(GOOD, job=job(failed="Stalled")), CHANGES, "failed"),
        (replace(GOOD, job=job(2)), Expectation(), ""),
        (replace(GOOD, job=job(2)), Expectation(notices=False), "noticed"),
        (replace(GOOD, partial_files=[b".fairlead-x"]), Expectation(), "left behind"),
        (replace(GOOD, pods=[pod("1"), pod("2")]), Expectation(), "two senders"),
        (replace(GOOD, pods=[pod("1"), pod("1", kind="DELETED"), pod("2")]), Expectation(), ""),
    ],
)
def test_an_ending_is_judged_by_trees_reasons_attempts_and_senders(ending: Ending, expected: Expectation, problem: str) -> None:
    assert judged(ending, expected)[0] == problem


def test_rows_count_the_problems_and_the_rounds_of_each_disturbance() -> None:
    verdicts = [
        Verdict("0-link-cut", "", "", "Succeeded", 2, 30.0, "abc"),
        Verdict("1-link-cut", "stuck", "no end", "", 3, 480.0),
        Verdict("operator-killed-every-5-s", "", "", "Succeeded", 1, 60.0),
    ]
    found = {row.name: row for row in rows(verdicts)}
    assert (found["chaos_rounds"].value, found["stuck"].value, found["stuck"].ok, found["wrong_trees"].ok) == (3, 1, False, True)
    assert found["chaos_rounds"].more["commits"] == {"abc": 1, "": 2}
    assert found["rounds.link-cut"].value == 2
    assert found["rounds.link-cut"].more["attempts"] == {2: 1, 3: 1}
    assert found["rounds.operator-killed-every-5-s"].value == 1
    assert Verdict.from_json(verdicts[0].to_json()) == verdicts[0]


def test_a_missed_round_is_neither_held_nor_failed() -> None:
    verdicts = [Verdict("0-link-cut", "", "", "Succeeded", 1, 30.0), Verdict("1-link-cut", "", "", "Succeeded", 1, 30.0, missed=True)]
    found = {row.name: row for row in rows(verdicts)}
    assert (found["chaos_rounds"].value, found["missed"].value, found["rounds.link-cut"].value) == (1, 1, 1)


def test_the_last_word_on_a_round_counts_and_a_line_of_an_older_run_was_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    lines = [Verdict("0-link-cut", "", "", "Succeeded", 1, 30.0, missed=True), Verdict("0-link-cut", "", "", "Succeeded", 2, 30.0)]
    older = {name: value for name, value in Verdict("1-link-cut", "", "", "Succeeded", 1, 30.0).to_json().items() if name != "missed"}
    file.write_text("".join(json.dumps(line) + "\n" for line in [*(line.to_json() for line in lines), older]))
    assert [(verdict.round, verdict.missed, verdict.attempts) for verdict in read(file)] == [
        ("0-link-cut", False, 2),
        ("1-link-cut", False, 1),
    ]
