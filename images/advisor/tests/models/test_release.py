import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.errors import ModelError, OutputError
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.location import newest_installed
from fairlead_advisor.models.model import load
from fairlead_advisor.models.release import release
from fairlead_advisor.models.store import find_model
from tests.support.models import tiny_model, write_model


def trained(folder: Path, *, rows: int = 200, off_by: float = 0.0) -> Path:
    chance = np.random.default_rng(5)
    content = tiny_model(weights=chance.normal(size=(len(NAMES), 6)))
    folder.mkdir()
    write_model(folder / "model.onnx", content)
    features = chance.normal(size=(rows, len(NAMES))).astype(np.float32)
    probabilities, novelty = load(content, hashlib.sha256(content).hexdigest()).predict(features)
    vectors = io.BytesIO()
    np.savez_compressed(vectors, features=features, probabilities=probabilities + off_by, novelty=novelty)
    (folder / "golden.npz").write_bytes(vectors.getvalue())
    (folder / "card.md").write_text("# card\n")
    (folder / "report.json").write_text("{}\n")
    return folder


def test_a_release_holds_the_model_and_what_proves_it(tmp_path: Path) -> None:
    told = release(trained(tmp_path / "trained"), tmp_path / "installed")
    target = tmp_path / "installed" / "background-1.2.3"
    assert told["release"] == str(target)
    assert sorted(entry.name for entry in target.iterdir()) == [
        "card.md",
        "golden.npz",
        "metadata.json",
        "model.onnx",
        "model.onnx.sha256",
        "report.json",
    ]
    assert newest_installed(tmp_path / "installed") == target / "model.onnx"
    about = json.loads((target / "metadata.json").read_text())
    assert about["sha256"] == find_model(target).sha256 == told["sha256"]
    assert about["opsets"] == {"ai.onnx": 17}
    with np.load(target / "golden.npz") as kept:
        assert kept["features"].shape == (96, len(NAMES))


def test_a_release_is_never_changed(tmp_path: Path) -> None:
    folder = trained(tmp_path / "trained")
    release(folder, tmp_path / "installed")
    with pytest.raises(OutputError, match="a release is never changed: train with another --version"):
        release(folder, tmp_path / "installed")


def test_a_model_that_is_not_what_was_trained_is_not_released(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"differs from its golden vectors by 2.0e-05"):
        release(trained(tmp_path / "trained", off_by=2e-5), tmp_path / "installed")
    assert not (tmp_path / "installed").exists()


def test_an_unfinished_folder_is_refused(tmp_path: Path) -> None:
    folder = trained(tmp_path / "trained")
    for name, complaint in (
        ("golden.npz", "golden.npz: cannot be read"),
        ("model.onnx.sha256", "no such file"),
        ("model.onnx", "no such file"),
    ):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(ModelError, match=complaint):
            release(folder, tmp_path / "installed")
        (folder / name).write_bytes(kept)
    for spoilt in (b"no zip", b""):
        (folder / "golden.npz").write_bytes(spoilt)
        with pytest.raises(ModelError, match=r"golden.npz"):
            release(folder, tmp_path / "installed")
