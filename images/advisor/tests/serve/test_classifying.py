"""The sidecar as a process with a classifier, and with files that are none."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.features.series import GRID_HZ
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.store import digest_file
from tests.serve.conftest import WINDOW_S, Running, Start, met_mover
from tests.support.command import PATIENCE_S, run
from tests.support.fake_mover import FakeMover
from tests.support.models import tiny_model, write_model

MEMORY_BYTES = 200 * 2**20


@asynccontextmanager
async def decided(
    sidecar: Start, control_socket: Path, model: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Running, FakeMover, Any]]:
    """A sidecar with that model, the mover beside it and the record of its decision; another one where a pause of the machine left none of
    the windows without a gap."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            # It ends as soon as a window is covered; where the machine pauses that takes longer.
            running = await sidecar("--model", model, "--seconds", PATIENCE_S, environment=environment)
            async with met_mover(control_socket, FakeMover()) as mover:
                record = await running.decision()
                if "are not covered by answered requests" not in record["decision"]["message"]:
                    yield running, mover, record
                    return
                await running.stop()


async def test_the_background_is_classified_before_the_data_and_decides(sidecar: Start, control_socket: Path, model: Path) -> None:
    async with decided(sidecar, control_socket, model) as (running, mover, record):
        metrics = (await running.get("/metrics"))[1]
        outcome = await running.stop()
    decision = record["decision"]
    assert (decision["congestion_control"], decision["reason"], decision["abstained"]) == ("bbr", "Classified", False)
    assert decision["background"]["class"] == "B1-C0"
    assert set(decision["probabilities"]) == set(CLASSES)
    assert re.fullmatch(r"background-1\.2\.3 \(sha256:[0-9a-f]{12}\)", decision["model"])
    assert mover.patches[0]["congestion_control"] == "bbr"
    # What is sent is fewer where the machine pauses.
    assert f"probed at {GRID_HZ:g} Hz" in outcome.stderr
    resident = re.search(r"^process_resident_memory_bytes (\S+)", metrics, re.MULTILINE)
    assert resident and float(resident[1]) < MEMORY_BYTES


@pytest.mark.parametrize("home", ["a directory", "none, as in a pod"])
async def test_the_runtime_sends_and_keeps_nothing_and_says_nothing_of_it(
    sidecar: Start, control_socket: Path, model: Path, tmp_path: Path, home: str
) -> None:
    directory = tmp_path / "home"
    directory.mkdir() if home == "a directory" else directory.touch()
    # Not this process's own: the runtime holds its tongue where it takes the environment for that of a build service.
    bare = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    async with decided(sidecar, control_socket, model, bare) as (running, _, record):
        outcome = await running.stop()
    assert record["decision"]["reason"] == "Classified", "the runtime was at work"
    assert "onnxruntime" not in outcome.stderr and "telemetry" not in outcome.stderr
    assert not directory.is_dir() or list(directory.iterdir()) == []


async def test_in_mid_transfer_it_looks_while_the_mover_is_quiet_and_switches(
    sidecar: Start, control_socket: Path, model: Path, tmp_path: Path
) -> None:
    running = await sidecar("--model", model, "--streams-min", 4, "--streams-max", 4)
    mover = FakeMover(stage="Transferring", in_force={"congestion_control": "cubic", "streams": 4})
    async with met_mover(control_socket, mover):
        assert (await running.decision())["decision"]["reason"] == "InForce"
        record = await running.until("/v1/decision", lambda _status, body: body["decision"]["congestion_control"] == "bbr")
        await running.stop()
    # A look that a pause of the machine spoils is taken again, and a mover whose answer comes late is told once more that it is over.
    looks = record["looks"]["count"]
    assert looks >= 1
    patches = [patch for patch, _ in groupby(mover.patches)]
    assert patches == [{"quiet_for_ms": 15000}, {"quiet_for_ms": 0}] * looks + [{"congestion_control": "bbr"}]
    assert record["decision"]["reason"] == "Classified"
    assert record["looks"]["quiet_seconds"] > WINDOW_S
    assert [(change["what"], change["from"], change["to"]) for change in record["changes"]] == [("congestion_control", "cubic", "bbr")]
    told = (await run("explain", tmp_path / "decisions.jsonl", "--number", 1)).stdout
    assert "quiet look of" in told and "nothing is known of the background yet" in told and ": B1-C0" in told
    assert "congestion control switched cubic → bbr" in told


async def test_a_mover_that_cannot_be_quiet_is_left_with_what_it_has(sidecar: Start, control_socket: Path, model: Path) -> None:
    running = await sidecar("--model", model, "--streams-min", 4, "--streams-max", 4)
    mover = FakeMover(stage="Transferring", in_force={"congestion_control": "cubic", "streams": 4}, can_hold=False)
    async with met_mover(control_socket, mover):
        await running.decision()
        await running.until("/metrics", lambda _status, body: re.search(r"path_busy_ratio \d", body) is not None)
        outcome = await running.stop()
    assert mover.patches == []
    assert "cannot hold its data back" in outcome.stderr


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        pytest.param(Path.unlink, "no such file", id="no file"),
        pytest.param(lambda path: digest_file(path).unlink(), "no such file: write it with sha256sum", id="no digest"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b"x"), "it was changed or damaged", id="another digest"),
        pytest.param(lambda path: write_model(path, b"no model at all"), "is not an ONNX model", id="garbage"),
        pytest.param(lambda path: write_model(path, tiny_model(None)), "it is not a model made by", id="not one of ours"),
    ],
)
async def test_a_model_that_cannot_be_used_stops_nothing_and_is_told(
    sidecar: Start, control_socket: Path, model: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    damage(model)
    running = await sidecar("--model", model)
    async with met_mover(control_socket, FakeMover()) as mover:
        record = await running.decision()
        outcome = await running.stop()
    assert (record["decision"]["reason"], record["decision"]["congestion_control"]) == ("NoModel", "cubic")
    assert complaint in record["decision"]["message"]
    assert mover.in_force == {"congestion_control": "cubic", "streams": 4}
    assert "Traceback" not in outcome.stderr


async def test_a_probe_too_short_for_the_model_says_so(sidecar: Start, control_socket: Path, model: Path) -> None:
    running = await sidecar("--model", model, "--seconds", 1)
    async with met_mover(control_socket, FakeMover()):
        record = await running.decision()
    assert record["decision"]["reason"] == "NoModel"
    assert "too few for the classifier, which needs 2: raise --seconds" in record["decision"]["message"]
