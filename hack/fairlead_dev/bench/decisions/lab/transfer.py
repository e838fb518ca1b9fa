"""The transfer of a cell: a mover at either end, and the policy's way of choosing the congestion control."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_advisor.errors import RecordError
from fairlead_advisor.record.journal import read_record
from fairlead_dev.bench.decisions.matrix import ADVISED, FIXED_CHOICES, Cell, Policy
from fairlead_dev.bench.decisions.timeline import Counting, TransferSample
from fairlead_dev.bench.falcon import search_command
from fairlead_dev.clients.http import ask_mover, ask_port
from fairlead_dev.errors import LabError, NoAnswerError
from fairlead_dev.netlab.processes import run
from fairlead_dev.testbed.lab.namespaces import ADDRESS_B, Names
from fairlead_dev.testbed.runs.processes import Processes
from fairlead_dev.wan.two_hosts import ADVISOR_PORT, AWAIT_TRANSPORT_S

SAMPLES = "transfer.csv"
SAMPLE_PERIOD_S = 1.0
START_STREAMS, LEAST_STREAMS, MOST_STREAMS = 4, 1, 32
CONTROLS = ("cubic", "bbr", "reno")
PROBE_S = 10
"""As the operator starts a job whose transport nobody has touched."""
_FALCON_RECORD = "falcon.jsonl"
_DATA_PORT = 24000
_LISTENS_S = 240.0
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs under test, and the advisor's options. `model` None: the installed one."""

    mover: Path
    model: Path | None = None
    mover_priority: int | None = 35
    advisor_priority: int | None = 30


def sender_choice(policy: Policy) -> tuple[object, ...]:
    """The sender's flags: what it starts with, and who may change what. Those of the default job are the operator's."""
    if policy in FIXED_CHOICES:
        control, streams = FIXED_CHOICES[policy]
        return ("--streams", streams, "--congestion-control", control)
    if policy is Policy.FALCON:
        # It begins with one, and is not waited for.
        return ("--streams", 1, "--streams-max", MOST_STREAMS, "--congestion-control", "cubic")
    if policy is Policy.OURS:
        bounds = ("--streams", START_STREAMS, "--streams-min", LEAST_STREAMS, "--streams-max", MOST_STREAMS)
        controls = ("--congestion-control", "cubic", "--congestion-controls", ",".join(CONTROLS))
        return (*bounds, *controls, "--await-transport", AWAIT_TRANSPORT_S)
    # Four of them would be four shares, whatever their congestion control.
    return ("--streams", 1, "--await-transport", AWAIT_TRANSPORT_S)


def advisor_choice(policy: Policy) -> tuple[object, ...]:
    """The advisor's flags: how long it may probe first, and what is its to choose."""
    least, most = (LEAST_STREAMS, MOST_STREAMS) if policy is Policy.OURS else (1, 1)
    return ("--seconds", PROBE_S, "--streams-min", least, "--streams-max", most, "--congestion-control", "Auto")


