"""What it costs or saves in processor time that a mover keeps its threads beside its interface.

A virtual interface has no NUMA node, so the movers get one in a view of sysfs of their own, in which the interface is on node 0. The CPUs
of that node are the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from fairlead_dev.bench.lab.mover import FinishedTransfer, MoverLab, MoverProgram
from fairlead_dev.bench.rows import Row, rounded
from fairlead_dev.bench.runner import Part
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth

LIMIT_S = 120
STREAMS = 4
NODES = Path("/sys/devices/system/node")
_WRAPPER = """#!/bin/sh
# Nothing of this is seen outside: `unshare` gives the program a view of the file systems of its own.
case "$1" in
send|receive) ;;
*) exec {binary} "$@" ;;
esac
exec unshare --mount --propagation private sh -e -c '
mount -t tmpfs none /sys/class/net
mkdir -p /sys/class/net/{device}/device
echo 0 > /sys/class/net/{device}/device/numa_node
ln -s /sys/devices/virtual/net/{device}/statistics /sys/class/net/{device}/statistics
exec {binary} "$@"' mover "$@"
"""


@dataclass
class _Runs:
    """Transfers with one setting: the processor time of both ends together, by gigabyte, and the CPUs that the receiver reported."""

    cpu_s_per_gb: list[float] = field(default_factory=list)
    cpus: set[str] = field(default_factory=set)


def measure(lab: MoverLab) -> list[Row]:
    """pinned_vs_unpinned_cpu: from memory to memory over a veth pair, in turn with and without pinning."""
    size_bytes = lab.pick(8 << 30, 1 << 30)
    runs = {"Interface": _Runs(), "None": _Runs()}
    with veth() as net:
        program = MoverProgram(wrapped(lab.mover.binary, net, lab.scratch))
        for _ in range(lab.pick(5, 1)):
            for affinity, found in runs.items():
                ends, cpus = _send(replace(lab, mover=program), net, size_bytes, affinity)
                found.cpu_s_per_gb.append((ends.sender.cpu_s + ends.receiver.cpu_s) / (size_bytes / 1e9))
                found.cpus.add(cpus)
                lab.report(f"--cpu-affinity {affinity}: {found.cpu_s_per_gb[-1]:.3f} s of CPU a GB, pinned to {cpus}")
    if runs["None"].cpus != {"None"} or "None" in runs["Interface"].cpus:
        raise LabError(f"pinned to {runs['Interface'].cpus}, and without pinning to {runs['None'].cpus}")
    pinned, unpinned = (median(runs[affinity].cpu_s_per_gb) for affinity in ("Interface", "None"))
    return [
        Row(
            "pinned_vs_unpinned_cpu",
            round(pinned, 3),
            "s/GB",
            round(unpinned, 3),
            round(pinned / unpinned, 3),
            note_of(len(list(NODES.glob("node[0-9]*"))), min(runs["Interface"].cpus)),
            {name: rounded(found.cpu_s_per_gb) for name, found in (("runs", runs["Interface"]), ("reference_runs", runs["None"]))},
        )
    ]


def note_of(nodes: int, cpus: str) -> str:
    """What the figure can say on a machine with so many NUMA nodes."""
    if nodes == 1:
        return f"one NUMA node here, so pinning leaves all its CPUs ({cpus}): this is what it costs, not what it saves"
    return f"{nodes} NUMA nodes here, pinned to the CPUs of node 0 ({cpus})"


def wrapped(binary: Path, net: Net, scratch: Path) -> Path:
    """A program that runs `binary` in a view of sysfs in which the net's device is on NUMA node 0."""
    wrapper = scratch / "mover-on-node-0"
    wrapper.write_text(_WRAPPER.format(binary=binary.resolve(), device=net.device))
    wrapper.chmod(0o755)
    return wrapper


def _send(lab: MoverLab, net: Net, size_bytes: int, affinity: str) -> tuple[FinishedTransfer, str]:
    options = ("--encryption", "None", "--cpu-affinity", affinity)
    with lab.mover.transfer(net, lab.scratch, "null", *options) as transfer:
        transfer.send(f"zero:{size_bytes}", "--streams", str(STREAMS), *options)
        ends = transfer.finish(LIMIT_S)
        return ends, str(transfer.events("receiver", "listening")[0]["cpus"])


PARTS: tuple[Part[MoverLab], ...] = (Part("pinning", ("pinned_vs_unpinned_cpu",), measure, 300.0),)
