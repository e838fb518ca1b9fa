"""Space of file systems, and of one whose server never answers."""

from __future__ import annotations

import threading
from pathlib import Path

from fairlead.agent.storage import Space, StorageReader

PATIENCE_SECONDS = 30.0


def test_a_real_file_system(tmp_path: Path) -> None:
    (found,) = StorageReader({"/data": tmp_path}).read(PATIENCE_SECONDS)
    assert found.path == "/data"
    assert 0 <= found.free_bytes <= found.total_bytes


def test_what_is_not_there_or_cannot_be_is_absent(tmp_path: Path) -> None:
    spaces = {"/none": Space(0, 0), "/absurd": Space(2**80, 1), "/more": Space(10, 20)}
    reader = StorageReader({path: Path(path) for path in spaces}, lambda folder: spaces[str(folder)])
    assert [(each.path, each.total_bytes, each.free_bytes) for each in reader.read(PATIENCE_SECONDS)] == [("/more", 10, 10)]
    assert StorageReader({"/data": tmp_path / "nowhere"}).read(PATIENCE_SECONDS) == ()


def test_one_that_hangs_is_unknown_and_is_not_asked_again_until_it_answers() -> None:
    answers, asked = threading.Event(), []

    def read(folder: Path) -> Space:
        asked.append(str(folder))
        if str(folder) == "/lost":
            answers.wait()
        return Space(10, 5)

    reader = StorageReader({"/lost": Path("/lost"), "/here": Path("/here")}, read)
    for _ in range(3):
        found = reader.read(0.05)
        while "/here" not in {each.path for each in found}:
            found = reader.read(0.05)
        assert "/lost" not in {each.path for each in found}
    assert asked.count("/lost") == 1
    answers.set()
    while len(reader.read(0.05)) < 2:
        pass
