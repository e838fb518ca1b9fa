"""The emulated paths between the two data transfer nodes, each carried by a fairlead-wan of its own."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.build import rust_program
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import TRANSFER_NODES, ClusterNode, DataLink, Layout, WanSettings
from fairlead_dev.cluster.machine import network, shell
from fairlead_dev.cluster.machine.box import Box

_LONGEST_SOCKET_PATH = 107
"""What fits into the kernel's socket address."""


class WideAreaLink:
    """Runs the emulator of one path in the control plane's box, with which it also ends."""

    def __init__(self, paths: Layout, link: DataLink) -> None:
        self.link = link
        self._service = f"wan-{link.interface}"
        self._socket = paths.wan_control_socket(link)
        self._program = rust_program("fairlead-wan", paths)
        self._box = Box(layout.CONTROL_PLANE, paths, node=False)
        self._settings_file = paths.run / f"wan-{link.interface}.json"

    def start(self, settings: WanSettings) -> None:
        """Join the two devices, and return when the emulator answers."""
        socket = self._socket
        if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
            raise ClusterError(f"the path {socket} is too long for a socket; set FAIRLEAD_STATE to a shorter one")
        socket.unlink(missing_ok=True)
        one, other = (f"{node.namespace}:{self.link.interface}" for node in TRANSFER_NODES)
        ends = ["--a", one, "--b", other, *(["--ethernet"] if self.link.ethernet else [])]
        self._box.launch(self._service, [self._program, "run", *ends, *settings.arguments(), "--control", socket])
        try:
            shell.wait_until(
                lambda: socket.exists() and shell.succeeds(self.command(["stats"]), timeout_s=10), "it does not answer", timeout_s=30
            )
        except ClusterError as error:
            log = self._box.log_of(self._service).read_text(errors="replace").strip()
            raise ClusterError(f"the WAN emulator of {self.link.interface} did not start: {error}\n{log}") from error
        self._settings_file.write_text(json.dumps(asdict(settings)))

    def restart(self, changes: dict[str, str]) -> WanSettings:
        """End the emulator and start it with the settings it had, changed as asked; connections across it only pause."""
        settings = replace(self.settings(), **changes)
        self._box.end(self._service)
        self.start(settings)
        return settings

    def settings(self) -> WanSettings:
        """What the emulator was started with (`wan set` may have changed it since)."""
        try:
            return WanSettings(**json.loads(self._settings_file.read_text()))
        except (OSError, ValueError, TypeError):
            return self.link.defaults

    def cut(self, ends: list[ClusterNode]) -> None:
        """Let nothing pass any more; the interfaces of `ends` lose their carrier too, as if the cable were pulled there."""
        shell.run(self.command(["set", "--down", "true"]))
        for node in ends:
            network.set_carrier(node, self.link, up=False)

    def restore(self) -> None:
        """End a cut: both interfaces have their carrier, and packets pass."""
        for node in TRANSFER_NODES:
            network.set_carrier(node, self.link, up=True)
        shell.run(self.command(["set", "--down", "false"]))

    def is_running(self) -> bool:
        return self._box.is_running(self._service)

    def command(self, arguments: list[str]) -> list[str]:
        """The command line that puts a question to the running emulator."""
        return [str(self._program), *arguments[:1], "--control", str(self._socket), *arguments[1:]]
