"""One job: a receiver and a sender on their nodes, their reports, and the file with the cap."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.core.fairness.meter import CounterReading
from fairlead.core.fairness.model import InterfaceCount, JobStage, Participant
from fairlead_dev.bench.fairness.bed.disk import SlowDisk
from fairlead_dev.bench.fairness.bed.network import Bed
from fairlead_dev.bench.fairness.scenario import DEVICE, JobSpec
from fairlead_dev.bench.lab.mover import MoverProgram, MoverTransfer
from fairlead_dev.bench.lab.projection import Projection
from fairlead_dev.clients.http import ask_port
from fairlead_dev.errors import LabError

CAP_FILE = "egress-bandwidth"
HTTP_PORT = 24900
LONG = "zero:40G"
"""More than any job sends before it is stopped."""


class RunningJob:
    """A transfer from its start until it is stopped. `cap_bps` None leaves it without a cap."""

    def __init__(self, spec: JobSpec, number: int, cap_bps: int | None) -> None:
        """`number` is this job's alone among those that run."""
        self.spec = spec
        self.cap_bps = cap_bps
        self._ports = {"sender": HTTP_PORT + 2 * number, "receiver": HTTP_PORT + 2 * number + 1}
        self._stack = ExitStack()
        self._transfer: MoverTransfer
        self._cap: Projection
        self._nodes: dict[str, str] = {}

    def start(self, bed: Bed, mover: MoverProgram, scratch: Path, slow: SlowDisk | None) -> None:
        """Starts both ends; `slow` is the disk of a job that reads from one."""
        spec = self.spec
        scratch.mkdir(parents=True)
        self._nodes = {"sender": bed.nodes[spec.source].namespace, "receiver": bed.nodes[spec.destination].namespace}
        self._cap = Projection(scratch / "podinfo", CAP_FILE, "" if self.cap_bps is None else str(self.cap_bps))
        both = ("--interface", DEVICE)
        try:
            transfer = mover.transfer(bed.net(spec.source, spec.destination), scratch, "null", *both, *self._http("receiver"))
            self._transfer = self._stack.enter_context(transfer)
            bed.count(spec.name, spec.destination, self._transfer.listening_port())
            if slow is not None:
                slow.forget()
            options = ("--streams", str(spec.streams), "--bandwidth-file", str(self._cap.file))
            source = LONG if slow is None else slow.source
            sender = self._transfer.send(source, *options, *both, *self._http("sender"))
            if slow is not None:
                slow.hold(sender.pid)
        except BaseException:
            self.stop()
            raise

    def show_cap(self, cap_bps: int) -> None:
        """Replaces the file that the mover watches."""
        self.cap_bps = cap_bps
        self._cap.show(str(cap_bps))

    def stop(self) -> None:
        """Ends both ends."""
        self._stack.close()

    def check(self) -> None:
        """Raises LabError if an end has gone."""
        for process in (self._transfer.sender, self._transfer.receiver):
            if process is None or not process.is_running:
                raise LabError(f"an end of {self.spec.name} has ended{process.log_tail() if process else ''}")

    def participant(self) -> Participant:
        """The job as a worker of the operator notes it after asking both ends."""
        sender, receiver = self._ask("sender"), self._ask("receiver")
        flows = any(said is not None and said["stage"] == "Transferring" for said in (sender, receiver))
        job = replace(self.spec.participant(JobStage.FLOWING if flows else JobStage.HOLDING), cap_bps=self.cap_bps)
        if sender is not None:
            job = replace(job, sent=CounterReading(sender["read_at"], int(sender["bandwidth"]["wire_bytes"])))
        counts = (*_counts(self.spec.source, sender), *_counts(self.spec.destination, receiver))
        return replace(job, counts=counts)

    def _http(self, role: str) -> tuple[str, str]:
        return "--http", f"127.0.0.1:{self._ports[role]}"

    def _ask(self, role: str) -> dict[str, Any] | None:
        """The progress that an end reports; None while it does not answer, as right after its start."""
        try:
            answer = ask_port(self._nodes[role], self._ports[role], "/v1/progress")
        except LabError:
            return None
        return {**answer, "read_at": time.monotonic()}


def _counts(node: str, said: dict[str, Any] | None) -> tuple[InterfaceCount, ...]:
    if said is None:
        return ()
    both = (("Transmit", said["interface_bytes_sent"]), ("Receive", said["interface_bytes_received"]))
    return tuple(
        InterfaceCount(node, DEVICE, direction, CounterReading(said["read_at"], int(total)))
        for direction, total in both
        if total is not None
    )
