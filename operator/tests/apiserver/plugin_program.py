"""`kubectl fairlead` as a process of its own. Its packages take a second to import, so its processes are forks of one that has them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fairlead.plugin.main import main

_PATIENCE_SECONDS = 120.0
_OF_CLUSTER = frozenset({"top", "nodes"})
_UNWANTED = frozenset({"NO_COLOR", "FORCE_COLOR", "COLUMNS", "KUBECONFIG"})


class Ran(NamedTuple):
    """How a process ended, and what it printed."""

    code: int
    out: str
    err: str


class Plugin:
    """The program with a user's kubeconfig, in a namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._kubeconfig, self._namespace = kubeconfig, namespace
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["fairlead.plugin.cli", "fairlead.plugin.main"])

    @property
    def environment(self) -> dict[str, str]:
        """Of a terminal that knows colours, were it one."""
        clean = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
        return {**clean, "KUBECONFIG": str(self._kubeconfig), "TERM": "xterm-256color"}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """The whole program, from its start."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairlead.plugin.main", *arguments),
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, command: str, *arguments: str) -> Ran:
        place = () if command in _OF_CLUSTER or "-A" in arguments else ("-n", self._namespace)
        with tempfile.TemporaryDirectory() as folder:
            process = self._processes.Process(target=_run, args=((command, *arguments, *place), self.environment, folder))
            process.start()
            await asyncio.to_thread(process.join, _PATIENCE_SECONDS)
            assert process.exitcode is not None, f"{command} does not end"
            return Ran(process.exitcode, *_printed(folder))


def _printed(folder: str) -> tuple[str, str]:
    return Path(folder, "out").read_text(encoding="utf-8"), Path(folder, "err").read_text(encoding="utf-8")


def _run(arguments: tuple[str, ...], environment: dict[str, str], folder: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), number)
    sys.exit(main(arguments))
