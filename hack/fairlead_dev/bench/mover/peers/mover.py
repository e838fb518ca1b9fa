"""The mover as one of the programs that copy a tree."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.bench.lab.machine import version_of
from fairlead_dev.bench.lab.mover import MoverProgram, MoverTransfer
from fairlead_dev.bench.lab.trees import BenchTree
from fairlead_dev.bench.mover.peers.copier import Copied, Copier, CopySession
from fairlead_dev.netlab.pair import Net


class MoverCopier(Copier):
    """`fairlead-mover send` to `fairlead-mover receive`."""

    name = "mover"
    integrity = "TLS 1.3; BLAKE3 of each block checked before it is written; synced to the disk before the verdict"

    def __init__(self, mover: MoverProgram) -> None:
        self._mover = mover

    def version(self) -> str:
        """By its own output."""
        return version_of([str(self._mover.binary), "--version"])

    @contextlib.contextmanager
    def session(self, net: Net, tree: BenchTree, destination: Path, scratch: Path) -> Iterator[CopySession]:
        """A receiver that listens."""
        with self._mover.transfer(net, scratch, destination) as transfer:
            transfer.listening_port()
            yield _MoverSession(transfer, tree, destination)


class _MoverSession(CopySession):
    def __init__(self, transfer: MoverTransfer, tree: BenchTree, destination: Path) -> None:
        self._transfer, self._tree, self._destination = transfer, tree, destination

    def copy(self, limit_s: float) -> Copied:
        """From the start of the sender to the end of the later end."""
        start_s = time.monotonic()
        self._transfer.send(self._tree.path)
        ends = self._transfer.finish(limit_s)
        return Copied(time.monotonic() - start_s, finished=True, sender=ends.sender, receiver=ends.receiver)

    def arrived(self) -> Path:
        """The destination itself."""
        return self._destination
