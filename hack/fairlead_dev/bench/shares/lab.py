"""Runs what the plan has over an emulated path: the product's mover and advisor as a job has them, iperf3 as the other flow."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlead_dev.bench.lab.machine import busy_share, processor_ticks
from fairlead_dev.bench.shares.jobs import LabJob
from fairlead_dev.bench.shares.plan import OWN_APART_S, SCENES, ShareRun, ShareScene
from fairlead_dev.bench.shares.quality import data_control, faults_of
from fairlead_dev.checkout import BINARIES
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import run as run_program
from fairlead_dev.wan import emulator
from fairlead_dev.wan.two_hosts import TwoHosts, WanPath

_OTHERS_PORT = 5201
_EMULATOR_ANSWERS_S = 5.0
_LOOK_EVERY_S = 10.0
"""At the other flow's socket."""


def measure(run: ShareRun, stop: threading.Event) -> dict[str, Any]:
    """Samples of every second from the first sender's start on, and whether the run is good. LabError if it could not be run to its end."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-shares-", dir="/dev/shm"))
    scene, path = SCENES[run.scene], run.path
    wan = WanPath(f"{path.rate_mbps:g}M", f"{path.rtt_ms / 2:g}ms", f"{path.buffer_bdp:g}BDP", scene.loss_ratio, scene.queue)
    # Three times what the path could carry: no transfer ends by itself.
    size_bytes = int(3 * path.rate_mbps * 1e6 / 8 * scene.seconds)
    with TwoHosts(wan, folder) as hosts:
        others = _Other(hosts, scene)
        jobs = [LabJob(hosts, number, run.fixed, size_bytes) for number in range(run.jobs)]
        if scene.other and scene.arrives_s < 0:
            others.start()
            _pass(-scene.arrives_s, stop)
        # Slow start comes in bursts; how late those of the other flow were is no matter.
        _forget_lateness(hosts)
        ticks = processor_ticks()
        samples = _sample(hosts, scene, jobs, others, stop)
        busy = busy_share(ticks, processor_ticks())
        assert hosts.net.control is not None
        carried = emulator.statistics(BINARIES / "fairlead-wan", hosts.net.control)
        decisions = [job.decisions() for job in jobs]
        for job in jobs:
            job.stop()
    for number in range(run.jobs):
        if not any(sample["jobs"][number]["mbps"] for sample in samples if len(sample["jobs"]) > number):
            raise LabError(f"job {number} sent nothing")
    controls = {**others.read_back(), **({run.fixed[1]: _controls(samples)} if run.fixed is not None and run.jobs else {})}
    faults = faults_of(path, carried, samples, controls, busy)
    return {
        "run": asdict(run),
        "samples": samples,
        "decisions": decisions,
        "emulator": {direction: carried[direction] for direction in ("ab", "ba")},
        "controls": controls,
        "busy_share": round(busy, 3),
        "verdict": {"good": not faults, "faults": list(faults)},
    }


def _forget_lateness(hosts: TwoHosts) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(_EMULATOR_ANSWERS_S)
        try:
            asked.connect(str(hosts.net.control))
            asked.sendall(b'{"version":1,"command":"measure"}\n')
            answer = json.loads(asked.makefile().readline())
        except (OSError, ValueError) as error:
            raise LabError(f"the emulator does not answer: {error}") from None
    if "error" in answer:
        raise LabError(f"the emulator: {answer['error']}")


def _controls(samples: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({control for sample in samples for job in sample["jobs"] for control in job["controls"]})


class _Other:
    """Somebody else's flow."""

    def __init__(self, hosts: TwoHosts, scene: ShareScene) -> None:
        self._hosts, self._scene = hosts, scene
        self._client: subprocess.Popen[bytes] | None = None
        self._found: set[str] = set()
        self._next_look_s = max(0.0, scene.arrives_s) + _LOOK_EVERY_S
        if scene.other:
            address = hosts.net.receiver_address
            self._server = hosts.start(hosts.net.receiver, "iperf3", "-s", "-B", address, "-p", _OTHERS_PORT)
            hosts.wait_for(lambda: hosts.listens(_OTHERS_PORT), "the other flow's receiver listens", self._server)

    def start(self) -> None:
        """From now on it sends."""
        addresses = ("-c", self._hosts.net.receiver_address, "-B", self._hosts.net.sender_address, "-p", _OTHERS_PORT)
        self._client = self._hosts.start(self._hosts.net.sender, "iperf3", *addresses, "-C", self._scene.other, "-t", 3600, "-i", 0)

    def read_back(self) -> dict[str, list[str]]:
        """The congestion control of its socket by that which was asked for; nothing without such a flow."""
        return {self._scene.other: sorted(self._found)} if self._scene.other else {}

    def follow(self, time_s: float) -> None:
        """Comes and goes as the scene has it. LabError if it has ended by itself."""
        if not self._scene.other:
            return
        if self._client is None and time_s >= self._scene.arrives_s:
            self.start()
        elif self._client is not None and time_s >= self._scene.leaves_s:
            self._client.kill()
        elif self._client is not None and self._client.poll() is not None:
            raise LabError(f"the other flow has ended: {self._hosts.logs()}")
        elif self._client is not None and time_s >= self._next_look_s:
            self._next_look_s = time_s + _LOOK_EVERY_S
            self._look()

    def _look(self) -> None:
        listed = run_program(["ss", "-tinHO", "dst", self._hosts.net.receiver_address], namespace=self._hosts.net.sender)
        if control := data_control(listed, _OTHERS_PORT):
            self._found.add(control)


def _sample(hosts: TwoHosts, scene: ShareScene, jobs: Sequence[LabJob], others: _Other, stop: threading.Event) -> list[dict[str, Any]]:
    """Mean rates since the sample before: payload acknowledged of each job and of all, and all IP bytes that the path delivered."""
    began_s = last_s = time.monotonic()
    delivered = hosts.delivered_bytes()
    samples: list[dict[str, Any]] = []
    while last_s < began_s + scene.seconds:
        for number, job in enumerate(jobs):
            if not job.sends and time.monotonic() >= began_s + number * OWN_APART_S:
                job.send()
        _pass(1.0, stop)
        others.follow(time.monotonic() - began_s)
        found = [job.sample() for job in jobs if job.sends]
        arrived, now_s = hosts.delivered_bytes(), time.monotonic()
        to_mbps = 8e-6 / (now_s - last_s)
        of_jobs = [
            {"mbps": round(one.grown_bytes * to_mbps, 3), "streams": one.streams, "controls": one.controls, "answered": one.answered}
            for one in found
        ]
        samples.append(
            {
                "time_s": round(now_s - began_s, 2),
                "own_mbps": round(sum(one.grown_bytes for one in found) * to_mbps, 3),
                "all_mbps": round((arrived - delivered) * to_mbps, 3),
                "jobs": of_jobs,
            }
        )
        delivered, last_s = arrived, now_s
    return samples


def _pass(seconds: float, stop: threading.Event) -> None:
    if stop.wait(seconds):
        raise LabError("stopped")
