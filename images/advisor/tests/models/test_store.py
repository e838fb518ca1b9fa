import os
from pathlib import Path

import pytest

from fairlead_advisor.errors import ModelError
from fairlead_advisor.models import store
from fairlead_advisor.models.model import MAXIMUM_BYTES
from tests.support.models import tiny_model, write_model


def test_a_named_model_is_read_with_its_digest(tmp_path: Path) -> None:
    assert store.find_model(write_model(tmp_path / "model.onnx", tiny_model())).metadata.version == "1.2.3"


def test_a_folder_stands_for_the_model_in_it(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx", tiny_model())
    assert store.find_model(tmp_path).metadata.version == "1.2.3"


def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", tiny_model())
    large = tmp_path / "large.onnx"
    large.touch()
    os.truncate(large, MAXIMUM_BYTES + 1)
    os.mkfifo(tmp_path / "pipe")
    bare = tmp_path / "bare.onnx"
    bare.write_bytes(tiny_model())
    for path, complaint in (
        (tmp_path / "missing.onnx", "no such file: name a model file"),
        (large, "at most 2000000 are read"),
        (tmp_path / "pipe", "is not a regular file"),
        (bare, "bare.onnx.sha256: no such file: write it with sha256sum"),
        (Path("x\0y"), "cannot be opened"),
    ):
        with pytest.raises(ModelError, match=complaint):
            store.find_model(path)
    store.digest_file(model).write_text("not a digest\n")
    with pytest.raises(ModelError, match=r"model.onnx: its digest file model.onnx.sha256 does not begin with a SHA-256"):
        store.find_model(model)
    model.write_bytes(tiny_model() + b"\0")
    store.digest_file(model).write_text("0" * 64)
    with pytest.raises(ModelError, match="it was changed or damaged"):
        store.find_model(model)
