"""GridFTP: `globus-url-copy` between two anonymous servers, with checksums compared after each file."""

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

PORT = 2811
ACCOUNT = "nobody"


class Gridftp(Copier):
    """`globus-url-copy` from server to server, as data transfer nodes use it: only so it may use Adler-32."""

    name = "gridftp"
    programs = ("globus-gridftp-server", "globus-url-copy")
    integrity = "Adler-32 of both ends compared; no encryption"

    def __init__(self, streams: int, concurrency: int) -> None:
        """Connections for one file's data, and files at a time."""
        self._streams, self._concurrency = streams, concurrency

    def version(self) -> str:
        """By the server's own output."""
        return version_of(["sh", "-c", "globus-gridftp-server -v 2>&1"])

    @contextlib.contextmanager
    def session(self, net: Net, tree: BenchTree, destination: Path, scratch: Path) -> Iterator[CopySession]:
        """A server at each end; the client runs beside the sender's."""
        shutil.chown(destination, ACCOUNT)
        with contextlib.ExitStack() as stack:
            for namespace, address in ((net.sender, net.sender_address), (net.receiver, net.receiver_address)):
                configuration = scratch / f"gridftp-{address}"
                configuration.mkdir(exist_ok=True)
                where = ["-p", str(PORT), "-control-interface", address, "-data-interface", address]
                # Its own configuration, so that nothing of the machine's applies.
                apart = ["-c", "/dev/null", "-C", str(configuration)]
                command = ["globus-gridftp-server", "-aa", "-anonymous-user", ACCOUNT, *where, *apart]
                server = stack.enter_context(running(Process(command, log=scratch / f"gridftp-{address}.log", namespace=namespace)))
                await_listening(server, namespace, PORT)
            source, target = (
                f"ftp://{address}:{PORT}//{path}/"
                for address, path in ((net.sender_address, tree.path), (net.receiver_address, destination))
            )
            if tree.files > 1:
                # Given a folder, the client asks for a checksum of its folders too, and fails; so it gets a list, made beforehand.
                pairs = scratch / "gridftp.list"
                pairs.write_text("".join(f"{source}{name} {target}{name}\n" for name in tree.names()))
                what = ["-fast", "-cc", str(self._concurrency), "-f", str(pairs)]
            else:
                what = ["-p", str(self._streams), source + "big", target + "big"]
            command = ["globus-url-copy", "-q", "-cd", "-verify-checksum", "-checksum-alg", "ADLER32", *what]
            yield ClientSession(command, net, scratch / "gridftp.log", destination)
