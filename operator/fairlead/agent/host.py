"""What the host itself is: kernel, CPUs, NUMA nodes and load, from procfs and sysfs."""

from __future__ import annotations

import re
from typing import Final

from fairlead.agent.files import HostFiles, count_of_ranges, matching
from fairlead.api.datatransfernode.spec import MOST_NUMA_NODES
from fairlead.api.datatransfernode.status import (
    MOST_BYTES,
    MOST_CONTROLS,
    MOST_CPUS,
    Control,
    CpuList,
    KernelStatus,
    LoadLevel,
    NumaNodeStatus,
    Word,
)

_SETTINGS: Final = "proc/sys"
_GOVERNORS: Final = ("powersave", "conservative", "ondemand", "schedutil", "userspace", "performance")
"""From the one that saves most."""
_NUMA_FOLDER: Final = "sys/devices/system/node"
_POLICY_FOLDER: Final = "sys/devices/system/cpu/cpufreq"
_LEVELS: Final[tuple[tuple[LoadLevel, float], ...]] = (("Idle", 0.25), ("Moderate", 0.75), ("High", 1.5))
_HYSTERESIS: Final = 0.05
"""A load must leave a level by so much: one at its edge would be news all the time."""


def kernel_of(files: HostFiles) -> KernelStatus:
    """The kernel and its settings. A network namespace lacks some of them."""
    return KernelStatus(
        release=matching(Word, files.text(f"{_SETTINGS}/kernel/osrelease")),
        congestion_controls=_controls(files, "tcp_available_congestion_control"),
        allowed_congestion_controls=_controls(files, "tcp_allowed_congestion_control"),
        receive_buffer_maximum_bytes=_bytes(files.words(f"{_SETTINGS}/net/core/rmem_max"), 1),
        send_buffer_maximum_bytes=_bytes(files.words(f"{_SETTINGS}/net/core/wmem_max"), 1),
        tcp_receive_buffer_maximum_bytes=_bytes(files.words(f"{_SETTINGS}/net/ipv4/tcp_rmem"), 3),
        tcp_send_buffer_maximum_bytes=_bytes(files.words(f"{_SETTINGS}/net/ipv4/tcp_wmem"), 3),
        default_qdisc=matching(Word, files.text(f"{_SETTINGS}/net/core/default_qdisc")),
        clock_source=matching(Word, files.text("sys/devices/system/clocksource/clocksource0/current_clocksource")),
        cpu_governor=_governor(files),
    )


def cpus_of(files: HostFiles) -> int | None:
    """Number of CPUs that are on."""
    return count_of_ranges(files.text("sys/devices/system/cpu/online"), MOST_CPUS)


def numa_nodes_of(files: HostFiles) -> tuple[NumaNodeStatus, ...]:
    """The NUMA nodes and their CPUs."""
    numbers = sorted(int(name[4:]) for name in files.names(_NUMA_FOLDER) if re.fullmatch(r"node\d{1,4}", name))
    return tuple(
        NumaNodeStatus(number=number, cpus=matching(CpuList, files.text(f"{_NUMA_FOLDER}/node{number}/cpulist")) or "")
        for number in numbers
        if number < MOST_NUMA_NODES
    )


def load_of(files: HostFiles) -> float | None:
    """The load average of the last 5 minutes (proc_loadavg(5))."""
    words = files.words("proc/loadavg")
    try:
        load = float(words[1])
    except (IndexError, ValueError):
        return None
    return load if 0 <= load < MOST_CPUS * MOST_CPUS else None


def load_level(load: float | None, cpus: int | None, before: LoadLevel | None = None) -> LoadLevel | None:
    """The level of a load. It stays at `before` while the load is near an edge of that."""
    if load is None or cpus is None:
        return None
    by_cpu = load / cpus
    levels = [level_at(by_cpu + offset) for offset in (-_HYSTERESIS, _HYSTERESIS)]
    return before if before in levels else level_at(by_cpu)


def level_at(load_by_cpu: float) -> LoadLevel:
    """The level of a load for each CPU."""
    return next((level for level, below in _LEVELS if load_by_cpu < below), "Overloaded")


def _controls(files: HostFiles, setting: str) -> tuple[str, ...]:
    words = (matching(Control, word) for word in files.words(f"{_SETTINGS}/net/ipv4/{setting}"))
    return tuple(sorted({word for word in words if word is not None}))[:MOST_CONTROLS]


def _bytes(words: tuple[str, ...], count: int) -> int | None:
    """The last of `count` numbers."""
    if len(words) != count or not words[-1].isascii() or not words[-1].isdigit():
        return None
    number = int(words[-1][:20])
    return number if number <= MOST_BYTES else None


def _governor(files: HostFiles) -> str | None:
    policies = files.names(_POLICY_FOLDER)
    found = {files.text(f"{_POLICY_FOLDER}/{policy}/scaling_governor") for policy in policies if policy.startswith("policy")}
    known = [governor for governor in _GOVERNORS if governor in found]
    return known[0] if known else next(iter(sorted(word for word in (matching(Word, each) for each in found) if word is not None)), None)
