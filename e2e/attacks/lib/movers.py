"""Movers of the attacked checkout, started by hand on the loopback."""

from __future__ import annotations

import itertools
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.attacks.lib.messages import Dialect
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import Process, ProcessUsage, run, wait_until

ADDRESS = "127.0.0.1"
SLOW = "4M"
"""Bits a second: some seconds for each megabyte."""
PATIENCE_S = 240.0
"""How long anything is waited for: only a hang exceeds it."""


@dataclass(frozen=True, slots=True)
class End:
    """How a mover ended: its exit code and its verdict (empty where it left none)."""

    code: int
    verdict: dict[str, Any]

    @property
    def reason(self) -> str:
        """The verdict's reason, or the exit code where there is none."""
        return str(self.verdict.get("reason", f"exit code {self.code}"))

    def __str__(self) -> str:
        return f"{self.verdict.get('role', 'mover')}: {self.reason}: {self.verdict.get('message', '')}"


class Mover:
    """One end that runs."""

    def __init__(self, process: Process, events: Path, verdict: Path, cap: Path | None = None) -> None:
        self.process, self._events, self._verdict, self._cap = process, events, verdict, cap

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of all whole events of a kind so far."""
        lines = self._events.read_text(errors="replace").split("\n")[:-1]
        found = (json.loads(line) for line in lines)
        return [dict(event["data"]) for event in found if event["event"] == kind]

    def await_event(self, kind: str) -> dict[str, Any]:
        """The first event of a kind. Raises LabError where the mover ends before."""
        wait_until(lambda: bool(self.events(kind)) or not self.process.is_running, f"the event {kind}", PATIENCE_S)
        found = self.events(kind)
        if not found:
            raise LabError(f"the mover ended before {kind}: {self.end()}{self.process.log_tail()}")
        return found[0]

    def await_bytes(self, count: int) -> None:
        """Waits until so many bytes are transferred."""

        def far() -> bool:
            return any(event["bytes_transferred"] >= count for event in self.events("progress")) or not self.process.is_running

        wait_until(far, f"{count} bytes", PATIENCE_S)
        if not self.process.is_running:
            raise LabError(f"the mover ended before it had moved {count} bytes: {self.end()}")

    @property
    def port(self) -> int:
        """Where a receiver listens."""
        return int(self.await_event("listening")["port"])

    def end(self, limit_s: float = PATIENCE_S) -> End:
        """Waits until it ends. Raises LimitError."""
        usage = self.process.wait(limit_s)
        try:
            verdict = dict(json.loads(self._verdict.read_text()))
        except (OSError, ValueError):
            verdict = {}
        return End(usage.exit_code, verdict)

    def hurry(self) -> None:
        """Takes the cap from a sender that was started slowly."""
        assert self._cap is not None, "it was started by `slow_sender`"
        self._cap.write_text("")

    def stop(self) -> ProcessUsage:
        """Ends it."""
        return self.process.stop()


@dataclass
class Movers:
    """A folder with credentials, a source and a destination, and the movers that were started in it."""

    binary: Path
    folder: Path
    _started: list[Mover] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.dialect = Dialect.of(self.binary)
        self.source.mkdir(parents=True)
        self.credentials("tls")

    @property
    def source(self) -> Path:
        """What a sender sends unless told otherwise."""
        return self.folder / "source"

    @property
    def destination(self) -> Path:
        """Where a receiver writes unless told otherwise; it makes the folder."""
        return self.folder / "destination"

    def write(self, path: str, content: bytes) -> Path:
        """Writes a file below the source."""
        file = self.source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def credentials(self, name: str, *, job: str = "local", attempt: int = 1) -> Path:
        """Makes an attempt's credentials: a folder with `sender` and `receiver`."""
        run([self.binary, "credentials", self.folder / name, "--job", job, "--attempt", str(attempt)])
        return self.folder / name

    def tls(self, role: str, credentials: str = "tls", certificate: str | None = None) -> ssl.SSLContext:
        """TLS 1.3 as one role, without looking at whom it speaks to. `certificate` is that of another role."""
        folder = self.folder / credentials / (certificate or role)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if role == "sender" else ssl.PROTOCOL_TLS_SERVER)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        return context

    def opening(self, purpose: bytes) -> bytes:
        """The opening of a connection by somebody who has the attempt's `ca.crt`, as every mover has, and perhaps no key."""
        return self.dialect.opening(purpose, (self.folder / "tls" / "sender" / "ca.crt").read_text())

    def receiver(self, *options: str, credentials: str = "tls/receiver", destination: Path | str | None = None) -> Mover:
        """Starts a receiver."""
        where = destination if destination is not None else self.destination
        return self._start("receive", credentials, "--destination", str(where), "--port", "0", "--address", ADDRESS, *options)

    def sender(self, port: int, *options: str, credentials: str = "tls/sender", source: Path | str | None = None) -> Mover:
        """Starts a sender."""
        what = source if source is not None else self.source
        default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        control = () if "--congestion-control" in options else ("--congestion-control", default)
        return self._start("send", credentials, "--source", str(what), "--connect", f"{ADDRESS}:{port}", *control, *options)

    def slow_sender(self, port: int, *options: str) -> Mover:
        """Starts a sender with so low a cap that its transfer lasts until `hurry`, and waits for its first bytes."""
        cap = self.folder / f"cap-{next(self._numbers)}"
        cap.write_text(SLOW)
        sender = self.sender(port, "--bandwidth-file", str(cap), *options)
        sender._cap = cap
        sender.await_bytes(1)
        return sender

    def transfer(self, *, receiver: tuple[str, ...] = (), sender: tuple[str, ...] = ()) -> tuple[End, End]:
        """Runs both ends to their ends: receiver, sender."""
        receiving = self.receiver(*receiver)
        sending = self.sender(receiving.port, *sender)
        return receiving.end(), sending.end()

    def close(self) -> None:
        """Ends what still runs."""
        for mover in self._started:
            mover.stop()

    def _start(self, command: str, credentials: str, *arguments: str) -> Mover:
        number = next(self._numbers)
        events, verdict, log = (self.folder / f"{number}-{command}.{kind}" for kind in ("events", "verdict", "log"))
        patience = () if "--peer-timeout" in arguments else ("--peer-timeout", "120")
        files = ("--tls-dir", str(self.folder / credentials), "--termination-log", str(verdict), "--json")
        mover = Mover(Process([self.binary, command, *arguments, *patience, *files], log=log, output=events), events, verdict)
        self._started.append(mover)
        return mover


def succeeded(*ends: End) -> bool:
    """Whether every end says that all is verified."""
    return all(end.code == 0 and end.reason == "Verified" for end in ends)
