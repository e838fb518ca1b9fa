"""Real cells in namespaces, side by side and too short to mean anything; they need root, the built programs and the packed data set."""

import asyncio
import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.train.data import TRAIN, load_dataset
from fairlead_dev.bench.decisions.__main__ import BUILD
from fairlead_dev.bench.decisions.lab.run import CellLab, run_cell
from fairlead_dev.bench.decisions.lab.transfer import SAMPLES, Tools
from fairlead_dev.bench.decisions.matrix import STATIONARY, Cell, Policy
from fairlead_dev.bench.decisions.paper.classifier import save_training, training_of
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.specification import DATASETS
from fairlead_dev.testbed.runs.record import MANIFEST
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.wan.emulator import find_program

SECONDS = 30.0
"""An advisor probes for half of it where it is not sure sooner."""
PATH = NetworkPath(rate_bps=20_000_000, rtt_ms=20, buffer_bdp=1.0)
POLICIES = (Policy.BBR, Policy.PAPER, Policy.PAPER_OWN_PATH, Policy.FALCON, Policy.OURS)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[Policy, Path]:
    """The folder that each policy's run left."""
    mover = BUILD / "bin" / "fairlead-mover"
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if not mover.exists():
        pytest.skip(f"there is no {mover}: `make rust`")
    try:
        emulator = find_program()
    except CommandUsageError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("cells")
    save_training(folder / "training.npz", training_of(load_dataset(DATASETS / "full").of_split(TRAIN)))
    # Which windows they are does not matter to what is tested.
    training = folder / "training.npz"
    bench = CellLab(emulator, Tools(mover.resolve()), training, {"short": training})
    planned = {policy: Cell("short", PATH, STATIONARY["B0-C1"], policy, SECONDS, "test") for policy in POLICIES}

    async def all_of_them() -> None:
        await asyncio.gather(*(run_cell(cell, folder / policy, bench, number) for number, (policy, cell) in enumerate(planned.items())))

    asyncio.run(all_of_them())
    return {policy: folder / policy for policy in POLICIES}


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return found


def test_every_policy_moves_data_beside_the_background_it_was_given(cells: dict[Policy, Path]) -> None:
    for policy, folder in cells.items():
        told = manifest(folder)
        assert told["own"]["goodput_bps"] > 0, policy
        assert [flow["goodput_bps"] > 0 for flow in told["flows"]] == [True], policy
        assert told["probe"]["answered"] > 0, policy
        with (folder / SAMPLES).open(newline="") as opened:
            assert int(list(csv.DictReader(opened))[-1]["acknowledged_bytes"]) > 0, policy


def test_what_was_in_force_is_read_from_the_sockets_and_is_what_the_policy_chose(cells: dict[Policy, Path]) -> None:
    in_force = {policy: {span["control"] for span in manifest(folder)["own"]["in_force"]} for policy, folder in cells.items()}
    assert in_force[Policy.BBR] == {"bbr"}
    chosen = {decision["congestion_control"] for decision in manifest(cells[Policy.PAPER])["paper"]["decisions"]}
    assert in_force[Policy.PAPER] <= chosen
    assert manifest(cells[Policy.PAPER_OWN_PATH])["paper"]["decisions"]
    assert manifest(cells[Policy.OURS])["decision"]["decision"]["congestion_control"] in in_force[Policy.OURS]
    assert manifest(cells[Policy.OURS])["record"], "the advisor's record is kept"


def test_falcons_counts_are_those_that_were_open(cells: dict[Policy, Path]) -> None:
    tried = {sample["streams"] for sample in manifest(cells[Policy.FALCON])["falcon"]}
    assert {1, 2} <= tried
    with (cells[Policy.FALCON] / SAMPLES).open(newline="") as opened:
        assert {int(row["streams"]) for row in csv.DictReader(opened)} >= {1, 2}
