import subprocess
from pathlib import Path, PurePosixPath

from fairlead_dev.bench.house.repository import read_tree


def test_tracked_code_scripts_and_pages_are_read_as_they_are_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("old\n")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "data").write_bytes(b"\xff\x00")
    (tmp_path / ".importlinter").write_text("[importlinter]\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    (tmp_path / "docs" / "a.md").write_text("new\n")
    (tmp_path / "untracked.py").write_text("x\n")
    tree = read_tree(tmp_path)
    assert tree.texts == {PurePosixPath("docs/a.md"): "new\n", PurePosixPath("run"): "#!/bin/sh\n"}
    assert tree.import_contracts == "[importlinter]\n"
    assert {PurePosixPath("docs"), PurePosixPath("data")} <= tree.files and PurePosixPath("untracked.py") not in tree.files
