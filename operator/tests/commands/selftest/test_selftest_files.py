"""The file of the self-test: the other end knows its content, and notices every difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.commands.selftest import command, files

SIZE = 2_500_000


def test_what_was_written_is_recognised(tmp_path: Path) -> None:
    flags = (str(tmp_path / "folder"), f"--bytes={SIZE}", "--seed=abc")
    assert command.main(["write", *flags]) == 0
    assert command.main(["compare", *flags]) == 0
    assert command.main(["remove-source", *flags]) == 0
    assert not (tmp_path / "folder").exists()


def test_every_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    flags = (str(folder), f"--bytes={SIZE}", "--seed=abc")
    assert command.main(["compare", *flags]) == 1
    assert "has not arrived" in capsys.readouterr().err
    files.write(folder, SIZE, "abc")
    with (folder / files.FILE).open("r+b") as file:
        file.seek(2_000_000)
        file.write(b"?")
    with pytest.raises(files.WrongFileError, match="differs after byte 1048576"):
        files.compare(folder, SIZE, "abc")
    with pytest.raises(files.WrongFileError, match=f"has {SIZE} bytes, not {SIZE + 1}"):
        files.compare(folder, SIZE + 1, "abc")
    with pytest.raises(files.WrongFileError):
        files.compare(folder, SIZE, "another")


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    assert command.main(["write", str(tmp_path), "--bytes=1", "--seed=abc"]) == 1
