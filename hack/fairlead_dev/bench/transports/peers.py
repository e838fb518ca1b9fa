"""The programs beside which the mover is measured, each moving bytes once over a link of its own. Everything here has effects."""

from __future__ import annotations

import filecmp
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.bench.lab.machine import scratch_folder
from fairlead_dev.bench.lab.mover import END_LIMIT_S, SERVER_LIMIT_S, MoverLab
from fairlead_dev.bench.lab.servers import IPERF_PORT, await_listening
from fairlead_dev.bench.lab.trees import clear
from fairlead_dev.bench.transports.measure import MOVE_LIMIT_S, LinkShape, Moved, link
from fairlead_dev.bench.transports.reports import counted_bps, goodput_bps, iperf3_received, nuttcp_bps, uftp_bps
from fairlead_dev.checkout import CACHE, CHECKOUT
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, run, running, wait_until

LIBUDT_SOURCE = CHECKOUT / "images" / "mover" / "crates" / "udt" / "tests" / "libudt" / "peer.cpp"
QUIC_SOURCE = CHECKOUT / "hack" / "peers" / "quic"
BUILD_LIMIT_S = 1200.0
NUTTCP_PORT, LIBUDT_PORT, QUIC_PORT, UFTP_PORT = 5000, 5202, 4433, 1044
NUTTCP_PIECE_BYTES = 64 << 10
UFTP_RATE_UNIT_BPS = 1024
"""Its Kbps are of 1,024 bit/s, headers of IP and UDP included."""
UFTP_ID = "0x00000001"
UFTP_BLOCK_BYTES = 1400
"""As its manual has it: 100 bytes below the path's packets."""
UFTP_BUFFER_BYTES = 8 << 20
"""As the mover asks for."""
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 3 << 30
CONTENT_SEED = 7


@dataclass(frozen=True, slots=True)
class Peers:
    """What the peers need that is made once a run."""

    libudt: Path
    quic: Path
    memory: Path
    """An empty folder in memory, for those that move files."""


@contextmanager
def made_peers(scratch: Path) -> Iterator[Peers]:
    """Compiles what Debian has no program of. Raises LabError."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        raise LabError(f"{MEMORY} must have {MEMORY_BYTES >> 30} GiB free: uftp and uTP move files, from memory into memory")
    with scratch_folder(MEMORY, "fairlead-transports-") as memory:
        yield Peers(compile_libudt_peer(scratch), compile_quic_peer(), memory)


def compile_libudt_peer(folder: Path) -> Path:
    """The program that moves bytes over Debian's libudt. Raises LabError."""
    program = folder / "libudt-peer"
    run(["g++", "-O2", "-I/usr/include/udt", "-o", program, LIBUDT_SOURCE, "-ludt", "-lpthread"])
    return program


def compile_quic_peer() -> Path:
    """The program that moves bytes over s2n-quic, kept beside what cargo builds of the mover. Raises LabError."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR") or CACHE / "cargo-target") / "peers"
    where = ("--manifest-path", QUIC_SOURCE / "Cargo.toml", "--target-dir", folder)
    run(["cargo", "build", "--quiet", "--release", "--locked", *where], timeout_s=BUILD_LIMIT_S)
    return folder / "release" / "fairlead-quic-peer"


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What both ends of a peer printed, and took of the machine."""

    received: str
    """The receiver's output."""
    sent: str
    """The sender's output."""
    log: str
    """What the sender wrote as errors."""
    cpu_s: float


def exchange(
    lab: MoverLab,
    net: Net,
    receive: Sequence[str | Path],
    send: Sequence[str | Path],
    ready: Callable[[Process, Path], None],
    *,
    stays: bool = False,
) -> Exchanged:
    """Runs a receiver, a sender once `ready` returns, and waits for both; a receiver that `stays` is ended. Raises LabError."""
    outputs, logs = ([lab.scratch / f"peer-{role}.{kind}" for role in ("receiver", "sender")] for kind in ("out", "log"))
    for file in (*outputs, *logs):
        file.unlink(missing_ok=True)
    receiver = Process(receive, log=logs[0], output=outputs[0], namespace=net.receiver)
    with running(receiver):
        ready(receiver, outputs[0])
        sender = Process(send, log=logs[1], output=outputs[1], namespace=net.sender)
        with running(sender):
            sent = sender.succeed(MOVE_LIMIT_S, beside=[receiver])
            received = receiver.stop() if stays else receiver.succeed(END_LIMIT_S)
    return Exchanged(outputs[0].read_text(), outputs[1].read_text(), logs[1].read_text(), sent.cpu_s + received.cpu_s)


