"""The mover that is measured sees its interface on a NUMA node, and nobody else does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairlead_dev.bench.placement.pinning import note_of, wrapped
from fairlead_dev.netlab.pair import Net

NET = Net("sender", "receiver", "198.18.0.1", "198.18.0.2", "lo")
NODE = "/sys/class/net/lo/device/numa_node"


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    program = tmp_path / "mover"
    program.write_text(f"#!/bin/sh\necho $* on node $(cat {NODE} 2>/dev/null)\n")
    program.chmod(0o755)
    return wrapped(program, NET, tmp_path)


def _run(wrapper: Path, *arguments: str) -> str:
    return subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_the_ends_of_a_transfer_see_the_interface_on_node_0(wrapper: Path) -> None:
    assert _run(wrapper, "send", "--source", "a b") == "send --source a b on node 0"
    assert _run(wrapper, "receive") == "receive on node 0"
    assert not Path(NODE).exists()


def test_other_commands_run_as_they_are(wrapper: Path) -> None:
    assert _run(wrapper, "credentials", "here") == "credentials here on node"


def test_a_row_says_what_its_machine_can_show() -> None:
    assert "what it costs, not what it saves" in note_of(1, "0-1")
    assert "2 NUMA nodes" in note_of(2, "0-15")
