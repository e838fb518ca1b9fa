import json
from pathlib import Path

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import write_trace
from tests.support.background import caricature
from tests.support.command import run
from tests.support.traces import steady


@pytest.mark.timeout(600)
async def test_own_traces_become_a_model_a_card_and_a_release_that_classifies(tmp_path: Path) -> None:
    data, output = tmp_path / "data", tmp_path / "trained"
    data.mkdir()
    for number in range(5):
        for class_name in CLASSES:
            trace = caricature(class_name, seconds=20, base_ms=30 + 20 * number, seed=number)
            write_trace(data / f"path{number}__{class_name}__1.csv", trace)
    outcome = await run("train", "--data", data, "--output", output, "--version", "0.1.0")
    assert outcome.exit_code == 0, outcome.stderr
    summary = json.loads(outcome.stdout)
    assert summary["bytes"] < 2_000_000
    assert summary["largest_difference"] <= 1e-5
    # Caricatures are easy: on paths held out too. A model that has learnt nothing would answer one in six.
    assert summary["validation"]["accuracy"] > 0.8
    card = (output / "card.md").read_text()
    assert card.startswith("# Model card: background 0.1.0") and summary["sha256"] in card

    released = await run("export", output, "--output", tmp_path / "installed")
    assert released.exit_code == 0, released.stderr
    folder = Path(json.loads(released.stdout)["release"])
    assert folder.name == "background-0.1.0"

    write_trace(tmp_path / "trace.csv", caricature("B1-B1", base_ms=60, seed=9))
    told = json.loads((await run("classify", tmp_path / "trace.csv", "--model", folder)).stdout)
    assert (told["class"], told["abstained"]) == ("B1-B1", False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--version", "one"), "--version 'one': must be three numbers"),
        (("--jobs", "0"), "--jobs 0: must be 1 to 64"),
        (("--seed", "-1"), "--seed -1: must be 0 to"),
        ((), "only 1 run(s) to train on, at least 5 are needed"),
    ],
)
async def test_train_refuses_what_it_cannot_train_on(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    write_trace(tmp_path / "p__B0-C0__1.csv", steady(400))
    outcome = await run("train", "--data", tmp_path, "--output", tmp_path / "out", *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.stderr and "Traceback" not in outcome.stderr


async def test_train_and_export_say_which_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unwritable = await run("train", "--data", tmp_path, "--output", tmp_path / "file" / "out")
    missing = await run("export", tmp_path / "nothing", "--output", tmp_path / "installed")
    assert (unwritable.exit_code, missing.exit_code) == (2, 2)
    assert "file/out: the directory cannot be made" in unwritable.stderr
    assert "nothing/model.onnx: no such file" in missing.stderr
    assert "Traceback" not in unwritable.stderr + missing.stderr
