"""What a transfer costs that is killed again and again: bytes sent twice, as a share of the file.

Either end is killed by SIGKILL at random instants while one big file moves from disk to disk, and the next attempt goes on. Two figures:
what the sender put on the wire beyond what an undisturbed transfer of the file would have (socket buffers and unfinished blocks included),
and what the receiver took in vain by its own ledger.
"""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

from bench import Bench
from lab.errors import BenchError
from lab.network import Net, veth
from lab.process import run, wait_until
from lab.trees import Tree, big_file, check, clear
from peers.mover import Ends, Transfer
from report import Row

KILLS = 50
FILE_BYTES = 8 << 30
SAMPLE_BYTES = 1 << 30
ATTEMPT_LIMIT_S = 300
START_LIMIT_S = 30
SEED = 4


def measure(bench: Bench) -> list[Row]:
    """resume_waste and resume_waste_received. Raises BenchError."""
    kills = bench.pick(KILLS, 5)
    sample = big_file(bench.scratch / "sample", bench.pick(SAMPLE_BYTES, 256 << 20))
    tree = big_file(bench.scratch / "resumed", bench.pick(FILE_BYTES, 1 << 30))
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
        done = 0
        for _ in range(kills):
            wait_s = instants.uniform(0, 2 * mean_s)
            with bench.mover.transfer(net, bench.scratch, destination) as transfer:
                done += _killed(transfer, tree, bench.scratch, wait_s, receiver=instants.random() < 0.5)
        ends = _undisturbed(bench, net, tree, destination)
        wire = (_bytes_sent(net) - sent) / overhead - tree.total_bytes
    check(tree, destination, content=True)
    clear(destination)
    received = int(ends.verdict["bytes_resent"])
    note = f"{done} kills of either end in {tree.total_bytes >> 20} MiB, 4 streams"
    more = {"kills": done, "file_bytes": tree.total_bytes, "bytes": round(wire), "overhead": round(overhead, 5)}
    return [
        Row("resume_waste", round(max(wire, 0) / tree.total_bytes, 5), "share", note=f"{note}; on the wire", more=more),
        Row(
            "resume_waste_received",
            round(received / tree.total_bytes, 5),
            "share",
            note=f"{note}; payload, by the receiver's ledger",
            more={"kills": done, "file_bytes": tree.total_bytes, "bytes": received},
        ),
    ]


def _undisturbed(bench: Bench, net: Net, tree: Tree, destination: Path) -> Ends:
    with bench.mover.transfer(net, bench.scratch, destination) as transfer:
        transfer.send(tree.path)
        return transfer.finish(ATTEMPT_LIMIT_S)


def _killed(transfer: Transfer, tree: Tree, scratch: Path, wait_s: float, *, receiver: bool) -> int:
    """One attempt that is killed, at the receiver or the sender; 0 if it ended before."""
    sender = transfer.send(tree.path)
    victim, other = (transfer.receiver, sender) if receiver else (sender, transfer.receiver)
    events = scratch / "mover" / "receiver.events"
    wait_until(lambda: _data_flows(events) or not sender.is_running, "data", START_LIMIT_S)
    # The instant is what is measured, so it is chosen by time.
    time.sleep(wait_s)
    killed = victim.is_running
    victim.signal(signal.SIGKILL)
    usage = other.wait(ATTEMPT_LIMIT_S)
    if killed and usage.exit_code not in (0, 1):
        raise BenchError(f"the end that was not killed ended with {usage.exit_code}{other.said()}")
    return int(killed)


def _data_flows(events: Path) -> bool:
    """Whether the receiver knows what there is, which is when the data start."""
    return '"Transferring"' in events.read_text()


def _bytes_sent(net: Net) -> int:
    """What the sender's interface has put on the wire so far."""
    links = json.loads(run(["ip", "-n", net.sender, "-s", "-j", "link", "show", "dev", net.device]))
    return int(links[0]["stats64"]["tx"]["bytes"])
