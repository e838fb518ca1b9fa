"""Kernel settings of the whole machine that a cluster needs or its kubelets change, and their return to what they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

SYSCTLS = Path("/proc/sys")

AT_LEAST = {"fs.inotify.max_user_instances": 8192, "fs.inotify.max_user_watches": 524288}
"""Three nodes' daemons and an operator use up the usual 128 inotify instances."""

KUBELET_SETS = {
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
"""Every kubelet sets these for the machine it believes to own."""

ALLOWED_CONGESTION_CONTROLS = "net.ipv4.tcp_allowed_congestion_control"
WANTED_CONGESTION_CONTROLS = ("reno", "cubic", "bbr")


def wanted_changes(current: Mapping[str, str], available_congestion_controls: str) -> dict[str, str]:
    """What to set, given what is set now (a setting the kernel lacks is absent from `current`)."""
    changes = {name: str(least) for name, least in AT_LEAST.items() if name in current and int(current[name]) < least}
    if ALLOWED_CONGESTION_CONTROLS in current:
        # Unprivileged pods may choose only allowed algorithms. The list belongs to the machine:
        # the kernel shows it read-only in every network namespace but the first.
        allowed = current[ALLOWED_CONGESTION_CONTROLS].split()
        offered = available_congestion_controls.split()
        missing = [name for name in WANTED_CONGESTION_CONTROLS if name in offered and name not in allowed]
        if missing:
            changes[ALLOWED_CONGESTION_CONTROLS] = " ".join([*allowed, *missing])
    return changes


def wanted_restores(record: Mapping[str, Mapping[str, str]], current: Mapping[str, str]) -> dict[str, str]:
    """What to set back: only settings that still have the value the cluster gave them, so that nobody else's change is undone."""
    return {
        name: values["before"]
        for name, values in record.items()
        if values["before"] != values["during"] and _same(current.get(name, ""), values["during"])
    }


class MachineSettings:
    """Applies the changes and remembers what was there in a file of the cluster's state."""

    def __init__(self, record: Path, sysctls: Path = SYSCTLS) -> None:
        self._record = record
        self._sysctls = sysctls

    def apply(self) -> None:
        """Remember and change; a record left by a killed run is kept, since it has the values from before that run."""
        current = self._current([*AT_LEAST, *KUBELET_SETS, ALLOWED_CONGESTION_CONTROLS])
        available = self._current(["net.ipv4.tcp_available_congestion_control"])
        changes = wanted_changes(current, " ".join(available.values()))
        during = {**{name: value for name, value in KUBELET_SETS.items() if name in current}, **changes}
        record = {name: {"before": current[name], "during": value} for name, value in during.items()}
        record.update(self._recorded())
        self._record.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._record.with_suffix(".new")
        temporary.write_text(json.dumps(record, indent=1))
        temporary.replace(self._record)
        for name, value in changes.items():
            self._write(name, value)

    def restore(self) -> list[str]:
        """Set back what was changed and return the names; the record is removed."""
        record = self._recorded()
        restores = wanted_restores(record, self._current(list(record)))
        for name, value in restores.items():
            self._write(name, value)
        self._record.unlink(missing_ok=True)
        return sorted(restores)

    def _recorded(self) -> dict[str, dict[str, str]]:
        try:
            loaded: dict[str, dict[str, str]] = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return {}
        return loaded

    def _current(self, names: list[str]) -> dict[str, str]:
        values = {}
        for name in names:
            try:
                values[name] = (self._sysctls / name.replace(".", "/")).read_text().strip()
            except OSError:
                continue
        return values

    def _write(self, name: str, value: str) -> None:
        (self._sysctls / name.replace(".", "/")).write_text(value)


def _same(one: str, other: str) -> bool:
    return one.split() == other.split()
