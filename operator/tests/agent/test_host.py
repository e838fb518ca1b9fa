"""Kernel, CPUs, NUMA nodes and load from recorded trees; what is missing or junk is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_trees import TWO_SOCKETS, tree

from fairlead.agent.files import HostFiles, count_of_ranges
from fairlead.agent.host import cpus_of, kernel_of, load_level, load_of, numa_nodes_of
from fairlead.api.datatransfernode.status import KernelStatus, LoadLevel


def test_a_host_with_two_sockets(tmp_path: Path) -> None:
    files = tree(tmp_path, TWO_SOCKETS)
    assert kernel_of(files).to_object() == {
        "release": "6.12.0-101.el10.x86_64",
        "congestionControls": ["bbr", "cubic", "htcp", "reno"],
        "allowedCongestionControls": ["cubic", "reno"],
        "receiveBufferMaximumBytes": 2147483647,
        "sendBufferMaximumBytes": 2147483647,
        "tcpReceiveBufferMaximumBytes": 1073741824,
        "tcpSendBufferMaximumBytes": 1073741824,
        "defaultQdisc": "fq",
        "clockSource": "tsc",
        "cpuGovernor": "powersave",
    }
    assert (cpus_of(files), load_of(files)) == (32, 8.0)
    assert [(each.number, each.cpus) for each in numa_nodes_of(files)] == [(0, "0-7,16-23"), (1, "8-15,24-31")]


def test_of_a_host_without_any_of_it_nothing_is_known(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    assert kernel_of(files) == KernelStatus()
    assert (cpus_of(files), load_of(files), numa_nodes_of(files)) == (None, None, ())


JUNK = ("\x00\x01", "-5", "nan", "1e400 1e400 1e400", "\x1b[2J", "9" * 5000, "²", "1 2 3 4")


@pytest.mark.parametrize("content", JUNK)
def test_junk_in_every_file_is_unknown(tmp_path: Path, content: str) -> None:
    files = tree(tmp_path, dict.fromkeys(TWO_SOCKETS, content))
    kernel = kernel_of(files)
    assert (kernel.receive_buffer_maximum_bytes, kernel.tcp_receive_buffer_maximum_bytes) == (None, None)
    assert cpus_of(files) is None
    load = load_of(files)
    assert load is None or 0 <= load < 2**32
    KernelStatus.model_validate(kernel.to_object())


def test_a_governor_that_nobody_knows_is_shown_and_a_folder_is_no_file(tmp_path: Path) -> None:
    files = tree(tmp_path, {"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "intel_special"})
    assert kernel_of(files).cpu_governor == "intel_special"
    (tmp_path / "proc/loadavg").mkdir(parents=True)
    assert load_of(files) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 1), ("0-31", 32), ("0-3,8,10-11", 7), ("", None), (None, None), ("3-1", None), ("0-", None), ("a", None), ("0-999999", None)],
)
def test_lists_of_cpus(text: str | None, expected: int | None) -> None:
    assert count_of_ranges(text, 65536) == expected


@pytest.mark.parametrize(
    ("load", "cpus", "expected"),
    [
        (0.0, 4, "Idle"),
        (0.99, 4, "Idle"),
        (1.0, 4, "Moderate"),
        (3.0, 4, "High"),
        (6.0, 4, "Overloaded"),
        (None, 4, None),
        (1.0, None, None),
    ],
)
def test_levels_of_load(load: float | None, cpus: int | None, expected: LoadLevel | None) -> None:
    assert load_level(load, cpus) == expected


@pytest.mark.parametrize(
    ("load", "before", "expected"),
    [
        (1.02, "Idle", "Idle"),
        (0.98, "Moderate", "Moderate"),
        (1.3, "Idle", "Moderate"),
        (0.7, "Moderate", "Idle"),
        (7.0, "Idle", "Overloaded"),
    ],
)
def test_a_load_near_the_edge_of_its_level_is_no_news(load: float, before: LoadLevel, expected: LoadLevel) -> None:
    assert load_level(load, 4, before) == expected
