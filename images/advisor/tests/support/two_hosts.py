"""Two network namespaces, an emulated wide-area path between them, and the real mover on both ends. Needs root and build/bin."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.command import PATIENCE_S

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = ROOT / "build" / "bin"
SENDER, RECEIVER = "198.18.77.1", "198.18.77.2"
PORT = 24000

_TCP_MEMORY = "4096 131072 67108864"
_numbers = itertools.count()


def missing() -> str | None:
    """Why this cannot run here; None if it can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    absent = [name for name in ("fairlead-mover", "fairlead-wan") if not (PROGRAMS / name).exists()]
    if absent:
        return f"needs {' and '.join(absent)} in build/bin: make rust"
    return None if Path("/dev/net/tun").exists() else "needs /dev/net/tun"


@dataclass(frozen=True)
class Wan:
    """A path in the emulator's units; `delay` is one way, `loss` is that of the data's direction."""

    rate: str = "100M"
    delay: str = "30ms"
    buffer: str = "1BDP"
    loss: float = 0.0


@dataclass
class TwoHosts:
    """Use as a context manager: everything started here is ended here, by its process."""

    wan: Wan
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="fairlead-two-hosts-")))
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _namespaces: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def control_socket(self) -> Path:
        """The sending mover's."""
        return self.folder / "control.sock"

    def close(self) -> None:
        """Ends the processes, the last one started first, and removes namespaces and files."""
        for process in reversed(self._processes):
            if process.poll() is None:
                process.kill()
            process.wait()
        for name in self._namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, source: Path, *arguments: object, destination: str = "arrived") -> "Ends":
        """Starts a receiver, and a sender with a control socket; returns when the receiver listens."""
        credentials = self.folder / f"credentials-{destination}"
        _run(PROGRAMS / "fairlead-mover", "credentials", credentials)
        arrived = self.folder / destination
        arrived.mkdir()
        tls = ("--tls-dir", credentials / "receiver")
        receiver = self.start(
            "r", PROGRAMS / "fairlead-mover", "receive", "--destination", arrived, "--port", PORT, "--address", RECEIVER, *tls
        )
        self.wait_for(self._listens, "the receiver listens", receiver)
        control = ("--control-socket", self.control_socket, "--tls-dir", credentials / "sender")
        mover = (PROGRAMS / "fairlead-mover", "send", "--source", source, "--connect", f"{RECEIVER}:{PORT}")
        return Ends(self.start("s", *mover, *control, *arguments), receiver, arrived)

    def start(self, host: str, *command: object, log: str = "") -> subprocess.Popen[bytes]:
        """Starts a command on host `s` (the sender's) or `r`; its output goes to a file in the folder."""
        name = log or f"{Path(str(command[0])).name}-{host}-{len(self._processes)}.log"
        words = ["ip", "netns", "exec", self._name(host), *(str(word) for word in command)]
        with (self.folder / name).open("ab") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self._processes.append(process)
        return process

    def advise(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Starts the advisor's sidecar beside the sender; its HTTP is on port 24002 of the sender's namespace."""
        files = ("--control-socket", self.control_socket, "--trace", self.folder / "trace.csv")
        return self.start("s", sys.executable, "-m", "fairlead_advisor", "run", "--http", "127.0.0.1:24002", *files, *arguments)

    def wait_for(self, satisfied: Any, what: str, process: subprocess.Popen[bytes] | None = None, seconds: float = PATIENCE_S) -> None:
        """Returns once `satisfied()` is true; fails when the time is over or the process has ended."""
        ends = time.monotonic() + seconds
        while not satisfied():
            if process is not None and process.poll() is not None:
                raise AssertionError(f"{what}: {process.args!r} ended with {process.returncode}: {self.logs()}")
            if time.monotonic() > ends:
                raise AssertionError(f"{what}: not within {seconds:g} s: {self.logs()}")
            time.sleep(0.05)

    def set_wan(self, **change: object) -> None:
        """Changes the path from sender to receiver while it is in use."""
        options = [word for name, value in change.items() for word in (f"--{name}", str(value))]
        _run(PROGRAMS / "fairlead-wan", "set", "--control", self.folder / "wan.sock", "--direction", "ab", *options)

    def delivered_bytes(self) -> int:
        """IP bytes that have arrived at the receiver's end of the path."""
        result = _run(PROGRAMS / "fairlead-wan", "stats", "--control", self.folder / "wan.sock")
        return int(json.loads(result)["ab"]["bytes_out"])

    def ask_mover(self, path: str) -> Any:
        """An answer from the mover's control socket, None while there is none."""
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(str(self.control_socket))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: mover\r\nConnection: close\r\n\r\n".encode())
            head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
            return json.loads(body) if b" 200 " in head.splitlines()[0] else None
        return None

    def logs(self) -> str:
        """The last words of every process."""
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(self.folder.glob("*.log")))

    def _build(self) -> None:
        self._suffix = f"{os.getpid()}-{next(_numbers)}"
        for host, address, peer in (("s", SENDER, RECEIVER), ("r", RECEIVER, SENDER)):
            name = self._name(host)
            _run("ip", "netns", "add", name)
            self._namespaces.append(name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "tuntap", "add", "wan0", "mode", "tun")
            _run("ip", "-n", name, "addr", "add", address, "peer", peer, "dev", "wan0")
            _run("ip", "-n", name, "link", "set", "wan0", "mtu", "1500", "txqueuelen", "10000", "up")
            for setting in (f"net.ipv4.tcp_rmem={_TCP_MEMORY}", f"net.ipv4.tcp_wmem={_TCP_MEMORY}"):
                _run("ip", "netns", "exec", name, "sysctl", "-qw", setting)
        ends = ("--a", f"{self._name('s')}:wan0", "--b", f"{self._name('r')}:wan0")
        path = ("--rate", self.wan.rate, "--delay", self.wan.delay, "--buffer", self.wan.buffer, "--loss-ab", self.wan.loss)
        command = ("chrt", "-f", "10", PROGRAMS / "fairlead-wan", "run", *ends, *path, "--control", self.folder / "wan.sock")
        with (self.folder / "wan.log").open("ab") as output:
            wan = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self._processes.append(wan)
        self.wait_for(lambda: "ready" in (self.folder / "wan.log").read_text(), "the path is up", wan)

    def _name(self, host: str) -> str:
        return f"fla-{self._suffix}-{host}"

    def _listens(self) -> bool:
        listening = _run("ip", "netns", "exec", self._name("r"), "ss", "-Hltn", f"sport = :{PORT}")
        return bool(listening.strip())


@dataclass(frozen=True)
class Ends:
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


@contextlib.contextmanager
def noisy_source(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A directory with one file of noise: holes would not travel."""
    source = folder / "source"
    source.mkdir()
    noise = os.urandom(1 << 20)
    with (source / "noise").open("wb") as file:
        for start in range(0, size_bytes, len(noise)):
            file.write(noise[: size_bytes - start])
    yield source


def _run(*command: object) -> str:
    words: Sequence[str] = [str(word) for word in command]
    result = subprocess.run(words, check=False, capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"{' '.join(words)}: {result.stderr or result.stdout}")
    return result.stdout
