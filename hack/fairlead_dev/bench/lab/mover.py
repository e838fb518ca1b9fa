"""The mover under test, and what a part of a bench that runs it is given."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, ProcessUsage, run, running, wait_until

SERVER_LIMIT_S = 20
END_LIMIT_S = 60
"""The sender has ended: the receiver may still publish."""
SAMPLER, HANDSHAKE = (Path(__file__).with_name(name) for name in ("sampler.py", "handshake.py"))
"""Scripts that run beside what is measured."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FinishedTransfer:
    """Both ends of a transfer that succeeded."""

    sender: ProcessUsage
    receiver: ProcessUsage
    verdict: dict[str, Any]
    """The receiver's."""
    sender_verdict: dict[str, Any]

    @property
    def bulk_bps(self) -> float:
        """Bits of payload a second from the first byte to the last, by the receiver's clock."""
        return float(self.verdict["bytes_transferred"]) * 8 / float(self.verdict["bulk_seconds"])

    @property
    def retransmitted_bytes(self) -> int:
        """Payload that the transport sent again."""
        return int(self.sender_verdict["retransmitted_bytes"])


class MoverTransfer:
    """A receiver that listens, and a sender when it is asked for."""

    def __init__(self, binary: Path, net: Net, scratch: Path, receiver: Process) -> None:
        self._binary, self._net, self._scratch = binary, net, scratch
        self.receiver = receiver
        self.sender: Process | None = None

    def _path(self, role: str, what: str) -> Path:
        return self._scratch / f"{role}.{what}"

    def listening_port(self) -> int:
        """Waits for the receiver."""
        wait_until(lambda: not self.receiver.is_running or bool(self.events("receiver", "listening")), "the receiver", SERVER_LIMIT_S)
        events = self.events("receiver", "listening")
        if not events:
            raise LabError(f"the receiver ended{self.receiver.log_tail()}")
        return int(events[0]["port"])

    def events(self, role: str, kind: str) -> list[dict[str, Any]]:
        """The data of all events of a kind that an end has printed so far."""
        try:
            lines = self._path(role, "events").read_text().splitlines()
        except FileNotFoundError:
            return []
        events = (event for event in map(_event_or_none, lines) if event is not None)
        return [dict(event["data"]) for event in events if event.get("event") == kind]

    def send(self, source: str | Path, *options: str) -> Process:
        """Starts the sender."""
        peer = f"{self._net.receiver_address}:{self.listening_port()}"
        command: list[str | Path] = [self._binary, "send", "--source", source, "--connect", peer]
        files: list[str | Path] = ["--tls-dir", self._scratch / "tls" / "sender", "--termination-log", self._path("sender", "verdict")]
        self.sender = Process(
            [*command, *files, "--json", *options],
            log=self._path("sender", "log"),
            output=self._path("sender", "events"),
            namespace=self._net.sender,
        )
        return self.sender

    def finish(self, limit_s: float) -> FinishedTransfer:
        """Waits for both ends; raises LabError unless both succeeded."""
        assert self.sender is not None
        try:
            sender = self.sender.succeed(limit_s, beside=[self.receiver])
            receiver = self.receiver.succeed(END_LIMIT_S)
        except LabError as error:
            said = {role: _read_json(self._path(role, "verdict")).get("message", "nothing") for role in ("sender", "receiver")}
            raise LabError(f"{error}\nsender: {said['sender']}\nreceiver: {said['receiver']}") from error
        verdict, sender_verdict = (_read_json(self._path(role, "verdict")) for role in ("receiver", "sender"))
        return FinishedTransfer(sender, receiver, verdict, sender_verdict)

    def verdict_text(self, role: str) -> str:
        """What an end has left as its termination message; nothing without one."""
        try:
            return self._path(role, "verdict").read_text()
        except OSError:
            return ""

    def resent_bytes(self) -> int:
        """Payload that the receiver got in vain over all attempts, by its verdict; 0 without one."""
        return int(_read_json(self._path("receiver", "verdict")).get("bytes_resent", 0))

    def stop_sending(self) -> None:
        """Ends a transfer that has served its purpose."""
        if self.sender is not None:
            self.sender.signal(signal.SIGTERM)
            self.sender.stop()


def _event_or_none(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return dict(content)


@dataclass(frozen=True, slots=True)
class MoverProgram:
    """`fairlead-mover` of a file."""

    binary: Path

    @contextlib.contextmanager
    def transfer(self, net: Net, scratch: Path, destination: str | Path, *receiver_options: str) -> Iterator[MoverTransfer]:
        """A receiver into a folder, or into nothing (`null`), ended with the block; so is the sender."""
        folder = scratch / "mover"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        run([self.binary, "credentials", folder / "tls"])
        command: list[str | Path] = [self.binary, "receive", "--destination", destination, "--port", "0", "--address", net.receiver_address]
        files: list[str | Path] = ["--tls-dir", folder / "tls" / "receiver", "--termination-log", folder / "receiver.verdict", "--json"]
        receiver = Process(
            [*command, *files, *receiver_options], log=folder / "receiver.log", output=folder / "receiver.events", namespace=net.receiver
        )
        with running(receiver):
            transfer = MoverTransfer(self.binary, net, folder, receiver)
            try:
                yield transfer
            finally:
                if transfer.sender is not None:
                    transfer.sender.stop()


@dataclass(frozen=True, slots=True)
class MoverLab:
    """Programs, a folder for everything that is written, and how thorough the run is. `before`: an earlier mover to compare with."""

    mover: MoverProgram
    emulator: Path
    scratch: Path
    quick: bool
    full: bool = False
    before: MoverProgram | None = None

    def pick(self, full: _T, quick: _T) -> _T:
        """One of two sizes."""
        return quick if self.quick else full

    def report(self, text: str) -> None:
        """Prints what has been measured."""
        print(f"    {text}", flush=True)


def start_script(script: Path, *args: str, namespace: str, output: Path) -> Process:
    """Starts a script with this interpreter in a namespace; what it prints is in `output`."""
    output.unlink(missing_ok=True)
    return Process([sys.executable, script, *args], log=output.with_suffix(".log"), output=output, namespace=namespace)
