"""The parts of the bench, their rows and goals."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead.guard.cgroups import PodGroups, unified_root
from fairlead.guard.programs import CgroupPrograms
from fairlead_dev.bench.lab.mover import END_LIMIT_S, SAMPLER, MoverLab, MoverProgram, start_script
from fairlead_dev.bench.lab.rates import InterfaceSample, parse, windows
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.bench.runner import Part
from fairlead_dev.errors import NotAvailableError
from fairlead_dev.netlab.namespaces import NAMESPACES, ip
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import Process, running, wait_until
from fairlead_dev.wan.emulator import emulated_pair
from fairlead_dev.wan.two_hosts import noisy_source

CGROUPS = Path("/sys/fs/cgroup")
CAP_BPS = 100_000_000
CAP = "100M"
UID = "98b2a419-b64a-4316-952f-c12db992268f"
SECOND_ADDRESS = "198.18.0.5"
NODE, FLOOD = (Path(__file__).with_name(name) for name in ("node.py", "flood.py"))
SAMPLE_S = 0.005
STEP_S = 0.1
"""Windows of a second begin so far apart: a second that is over the cap between two whole ones is found too."""
LAG_S = 2.0
"""Before the first window, so that everything sends."""
GUARD_LIMIT_S, OBEDIENT_LIMIT_S = 20.0, 90.0
PATH_RATE, ONE_WAY_DELAY = "400M", "10ms"

GOALS = {
    "flood_second_max": Goal("at_most", 1.05, of="value"),
    "flood_mean": Goal("at_least", 0.9, of="value"),
    "tcp_second_max": Goal("at_most", 1.05, of="value"),
    "tcp_mean": Goal("at_least", 0.95, of="value"),
    "obedient_dropped": Goal("at_most", 0, of="value"),
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A sender's pod: its control group, the hierarchy that this is in, and a mover that runs in it."""

    groups: Path
    group: Path
    mover: MoverProgram

    def inside(self, namespace: str, *command: str | Path) -> list[str]:
        """The command line of a program in the pod."""
        entered = ["nsenter", f"--net={NAMESPACES / namespace}", "--", *map(str, command)]
        return ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs; exec "$@"', "sh", *entered]


@contextlib.contextmanager
def pod(lab: MoverLab) -> Iterator[Pod]:
    """A pod in a group of this bench's own. Raises NotAvailableError."""
    unified = unified_root(CGROUPS)
    if unified is None:
        raise NotAvailableError(f"there are no control groups of version 2 below {CGROUPS}")
    root = unified / f"fairlead-bench-{os.getpid()}"
    group = root / "kubepods" / f"pod{UID}"
    group.mkdir(parents=True)
    try:
        wrapper = lab.scratch / "mover-in-pod"
        # `ip netns exec` hides control groups: the process joins by the mounts of this one.
        enter = f"nsenter --mount=/proc/{os.getpid()}/ns/mnt -- sh -c"
        join = f'[ "$1" != send ] || {enter} "echo $$ > {group}/cgroup.procs"'
        wrapper.write_text(f'#!/bin/sh\n{join}\nexec {lab.mover.binary.resolve()} "$@"\n')
        wrapper.chmod(0o755)
        yield Pod(root, group, MoverProgram(wrapper))
    finally:
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text(), "the end of the pod's processes", END_LIMIT_S)
        for folder in (group, group.parent, root):
            folder.rmdir()


@contextlib.contextmanager
def guard(lab: MoverLab, net: Net, receiver: str, groups: Path | None) -> Iterator[Process]:
    """The guard over that pod, once it holds it; without groups by a rule for the receiver."""
    where = ("--groups", groups) if groups else ()
    words = (sys.executable, NODE, *where, "--uid", UID, "--receiver", receiver, "--cap", CAP)
    log = lab.scratch / "guard.log"
    log.unlink(missing_ok=True)
    with running(Process(words, log=log, namespace=None if groups else net.sender)) as process:
        wait_until(lambda: "held by" in log.read_text() or not process.is_running, "the guard", GUARD_LIMIT_S)
        yield process


@contextlib.contextmanager
def sampled(lab: MoverLab, net: Net) -> Iterator[list[InterfaceSample]]:
    """What has arrived at the receiver's interface, in the list once the block is left."""
    output, samples = lab.scratch / "samples", list[InterfaceSample]()
    with running(start_script(SAMPLER, net.device, str(SAMPLE_S), namespace=net.receiver, output=output)):
        yield samples
    # A TUN device has no link header.
    samples += parse(output.read_text(), link_header_bytes=0) if net.control else parse(output.read_text())


