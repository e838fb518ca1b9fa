import re
from pathlib import Path

import pytest

import fairlead.__main__
from fairlead_dev.generate.commands import PROGRAMS, help_of, render

FAIRLEAD, ADVISOR = PROGRAMS


def test_the_pages_have_every_command_that_the_operators_program_takes() -> None:
    taken = re.findall(r'words\[:1\] == \["([a-z-]+)"\]', Path(fairlead.__main__.__file__).read_text())
    assert sorted(FAIRLEAD.commands) == sorted(taken)


@pytest.mark.parametrize("command", ["probe", "train", "run", "replay"])
def test_the_advisors_page_has_the_commands_that_its_help_lists(command: str) -> None:
    assert f"\n## `fairlead-advisor {command}`\n```text\nusage: fairlead-advisor {command} " in render(ADVISOR)


def test_help_does_not_depend_on_the_readers_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = help_of(FAIRLEAD, "guard")
    monkeypatch.setenv("FAIRLEAD_GUARD_ADDRESS", "192.0.2.1:1")
    monkeypatch.setenv("COLUMNS", "40")
    assert help_of(FAIRLEAD, "guard") == before
    assert "[:9810]" in before
