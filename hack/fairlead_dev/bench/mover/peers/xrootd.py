"""XRootD: `xrdcp` to a plain server, with checksums compared after each file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.bench.lab.machine import version_of
from fairlead_dev.bench.lab.servers import await_listening
from fairlead_dev.bench.lab.trees import BenchTree
from fairlead_dev.bench.mover.peers.copier import ClientSession, Copier, CopySession
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, running

PORT = 1094
ACCOUNT = "nobody"
"""xrootd refuses to run as root."""
CONFIGURATION = """\
all.export /{export}
oss.localroot {root}
all.adminpath {folder}
all.pidpath {folder}
xrd.port {port}
xrd.network nodnr norpipa
xrootd.chksum max 4 adler32
"""


class Xrootd(Copier):
    """`xrdcp` to `xrootd`."""

    name = "xrootd"
    programs = ("xrootd", "xrdcp")
    integrity = "Adler-32 of both ends compared; no encryption"

    def __init__(self, streams: int, parallel: int) -> None:
        """Connections for one file's data, and files at a time (the client allows four)."""
        self._streams, self._parallel = streams, parallel

    def version(self) -> str:
        """By `xrdcp --version`."""
        return version_of(["sh", "-c", "xrdcp --version 2>&1"])

    @contextlib.contextmanager
    def session(self, net: Net, tree: BenchTree, destination: Path, scratch: Path) -> Iterator[CopySession]:
        """A server in the receiver's namespace."""
        folder = scratch / "xrootd"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        configuration = folder / "xrootd.cfg"
        configuration.write_text(CONFIGURATION.format(root=destination.parent, export=destination.name, folder=folder, port=PORT))
        for path in (folder, destination):
            shutil.chown(path, ACCOUNT)
        log = scratch / "xrootd-server.log"
        log.touch()
        server = Process(["xrootd", "-c", str(configuration)], log=log, namespace=net.receiver, user=ACCOUNT)
        with running(server):
            await_listening(server, net.receiver, PORT)
            url = f"root://{net.receiver_address}:{PORT}//{destination.name}/"
            what = (
                ["-r", "--parallel", str(self._parallel), str(tree.path)]
                if tree.files > 1
                else ["-S", str(self._streams), str(tree.path / "big")]
            )
            command = ["xrdcp", "--nopbar", "--silent", "--cksum", "adler32:source", *what, url]
            arrived = destination / tree.path.name if tree.files > 1 else destination
            yield ClientSession(command, net, scratch / "xrdcp.log", arrived)
