"""The interface of every program that copies a tree over the network."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.bench.lab.trees import BenchTree
from fairlead_dev.errors import LimitError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, ProcessUsage


@dataclass(frozen=True, slots=True)
class Copied:
    """One copy of a tree."""

    wall_s: float
    finished: bool
    """False when the time was over first; then what arrived is at the destination."""
    sender: ProcessUsage | None = None
    receiver: ProcessUsage | None = None


class CopySession(ABC):
    """A program ready to copy one tree from the sender's to the receiver's namespace."""

    @abstractmethod
    def copy(self, limit_s: float) -> Copied:
        """Copies the tree into the empty destination, from the start of the client to its end. Raises LabError if it fails."""

    @abstractmethod
    def arrived(self) -> Path:
        """The folder at the destination that corresponds to the tree's."""


class Copier(ABC):
    """A program that copies trees."""

    name: str
    programs: tuple[str, ...] = ()
    """What must be installed."""
    integrity: str
    """Which of its own checks are on."""

    @abstractmethod
    def version(self) -> str:
        """By its own output."""

    @abstractmethod
    def session(self, net: Net, tree: BenchTree, destination: Path, scratch: Path) -> contextlib.AbstractContextManager[CopySession]:
        """Its servers, ready. `destination` is an empty folder; `scratch` takes what else it needs."""


class ClientSession(CopySession):
    """A copy made by one client program in the sender's namespace, against servers that run already."""

    def __init__(self, command: list[str], net: Net, log: Path, arrived: Path, *, env: dict[str, str] | None = None) -> None:
        self._command, self._net, self._log, self._arrived, self._env = command, net, log, arrived, env

    def copy(self, limit_s: float) -> Copied:
        """Runs the client; past the limit it is ended."""
        self._log.unlink(missing_ok=True)
        start_s = time.monotonic()
        client = Process(self._command, log=self._log, namespace=self._net.sender, env=self._env)
        try:
            usage = client.succeed(limit_s)
        except LimitError:
            return Copied(time.monotonic() - start_s, finished=False)
        finally:
            client.stop()
        return Copied(usage.wall_s, finished=True, sender=usage)

    def arrived(self) -> Path:
        """Where the tree's content lands."""
        return self._arrived
