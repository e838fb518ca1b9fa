"""A box: a namespaced machine with its own network, mounts, host name, IPC and processes.

Daemons inside use their default paths; ending the box's process 1 is a power cut, and no mount outlives it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import box_init, network, process, shell
from fairlead_dev.cluster.machine.cgroups import NodeGroups

# `0` is the writer itself. The shell then becomes the daemon, so that its process id is the daemon's.
_LAUNCH = 'for group in $GROUPS_TO_JOIN; do echo 0 > "$group/cgroup.procs"; done; echo $$ > "$PID_FILE"; exec "$@"'
_ISOLATE = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--propagation", "private", "--")
_ESSENTIAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Box:
    """The box called `name`; a node's box has its own disk and control groups."""

    name: str
    layout: Layout
    node: bool

    @property
    def groups(self) -> NodeGroups:
        return NodeGroups(layout.namespace(self.name))

    @property
    def _record(self) -> Path:
        return self.layout.run / f"{self.name}.json"

    def identity(self) -> process.Identity | None:
        """Process 1 of the box as the machine sees it; None if the box is not running."""
        try:
            identity = process.Identity.from_json(self._record.read_text())
        except OSError:
            return None
        return identity if identity and process.is_alive(identity) else None

    def start(self, pause: Path, *, timeout_s: float = 60.0) -> None:
        """Start the box in its network namespace, which must exist."""
        if self.node:
            for folder in layout.NODE_FOLDERS:
                self._on_disk(folder).mkdir(parents=True, exist_ok=True)
            self.groups.create()
        binds = [[str(self._on_disk(folder)), folder] for folder in layout.NODE_FOLDERS] if self.node else []
        plan = {"record": str(self._record), "hostname": self.name, "node": self.node, "binds": binds, "pause": str(pause)}
        log = self.layout.cluster_logs / f"box-{self.name}.log"
        with log.open("wb") as output:
            starter = subprocess.Popen(
                network.inside(self.name, [*_ISOLATE, sys.executable, box_init.__file__, json.dumps(plan)]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={"PATH": _ESSENTIAL_PATH, process.MARK: str(self.layout.state)},
            )
        deadline = time.monotonic() + timeout_s
        while not self._has_booted(pause):
            if starter.poll() is not None or time.monotonic() > deadline:
                raise ClusterError(f"the box {self.name} does not start:\n{log.read_text(errors='replace').strip()}")
            time.sleep(0.02)

    def _has_booted(self, pause: Path) -> bool:
        identity = self.identity()
        if not identity:
            return False
        try:
            return Path(f"/proc/{identity.pid}/exe").resolve() == pause.resolve()
        except OSError:
            return False

    def _on_disk(self, folder: str) -> Path:
        return self.layout.node_root(self.name) / folder.lstrip("/")

    def enter(self, command: Sequence[str | Path]) -> list[str]:
        """The command line that runs `command` inside; raises ClusterError if the box is not running."""
        return ["nsenter", "-t", str(self._require_identity().pid), "-m", "-u", "-i", "-n", "-p", "--", *(str(word) for word in command)]

    def root(self) -> Path:
        """The box's file system as the machine sees it, mounts included; raises ClusterError if the box is not running."""
        return Path(f"/proc/{self._require_identity().pid}/root")

    def _require_identity(self) -> process.Identity:
        identity = self.identity()
        if not identity:
            raise ClusterError(f"{self.name} is not running; start the cluster with `hack/cluster/cluster up`")
        return identity

    def run(self, command: Sequence[str | Path], *, timeout_s: float | None = 60) -> str:
        """Run a command inside to its end."""
        return shell.run(self.enter(command), timeout_s=timeout_s)

    def launch(self, service: str, command: Sequence[str | Path], *, path: str = "", env: Mapping[str, str] | None = None) -> None:
        """Start a daemon inside, adopted by the box's process 1, with its output in the log of the service.

        Nothing of it stays outside: a parent beyond the box would never reap it, and the box could not end.
        """
        self._launched_file(service).write_text(json.dumps([[str(word) for word in command], path, dict(env or {})]))
        with self.log_of(service).open("ab") as output:
            subprocess.run(
                self.enter(["setsid", "--fork", "sh", "-c", _LAUNCH, "sh", *command]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
                env={
                    "PATH": f"{path}:{_ESSENTIAL_PATH}" if path else _ESSENTIAL_PATH,
                    "HOME": "/root",
                    "GROUPS_TO_JOIN": " ".join(str(group) for group in self.groups.daemon_groups) if self.node else "",
                    "PID_FILE": str(self._pid_file(service)),
                    process.MARK: str(self.layout.state),
                    # Most are Go programs: collecting garbage less often spares a sixth of their processor time, for memory that a cluster
                    # this small does not need.
                    "GOGC": "400",
                    **(env or {}),
                },
            )

    def launch_again(self, service: str) -> None:
        """Start a daemon that has ended as it was started before."""
        command, path, env = json.loads(self._launched_file(service).read_text())
        self.launch(service, command, path=path, env=env)

    def kill(self, service: str, *, timeout_s: float = 30.0) -> None:
        """Kill a daemon, and wait until it is gone."""
        self.send_signal(service, signal.SIGKILL)
        shell.wait_until(lambda: not self.is_running(service), f"{service} in {self.name} did not end", timeout_s=timeout_s)

    def send_signal(self, service: str, number: signal.Signals) -> None:
        """Send a signal to a daemon that runs."""
        self.run(["kill", f"-{number.value}", self._pid_file(service).read_text().strip()])

    def log_of(self, service: str) -> Path:
        return self.layout.cluster_logs / f"{self.name}-{service}.log"

    def _pid_file(self, service: str) -> Path:
        return self.layout.run / f"{self.name}-{service}.pid"

    def _launched_file(self, service: str) -> Path:
        return self.layout.run / f"{self.name}-{service}.json"

    def is_running(self, service: str) -> bool:
        """Whether the daemon runs; its process id counts inside the box."""
        identity = self.identity()
        pid_file = self._pid_file(service)
        if not identity or not pid_file.exists():
            return False
        return Path(f"/proc/{identity.pid}/root/proc/{pid_file.read_text().strip() or 'none'}/exe").exists()

    def end(self, service: str, *, timeout_s: float = 30.0) -> None:
        """Ask a daemon to end and wait until it has."""
        if self.is_running(service):
            self.send_signal(service, signal.SIGTERM)
            shell.wait_until(lambda: not self.is_running(service), f"{service} in {self.name} did not end", timeout_s=timeout_s)
        self._pid_file(service).unlink(missing_ok=True)

    def stop(self, *, timeout_s: float = 60.0) -> bool:
        """Cut the power: everything inside ends at once; False if the box was not running."""
        if self.node:
            self.groups.thaw()
        identity = self.identity()
        if not identity:
            return False
        process.kill(identity)
        shell.wait_until(
            lambda: not process.is_alive(identity), f"process {identity.pid} of box {self.name} did not end", timeout_s=timeout_s
        )
        self._record.unlink(missing_ok=True)
        return True
