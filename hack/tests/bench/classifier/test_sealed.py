"""The classifier's bench on sealed recordings."""

import json
from functools import partial
from pathlib import Path

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_dev.bench import sealed
from fairlead_dev.bench.classifier.__main__ import BENCH
from fairlead_dev.testbed.data import RawTrace, write_runs, write_split
from fairlead_dev.testbed.sealed import openings

from ..caricature import caricature


def test_a_copy_of_sealed_recordings_is_not_looked_at_without_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "openings.json"
    log.write_text("[]")
    monkeypatch.setattr(sealed, "open_sealed", partial(openings.open_sealed, log=log))
    names = {name: f"sealed-c07__{name}__s0" for name in CLASSES}
    traces = {name: caricature(name, seconds=20, rate_hz=50, base_ms=100, seed=1) for name in CLASSES}
    for split in ("train", "test_paths"):
        write_split(
            tmp_path / f"{split}.npz",
            [RawTrace(names[one], 50.0, list(of.send_times_s), list(of.rtts_ms)) for one, of in traces.items()],
        )
    write_runs(tmp_path, [{"name": names[one], "path_id": "sealed-c07", "class": one, "seed": "s0"} for one in CLASSES])
    output = tmp_path / "classifier.json"
    assert BENCH.main(["--data", str(tmp_path), "--output", str(output)]) == 2
    assert "these paths are the sealed set 'classifier'" in capsys.readouterr().err
    assert (output.exists(), json.loads(log.read_text())) == (False, [])
