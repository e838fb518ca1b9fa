"""A job of ours over an emulated path, by its processes: a receiver, the advisor's sidecar, a sender; as its pods run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairlead_dev.checkout import BINARIES
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import run
from fairlead_dev.wan.two_hosts import ADVISOR_PORT, AWAIT_TRANSPORT_S, PORT, TwoHosts

_PORTS_APART = 10
_ENDS_S = 30.0
_MOVER = BINARIES / "fairlead-mover"
FixedChoice = tuple[int, str]
"""Streams and congestion control."""


@dataclass(frozen=True, slots=True)
class JobSample:
    """A job in one second."""

    grown_bytes: int
    """Acknowledged since the sample before."""
    streams: int
    controls: tuple[str, ...]
    answered: bool


class LabJob:
    """One transfer of zeros into nothing; `fixed` None leaves the choice to the advisor. Several have ports and folders of their own."""

    def __init__(self, hosts: TwoHosts, number: int, fixed: FixedChoice | None, size_bytes: int) -> None:
        """Returns when the receiver and the advisor, which in a pod are there before the sender, serve. Raises LabError."""
        self._hosts, self._fixed, self._size_bytes = hosts, fixed, size_bytes
        self._port, self._folder = PORT + _PORTS_APART * number, hosts.folder / f"job-{number}"
        self._folder.mkdir()
        self._control, self._credentials = self._folder / "control.sock", self._folder / "credentials"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._before: dict[int, int] = {}
        run([_MOVER, "credentials", self._credentials])
        net = hosts.net
        address = ("--port", self._port, "--address", net.receiver_address, "--tls-dir", self._credentials / "receiver")
        self._processes["receiver"] = hosts.start(net.receiver, _MOVER, "receive", "--destination", "null", *address)
        hosts.wait_for(lambda: hosts.listens(self._port), "the receiver listens", self._processes["receiver"])
        if fixed is None:
            self._advise(ADVISOR_PORT + _PORTS_APART * number)

    def _advise(self, port: int) -> None:
        files = ("--control-socket", self._control, "--trace", self._folder / "trace.csv")
        program = (sys.executable, "-m", "fairlead_advisor", "run", "--http", f"127.0.0.1:{port}", *files)
        sender = self._hosts.net.sender
        advisor = self._processes["advisor"] = self._hosts.start(sender, *program)
        self._hosts.wait_for(lambda: run(["ss", "-Hltn", f"sport = :{port}"], namespace=sender).strip(), "the advisor serves", advisor)

    @property
    def sends(self) -> bool:
        """Whether its sender has been started."""
        return "sender" in self._processes

    def send(self) -> None:
        """Starts the sender: from here on the job counts, probing included."""
        choice: tuple[object, ...] = ("--await-transport", AWAIT_TRANSPORT_S)
        if self._fixed is not None:
            choice = ("--streams", self._fixed[0], "--congestion-control", self._fixed[1])
        net = self._hosts.net
        to = ("--connect", f"{net.receiver_address}:{self._port}", "--tls-dir", self._credentials / "sender")
        command = (_MOVER, "send", "--source", f"zero:{self._size_bytes}", *to, "--control-socket", self._control, *choice)
        self._processes["sender"] = self._hosts.start(net.sender, *command)

    def sample(self) -> JobSample:
        """What has been acknowledged since the sample before, and how. LabError if one of its processes has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise LabError(f"the {name} ended with {process.returncode}: {self._hosts.logs()}")
        streams = self._streams()
        now = {int(stream["id"]): int(stream["bytes_sent"] or 0) for stream in streams or []}
        grown_bytes = grown(self._before, now)
        # A stream that does not answer for a moment must not be counted twice when it does again.
        self._before |= now
        controls = tuple(sorted({str(stream["congestion_control"]) for stream in streams or [] if stream["congestion_control"]}))
        return JobSample(grown_bytes, len(now), controls, streams is not None)

    def _streams(self) -> list[dict[str, Any]] | None:
        try:
            return [dict(stream) for stream in ask_mover(self._control, "GET", "/v1/stats")["streams"]]
        except LabError:
            return None

    def decisions(self) -> list[dict[str, Any]]:
        """What its advisor has recorded."""
        file = self._folder / "decisions.jsonl"
        entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
        return [{key: value for key, value in entry.items() if key != "decision"} | _chosen(entry) for entry in entries]

    def stop(self) -> None:
        """Ends all as Kubernetes does."""
        for name in ("sender", "advisor", "receiver"):
            process = self._processes.get(name)
            if process is not None and process.poll() is None:
                process.terminate()
                # What does not end is killed with its namespace; the samples are there by now.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_ENDS_S)


def grown(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    """Bytes by which the streams have grown; one with less than before is another of the same number."""
    return sum(total - before.get(name, 0) if total >= before.get(name, 0) else total for name, total in now.items())


def _chosen(entry: dict[str, Any]) -> dict[str, Any]:
    decision = entry.get("decision")
    return {} if decision is None else {name: decision[name] for name in ("congestion_control", "streams", "message")}
