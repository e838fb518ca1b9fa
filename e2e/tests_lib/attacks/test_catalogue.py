"""Which attacks there are, and that each has evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.attacks import __main__ as runner
from e2e.attacks.lib import catalogue, evidence
from e2e.attacks.lib.catalogue import CatalogueError


def _write(folder: Path, text: str, name: str = "attack_doors.py") -> Path:
    (folder / "processes").mkdir(exist_ok=True)
    (folder / "processes" / name).write_text(text)
    return folder


WHOLE = '@gains("gold")\ndef attack_by_night():\n    """Somebody\n    climbs in."""\n'


def test_an_attack_is_named_by_its_file_and_function_and_described_by_its_docstring(tmp_path: Path) -> None:
    (attack,) = catalogue.read(_write(tmp_path, WHOLE + "def helper(): ...\n"))
    assert (attack.id, attack.layer, attack.title, attack.gains) == ("doors/by-night", "processes", "Somebody climbs in.", "gold")
    assert catalogue.attack_id(attack.node) == attack.id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('@gains("gold")\ndef attack_by_night(): ...\n', "docstring"),
        ('def attack_by_night():\n    """Somebody climbs in."""\n', "gains"),
        ('@gains(GOLD)\nasync def attack_by_night():\n    """Somebody climbs in."""\n', "literal"),
    ],
)
def test_a_function_that_is_no_whole_attack_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CatalogueError, match=words):
        catalogue.read(_write(tmp_path, text))


def test_two_attacks_cannot_have_one_id(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="doors/by-night"):
        catalogue.read(_write(tmp_path, WHOLE + WHOLE))


def test_every_attack_has_evidence_and_nothing_else_has() -> None:
    attacks = {attack.id for attack in catalogue.read(runner.HERE)}
    found = evidence.load(runner.EVIDENCE)
    assert attacks == set(found)
    assert all(one.outcome in ("got through", "held already") and one.observed and one.commit for one in found.values())