class CellTransfer:
    """From zeros to nothing over TLS streams, for as long as the cell lasts."""

    def __init__(self, cell: Cell, tools: Tools, names: Names, processes: Processes, work: Path) -> None:
        self._cell, self._tools, self._names, self._processes, self._work = cell, tools, names, processes, work
        # A Unix socket's path has at most 107 bytes; the run's own folder may be deep.
        self._short = tempfile.TemporaryDirectory(prefix="fairlead-decisions-")
        self.control = Path(self._short.name) / "control"
        self._beside: tuple[str, ...] = ()

    def close(self) -> None:
        """Remove the socket and the credentials."""
        self._short.cleanup()

    async def prepare(self) -> None:
        """Receiver and advisor are there before the sender is asked for, as the pods of a job are. Returns when the receiver listens."""
        tls = Path(self._short.name) / "tls"
        await asyncio.to_thread(run, [str(self._tools.mover), "credentials", str(tls)])
        ends = ("--destination", "null", "--port", _DATA_PORT, "--address", ADDRESS_B, "--tls-dir", tls / "receiver")
        receive = (self._tools.mover, "receive", *ends)
        await self._processes.start_program("receiver", receive, self._names.b, self._tools.mover_priority)
        if self._cell.policy in ADVISED:
            files = ("--trace", self._work / "advisor-trace.csv", "--record", self._work / "decisions.jsonl")
            served = ("--control-socket", self.control, "--http", f"127.0.0.1:{ADVISOR_PORT}")
            choice = advisor_choice(self._cell.policy)
            model = () if self._tools.model is None else ("--model", self._tools.model)
            advise = (sys.executable, "-m", "fairlead_advisor", "run", *served, *files, *choice, *model)
            await self._start_beside("advisor", advise)
        if self._cell.policy is Policy.FALCON:
            await self._start_beside("falcon", search_command(self.control, MOST_STREAMS, self._work / _FALCON_RECORD))
        await self._until_listening()

    async def _start_beside(self, name: str, command: Sequence[object]) -> None:
        await self._processes.start_program(name, command, self._names.a, self._tools.advisor_priority)
        self._beside = (name,)

    async def _until_listening(self) -> None:
        ends_s = time.monotonic() + _LISTENS_S
        question = ["ip", "netns", "exec", self._names.b, "ss", "-Hltn", f"sport = :{_DATA_PORT}"]
        while not (await asyncio.to_thread(run, question)).strip():
            self._processes.require_running("receiver")
            if time.monotonic() > ends_s:
                raise LabError(f"the receiver does not listen: {self._processes.last_words('receiver')}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def send(self) -> None:
        """Start the sender: this is the moment from which the transfer counts."""
        # Twice what the path could carry: no transfer ends by itself.
        size_bytes = int(2 * self._cell.path.rate_bps / 8 * self._cell.seconds)
        tls = Path(self._short.name) / "tls" / "sender"
        ends = ("--source", f"zero:{size_bytes}", "--connect", f"{ADDRESS_B}:{_DATA_PORT}", "--tls-dir", tls)
        command = (self._tools.mover, "send", *ends, "--control-socket", self.control, *sender_choice(self._cell.policy))
        await self._processes.start_program("sender", command, self._names.a, self._tools.mover_priority)

    async def watch(self, start_ns: int) -> tuple[TransferSample, ...]:
        """Ask the sender every second until the cell is over, and keep its answers in a file. LabError if an end has ended too early."""
        counting, samples = Counting(), []
        for tick in range(1, int(self._cell.seconds / SAMPLE_PERIOD_S) + 1):
            due_ns = start_ns + int(tick * SAMPLE_PERIOD_S * 1e9)
            await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
            self._processes.require_running("receiver", "sender", *self._beside)
            stats = await self._stats()
            samples.append(counting.sample((time.monotonic_ns() - start_ns) / 1e9, stats))
        await asyncio.to_thread(_write, self._work / SAMPLES, samples)
        return tuple(samples)

    async def _stats(self) -> Any:
        try:
            return await asyncio.to_thread(ask_mover, self.control, "GET", "/v1/stats")
        except NoAnswerError:
            return None

    async def stop(self) -> dict[str, Any]:
        """End both ends and whoever chooses beside the sender, and return what that reports; nothing where nobody does."""
        told: dict[str, Any] = {}
        if self._cell.policy in ADVISED:
            try:
                told["decision"] = await asyncio.to_thread(ask_port, self._names.a, ADVISOR_PORT, "/v1/decision")
            except NoAnswerError as error:
                raise LabError(f"the advisor has no decision at the end of the transfer: {error}") from None
            await self._processes.stop("advisor")
            try:
                told["record"] = [dict(entry) for entry in read_record(self._work / "decisions.jsonl")]
            except RecordError as error:
                raise LabError(f"the advisor left no record: {error}") from None
        if self._cell.policy is Policy.FALCON:
            await self._processes.stop("falcon")
            told["falcon"] = [json.loads(line) for line in (self._work / _FALCON_RECORD).read_text(encoding="utf-8").splitlines()]
        await self._processes.stop("sender")
        await self._processes.stop("receiver")
        return told


def _write(file: Path, samples: Sequence[TransferSample]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(("time_s", "acknowledged_bytes", "congestion_control", "streams"))
        rows.writerows((f"{one.time_s:.3f}", one.acknowledged_bytes, one.control or "", one.streams) for one in samples)