def shares(samples: list[InterfaceSample], seconds: float) -> tuple[list[float], float]:
    """The last seconds, each as a share of the cap, and the highest window of a second in them."""
    end_s = samples[-1].time_s
    whole, sliding = ([bps / CAP_BPS for _, bps in windows(samples, 1.0, step_s, end_s - seconds, end_s)] for step_s in (1.0, STEP_S))
    return whole, max(sliding)


def flood(lab: MoverLab) -> list[Row]:
    """A mover without a cap and a flood by UDP, with the guard killed and started again in between; and without control groups."""
    held, worst = _flooded(lab, lab.pick(60.0, 12.0), by_group=True)
    loose, worst_before = _flooded(lab, lab.pick(10.0, 5.0), by_group=False)
    return [
        Row("flood_second_max", worst, "cap", worst_before, worst / worst_before, more={"seconds": rounded(held)}),
        Row("flood_mean", statistics.fmean(held), "cap", statistics.fmean(loose), more={"seconds_by_rule": rounded(loose)}),
    ]


def _flooded(lab: MoverLab, seconds: float, *, by_group: bool) -> tuple[list[float], float]:
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(noisy_source(_folder(lab, f"flooded-{by_group}"), int(CAP_BPS / 8 * seconds)))
        made, net = stack.enter_context(pod(lab)), stack.enter_context(veth())
        ip(net.sender, f"addr add {SECOND_ADDRESS}/32 dev {net.device}")
        transfer = stack.enter_context(made.mover.transfer(net, lab.scratch, "null"))
        receiver, groups = f"{net.receiver_address}:{transfer.listening_port()}", made.groups if by_group else None
        first = stack.enter_context(guard(lab, net, receiver, groups))
        transfer.send(source)
        sources = f"{net.sender_address},{SECOND_ADDRESS}"
        words = made.inside(net.sender, sys.executable, FLOOD, sources, net.receiver_address, str(2 * seconds))
        stack.enter_context(running(Process(words, log=lab.scratch / "flood.log")))
        with sampled(lab, net) as samples:
            time.sleep(LAG_S + seconds / 3)
            if by_group:
                first.signal(signal.SIGKILL)
                time.sleep(seconds / 6)
                stack.enter_context(guard(lab, net, receiver, groups))
                time.sleep(seconds / 2)
            else:
                time.sleep(seconds * 2 / 3)
        transfer.stop_sending()
    return shares(samples, seconds)


def tcp(lab: MoverLab) -> list[Row]:
    """A mover without a cap alone, over a path with a delay: what TCP makes of the drops."""
    seconds = lab.pick(30.0, 10.0)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(noisy_source(_folder(lab, "tcp"), int(CAP_BPS / 8 * seconds * 2)))
        made = stack.enter_context(pod(lab))
        net = stack.enter_context(emulated_pair(lab.emulator, lab.scratch, rate=PATH_RATE, one_way_delay=ONE_WAY_DELAY))
        transfer = stack.enter_context(made.mover.transfer(net, lab.scratch, "null"))
        stack.enter_context(guard(lab, net, f"{net.receiver_address}:{transfer.listening_port()}", made.groups))
        transfer.send(source)
        with sampled(lab, net) as samples:
            time.sleep(LAG_S + seconds)
        transfer.stop_sending()
    held, worst = shares(samples, seconds)
    return [Row("tcp_second_max", worst, "cap"), Row("tcp_mean", statistics.fmean(held), "cap", more={"seconds": rounded(held)})]


def obedient(lab: MoverLab) -> list[Row]:
    """A mover that keeps to its cap, over the shortest path: the guard is to drop nothing of it."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(noisy_source(_folder(lab, "obedient"), int(CAP_BPS / 8 * lab.pick(20, 8))))
        made, net = stack.enter_context(pod(lab)), stack.enter_context(veth())
        programs = CgroupPrograms(PodGroups(made.groups))
        stack.callback(programs.close)
        programs.hold(UID, CAP_BPS)
        transfer = stack.enter_context(made.mover.transfer(net, lab.scratch, "null"))
        transfer.send(source, "--bandwidth", CAP)
        finished = transfer.finish(OBEDIENT_LIMIT_S)
        dropped = programs.dropped(UID)
    goodput = finished.bulk_bps / CAP_BPS
    return [Row("obedient_dropped", dropped.packets, "packets"), Row("obedient_goodput", goodput, "cap")]


def _folder(lab: MoverLab, name: str) -> Path:
    folder = lab.scratch / name
    folder.mkdir()
    return folder


PARTS = (
    Part("flood", ("flood_second_max", "flood_mean"), flood, 300),
    Part("tcp", ("tcp_second_max", "tcp_mean"), tcp, 120),
    Part("obedient", ("obedient_dropped", "obedient_goodput"), obedient, 120),
)
