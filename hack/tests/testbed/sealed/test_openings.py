"""The log of openings."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.sealed.openings import LoggedOpening, open_sealed, opened, read_openings
from fairlead_dev.testbed.sealed.sets import DECISIONS, LISTENING, PURPOSES, load_sealed

SEALED = load_sealed()
WANTED = LoggedOpening("2027-01-02", DECISIONS, "decisions", "the final table of version 2", SEALED.sha256, "abc1234", "d" * 64)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "openings.json").write_text("[]\n")
    return tmp_path / "openings.json"


@pytest.mark.parametrize("reason", ["", "   ", "because"])
def test_without_a_reason_nothing_is_opened_or_logged(log: Path, reason: str) -> None:
    with pytest.raises(CommandUsageError, match=r"sealed set 'decisions' \(never opened\): say with --reason"):
        open_sealed(SEALED, replace(WANTED, reason=reason), log)
    assert read_openings(log) == []


def test_the_first_opening_is_of_a_sealed_set_and_later_ones_are_of_a_development_set(log: Path) -> None:
    first = open_sealed(SEALED, WANTED, log)
    later = open_sealed(SEALED, replace(WANTED, date="2027-02-02", reason="a new rule for switches"), log)
    of_another = open_sealed(SEALED, replace(WANTED, set=LISTENING), log)
    assert [(one.number, one.kind) for one in (first, later, of_another)] == [(1, "sealed"), (2, "development"), (1, "sealed")]
    assert [one.reason for one in read_openings(log)] == [WANTED.reason, "a new rule for switches", WANTED.reason]


def test_a_run_that_goes_on_with_the_last_opening_is_no_new_one(log: Path) -> None:
    open_sealed(SEALED, WANTED, log)
    again = open_sealed(SEALED, replace(WANTED, date="2027-01-03", reason="the final  table of version 2 "), log)
    assert (again.number, again.opening.date) == (1, "2027-01-02")
    assert len(read_openings(log)) == 1


def test_another_digest_of_what_is_measured_is_another_opening(log: Path) -> None:
    open_sealed(SEALED, WANTED, log)
    changed = open_sealed(SEALED, replace(WANTED, measured="e" * 64), log)
    assert (changed.number, changed.kind) == (2, "development")
    back = open_sealed(SEALED, WANTED, log)
    assert (back.number, len(read_openings(log))) == (3, 3)


def test_an_opening_knows_the_commit_of_the_call_that_goes_on_with_it(log: Path) -> None:
    open_sealed(SEALED, WANTED, log)
    again = open_sealed(SEALED, replace(WANTED, commit="def5678"), log)
    assert (again.commit, again.opening.commit) == ("def5678", "abc1234")


def test_nothing_is_opened_with_code_that_is_in_no_commit(log: Path) -> None:
    with pytest.raises(CommandUsageError, match=r"figures\.py: not as in the last commit"):
        open_sealed(SEALED, WANTED, log, ["hack/figures.py"])
    assert read_openings(log) == []


def test_nobody_goes_on_with_an_opening_that_is_in_no_commit(log: Path) -> None:
    open_sealed(SEALED, WANTED, log)
    with pytest.raises(CommandUsageError, match="has an opening that is in no commit"):
        open_sealed(SEALED, WANTED, log, [f"hack/wan/{log.parent.name}/{log.name}"])


def test_an_opening_from_before_there_were_digests_is_read(log: Path) -> None:
    old = {name: value for name, value in asdict(WANTED).items() if name != "measured"}
    log.write_text(json.dumps([old]))
    assert read_openings(log) == [replace(WANTED, measured="")]


def test_a_reason_of_long_ago_does_not_go_on_with_that_opening() -> None:
    between = replace(WANTED, reason="a new rule for switches")
    found, is_new = opened([WANTED, between], WANTED)
    assert (found.number, is_new) == (3, True)


def test_a_damaged_log_is_refused(log: Path) -> None:
    log.write_text("[{}]")
    with pytest.raises(CommandUsageError, match="is no log of openings"):
        open_sealed(SEALED, WANTED, log)


def test_the_repositorys_openings_are_of_sealed_sets_and_give_a_reason() -> None:
    for one in read_openings():
        assert one.set in PURPOSES
        assert one.reason and one.date.startswith("20")