def speaks(receiver: Process, output: Path) -> None:
    """Waits for a program that prints a line once it listens."""
    wait_until(lambda: not receiver.is_running or "\n" in output.read_text(), f"`{receiver.shown}`", SERVER_LIMIT_S)
    if not receiver.is_running:
        raise LabError(f"`{receiver.shown}` ended{receiver.log_tail()}")


def move_by_libudt(lab: MoverLab, program: Path, shape: LinkShape, size_bytes: int) -> Moved:
    """Over one connection of libudt, in plain."""
    with link(lab, shape) as net:
        port, where = str(LIBUDT_PORT), (str(size_bytes), net.receiver_address)
        done = exchange(lab, net, [program, "listen", port, "receive", *where], [program, "connect", port, "send", *where], speaks)
    _, _, seconds = done.received.split()
    return _moved(goodput_bps("libudt", size_bytes, float(seconds), size_bytes), done, size_bytes)


def move_by_quic(lab: MoverLab, program: Path, shape: LinkShape, streams: int, size_bytes: int) -> Moved:
    """Over s2n-quic: a connection for each stream, as the mover has it."""
    certificate = lab.scratch / "quic-peer.pem"
    with link(lab, shape) as net:
        where = (f"{net.receiver_address}:{QUIC_PORT}", str(streams))
        send: list[str | Path] = [program, "send", *where, str(size_bytes), certificate]
        done = exchange(lab, net, [program, "receive", *where, certificate], send, speaks)
    return _moved(counted_bps("s2n-quic", done.received, size_bytes), done, size_bytes)


def move_by_iperf3(lab: MoverLab, shape: LinkShape, control: str, streams: int, seconds: int) -> Moved:
    """Over TCP, in plain, from memory into nothing, for a time: told to move so many bytes it leaves out what sockets hold at its end."""
    with link(lab, shape) as net:
        port = ("-p", str(IPERF_PORT))
        receive = ["iperf3", "-s", "-1", "-B", net.receiver_address, *port]
        how = ("-J", "-C", control, "-P", str(streams), "-t", str(seconds))
        send = ["iperf3", "-c", net.receiver_address, *port, *how]
        done = exchange(lab, net, receive, send, lambda server, _: await_listening(server, net.receiver, IPERF_PORT))
    received_bytes, bps = iperf3_received(done.sent, control)
    return _moved(bps, done, received_bytes)


def move_by_nuttcp(lab: MoverLab, shape: LinkShape, streams: int, size_bytes: int) -> Moved:
    """Over TCP under the path's congestion control, in plain, from memory into nothing."""
    with link(lab, shape) as net:
        receive = ["nuttcp", "-1", "--nofork", "-P", str(NUTTCP_PORT)]
        what = (f"-N{streams}", f"-l{NUTTCP_PIECE_BYTES}", f"-n{size_bytes // NUTTCP_PIECE_BYTES}")
        send = ["nuttcp", "-t", "-fparse", "-P", str(NUTTCP_PORT), *what, net.receiver_address]
        done = exchange(lab, net, receive, send, lambda server, _: await_listening(server, net.receiver, NUTTCP_PORT))
    return _moved(nuttcp_bps(done.sent, size_bytes), done, size_bytes)


def move_by_uftp(lab: MoverLab, memory: Path, shape: LinkShape, rate_bps: float, size_bytes: int) -> Moved:
    """A file from memory into memory at a rate of IP packets that whatever is lost does not change; the copy is compared."""
    source, folder = memory / "uftp-source", memory / "uftp"
    if not source.exists():
        source.write_bytes(random.Random(CONTENT_SEED).randbytes(size_bytes))
    folder.mkdir(exist_ok=True)
    clear(folder)
    with link(lab, shape) as net:
        both = ("-I", net.device, "-p", str(UFTP_PORT), "-B", str(UFTP_BUFFER_BYTES))
        receive: list[str | Path] = ["uftpd", "-d", "-U", UFTP_ID, "-D", folder, *both]
        how = ("-R", str(int(rate_bps / UFTP_RATE_UNIT_BPS)), "-b", str(UFTP_BLOCK_BYTES), "-H", UFTP_ID)
        send: list[str | Path] = ["uftp", *both, *how, "-M", net.receiver_address, source]
        done = exchange(
            lab, net, receive, send, lambda server, _: await_listening(server, net.receiver, UFTP_PORT, protocol="udp"), stays=True
        )
    # Its copy has the time of the source: an earlier comparison must not stand for this one.
    filecmp.clear_cache()
    copy = folder / source.name
    if not copy.exists() or not filecmp.cmp(source, copy, shallow=False):
        raise LabError(f"uftp did not deliver the file whole: {done.log[-400:]}")
    clear(folder)
    return _moved(uftp_bps(done.log, size_bytes), done, size_bytes)


def _moved(bps: float, done: Exchanged, size_bytes: int) -> Moved:
    return Moved(bps, done.cpu_s / (size_bytes / 1e9))
