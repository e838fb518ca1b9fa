"""The real mover on both ends of an emulated wide-area path, and the advisor's sidecar beside the sender. Needs root and build/bin."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairlead_dev.checkout import BINARIES
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import run
from fairlead_dev.wan import emulator

PORT, ADVISOR_PORT = 24000, 24002
AWAIT_TRANSPORT_S = 60
"""How long a sender waits for its advisor, as in the operator's pods."""
PATIENCE_S = 240.0
EMULATOR_PRIORITY = 10


def missing() -> str | None:
    """Why this cannot run here; None if it can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    absent = [name for name in ("fairlead-mover", "fairlead-wan") if not (BINARIES / name).exists()]
    if absent:
        return f"needs {' and '.join(absent)} in build/bin: make rust"
    return None if Path("/dev/net/tun").exists() else "needs /dev/net/tun"


@dataclass(frozen=True)
class WanPath:
    """A path in the emulator's units; `delay` is one way, `loss` is that of the data's direction, `thin_acks` that of what comes back."""

    rate: str = "100M"
    delay: str = "30ms"
    buffer: str = "1BDP"
    loss: float = 0.0
    queue: str = emulator.QUEUES[0]
    police_udp: str | None = None
    thin_acks: int = 1


@dataclass
class TwoHosts:
    """Use as a context manager: everything started here is ended here, by its process."""

    path: WanPath
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="fairlead-two-hosts-")))
    net: Net = field(init=False)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            path = emulator.emulated_pair(
                BINARIES / "fairlead-wan",
                self.folder,
                rate=self.path.rate,
                one_way_delay=self.path.delay,
                buffer=self.path.buffer,
                more=(
                    *("--loss-ab", self.path.loss),
                    *emulator.treatment_options(self.path.queue, police_udp=self.path.police_udp, thin_acks=self.path.thin_acks),
                ),
                priority=EMULATOR_PRIORITY,
            )
            self.net = stack.enter_context(path)
            stack.callback(self._end_processes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def control_socket(self) -> Path:
        """The sending mover's."""
        return self.folder / "control.sock"

    def send(self, source: Path | str, *arguments: object, destination: str | None = None) -> TransferEnds:
        """Starts a receiver, and a sender with a control socket; returns when the receiver listens. Without `destination` files arrive."""
        mover = BINARIES / "fairlead-mover"
        credentials, arrived = self.folder / "credentials", self.folder / "arrived"
        run([mover, "credentials", credentials])
        arrived.mkdir()
        address = self.net.receiver_address
        tls = ("--tls-dir", credentials / "receiver")
        receiver = self.start(
            self.net.receiver, mover, "receive", "--destination", destination or arrived, "--port", PORT, "--address", address, *tls
        )
        self.wait_for(lambda: self.listens(PORT), "the receiver listens", receiver)
        files = ("--control-socket", self.control_socket, "--tls-dir", credentials / "sender")
        send = (mover, "send", "--source", source, "--connect", f"{address}:{PORT}", *files)
        return TransferEnds(self.start(self.net.sender, *send, *arguments), receiver, arrived)

    def start(self, namespace: str, *command: object) -> subprocess.Popen[bytes]:
        """Starts a command in a namespace; its output goes to a file in the folder."""
        log = self.folder / f"{Path(str(command[0])).name}-{namespace[-1]}-{len(self._processes)}.log"
        words = ["ip", "netns", "exec", namespace, *(str(word) for word in command)]
        with log.open("ab") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self._processes.append(process)
        return process

    def advise(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Starts the advisor's sidecar beside the sender; its HTTP is on `ADVISOR_PORT` of the sender's namespace."""
        files = ("--control-socket", self.control_socket, "--trace", self.folder / "trace.csv")
        program = (sys.executable, "-m", "fairlead_advisor", "run", "--http", f"127.0.0.1:{ADVISOR_PORT}")
        return self.start(self.net.sender, *program, *files, *arguments)

    def wait_for(
        self, satisfied: Callable[[], object], what: str, process: subprocess.Popen[bytes] | None = None, seconds: float = PATIENCE_S
    ) -> None:
        """Returns once `satisfied()` is true; fails when the time is over or the process has ended."""
        ends = time.monotonic() + seconds
        while not satisfied():
            if process is not None and process.poll() is not None:
                raise AssertionError(f"{what}: {process.args!r} ended with {process.returncode}: {self.logs()}")
            if time.monotonic() > ends:
                raise AssertionError(f"{what}: not within {seconds:g} s: {self.logs()}")
            time.sleep(0.05)

    def set_wan(self, **changes: object) -> None:
        """Changes the path from sender to receiver while it is in use."""
        emulator.change(BINARIES / "fairlead-wan", self._wan_control, direction="ab", **changes)

    def delivered_bytes(self) -> int:
        """IP bytes that have arrived at the receiver's end of the path."""
        return int(emulator.statistics(BINARIES / "fairlead-wan", self._wan_control)["ab"]["bytes_out"])

    def lateness_us(self) -> dict[str, float]:
        """By how much packets left the emulator too late towards the receiver, as `p50`, `p99` and `max`."""
        return dict(emulator.statistics(BINARIES / "fairlead-wan", self._wan_control)["ab"]["write_lateness_us"])

    def ask_mover(self, path: str) -> Any:
        """An answer from the mover's control socket, None while there is none."""
        try:
            return ask_mover(self.control_socket, "GET", path)
        except LabError:
            return None

    def logs(self) -> str:
        """The end of every process's output."""
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(self.folder.glob("*.log")))

    @property
    def _wan_control(self) -> Path:
        assert self.net.control is not None
        return self.net.control

    def _end_processes(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.kill()
            process.wait()

    def listens(self, port: int) -> bool:
        """Whether somebody does at the receiver's end."""
        return bool(run(["ss", "-Hltn", f"sport = :{port}"], namespace=self.net.receiver).strip())


@dataclass(frozen=True)
class TransferEnds:
    """A transfer under way."""

    sender: subprocess.Popen[bytes]
    receiver: subprocess.Popen[bytes]
    arrived: Path

    def stop(self) -> None:
        """Ends both as Kubernetes does."""
        for process in (self.sender, self.receiver):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=PATIENCE_S)


@contextmanager
def noisy_source(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A directory with one file of noise: holes would not travel."""
    source = folder / "source"
    source.mkdir()
    noise = os.urandom(1 << 20)
    with (source / "noise").open("wb") as file:
        for start in range(0, size_bytes, len(noise)):
            file.write(noise[: size_bytes - start])
    yield source
