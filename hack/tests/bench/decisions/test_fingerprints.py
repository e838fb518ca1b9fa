"""What a run depends on, and so what makes it again."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead_dev.bench import digests
from fairlead_dev.bench.decisions import fingerprints as module
from fairlead_dev.bench.decisions.fingerprints import fingerprints, lab_files, measured, recordings_fingerprint
from fairlead_dev.bench.decisions.matrix import Policy
from fairlead_dev.checkout import CHECKOUT

from .made import cell

PROGRAMS = """
import sys
import fairlead_dev.bench.decisions.lab.run
import fairlead_dev.testbed.agents.echo, fairlead_dev.testbed.agents.probe, fairlead_dev.testbed.agents.traffic
print(*(loaded.__file__ for name, loaded in sys.modules.items() if name.startswith("fairlead") and loaded.__file__))
"""
IN_THE_SCENARIO = ("hack/fairlead_dev/testbed/dataset/", "hack/fairlead_dev/testbed/sealed/")
"""What draws paths and traffic: a run's scenario has all that comes of it."""
NO_PART_OF_A_RUN = ("hack/fairlead_dev/errors.py", "hack/fairlead_dev/checkout.py", "hack/fairlead_dev/bench/lab/")
OF_THE_ADVISOR = ("decide", "models", "record", "errors.py", "files.py", "__init__.py")
"""What reads its record after a run."""


def test_every_source_that_a_run_loads_is_in_its_fingerprint() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAMS], capture_output=True, text=True, check=True).stdout.split()
    named = {file for file in loaded if Path(file).name != "__init__.py"} - {str(file) for file in lab_files()}
    advisor = str(CHECKOUT / "images" / "advisor" / "fairlead_advisor")
    left = {
        file
        for file in (Path(name).resolve().relative_to(CHECKOUT).as_posix() for name in named if not name.startswith(advisor))
        if not file.startswith((*IN_THE_SCENARIO, *NO_PART_OF_A_RUN))
    }
    assert left == set()
    parts = {Path(name).relative_to(advisor).parts[0] for name in named if name.startswith(advisor)}
    assert parts <= set(OF_THE_ADVISOR)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a mover, an emulator, an advisor and a lab of one file each."""
    for name in ("mover", "emulator", "advisor/main.py", "lab/run.py", "testbed/dataset/traffic.py", "bench/falcon/search.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for place in (digests, module):
        monkeypatch.setattr(place, "ADVISOR", tmp_path / "advisor")
    monkeypatch.setattr(module, "_TOOLS", tmp_path)
    monkeypatch.setattr(module, "_LAB", ("lab",))
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "policies"),
    [
        ("mover", tuple(Policy)),
        ("emulator", tuple(Policy)),
        ("lab/run.py", tuple(Policy)),
        ("lab/new.py", tuple(Policy)),
        ("advisor/main.py", (Policy.OURS, Policy.ONE_STREAM)),
        ("testbed/dataset/traffic.py", (Policy.PAPER_OWN_PATH,)),
        ("bench/falcon/search.py", (Policy.FALCON,)),
    ],
)
def test_a_change_is_seen_by_the_policies_that_depend_on_it(programs: Path, changed: str, policies: Sequence[Policy]) -> None:
    before = fingerprints(programs / "mover", programs / "emulator", None, "data")
    (programs / changed).write_text("something else")
    after = fingerprints(programs / "mover", programs / "emulator", None, "data")
    assert {policy for policy in Policy if before[policy] != after[policy]} == set(policies)


@pytest.mark.parametrize(
    ("changed", "is_made_again"), [("mover", False), ("advisor/main.py", False), ("emulator", True), ("lab/run.py", True)]
)
def test_training_recordings_depend_on_the_emulator_and_the_lab_alone(programs: Path, changed: str, is_made_again: bool) -> None:
    before = recordings_fingerprint(programs / "emulator")
    (programs / changed).write_text("something else")
    assert (recordings_fingerprint(programs / "emulator") != before) is is_made_again


def test_the_digest_of_a_plan_is_of_its_runs_in_any_order_and_of_their_programs() -> None:
    plan = [cell("B1-C0"), cell("B0-C1")]
    assert measured(plan, "sweep") == measured(plan[::-1], "sweep")
    others = [measured(plan[:1], "sweep"), measured(plan, "another"), measured([plan[0], cell("B0-C1", fingerprint="e" * 64)], "sweep")]
    assert len({measured(plan, "sweep"), *others}) == 4
