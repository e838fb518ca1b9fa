"""The wide-area link between the two data transfer nodes, carried by fairlead-wan."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.build import rust_program
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import TRANSFER_NODES, Layout, WanSettings
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.box import Box

SERVICE = "wan"
_LONGEST_SOCKET_PATH = 107
"""What fits into the kernel's socket address."""


class WideAreaLink:
    """Runs the emulator in the control plane's box, with which it also ends."""

    def __init__(self, paths: Layout) -> None:
        self._paths = paths
        self._program = rust_program("fairlead-wan", paths)
        self._box = Box(layout.CONTROL_PLANE, paths, node=False)
        self._settings_file = paths.run / "wan.json"

    def start(self, settings: WanSettings) -> None:
        """Join the two TUN devices, and return when the emulator answers."""
        socket = self._paths.wan_control_socket
        if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
            raise ClusterError(f"the path {socket} is too long for a socket; set FAIRLEAD_STATE to a shorter one")
        socket.unlink(missing_ok=True)
        one, other = (f"{node.namespace}:{layout.DATA_INTERFACE}" for node in TRANSFER_NODES)
        ends = ["--a", one, "--b", other]
        self._box.launch(SERVICE, [self._program, "run", *ends, *settings.arguments(), "--control", socket])
        try:
            shell.wait_until(
                lambda: socket.exists() and shell.succeeds(self.command(["stats"]), timeout_s=10), "it does not answer", timeout_s=30
            )
        except ClusterError as error:
            log = self._box.log_of(SERVICE).read_text(errors="replace").strip()
            raise ClusterError(f"the WAN emulator did not start: {error}\n{log}") from error
        self._settings_file.write_text(json.dumps(asdict(settings)))

    def restart(self, changes: dict[str, str]) -> WanSettings:
        """End the emulator and start it with the settings it had, changed as asked; connections across it only pause."""
        settings = replace(self.settings(), **changes)
        self._box.end(SERVICE)
        self.start(settings)
        return settings

    def settings(self) -> WanSettings:
        """What the emulator was started with (`wan set` may have changed it since)."""
        try:
            return WanSettings(**json.loads(self._settings_file.read_text()))
        except (OSError, ValueError, TypeError):
            return WanSettings()

    def is_running(self) -> bool:
        return self._box.is_running(SERVICE)

    def command(self, arguments: list[str]) -> list[str]:
        """The command line that puts a question to the running emulator."""
        return [str(self._program), *arguments[:1], "--control", str(self._paths.wan_control_socket), *arguments[1:]]
