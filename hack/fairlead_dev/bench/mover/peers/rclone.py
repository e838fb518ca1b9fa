"""rclone, over its own SFTP server: the one of its servers whose hashes rclone compares after a copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.bench.lab.machine import version_of
from fairlead_dev.bench.lab.servers import await_listening
from fairlead_dev.bench.lab.trees import BenchTree
from fairlead_dev.bench.mover.peers.copier import ClientSession, Copier, CopySession
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, run, running

PORT = 2022
USER, PASSWORD = "bench", "bench"
"""For a server in a namespace of its own, for the time of a copy."""


class Rclone(Copier):
    """`rclone copy` to `rclone serve sftp`."""

    name = "rclone"
    programs = ("rclone",)
    integrity = "SSH; MD5 of both ends compared"

    def __init__(self, transfers: int) -> None:
        """`transfers` is how many files travel at a time."""
        self._transfers = transfers

    def version(self) -> str:
        """By `rclone version`."""
        return version_of(["rclone", "version"])

    @contextlib.contextmanager
    def session(self, net: Net, tree: BenchTree, destination: Path, scratch: Path) -> Iterator[CopySession]:
        """An SFTP server in the receiver's namespace."""
        env = {"RCLONE_CONFIG": "/dev/null"}
        listen = ["--addr", f"{net.receiver_address}:{PORT}", "--user", USER, "--pass", PASSWORD]
        server = Process(
            ["rclone", "serve", "sftp", *listen, str(destination)], log=scratch / "rclone-server.log", namespace=net.receiver, env=env
        )
        with running(server):
            await_listening(server, net.receiver, PORT)
            secret = run(["rclone", "obscure", PASSWORD]).strip()
            hashes = "shell_type=unix,md5sum_command=md5sum,sha1sum_command=sha1sum"
            remote = f":sftp,host={net.receiver_address},port={PORT},user={USER},pass='{secret}',{hashes}:"
            # Nothing is at the destination: it need not be listed.
            command = [
                "rclone",
                "copy",
                str(tree.path),
                remote,
                "--transfers",
                str(self._transfers),
                "--no-traverse",
                "--no-check-dest",
                "--quiet",
            ]
            yield ClientSession(command, net, scratch / "rclone.log", destination, env=env)
