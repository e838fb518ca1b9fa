"""The sidecar as a process beside a transfer whose goodput falls after a switch, whatever the congestion control."""

import re
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.record.journal import read_record
from tests.serve.conftest import Start, met_mover
from tests.support.fake_mover import FakeMover

BEFORE, WITH_BBR, WITH_CUBIC_AFTERWARDS = 2e6, 1e6, 0.2e6
"""Bytes per second: a BBR flow that was just arriving when it was seen takes half from BBR, and nine tenths from CUBIC."""


def percentage(message: str, pattern: str) -> int:
    found = re.search(pattern, message)
    assert found is not None, message
    return int(found[1])


# Two trials of twenty seconds.
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_switch_taken_back_returns_when_the_others_leave_less_without_it(
    sidecar: Start, control_socket: Path, model: Path, tmp_path: Path
) -> None:
    def rate_of(_streams: int, control: str) -> float:
        arrived = any("congestion_control" in patch for patch in mover.patches)
        return (WITH_BBR if control == "bbr" else WITH_CUBIC_AFTERWARDS) if arrived else BEFORE

    def controls(record: Any) -> list[str]:
        return [change["to"] for change in record["changes"] if change["what"] == "congestion_control"]

    mover = FakeMover(stage="Transferring", rate_of=rate_of, in_force={"congestion_control": "cubic", "streams": 4})
    running = await sidecar("--model", model, "--streams-min", 4, "--streams-max", 4)
    async with met_mover(control_socket, mover):
        settled = lambda status, body: status == 200 and len(controls(body)) >= 3  # noqa: E731
        record = await running.until("/v1/decision", settled)
        await running.stop()
    assert controls(record) == ["bbr", "cubic", "bbr"]
    assert [patch["congestion_control"] for patch in mover.patches if "congestion_control" in patch] == controls(record)
    assert (record["decision"]["congestion_control"], mover.in_force["congestion_control"]) == ("bbr", "bbr")
    because = [change["why"] for change in record["changes"]]
    assert percentage(because[1], r"bbr brought (\d+)% of the goodput before it") == pytest.approx(50, abs=2)
    assert percentage(because[2], r"cubic has (\d+)% of what bbr had before it was taken back") == pytest.approx(20, abs=2)
    switches = [entry for entry in read_record(tmp_path / "decisions.jsonl") if entry["kind"] == "switch"]
    assert [(entry["from"], entry["to"], entry["undo"]) for entry in switches] == [
        ("cubic", "bbr", False),
        ("bbr", "cubic", True),
        ("cubic", "bbr", True),
    ]
