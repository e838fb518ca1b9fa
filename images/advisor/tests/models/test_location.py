from pathlib import Path

import pytest

from fairlead_advisor.errors import NoModelError
from fairlead_advisor.models.location import newest_installed


def test_the_highest_installed_version_is_taken(tmp_path: Path) -> None:
    for name in ("background-1.9.0", "background-1.10.0", "background-1.2.30", "other-9.9.9", "background-2"):
        (tmp_path / name).mkdir()
    assert newest_installed(tmp_path) == tmp_path / "background-1.10.0" / "model.onnx"


def test_without_an_installed_model_it_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoModelError, match=r"no classifier model is installed: name one with --model"):
            newest_installed(folder)
