"""The first steps inside a box, run as its process 1 until the pause program takes over.

Run as a script, with a plan in JSON as its only argument, so that it needs nothing but the standard library:
{"record": file, "hostname": name, "node": bool, "binds": [[source, target], …], "pause": program}
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

CGROUPS = "/sys/fs/cgroup"


def record_identity(record: Path) -> None:
    """Write who this process is as the machine sees it: /proc is still the machine's, although the PID namespace is new."""
    pid = Path("/proc/self").readlink().name
    stat = Path("/proc/self/stat").read_text()
    identity = {
        "pid": int(pid),
        "start_ticks": int(stat[stat.rindex(")") + 2 :].split()[19]),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }
    temporary = record.with_suffix(".new")
    temporary.write_text(json.dumps(identity))
    temporary.replace(record)


def mount(*args: str) -> None:
    subprocess.run(["mount", *args], check=True)


def become_node(binds: list[list[str]]) -> None:
    """Give the node its own /run, a /sys that shows its own network, and its own disk behind the default paths."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for folder in ("/run/netns", "/run/cgroups", "/run/lock"):
        Path(folder).mkdir()
    # A new sysfs hides the control groups that were mounted on the old one.
    mount("--rbind", CGROUPS, "/run/cgroups")
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("--rbind", "/run/cgroups", CGROUPS)
    subprocess.run(["umount", "-l", "/run/cgroups"], check=True)
    for source, target in binds:
        mount("--bind", source, target)
    # Pods with mount propagation see what the kubelet mounts later.
    mount("--make-rshared", "/")


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    record_identity(Path(plan["record"]))
    socket.sethostname(plan["hostname"])
    mount("-t", "proc", "proc", "/proc")
    if plan["node"]:
        become_node(plan["binds"])
    os.execv(plan["pause"], [plan["pause"]])


if __name__ == "__main__":
    main()
