"""One job: a receiver and a sender on their nodes, what they say of themselves, and the file with the cap."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.core.fairness.meter import Sample
from fairlead.core.fairness.model import InterfaceCount, Participant, Stage
from fairlead_dev.bench.fairness.bed.disk import SlowDisk
from fairlead_dev.bench.fairness.bed.network import Bed
from fairlead_dev.bench.fairness.scenario import DEVICE, JobSpec
from fairlead_dev.bench.mover.lab.errors import BenchError
from fairlead_dev.bench.mover.lab.projection import Projection
from fairlead_dev.bench.mover.peers.mover import Mover, Transfer

CAP_FILE = "egress-bandwidth"
HTTP_PORT = 24900
ANSWER_LIMIT_S = 2.0
LONG = "zero:40G"
"""More than any job sends before it is stopped."""
CLONE_NEWNET = 0x40000000


class RunningJob:
    """A transfer from its start until it is stopped. `cap_bps` None leaves it without a cap."""

    def __init__(self, spec: JobSpec, number: int, cap_bps: int | None) -> None:
        """`number` is this job's alone among those that run."""
        self.spec = spec
        self.cap_bps = cap_bps
        self._ports = {"sender": HTTP_PORT + 2 * number, "receiver": HTTP_PORT + 2 * number + 1}
        self._stack = ExitStack()
        self._transfer: Transfer
        self._cap: Projection
        self._nodes: dict[str, str] = {}

    def start(self, bed: Bed, mover: Mover, scratch: Path, slow: SlowDisk | None) -> None:
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
        """Raises BenchError if an end has gone."""
        for process in (self._transfer.sender, self._transfer.receiver):
            if process is None or not process.is_running:
                raise BenchError(f"an end of {self.spec.name} has ended{process.said() if process else ''}")

    def participant(self) -> Participant:
        """The job as a worker of the operator notes it after asking both ends."""
        sender, receiver = self._ask("sender"), self._ask("receiver")
        flows = any(said is not None and said["stage"] == "Transferring" for said in (sender, receiver))
        job = replace(self.spec.participant(Stage.FLOWING if flows else Stage.HOLDING), cap_bps=self.cap_bps)
        if sender is not None:
            job = replace(job, sent=Sample(sender["read_at"], int(sender["bandwidth"]["wire_bytes"])))
        counts = (*_counts(self.spec.source, sender), *_counts(self.spec.destination, receiver))
        return replace(job, counts=counts)

    def _http(self, role: str) -> tuple[str, str]:
        return "--http", f"127.0.0.1:{self._ports[role]}"

    def _ask(self, role: str) -> dict[str, Any] | None:
        """What an end says of its progress; None while it does not answer, as right after its start."""
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[role], timeout=ANSWER_LIMIT_S)
        try:
            connection.sock = socket_in(self._nodes[role])
            connection.sock.settimeout(ANSWER_LIMIT_S)
            connection.sock.connect(("127.0.0.1", self._ports[role]))
            connection.request("GET", "/v1/progress")
            answer = connection.getresponse()
            return {**json.loads(answer.read()), "read_at": time.monotonic()} if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()


def _counts(node: str, said: dict[str, Any] | None) -> tuple[InterfaceCount, ...]:
    if said is None:
        return ()
    both = (("Transmit", said["interface_bytes_sent"]), ("Receive", said["interface_bytes_received"]))
    return tuple(
        InterfaceCount(node, DEVICE, direction, Sample(said["read_at"], int(total))) for direction, total in both if total is not None
    )


def socket_in(namespace: str) -> socket.socket:
    """A TCP socket of another network namespace; it stays there whoever uses it. Raises OSError."""
    found: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            with Path("/run/netns", namespace).open("rb") as handle:
                # Python 3.12 has os.setns.
                if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            found.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        except OSError as error:
            found.append(error)

    # A namespace belongs to a thread: this one ends with it.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]
