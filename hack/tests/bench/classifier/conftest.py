"""What the tests of the classifier's bench share."""

from pathlib import Path

import pytest

from .made import made


@pytest.fixture(scope="package")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made") / "training", "train", ["a", "b"])
