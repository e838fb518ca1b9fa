from pathlib import Path

import pytest

from fairlead_dev.testbed.__main__ import main


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios"]) == 0
    assert "constant-tcp" in capsys.readouterr().out


def test_a_plan_says_how_much_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "plan", "pilot"]) == 0
    assert "108 runs on 10 paths" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["run", "no-such", "--output", "x"], "no such scenario", id="unknown scenario"),
        pytest.param(["dataset", "plan", "no-such"], "cannot be read", id="unknown data set"),
        pytest.param(["dataset", "pack", "pilot", "--folder", "{tmp}", "--output", "{tmp}/out"], "no good recording", id="nothing to pack"),
        pytest.param(
            ["dataset", "export", "{tmp}", "--split", "train", "--output", "{tmp}/out"], "packed data set", id="nothing to export"
        ),
        pytest.param(["run", "constant-tcp", "--seconds", "0", "--output", "x"], "duration_s", id="no time"),
    ],
)
def test_bad_usage_is_a_sentence_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.replace("{tmp}", str(tmp_path)) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
