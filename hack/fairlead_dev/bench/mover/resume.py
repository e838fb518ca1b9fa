"""What a transfer costs that is killed again and again: bytes sent twice, as a share of the file.

Either end is killed by SIGKILL at random instants while one big file moves from disk to disk, and the next attempt goes on. Two figures:
what the sender put on the wire beyond what an undisturbed transfer of the file would have (socket buffers and unfinished blocks included),
and what the receiver took in vain by its own ledger. Beside them stands what a kill of either end cost on the wire: what an attempt sent
and its ledger does not hold.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from fairlead_dev.bench.lab.mover import FinishedTransfer, MoverLab
from fairlead_dev.bench.lab.trees import BenchTree, big_file, check, clear
from fairlead_dev.bench.rows import Row
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import run, wait_until

KILLS = 50
FILE_BYTES = (16 << 30, 8 << 30)
"""The largest that fits at both ends: what a kill costs does not grow with the file, and transfers worth resuming are large."""
SPARE_BYTES = 4 << 30
"""Left free beside the file, its copy and the sample."""
SAMPLE_BYTES = 1 << 30
ATTEMPT_LIMIT_S = 300
START_LIMIT_S = 30
SEED = 4
DATA_BYTES = 4 << 20
"""More than control connection, handshakes and the answers on what is kept take."""


@dataclass
class _Tally:
    kills: int = 0
    files: int = 0
    """How often the whole file has arrived."""
    received_in_vain: int = 0
    costs: dict[str, list[float]] = field(default_factory=lambda: {"receiver": [], "sender": []})
    """Bytes on the wire of which nothing was left, for each kill by the end that was killed; attempts that arrived are not among them."""

    def mean_costs(self) -> dict[str, int]:
        """Bytes a kill, by the end that was killed."""
        return {end: round(statistics.mean(costs)) for end, costs in self.costs.items() if costs}


def measure(bench: MoverLab) -> list[Row]:
    """resume_waste and resume_waste_received. Raises LabError.

    A file that arrives before its share of kills begins again; what all kills wasted counts as a share of one file.
    """
    kills = bench.pick(KILLS, 5)
    sample = big_file(bench.scratch / "sample", bench.pick(SAMPLE_BYTES, 256 << 20))
    tree = big_file(bench.scratch / "resumed", bench.pick(_file_bytes(shutil.disk_usage(bench.scratch).free), 1 << 30))
    destination = bench.scratch / "destination"
    clear(destination)
    with veth() as net:
        sent = _bytes_sent(net)
        ends = _undisturbed(bench, net, sample, destination)
        overhead = (_bytes_sent(net) - sent) / sample.total_bytes
        mean_s = tree.total_bytes * 8 / ends.bulk_bps / (kills + 1)
        clear(destination)
        instants = random.Random(SEED)
        sent = _bytes_sent(net)
        tally = _Tally()
        while tally.kills < kills:
            wait_s = instants.uniform(0, 2 * mean_s)
            _killed(bench, net, tree, destination, tally, overhead=overhead, wait_s=wait_s, receiver=instants.random() < 0.5)
            if tally.kills % 10 == 0:
                bench.report(f"{tally.kills} kills")
        ends = _undisturbed(bench, net, tree, destination)
        tally.files += 1
        tally.received_in_vain += int(ends.verdict["bytes_resent"])
        wire = (_bytes_sent(net) - sent) / overhead - tally.files * tree.total_bytes
    check(tree, destination, content=True)
    clear(destination)
    note = f"{tally.kills} kills of either end at random instants of {tally.files} transfers of {tree.total_bytes >> 20} MiB, 4 streams"
    more = {"kills": tally.kills, "files": tally.files, "file_bytes": tree.total_bytes}
    return [
        Row(
            "resume_waste",
            round(max(wire, 0) / tree.total_bytes, 5),
            "share",
            note=f"{note}; on the wire",
            more=more
            | {
                "bytes": round(wire),
                "overhead": round(overhead, 5),
                "bytes_per_kill": round(wire / max(tally.kills, 1)),
                "bytes_per_kill_of": tally.mean_costs(),
            },
        ),
        Row(
            "resume_waste_received",
            round(tally.received_in_vain / tree.total_bytes, 5),
            "share",
            note=f"{note}; payload, by the receiver's ledger",
            more=more | {"bytes": tally.received_in_vain},
        ),
    ]


def _file_bytes(free_bytes: int) -> int:
    """The largest file that fits twice. Raises LabError if the disk has no room for any."""
    for size in FILE_BYTES:
        if free_bytes >= 2 * size + SPARE_BYTES:
            return size
    raise LabError(f"the scratch folder has {free_bytes >> 30} GiB free, too little for two files of {FILE_BYTES[-1] >> 30} GiB")


def _undisturbed(bench: MoverLab, net: Net, tree: BenchTree, destination: Path) -> FinishedTransfer:
    with bench.mover.transfer(net, bench.scratch, destination) as transfer:
        transfer.send(tree.path)
        return transfer.finish(ATTEMPT_LIMIT_S)


def _killed(
    bench: MoverLab, net: Net, tree: BenchTree, destination: Path, tally: _Tally, *, overhead: float, wait_s: float, receiver: bool
) -> None:
    """One attempt that is killed, or that ends before."""
    held = _bytes_held(bench, destination)
    with bench.mover.transfer(net, bench.scratch, destination) as transfer:
        transfer.listening_port()
        before = _bytes_sent(net)
        sender = transfer.send(tree.path)
        victim, other = (transfer.receiver, sender) if receiver else (sender, transfer.receiver)
        # By the interface: the mover's own events come once a second, in which it sends much.
        wait_until(lambda: _bytes_sent(net) - before > DATA_BYTES or not sender.is_running, "data", START_LIMIT_S)
        # The instant is what is measured, so it is chosen by time.
        time.sleep(wait_s)
        in_time = victim.is_running
        tally.kills += in_time
        victim.signal(signal.SIGKILL)
        usage = other.wait(ATTEMPT_LIMIT_S)
        if usage.exit_code not in (0, 1):
            raise LabError(f"the end that was not killed ended with {usage.exit_code}{other.log_tail()}")
        # A receiver that was killed after its last rename has no sender left to report to.
        arrived = usage.exit_code == 0 or ((destination / "big").exists() and not any(destination.glob(".fairlead-*")))
        if arrived:
            tally.received_in_vain += transfer.resent_bytes()
    if in_time and not arrived:
        cost = (_bytes_sent(net) - before) / overhead - (_bytes_held(bench, destination) - held)
        tally.costs["receiver" if receiver else "sender"].append(cost)
    if arrived:
        tally.files += 1
        check(tree, destination, content=False)
        clear(destination)


def _bytes_held(bench: MoverLab, destination: Path) -> int:
    """Payload that the next attempt finds in the ledger; blocks that were being written count, and it may not keep them."""
    partial = next(destination.glob(".fairlead-*"), None)
    return int(json.loads(run([bench.mover.binary, "ledger", partial, "--json"]))["bytes_held"]) if partial else 0


def _bytes_sent(net: Net) -> int:
    """What the sender's interface has put on the wire so far."""
    links = json.loads(run(["ip", "-n", net.sender, "-s", "-j", "link", "show", "dev", net.device]))
    return int(links[0]["stats64"]["tx"]["bytes"])
